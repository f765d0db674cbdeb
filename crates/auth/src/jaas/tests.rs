//! Files that Java accepts (`tests/fixtures/jaas`), sections as ZooKeeper interprets them, and
//! errors with their line.

#![expect(clippy::disallowed_methods, reason = "a test reads the fixtures")]

use zebu_gssapi::Source;

use super::*;

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

fn property(name: &str) -> Option<String> {
    (name == "test.dir").then(|| "/etc/test".to_owned())
}

fn parse(text: &str) -> Result<Jaas, JaasError> {
    Jaas::parse(Path::new("jaas.conf"), text, &property)
}

fn dump(jaas: &Jaas) -> String {
    let mut text = String::new();
    for name in ["Server", "Client", "Quoted Section", "Two", "A"] {
        for module in jaas.section(name).unwrap_or_default() {
            let flag = format!("{:?}", module.flag).to_lowercase();
            text += &format!("\t{name}\t{}\tLoginModuleControlFlag: {flag}\n", module.class);
            for (option, value) in &module.options {
                let value = value.expose_str().unwrap().replace('\t', "<TAB>");
                text += &format!("\t\t{option}\t{value}\n");
            }
        }
    }
    text
}

#[test]
fn files_are_read_as_java_reads_them() {
    // What Java refuses and is read here, as its meaning is plain.
    const ACCEPTED: [&str; 4] = ["at", "bare-path", "hash", "number"];
    let table = std::fs::read_to_string(fixture("jaas/expected.txt")).unwrap();
    let mut files = 0;
    for part in table.split("jaas/").skip(1) {
        let (head, java) = part.split_once('\n').unwrap();
        let (file, verdict) = head.split_once('\t').unwrap();
        let ours = Jaas::read(&fixture(&format!("jaas/{file}")), &property);
        files += 1;
        match ours {
            Ok(ours) if verdict == "good" => assert_eq!(dump(&ours), java, "{file}"),
            Ok(_) => assert!(ACCEPTED.contains(&file.trim_end_matches(".conf")), "{file}"),
            Err(error) => assert_eq!(verdict, "bad", "{error}"),
        }
    }
    assert_eq!(files, 16);
}

#[test]
fn an_error_names_the_file_and_the_line_and_no_value() {
    let cases = [
        (
            "A {\n a.B required\n x=\"s3cret\"\n};",
            "jaas.conf:4: '}' stands where an option, or a semicolon",
        ),
        ("A {\n a.B needed;\n};", "jaas.conf:2: \"needed\" is no flag; use required"),
        (
            "A {\n a.B required\n x=\"s3cret;\n};",
            "jaas.conf:3: the quoted text has no closing quote",
        ),
        (
            "A {\n a.B required \"s3cret;\\\n\";};",
            "jaas.conf:2: the quoted text has no closing quote",
        ),
        (
            "A {\n a.B required;\n}\n",
            "jaas.conf:4: ';' is missing after the closing brace of a section, where",
        ),
        ("A {\n a.B required;\n};\nA { a.B required; };", "jaas.conf:4: section A is there twice"),
        (
            "A {\n a.B required\n x=\"${none}\";\n};",
            "jaas.conf:3: the option x: it names a system property",
        ),
        ("/* A", "jaas.conf:1: the comment has no end"),
        ("A {\n a.B required\n x=;\n};", "jaas.conf:3: the option x has no value"),
    ];
    for (text, wanted) in cases {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{error:?} for {text:?}");
        assert!(!error.contains("s3cret"), "{error}");
    }
    let error = Jaas::read(Path::new("/no/such.conf"), &property).unwrap_err().to_string();
    assert!(error.starts_with("/no/such.conf: cannot be read"), "{error}");
}

#[test]
fn digest_sections_are_users_and_a_credential() {
    let jaas = Jaas::read(&fixture("jaas/good.conf"), &property).unwrap();
    let Login::Digest(server) = jaas.required("Server").unwrap() else { panic!("not digest") };
    assert_eq!(server.password("super"), Some(&"adminsecret".into()));
    assert_eq!(server.password("with blank"), Some(&"x;y{z}=\t.".into()));
    assert_eq!(server.password("nobody"), None);
    assert_eq!(server.credential, None);
    let Login::Digest(client) = jaas.required("Client").unwrap() else { panic!("not digest") };
    assert_eq!(client.credential, Some(("bob".to_owned(), "plain_word-1".into())));
    assert!(!format!("{jaas:?} {server:?} {client:?}").contains("secret"));
    assert!(!format!("{jaas:?} {client:?}").contains("plain_word"));
}

