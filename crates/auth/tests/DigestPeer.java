// One side of a DIGEST-MD5 exchange by the JDK: tokens as hex, one a line, read from and written to a pipe.
//
// Words: client|server, protocol, name, then users and passwords in turn, as hex of UTF-8. A client authenticates as one
// user after the other and writes "complete" for each; a server takes one exchange after the other and writes
// "authorized" with the authorization id. Either writes "refused" for a failure.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.sasl.AuthorizeCallback;
import javax.security.sasl.RealmCallback;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslClient;
import javax.security.sasl.SaslException;
import javax.security.sasl.SaslServer;

final class DigestPeer {
    public static void main(String[] words) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String protocol = words[1];
        String name = words[2];
        Map<String, String> passwords = new HashMap<>();
        for (int at = 3; at + 1 < words.length; at += 2) {
            passwords.put(decoded(words[at]), decoded(words[at + 1]));
        }
        if (words[0].equals("client")) {
            for (int at = 3; at + 1 < words.length; at += 2) {
                client(protocol, name, decoded(words[at]), passwords, in, out);
            }
        } else {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                server(protocol, name, line, passwords, in, out);
            }
        }
    }

    private static CallbackHandler handler(String own, Map<String, String> passwords) {
        return callbacks -> {
            String user = own;
            for (Callback callback : callbacks) {
                if (callback instanceof NameCallback c) {
                    user = own == null ? c.getDefaultName() : own;
                    c.setName(user);
                } else if (callback instanceof RealmCallback c) {
                    c.setText(c.getDefaultText());
                } else if (callback instanceof AuthorizeCallback c) {
                    c.setAuthorized(true);
                }
            }
            for (Callback callback : callbacks) {
                if (callback instanceof PasswordCallback c && passwords.containsKey(user)) {
                    c.setPassword(passwords.get(user).toCharArray());
                }
            }
        };
    }

    private static void client(String protocol, String name, String user, Map<String, String> passwords,
            BufferedReader in, PrintStream out) throws Exception {
        try {
            String[] mechanisms = {"DIGEST-MD5"};
            SaslClient client =
                    Sasl.createSaslClient(mechanisms, user, protocol, name, null, handler(user, passwords));
            while (!client.isComplete()) {
                byte[] token = client.evaluateChallenge(HexFormat.of().parseHex(in.readLine()));
                if (token != null) {
                    out.println(HexFormat.of().formatHex(token));
                }
            }
            out.println("complete");
        } catch (SaslException refused) {
            out.println("refused");
        }
    }

    private static void server(String protocol, String name, String first, Map<String, String> passwords,
            BufferedReader in, PrintStream out) throws Exception {
        try {
            SaslServer server =
                    Sasl.createSaslServer("DIGEST-MD5", protocol, name, null, handler(null, passwords));
            String line = first;
            while (true) {
                byte[] token = server.evaluateResponse(HexFormat.of().parseHex(line));
                out.println(HexFormat.of().formatHex(token));
                if (server.isComplete()) {
                    break;
                }
                line = in.readLine();
            }
            out.println("authorized " + HexFormat.of().formatHex(server.getAuthorizationID().getBytes("UTF-8")));
        } catch (SaslException refused) {
            out.println("refused");
        }
    }

    // Words come as hex of UTF-8, so that no locale has a say.
    private static String decoded(String hex) throws Exception {
        return new String(HexFormat.of().parseHex(hex), "UTF-8");
    }
}
