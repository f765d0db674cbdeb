//! Sockets of servers: where they listen and how they dial.

use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use zebu_proto::HostPort;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Listens on an address, or on its port of every address of this machine.
pub async fn listen(at: &HostPort, everywhere: bool) -> std::io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = if everywhere {
        vec![SocketAddr::from(([0_u16; 8], at.port)), SocketAddr::from(([0_u8; 4], at.port))]
    } else {
        lookup_host((at.host.as_str(), at.port)).await?.collect()
    };
    let mut failure = std::io::Error::other("the name has no addresses");
    for address in addresses {
        match bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Dials the addresses in turn until one answers; names are resolved anew each time.
pub async fn dial(addresses: &[HostPort], patience: Duration) -> std::io::Result<TcpStream> {
    let mut failure = std::io::Error::other("there is no address to dial");
    for HostPort { host, port } in addresses {
        let attempt = TcpStream::connect((host.as_str(), *port));
        match tokio::time::timeout(patience, attempt).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = std::io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failure)
}

/// Says whether small packets are sent at once, and whether a silent connection is tested.
pub fn tune(stream: &TcpStream, no_delay: bool, keep_alive: bool) {
    let socket = SockRef::from(stream);
    // A socket that cannot do this works all the same.
    let _ = socket.set_tcp_nodelay(no_delay);
    let _ = socket.set_keepalive(keep_alive);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sockets_are_tuned_as_configured() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        for (no_delay, keep_alive) in [(true, false), (false, true)] {
            tune(&stream, no_delay, keep_alive);
            assert_eq!(stream.nodelay().unwrap(), no_delay);
            assert_eq!(SockRef::from(&stream).keepalive().unwrap(), keep_alive);
        }
    }
}
