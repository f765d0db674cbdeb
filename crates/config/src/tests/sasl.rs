//! SASL for clients: accepted and refused JAAS files.

use super::*;
use crate::{PeerLogin, PeerUsers, SaslLogin};

const SCHEME: &str = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
const USERS: &str = "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  user_amy=\"hush1\" user_super=\"hush2\";\n};";

fn with_users(lines: &str) -> Case {
    Case::file(lines).with("/jaas", USERS).define("java.security.auth.login.config=/jaas")
}

#[test]
fn users_come_from_the_section_of_the_server() {
    let lines = format!(
        "{SCHEME}\nsuperUser=amy\nsuperUser.2=bob\nletAnySaslUserDoX=any\nallowSaslFailedClients=TRUE\n\
         SASLAuthenticationProvider.superPassword=hush3\nkerberos.removeRealmFromPrincipal=true\n\
         kerberos.removeHostFromPrincipal=TRUE"
    );
    let case = with_users(&lines);
    let sasl = case.config().auth.sasl;
    let Some(SaslLogin::Digest { login, super_password }) = &sasl.login else { panic!("none") };
    assert_eq!(login.users.keys().collect::<Vec<_>>(), ["amy", "super"]);
    assert_eq!(login.password("amy").unwrap().expose_str(), Some("hush1"));
    assert_eq!(super_password.as_ref().unwrap().expose_str(), Some("hush3"));
    assert!(sasl.has_scheme && sasl.allows_failed);
    assert_eq!(sasl.super_users, ["amy", "bob"]);
    assert_eq!(sasl.any_user.as_deref(), Some("any"));
    // The original compares these two with the word in lower case.
    assert!(sasl.naming.removes_realm && !sasl.naming.removes_host);
    let shown = format!("{:?} {}", case.config(), case.load().unwrap().effective);
    assert!(!shown.contains("hush"), "{shown}");

    let other =
        Case::file("sasl.serverconfig=Mine").with("/jaas", &USERS.replace("Server", "Mine"));
    assert!(
        other.define("java.security.auth.login.config=/jaas").config().auth.sasl.login.is_some()
    );
    assert!(Case::file(SCHEME).config().auth.sasl.login.is_none());
    // The output of `--check` for a configuration that also starts.
    let default = Case::file("sasl.serverconfig=Server").config().auth.sasl;
    assert!(default.login.is_none());
}

#[test]
fn faults_of_a_jaas_file_name_file_line_and_remedy() {
    let given = "-D: java.security.auth.login.config";
    let fails = |lines: &str, jaas: &str, expected: &str| {
        Case::file(lines)
            .with("/jaas", jaas)
            .define("java.security.auth.login.config=/jaas")
            .fails(&format!("{given}: /jaas{expected}"));
    };
    Case::file("").define("java.security.auth.login.config=/none").fails(
        "-D: java.security.auth.login.config: /none: cannot be read: entity not found; check its path and permissions",
    );
    let missing = ": there is no section Server; its sections are: Client\n\
                   hint: zookeeper.sasl.serverconfig names the section of this server";
    let client = "Client { a.DigestLoginModule required username=\"a\" password=\"hush\"; };";
    fails(&format!("{SCHEME}\nsessionRequireClientSASLAuth=true"), client, missing);
    // If no client must authenticate, such a file is for other programs, as in the original; an
    // empty file, too.
    for (lines, jaas) in [("", client), (SCHEME, client), (SCHEME, "")] {
        let case = Case::file(lines).with("/jaas", jaas);
        let case = case.define("java.security.auth.login.config=/jaas");
        assert!(case.config().auth.sasl.login.is_none());
        let note = "/jaas has no section Server: clients cannot authenticate with SASL";
        assert!(case.notes().iter().any(|text| text == note));
    }
    fails(
        "sasl.serverconfig=Mine",
        USERS,
        ": there is no section Mine; its sections are: Server\n\
         hint: zookeeper.sasl.serverconfig names the section of this server",
    );
    fails(
        "",
        "Server {\n com.sun.security.auth.module.Krb5LoginModule required;\n};",
        ":2: section Server: set principal=\"zookeeper/HOST@REALM\"",
    );
    fails(
        "",
        &client.replace("Client", "Server"),
        ":1: section Server: no client can log in; give each a line user_NAME=\"PASSWORD\"",
    );
    let broken = Case::file("").with("/jaas", "Server {\n user_amy=\"hush\"\n};");
    let fault = broken.define("java.security.auth.login.config=/jaas").load().unwrap_err();
    let fault = fault.to_string();
    assert!(fault.starts_with(&format!("{given}: /jaas:")), "{fault}");
    assert!(!fault.contains("hush"), "{fault}");
    Case::file("sasl.serverconfig=Mine").fails(
        "zoo.cfg:3: sasl.serverconfig=Mine needs a JAAS file\nhint: java.security.auth.login.config names it",
    );
    let rules = Case::file("security.auth_to_local=RULE:[x").load().unwrap_err().to_string();
    assert!(rules.starts_with("zoo.cfg:3: zookeeper.security.auth_to_local: "), "{rules}");
}

