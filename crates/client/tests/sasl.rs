//! Sessions that authenticate with SASL, against a server in this process.
#![cfg(feature = "sasl")]

mod embedded {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in"));
}

use std::time::Duration;

use zebu_client::{
    Acls, Client, Connector, CreateMode, Ending, Error, ErrorKind, Perms, Sasl, SessionState,
};

use embedded::Server;

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens")
}

/// A server's file with the user amy, and the settings that name the file.
fn settings(folder: &tempfile::TempDir, more: &[&str]) -> Vec<String> {
    let file = folder.path().join("server.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let text = format!("Server {{ {module} user_amy=\"secret\" user_grüße=\"日本\"; }};");
    std::fs::write(&file, text).unwrap();
    let mut lines = vec![
        format!("java.security.auth.login.config={}", file.display()),
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider".to_owned(),
    ];
    lines.extend(more.iter().map(|line| (*line).to_owned()));
    lines
}

fn server(more: &[&str]) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let lines = settings(&folder, more);
    (Server::start(&lines.iter().map(String::as_str).collect::<Vec<_>>()), folder)
}

fn connector(user: &str, password: &str) -> Connector {
    Connector::new().sasl(Sasl::digest_md5(user, password))
}

async fn open(server: &Server, connector: Connector) -> Result<Client, Error> {
    soon(connector.connect(&server.address().to_string())).await
}

/// ACL-15: the id applies to the first request and to every later connection, besides credentials
/// of other schemes.
#[tokio::test]
async fn a_client_is_who_it_has_proved_to_be_on_every_connection() {
    let (mut server, folder) = server(&["sessionRequireClientSASLAuth=true"]);
    let connector = connector("amy", "secret").authenticate("digest", "bob:other");
    let client = open(&server, connector).await.unwrap();
    let only_amy = Acls::to(Perms::ALL, "sasl", "amy");
    soon(client.create("/amy", "hers", CreateMode::Persistent, &only_amy)).await.unwrap();
    let known = soon(client.who_am_i()).await.unwrap();
    for (scheme, user) in [("sasl", "amy"), ("digest", "bob")] {
        assert!(known.iter().any(|id| id.scheme == scheme && id.user == user), "{known:?}");
    }
    let mut events = client.session_events();
    server.stop();
    assert_eq!(soon(events.next()).await, Some(SessionState::Disconnected));
    let lines = settings(&folder, &["sessionRequireClientSASLAuth=true"]);
    server.launch(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let (data, _) = soon(client.get_data("/amy")).await.unwrap();
    assert_eq!(data, "hers");
    soon(client.close()).await.unwrap();
}

#[tokio::test]
async fn names_and_passwords_of_all_scripts_are_good() {
    let (server, _folder) = server(&[]);
    let client = open(&server, connector("grüße", "日本")).await.unwrap();
    let known = soon(client.who_am_i()).await.unwrap();
    assert!(known.iter().any(|id| id.user == "grüße"), "{known:?}");
}

/// SES-24: a refused client gets no session, whether the server refuses at once or because SASL is
/// required.
#[tokio::test]
async fn a_refused_client_has_no_session_and_is_told_so() {
    for more in [&[][..], &["sessionRequireClientSASLAuth=true"]] {
        let (server, _folder) = server(more);
        for (user, password) in [("amy", "wrong"), ("eve", "secret")] {
            let refused = open(&server, connector(user, password)).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::SessionOver);
            assert_eq!(refused.ending(), Some(Ending::AuthFailed));
            assert!(!format!("{refused} {refused:?}").contains(password), "{refused:?}");
        }
        // All other clients are served.
        open(&server, connector("amy", "secret")).await.unwrap();
    }
}

/// A client never continues without SASL: neither if the server has no SASL, nor if the server
/// keeps clients whose authentication failed.
#[tokio::test]
async fn a_server_that_does_not_prove_itself_is_not_used_and_the_reason_is_told() {
    let plain = Server::start(&[]);
    let refused = open(&plain, connector("amy", "secret")).await.unwrap_err();
    assert_eq!(refused.ending(), Some(Ending::AuthFailed));
    let reason = refused.reason().unwrap_or_default().to_owned();
    assert!(reason.contains("SASL failed: the server sends no challenge"), "{refused:?}");

    let (lenient, _folder) = server(&["allowSaslFailedClients=true"]);
    let refused = open(&lenient, connector("amy", "wrong")).await.unwrap_err();
    assert_eq!(refused.ending(), Some(Ending::AuthFailed));
    assert!(refused.reason().unwrap_or_default().contains("SASL failed: "), "{refused:?}");
}

/// A server that requires SASL refuses a client without it, with that reason.
#[tokio::test]
async fn a_server_that_wants_sasl_says_so() {
    let (server, _folder) = server(&["sessionRequireClientSASLAuth=true"]);
    let client = open(&server, Connector::new()).await.unwrap();
    let refused = soon(client.get_data("/")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SessionOver);
    assert!(
        refused.to_string().starts_with("the server requires SASL authentication first"),
        "{refused}"
    );
}

/// Many exchanges at the same time, valid and invalid, do not disturb each other.
#[tokio::test]
async fn many_clients_at_once_are_each_who_they_are() {
    let (server, _folder) = server(&["maxClientCnxns=0"]);
    let address = server.address().to_string();
    let clients = (0..60).map(|number| {
        let (address, is_good) = (address.clone(), number % 3 > 0);
        tokio::spawn(async move {
            let password = if is_good { "secret" } else { "wrong" };
            let opened = connector("amy", password).connect(&address).await;
            assert_eq!(opened.is_ok(), is_good, "{number}: {opened:?}");
            if let Ok(client) = opened {
                let known = client.who_am_i().await.unwrap();
                assert!(known.iter().any(|id| id.scheme == "sasl" && id.user == "amy"));
                client.close().await.unwrap();
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        soon(client).await.unwrap();
    }
}
