//! SASL with Kerberos: an MIT key distribution centre, the original's client and Zebu's, against
//! both servers.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_interop::deps;
use zebu_interop::kdc::{Kdc, REALM};
use zebu_interop::normalise::text;
use zebu_interop::run::{Program, run};
use zebu_interop::scenario::same;
use zebu_interop::server::{Kind, Options, PATIENCE, Server, java};
use zebu_interop::shell::{Shell, lines_in_any_order};

const PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
const SERVICE: &str = "zookeeper/localhost";

fn options(kdc: &Kdc, jaas: &Path) -> Options {
    kdc.options(Options::default())
        .config("authProvider.1", PROVIDER)
        .property("java.security.auth.login.config", jaas.display())
}

/// Runs one command of the original's command line as a user.
fn command(kdc: &Kdc, server: &Server, jaas: &Path, words: &[&str]) -> Result<String> {
    let mut command = java(Kind::Java395);
    command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=off");
    command.arg(format!("-Djava.security.auth.login.config={}", jaas.display()));
    command.arg(format!("-Djava.security.krb5.conf={}", kdc.config().display()));
    command.arg(format!("-Dzookeeper.server.principal={SERVICE}"));
    command.args(["org.apache.zookeeper.ZooKeeperMain", "-server", &server.connect_string()]);
    let output = run(command.args(words), PATIENCE)?;
    let output = format!("{}{}", text(&output.text), output.status);
    Ok(format!("{words:?}\n{}\n", lines_in_any_order(&output)))
}

/// The original's client: users with and without a host, and the names that the server gives them.
fn original(kdc: &Kdc, name: &str, settings: &[(&str, &str)], shown: &[&str]) -> Result<()> {
    let jaas = kdc.jaas("server.conf", &[("Server", SERVICE, "")])?;
    let amy = kdc.jaas("amy.conf", &[("Client", "amy", "")])?;
    let batch = kdc.jaas("batch.conf", &[("Client", "batch/host.example.org", "")])?;
    let options = settings
        .iter()
        .fold(options(kdc, &jaas), |options, (key, value)| options.config(key, value));
    same(name, &options, |server| {
        let mut story = String::new();
        for (user, words) in [
            (&amy, &["create", "/amy", "hers", "auth::cdrwa"][..]),
            (&amy, &["whoami"]),
            (&amy, &["getAcl", "/amy"]),
            (&batch, &["whoami"]),
            (&batch, &["get", "/amy"]),
            (&amy, &["get", "/amy"]),
        ] {
            story.push_str(&command(kdc, server, user, words)?);
        }
        // At least one attempt succeeded.
        for shown in shown {
            ensure!(story.contains(shown), "{shown}: {story}");
        }
        Ok(story)
    });
    Ok(())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_originals_client() -> Result<()> {
    let kdc = Kdc::start(&[SERVICE, "amy", "batch/host.example.org"])?;
    original(
        &kdc,
        "kerberos-cli",
        &[],
        &["sasl: amy@ZEBU.TEST", "batch/host.example.org@ZEBU.TEST"],
    )?;
    original(
        &kdc,
        "kerberos-cli-short",
        &[
            ("kerberos.removeHostFromPrincipal", "true"),
            ("kerberos.removeRealmFromPrincipal", "true"),
            ("superUser", "batch"),
            ("sessionRequireClientSASLAuth", "true"),
        ],
        &["sasl: amy", "sasl: batch", "super"],
    )?;
    original(
        &kdc,
        "kerberos-cli-rules",
        &[
            ("security.auth_to_local", "RULE:[2:$1](batch)s/batch/worker/ DEFAULT"),
            ("kerberos.removeHostFromPrincipal", "true"),
            ("kerberos.removeRealmFromPrincipal", "true"),
        ],
        &["sasl: amy", "sasl: worker"],
    )
}

/// The original's C client, whose Kerberos is Cyrus SASL over the system's library.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_c_client() -> Result<()> {
    let kdc = Kdc::start(&[SERVICE, "amy", "batch/host.example.org"])?;
    let jaas = kdc.jaas("server.conf", &[("Server", SERVICE, "")])?;
    let options = options(&kdc, &jaas).config("sessionRequireClientSASLAuth", "true");
    same("kerberos-c", &options, |server| {
        // Requests of others are refused.
        let ask = |user: &str, line: &str| -> Result<String> {
            let mut command = Command::new(deps::installed("c-suite").join("build/cli"));
            command.env("KRB5_CONFIG", kdc.config());
            command.env("KRB5CCNAME", format!("FILE:{}", kdc.cache(user)?.display()));
            command.args(["--mechlist", "GSSAPI", "--user", user, "--realm", REALM]);
            command.args(["--service", "zookeeper", "--server-fqdn", "localhost"]);
            command.args(["-h", &server.address().to_string(), "-c", line]);
            let output = run(&mut command, PATIENCE)?;
            let shown = output.text.lines().filter(|line| line.contains("rc = "));
            let shown = shown.collect::<Vec<_>>().join("\n");
            ensure!(shown.contains("/c-amy") && shown.contains(": rc = 0"), "{}", output.text);
            Ok(format!("{user} {line}\n{shown}\n"))
        };
        let story = [
            ask("amy", "create /c-amy")?,
            ask("amy", "set /c-amy hers")?,
            ask("amy", "get /c-amy")?,
            ask("batch/host.example.org", "get /c-amy")?,
        ]
        .concat();
        // The id that the server knows the user by.
        let owned =
            command(&kdc, server, &kdc.jaas("amy.conf", &[("Client", "amy", "")])?, &["whoami"])?;
        Ok(story + &owned)
    });
    Ok(())
}

