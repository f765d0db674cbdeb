//! Sockets between servers: how they listen and connect.

use std::net::SocketAddr;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::task::JoinSet;
use zebu_proto::HostPort;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Maximum silence of an address after another address has refused.
const SILENCE: Duration = Duration::from_secs(1);

/// Listens on an address, or on its port of every address of this machine.
pub async fn listen(at: &HostPort, everywhere: bool) -> std::io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = if everywhere {
        vec![SocketAddr::from(([0_u16; 8], at.port)), SocketAddr::from(([0_u8; 4], at.port))]
    } else {
        lookup_host((at.host.as_str(), at.port)).await?.collect()
    };
    let mut failure = std::io::Error::other("the name has no addresses");
    for address in addresses {
        match zebu_transport::listen(address, BACKLOG) {
            Ok(listener) => return TcpListener::from_std(listener),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Connects to one address after the other, at this pace, until one accepts; earlier attempts
/// continue meanwhile. Each call resolves the names again. After one address has refused, silent
/// addresses get at most [`SILENCE`] more: the refusing server may accept the next attempt, and the
/// silent addresses may be unreachable.
///
/// The result is the connection, and the address that accepted it.
///
/// # Errors
/// The error of the last attempt that failed, or `TimedOut` if no address answered within
/// `patience`.
pub async fn dial(
    addresses: &[HostPort],
    pace: Duration,
    patience: Duration,
) -> std::io::Result<(TcpStream, HostPort)> {
    let first = async {
        let mut failure = std::io::Error::other("there is no address to dial");
        let mut has_failed = false;
        let mut untried = addresses.iter().cloned();
        let mut dials = JoinSet::new();
        loop {
            if let Some(at) = untried.next() {
                dials.spawn(async move {
                    let stream = TcpStream::connect((at.host.as_str(), at.port)).await?;
                    Ok((stream, at))
                });
            }
            let answer = if untried.len() > 0 {
                tokio::time::timeout(pace, dials.join_next()).await
            } else if has_failed {
                tokio::time::timeout(SILENCE, dials.join_next()).await
            } else {
                Ok(dials.join_next().await)
            };
            has_failed |= matches!(answer, Ok(Some(Ok(Err(_)))));
            match answer {
                Err(_) if untried.len() == 0 && has_failed => return Err(failure),
                // The next attempt, beside those without an answer.
                Err(_) => {}
                Ok(None) => return Err(failure),
                Ok(Some(Ok(Ok(answered)))) => return Ok(answered),
                Ok(Some(Ok(Err(error)))) => failure = error,
                Ok(Some(Err(ended))) => failure = std::io::Error::other(ended),
            }
        }
    };
    let none = || Err(std::io::ErrorKind::TimedOut.into());
    tokio::time::timeout(patience, first).await.unwrap_or_else(|_| none())
}

/// Options of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Small packets are sent at once.
    pub no_delay: bool,
    /// A silent connection is tested.
    pub keep_alive: bool,
    /// The connection is lost if sent data are not acknowledged within this time; `None`: the
    /// system's default.
    pub lost_after: Option<Duration>,
}

/// Sets the options of a connection.
pub fn tune(stream: &TcpStream, tuning: Tuning) {
    let socket = SockRef::from(stream);
    // A socket without such an option works nevertheless.
    let _ = socket.set_tcp_nodelay(tuning.no_delay);
    let _ = socket.set_keepalive(tuning.keep_alive);
    #[cfg(any(target_os = "android", target_os = "linux"))]
    if tuning.lost_after.is_some() {
        let _ = socket.set_tcp_user_timeout(tuning.lost_after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Duration = Duration::from_millis(10);
    const PATIENCE: Duration = Duration::from_secs(20);

    fn at(address: SocketAddr) -> HostPort {
        HostPort { host: address.ip().to_string(), port: address.port() }
    }

    /// An address that does not answer: its queue of connections is full.
    async fn silent() -> (std::net::TcpListener, Vec<TcpStream>, HostPort) {
        let socket = zebu_transport::listen(([127, 0, 0, 1], 0).into(), 0).unwrap();
        let address = socket.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(Ok(stream)) =
            tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
        {
            queued.push(stream);
        }
        (socket, queued, at(address))
    }

    #[tokio::test]
    async fn another_address_answers_for_one_that_refuses_or_is_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = at(listener.local_addr().unwrap());
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let refuses = at(closed.local_addr().unwrap());
        drop(closed);
        let (_socket, _queued, silent) = silent().await;
        for addresses in [
            vec![good.clone()],
            vec![refuses.clone(), good.clone()],
            vec![silent.clone(), good.clone()],
            vec![silent.clone(), refuses.clone(), good.clone()],
        ] {
            let (stream, answered) = dial(&addresses, PACE, PATIENCE).await.unwrap();
            assert_eq!(at(stream.peer_addr().unwrap()), good, "{addresses:?}");
            assert_eq!(answered, good);
        }
        let error = dial(&[refuses.clone(), refuses.clone()], PACE, PATIENCE).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        // A server that refuses now may listen soon.
        let patience = Duration::from_secs(3_600);
        let error = dial(&[refuses, silent.clone()], PACE, patience).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        let error = dial(&[silent], PACE, PACE).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        assert!(dial(&[], PACE, PATIENCE).await.is_err());
    }

    #[tokio::test]
    async fn sockets_are_tuned_as_configured() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let lost_after = Some(Duration::from_millis(700));
        for (no_delay, keep_alive) in [(true, false), (false, true)] {
            tune(&stream, Tuning { no_delay, keep_alive, lost_after });
            assert_eq!(stream.nodelay().unwrap(), no_delay);
            assert_eq!(SockRef::from(&stream).keepalive().unwrap(), keep_alive);
            #[cfg(target_os = "linux")]
            assert_eq!(SockRef::from(&stream).tcp_user_timeout().unwrap(), lost_after);
        }
    }
}