#[test]
fn kerberos_sections_are_principal_and_key_table() {
    let jaas = Jaas::read(&fixture("jaas/good.conf"), &property).unwrap();
    let Login::Kerberos(login) = jaas.required("Quoted Section").unwrap() else {
        panic!("not kerberos")
    };
    let expected = KerberosLogin {
        principal: Some("zookeeper/zk1.example.org@EXAMPLE.ORG".to_owned()),
        key_tab: Some(PathBuf::from("/etc/test/zk.keytab")),
        use_key_tab: true,
        store_key: true,
        is_initiator: true,
        ..KerberosLogin::default()
    };
    assert_eq!(login, expected);
}

#[test]
fn a_section_that_cannot_be_meant_is_refused() {
    let cases = [
        ("S { x.DigestLoginModule required; };", ":1: section S: there are neither users"),
        ("S { x.DigestLoginModule required username=\"a\"; };", "username is set without password"),
        (
            "S { x.Krb5LoginModule required keyTab=\"/k\"; };",
            "keyTab is set without useKeyTab=true",
        ),
        (
            "S { x.Krb5LoginModule required useKeyTab=yes; };",
            "useKeyTab is \"yes\"; use true or false",
        ),
        (
            "S {\n x.LdapLoginModule required; };",
            ":2: section S: the login module x.LdapLoginModule is not",
        ),
        ("S { };", "section S has 0 login modules instead of one"),
        (
            "A { x.DigestLoginModule required user_a=b; };",
            "there is no section S; its sections are: A",
        ),
    ];
    for (text, wanted) in cases {
        let error = parse(text).unwrap().required("S").unwrap_err().to_string();
        assert!(error.contains(wanted), "{error:?} for {text:?}");
    }
    assert_eq!(parse("").unwrap().login("S"), Ok(None));
}

#[test]
fn a_service_needs_its_keys_and_a_client_needs_tickets() {
    let read = |options: &str| {
        let text = format!("S {{ x.Krb5LoginModule required {options}; }};");
        parse(&text).unwrap().required("S").map_err(|error| error.to_string())
    };
    let login = |options: &str| match read(options) {
        Ok(Login::Kerberos(login)) => login,
        other => panic!("{other:?}"),
    };
    let keys = "useKeyTab=true keyTab=\"/k\" storeKey=true";
    let service =
        login(&format!("{keys} principal=\"zookeeper/h@R\" doNotPrompt=true debug=false"));
    let expected =
        Service { principal: "zookeeper/h@R".to_owned(), key_tab: Some(PathBuf::from("/k")) };
    assert_eq!(service.service(), Ok(expected));
    for (options, said) in [
        (keys, "set principal="),
        ("principal=\"*\"", "must be of the form NAME/HOST"),
        ("principal=\"zookeeper@R\"", "must be of the form NAME/HOST"),
        ("principal=\"zookeeper/@R\"", "must be of the form NAME/HOST"),
        ("principal=\"a/b/c@R\"", "must be of the form NAME/HOST"),
        ("principal=\"a/b@R\" useTicketCache=true", "set useKeyTab=true, storeKey=true and keyTab"),
        ("principal=\"a/b@R\" useKeyTab=true", "set storeKey=true"),
    ] {
        let missing = login(options).service().unwrap_err();
        assert!(missing.contains(said), "{options}: {missing}");
    }

    let source = |options| login(options).source();
    let (amy, key_tab) = (Some("amy".to_owned()), Some(Some(PathBuf::from("/k"))));
    let expected = Source { principal: amy.clone(), key_tab, cache: None };
    assert_eq!(source("useKeyTab=true keyTab=\"FILE:/k\" principal=amy"), Ok(expected));
    let expected = Source { principal: amy, key_tab: Some(None), cache: Some(None) };
    assert_eq!(source("useKeyTab=true useTicketCache=true principal=amy"), Ok(expected));
    let cache = Some(Some(PathBuf::from("/c")));
    let expected = Source { cache, ..Source::default() };
    assert_eq!(source("useTicketCache=true ticketCache=\"/c\""), Ok(expected));
    for (options, said) in [
        ("", "neither a key table nor a cache"),
        ("useKeyTab=true", "needs principal"),
        ("useTicketCache=true isInitiator=false", "remove isInitiator=false"),
    ] {
        let missing = source(options).unwrap_err();
        assert!(missing.contains(said), "{options}: {missing}");
    }

    // What other programs put there is theirs.
    login("useTicketCache=true serviceName=zookeeper");
    for (options, said) in [
        ("useTicketCache=true renewTGT=true", "renewTGT=true: tickets of a cache are not renewed"),
        ("useTicketCache=true storePass=true", "storePass=true: passwords of Kerberos"),
        ("useTicketCache=true debug=maybe", "debug is \"maybe\"; use true or false"),
        ("useKeyTab=true keytab=\"/k\"", "keytab is no option; write keyTab"),
    ] {
        let refused = read(options).unwrap_err();
        assert!(refused.contains(said), "{options}: {refused}");
    }
    login("useTicketCache=true renewTGT=false useFirstPass=false");
}