/// A server that cannot read its keys does not start, and gives the reason in one sentence.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_server_without_its_keys_does_not_start() -> Result<()> {
    let kdc = Kdc::start(&[SERVICE, "amy"])?;
    let good = kdc.jaas("good.conf", &[("Server", SERVICE, "")])?;
    let other = kdc.jaas("other.conf", &[("Server", "zookeeper/other", "")])?;
    std::fs::copy(kdc.key_tab_of("amy"), kdc.key_tab_of("zookeeper/wrong"))?;
    let wrong = kdc.jaas("wrong.conf", &[("Server", "zookeeper/wrong", "")])?;
    let folder = kdc.folder().display();
    for (jaas, options, said) in [
        (
            &other,
            options(&kdc, &other),
            format!(
                "other.conf:2: section Server: Key table file '{folder}/zookeeper_other.keytab' not found"
            ),
        ),
        (
            &wrong,
            options(&kdc, &wrong),
            format!(
                "wrong.conf:2: section Server: No key table entry found for zookeeper/wrong@{REALM}"
            ),
        ),
        (
            &good,
            options(&kdc, &good).environment("KRB5_CONFIG", "/etc/krb5.conf"),
            "good.conf:2: section Server: java.security.krb5.conf=".to_owned(),
        ),
    ] {
        let mut server = Server::prepare(Kind::Zebu, &options, |_| Ok(()))?;
        let status = server.expect_refusal()?;
        let log = server.log();
        ensure!(!status.success() && log.contains(&said), "{}: {status} {log}", jaas.display());
        let lines = log.lines().filter(|line| line.contains(&said)).count();
        ensure!(lines == 1, "{log}");
    }
    Ok(())
}

/// COMPAT tls-38: the tickets of clients are recorded in a file, which a restarted server reads
/// again.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn tickets_are_recorded_in_a_file() -> Result<()> {
    let kdc = Kdc::start(&[SERVICE, "amy"])?;
    let jaas = kdc.jaas("server.conf", &[("Server", SERVICE, "")])?;
    let amy = kdc.jaas("amy.conf", &[("Client", "amy", "")])?;
    let folder = tempfile::tempdir()?;
    let options = options(&kdc, &jaas);
    let options = options.environment("KRB5RCACHEDIR", folder.path().display());
    let mut server = Server::start(Kind::Zebu, &options)?;
    let recorded = || -> Result<u64> {
        let mut bytes = 0;
        for entry in std::fs::read_dir(folder.path())? {
            bytes += entry?.metadata()?.len();
        }
        Ok(bytes)
    };
    ensure!(recorded()? == 0);
    let told = command(&kdc, &server, &amy, &["whoami"])?;
    ensure!(told.contains("sasl: amy@ZEBU.TEST"), "{told}");
    let bytes = recorded()?;
    ensure!(bytes > 0, "no file");
    server.restart()?;
    ensure!(recorded()? == bytes, "the file is gone");
    Ok(())
}