#[test]
fn clients_may_log_in_with_kerberos() {
    let section = "\nServer {\n  com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true\n  keyTab=\"/k\" storeKey=true principal=\"zookeeper/h1@R\";\n};";
    let with = |define: &str| {
        let case = Case::file(SCHEME).with("/jaas", section);
        case.define("java.security.auth.login.config=/jaas").define(define)
    };
    let login = with("java.security.krb5.conf=/krb5.conf").config().auth.sasl.login;
    let Some(SaslLogin::Kerberos(kerberos)) = login else { panic!("{login:?}") };
    assert_eq!(kerberos.login.principal, "zookeeper/h1@R");
    assert_eq!(kerberos.login.key_tab.as_deref(), Some("/k".as_ref()));
    assert_eq!(kerberos.place, "/jaas:3: section Server");
    assert_eq!(kerberos.krb5_conf.as_deref(), Some("/krb5.conf".as_ref()));
    with("java.security.krb5.realm=R").fails(
        "-D: java.security.krb5.realm: the library of Kerberos reads default_realm from krb5.conf; set it there and remove java.security.krb5.realm",
    );
    // Without a Kerberos login, the property is for Java.
    Case::file("").define("java.security.krb5.realm=R").config();
}

#[test]
fn sasl_may_be_required() {
    let config = with_users(&format!("{SCHEME}\nsessionRequireClientSASLAuth=true")).config();
    assert_eq!(config.auth.enforced_schemes, ["sasl"]);
    let lines = format!("{SCHEME}\nenforce.auth.enabled=true\nenforce.auth.schemes=digest,sasl");
    assert_eq!(with_users(&lines).config().auth.enforced_schemes, ["digest", "sasl"]);
    let hint = "hint: authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider makes the scheme";
    Case::file("sessionRequireClientSASLAuth=true").fails(&format!(
        "zoo.cfg:3: sessionRequireClientSASLAuth=true: this server has no authentication scheme sasl\n{hint}"
    ));
    Case::file("enforce.auth.enabled=true\nenforce.auth.schemes=sasl").fails(&format!(
        "zoo.cfg:4: enforce.auth.schemes: this server has no authentication scheme sasl\n{hint}"
    ));
    let notes = Case::file(&format!("{SCHEME}\nsessionRequireClientSASLAuth=true")).notes();
    assert!(notes.iter().any(|note| note.ends_with("no client is served")), "{notes:?}");
}

const SERVERS: &str = "QuorumServer {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  user_zk=\"hush1\";\n};\n\
    QuorumLearner {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  username=\"me\" password=\"hush2\";\n};";

/// Members that have the same lines, and a JAAS file.
fn between_servers(lines: &str, jaas: &str) -> Case {
    let members = "initLimit=5\nsyncLimit=2\nserver.1=h1:2888:3888\nserver.2=h2:2888:3888\nserver.3=h3:2888:3888";
    Case::file(&format!("{members}\n{lines}"))
        .with("/d/myid", "1")
        .with("/jaas", jaas)
        .define("java.security.auth.login.config=/jaas")
}

#[test]
fn servers_authenticate_to_each_other() {
    let steps = "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=true";
    let sasl = |lines: &str, jaas: &str| {
        between_servers(lines, jaas).config().ensemble.expect("it has members").sasl
    };
    assert_eq!(sasl("", SERVERS), None);
    let heard = sasl("quorum.auth.enableSasl=true", SERVERS).unwrap();
    assert!(!heard.authenticates && !heard.is_required);
    let required = sasl(steps, SERVERS).unwrap();
    assert!(required.authenticates && required.is_required);
    let PeerLogin::Digest { user, password } = &required.own else { panic!("{required:?}") };
    assert_eq!((&**user, password.expose_str()), ("me", Some("hush2")));
    let PeerUsers::Digest(servers) = &required.others else { panic!("{required:?}") };
    assert_eq!(servers.password("zk").unwrap().expose_str(), Some("hush1"));
    assert!(!format!("{required:?}").contains("hush"));
    let named = format!(
        "{steps}\nquorum.auth.learner.saslLoginContext=A\nquorum.auth.server.saslLoginContext=B"
    );
    let others = SERVERS.replace("QuorumLearner", "A").replace("QuorumServer", "B");
    assert_eq!(sasl(&named, &others), Some(required));
}

const PRINCIPALS: &str = "QuorumServer {\n  a.Krb5LoginModule required useKeyTab=true storeKey=true principal=\"zkquorum/h1\";\n};\n\
    QuorumLearner {\n  a.Krb5LoginModule required useKeyTab=true principal=\"learner/h1\";\n};";

