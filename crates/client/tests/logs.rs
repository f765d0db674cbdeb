//! The client's log lines: API-26.

mod embedded {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in"));
}

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use zebu_client::{Connector, SessionState};

use embedded::Server;

/// The target of the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        let log = self.0.lock().unwrap();
        String::from_utf8_lossy(&log).lines().map(str::to_owned).collect()
    }

    /// Position of the first line with these words, at or after `from`.
    #[track_caller]
    fn find(&self, from: usize, words: &str) -> usize {
        let lines = self.lines();
        let found = lines.iter().skip(from).position(|line| line.contains(words));
        from + found.unwrap_or_else(|| panic!("{words:?} not behind {from} in {lines:#?}"))
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A single test, because a process has only one log.
#[tokio::test]
async fn what_the_client_does_is_logged() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("zebu_client=info"))
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let mut server = Server::start(&[]);
    let address = server.address();

    let mut connector = Connector::new().session_timeout(Duration::from_secs(12));
    let mut events = connector.session_events();
    let client = connector.connect(&address.to_string()).await.unwrap();
    assert_eq!(events.next().await, Some(SessionState::Connected));
    let id = client.session_id();
    let mut at = 0;
    for words in [
        format!("client environment: zebu-client {}", env!("CARGO_PKG_VERSION")),
        format!("opening a session with {address}, timeout 12000 ms"),
        format!("opening a connection to {address}"),
        format!("connected to {address} from 127.0.0.1:"),
        format!("session {id} established on {address}, negotiated timeout 12000 ms"),
    ] {
        at = log.find(at, &words);
    }

    server.stop();
    assert_eq!(events.next().await, Some(SessionState::Disconnected));
    at = log.find(at, "connection lost");
    server.launch(&[]);
    assert_eq!(events.next().await, Some(SessionState::Connected));
    log.find(at, &format!("session {id} established on {address}"));
    let ticket = client.leave().unwrap();
    let again = Connector::new().resume(ticket).connect(&address.to_string()).await.unwrap();
    log.find(at, &format!("resuming session {id} with {address}"));
    again.close().await.unwrap();

    // The environment is logged once, and secrets never are.
    let lines = log.lines();
    assert_eq!(lines.iter().filter(|line| line.contains("client environment")).count(), 1);
    let password = format!("{:?}", ticket.password);
    assert!(!lines.iter().any(|line| line.contains(&password)));

    // A name that cannot be resolved is logged once, however often it is tried.
    let connector = Connector::new().connection_wait(Duration::from_secs(60));
    let client = connector.start(&format!("zk9.invalid:2181,{address}")).unwrap();
    client.connected().await.unwrap();
    let lines = log.lines();
    let warned = lines.iter().filter(|line| line.contains("zk9.invalid (")).collect::<Vec<_>>();
    assert!(warned.len() == 1 && warned[0].contains("WARN"), "{lines:#?}");
}