/// Keys that are replaced while the server runs are used at once. Only tickets for the old key are
/// refused.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn keys_may_be_exchanged_while_the_server_runs() -> Result<()> {
    let kdc = Kdc::start(&[SERVICE, "amy"])?;
    let jaas = kdc.jaas("server.conf", &[("Server", SERVICE, "")])?;
    let amy = kdc.jaas("amy.conf", &[("Client", "amy", "")])?;
    let server = Server::start(Kind::Zebu, &options(&kdc, &jaas))?;
    let who = |when: &str| -> Result<()> {
        let told = command(&kdc, &server, &amy, &["whoami"])?;
        ensure!(told.contains("sasl: amy@ZEBU.TEST"), "{when}: {told}");
        Ok(())
    };
    who("before")?;
    // The centre has a key that the key table lacks.
    let kept = std::fs::read(kdc.key_tab_of(SERVICE))?;
    kdc.key_tab(SERVICE)?;
    let new = std::fs::read(kdc.key_tab_of(SERVICE))?;
    std::fs::write(kdc.key_tab_of(SERVICE), kept)?;
    let told = command(&kdc, &server, &amy, &["whoami"])?;
    ensure!(!told.contains("sasl: amy"), "{told}");
    let log = server.log_lines(&["fails to authenticate with SASL"]);
    ensure!(log.contains("Kerberos: ") && log.contains("kvno"), "{log}");
    std::fs::write(kdc.key_tab_of(SERVICE), new)?;
    who("after").context("the new key")
}

/// Zebu's shell with these properties, besides those for Kerberos.
fn shell(kdc: &Kdc, server: &str, jaas: &Path, properties: &[(&str, &str)]) -> Command {
    let mut flags = format!("-Djava.security.auth.login.config={}", jaas.display());
    for (key, value) in properties {
        flags += &format!(" -D{key}={value}");
    }
    let mut command = Shell::Ours.command(server);
    command.env("CLIENT_JVMFLAGS", flags).env("KRB5_CONFIG", kdc.config());
    command
}

/// Zebu's client with a key table and with a cache, and with every way to name the server, against
/// both servers.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn our_client() -> Result<()> {
    let kdc = Kdc::start(&[SERVICE, "amy", "bob"])?;
    let jaas = kdc.jaas("server.conf", &[("Server", SERVICE, "")])?;
    let amy = kdc.jaas("amy.conf", &[("Client", "amy", "")])?;
    let bob = kdc.folder().join("bob.conf");
    let module = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true";
    let cache = kdc.cache("bob")?;
    std::fs::write(&bob, format!("Client {{ {module} ticketCache=\"{}\"; }};\n", cache.display()))?;
    let options = options(&kdc, &jaas).config("sessionRequireClientSASLAuth", "true");
    let (principal, conf) = ("zookeeper.server.principal", kdc.config().display().to_string());
    let named: &[&[(&str, &str)]] = &[
        &[],
        &[(principal, SERVICE), ("java.security.krb5.conf", &conf)],
        &[
            (principal, "zookeeper/localhost@ZEBU.TEST"),
            ("zookeeper.sasl.client.username", "other"),
        ],
        &[
            ("zookeeper.sasl.client.canonicalize.hostname", "false"),
            ("zookeeper.server.realm", REALM),
        ],
    ];
    same("kerberos-zebu-client", &options, |server| {
        let at = format!("localhost:{}", server.port());
        let mut story = String::new();
        for properties in named {
            let words = ["create", &format!("/{}", story.len()), "x", "auth::cdrwa"];
            for (user, id, words) in
                [(&amy, "amy", &["whoami"][..]), (&bob, "bob", &["whoami"]), (&amy, "", &words)]
            {
                let output =
                    run(shell(&kdc, &at, user, properties).args(["-q"]).args(words), PATIENCE)?;
                let is_known = output.text.contains(&format!("sasl: {id}@{REALM}"));
                ensure!(is_known || id.is_empty(), "{properties:?}: {}", output.text);
                story += &format!("{words:?}: {is_known} {}\n", output.status);
            }
        }
        Ok(story)
    });
    Ok(())
}

