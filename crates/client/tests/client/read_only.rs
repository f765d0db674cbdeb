//! Read-only servers, simulated by a few lines.

use std::time::Duration;

use zebu_client::{Connector, ErrorKind, SessionState, Version};

use crate::embedded::Server;
use crate::lonely::lonely_server;
use crate::{reach, soon};

/// API-13, ERR-13, SES-29, WAT-05.
#[tokio::test]
async fn a_read_only_server_is_left_for_a_better_one() {
    let lonely = lonely_server().await;
    let mut server = Server::start(&[]);
    server.stop();
    let connector = Connector::new().allow_read_only();
    let servers = format!("{lonely},{}", server.address());
    let client = soon(connector.connect(&servers)).await.unwrap();
    assert_eq!(client.state(), SessionState::ConnectedReadOnly);
    let error = soon(client.set_data("/", "", Version::ANY)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    let mut events = client.session_events();
    // Servers answer the four-letter word for their mode only if it is enabled.
    server.launch(&["4lw.commands.whitelist=isro"]);
    reach(&mut events, SessionState::Connected).await;
    assert_eq!(client.server(), Some(server.address()));
    soon(client.set_data("/", "", Version::ANY)).await.unwrap();
}

/// API-13.
#[tokio::test]
async fn a_read_only_server_is_refused_by_those_who_did_not_ask_for_it() {
    let lonely = lonely_server().await;
    let connector = Connector::new().connection_wait(Duration::from_millis(200));
    let error = soon(connector.connect(&lonely.to_string())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotExecuted);
}