#[test]
fn servers_may_authenticate_with_kerberos() {
    let on = "quorum.auth.enableSasl=true";
    let key = "quorum.auth.kerberos.servicePrincipal";
    let sasl = |line: &str| {
        let case = between_servers(&format!("{on}\n{line}"), PRINCIPALS);
        case.config().ensemble.expect("it has members").sasl.unwrap()
    };
    let service = |line: &str| match sasl(line).own {
        PeerLogin::Kerberos { login, servers } => {
            assert_eq!(login.place, "/jaas:5: section QuorumLearner");
            assert_eq!(login.login.principal.as_deref(), Some("learner/h1"));
            (servers.service, servers.host, servers.realm)
        }
        PeerLogin::Digest { .. } => panic!("{line}"),
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(service(""), ("zkquorum".to_owned(), some("localhost"), None));
    assert_eq!(service(&format!("{key}=zk/_HOST")), ("zk".to_owned(), None, None));
    assert_eq!(service(&format!("{key}=zk/h@R")), ("zk".to_owned(), some("h"), some("R")));
    let PeerUsers::Kerberos(others) = sasl("").others else { panic!("not Kerberos") };
    assert_eq!(others.login.principal, "zkquorum/h1");

    for (value, said) in [
        ("zk", "is no name of a service; use NAME/_HOST, NAME/HOST or NAME/HOST@REALM"),
        ("zk/a/b", "is no name of a service; use NAME/_HOST, NAME/HOST or NAME/HOST@REALM"),
        ("zk/h@", "is no name of a service; use NAME/_HOST, NAME/HOST or NAME/HOST@REALM"),
    ] {
        between_servers(&format!("{on}\n{key}={value}"), PRINCIPALS)
            .fails(&format!("zoo.cfg:9: {key}={value} {said}"));
    }
    between_servers(&format!("{on}\n{key}=zk/_HOST@R"), PRINCIPALS).fails(&format!(
        "zoo.cfg:9: {key}=zk/_HOST@R: _HOST stands for a host only if no realm follows; write zk/_HOST"
    ));
    let place = "-D: java.security.auth.login.config: /jaas";
    between_servers(on, &PRINCIPALS.replace(" storeKey=true", "")).fails(&format!(
        "{place}:2: section QuorumServer: a service needs its keys; set storeKey=true"
    ));
    between_servers(on, &PRINCIPALS.replace(" principal=\"learner/h1\"", ""))
        .fails(&format!("{place}:5: section QuorumLearner: useKeyTab=true needs principal"));
}

/// Every member both connects and accepts connections, with one file.
#[test]
fn the_sections_of_servers_are_of_one_mechanism() {
    let on = "quorum.auth.enableSasl=true";
    let section = |text: &str, name: &str| {
        let at = text.find(name).unwrap();
        let end = at + text[at..].find("};").unwrap() + 2;
        text[at..end].to_owned()
    };
    for (server, learner, mine, theirs) in [
        (PRINCIPALS, SERVERS, "DIGEST-MD5", "Kerberos"),
        (SERVERS, PRINCIPALS, "Kerberos", "DIGEST-MD5"),
    ] {
        let jaas =
            format!("{}\n{}", section(server, "QuorumServer"), section(learner, "QuorumLearner"));
        between_servers(on, &jaas).fails(&format!(
            "-D: java.security.auth.login.config: /jaas: section QuorumLearner is for {mine} and section QuorumServer for \
             {theirs}: members with this file refuse each other\nhint: give both sections the same login module"
        ));
    }
}

#[test]
fn faults_of_sasl_between_servers_are_told() {
    let on = "quorum.auth.enableSasl=true";
    let place = "-D: java.security.auth.login.config: /jaas";
    for (lines, jaas, text) in [
        (
            "quorum.auth.learnerRequireSasl=true",
            SERVERS,
            "zoo.cfg:8: quorum.auth.learnerRequireSasl=true needs quorum.auth.enableSasl=true".to_owned(),
        ),
        (
            "quorum.auth.enableSasl=true\nquorum.auth.serverRequireSasl=true",
            SERVERS,
            "zoo.cfg:9: quorum.auth.serverRequireSasl=true needs quorum.auth.learnerRequireSasl=true".to_owned(),
        ),
        (
            on,
            &USERS.replace("Server", "QuorumServer"),
            format!("{place}: there is no section QuorumLearner; its sections are: QuorumServer"),
        ),
        (
            on,
            &SERVERS.replace("user_zk=\"hush1\"", "username=\"a\" password=\"b\""),
            format!(
                "{place}:2: section QuorumServer: give each server that may authenticate a line user_NAME=\"PASSWORD\""
            ),
        ),
    ] {
        between_servers(lines, jaas).fails(&text);
    }
}