/// The shell reports each error in one sentence, and so does the server if it learns of it.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn our_client_says_what_is_wrong() -> Result<()> {
    let kdc = Kdc::start(&[SERVICE, "amy", "old", "gone", "changed"])?;
    kdc.admin("modprinc -expire 2020-01-01 old")?;
    kdc.admin("delprinc -force gone")?;
    kdc.admin("cpw -randkey changed")?;
    std::fs::copy(kdc.key_tab_of("amy"), kdc.key_tab_of("other"))?;
    let jaas = kdc.jaas("server.conf", &[("Server", SERVICE, "")])?;
    let server = Server::start(Kind::Zebu, &options(&kdc, &jaas))?;
    let at = format!("localhost:{}", server.port());
    let none = ("zookeeper.sasl.client.canonicalize.hostname", "true");
    for (user, property, said) in [
        (
            "amy",
            ("zookeeper.server.principal", "zookeeper/none"),
            "Server zookeeper/none@ZEBU.TEST not found in Kerberos database",
        ),
        ("old", none, "Client's entry in database has expired"),
        ("gone", none, "Client 'gone@ZEBU.TEST' not found in Kerberos database"),
        ("changed", none, "Decrypt integrity check failed"),
        ("other", none, "No key table entry found for other@ZEBU.TEST"),
        ("missing", none, "missing.keytab' not found"),
    ] {
        let client = kdc.jaas("client.conf", &[("Client", user, "")])?;
        let output = run(shell(&kdc, &at, &client, &[property]).args(["-q", "whoami"]), PATIENCE)?;
        let told: Vec<_> = output.text.lines().filter(|line| line.contains(said)).collect();
        ensure!(!output.status.success() && told.len() == 1, "{user}: {}", output.text);
        ensure!(told[0].contains("SASL failed: Kerberos: "), "{}", told[0]);
    }
    let wrong = ("java.security.krb5.conf", "/no/such.conf");
    let client = kdc.jaas("client.conf", &[("Client", "amy", "")])?;
    let output = run(shell(&kdc, &at, &client, &[wrong]).arg("whoami"), PATIENCE)?;
    ensure!(
        output.text.contains("java.security.krb5.conf=/no/such.conf has an effect in Java only"),
        "{}",
        output.text
    );
    ensure!(!output.status.success(), "{}", output.status);
    Ok(())
}

/// A client with a key table can reconnect after its first ticket has expired.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn tickets_are_renewed() -> Result<()> {
    let kdc = Kdc::start(&[SERVICE, "amy"])?;
    // The library renews a ticket at half of its lifetime, or 30 seconds before its end.
    kdc.admin("modprinc -maxlife 50seconds amy")?;
    let jaas = kdc.jaas("server.conf", &[("Server", SERVICE, "")])?;
    let amy = kdc.jaas("amy.conf", &[("Client", "amy", "")])?;
    let server = Server::start(Kind::Zebu, &options(&kdc, &jaas))?;
    let at = format!("localhost:{}", server.port());
    let mut shell = Program::start(shell(&kdc, &at, &amy, &[]).arg("-q"))?;
    let start = Instant::now();
    let mut sessions = 0;
    while kdc.logins("amy")? < 2 {
        ensure!(start.elapsed() < PATIENCE, "{} logins", kdc.logins("amy")?);
        // Each session starts with the tickets of the one before.
        shell.say(&format!("connect {at}"))?;
        shell.say("whoami")?;
        sessions += 1;
        shell.wait_for(PATIENCE, |text| text.matches("sasl: amy@ZEBU.TEST").count() >= sessions)?;
        std::thread::sleep(Duration::from_millis(100));
    }
    ensure!(sessions > 2, "every session had tickets of its own");
    // Clients bring all that the server needs.
    ensure!(kdc.logins(SERVICE)? == 0, "the server has asked for a ticket");
    shell.say("quit")?;
    shell.finish(PATIENCE)?;
    Ok(())
}
