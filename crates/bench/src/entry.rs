//! TLS and SASL of a run: the protocol and the identity of its sessions.
//!
//! Sessions with TLS or SASL are opened one by one, and their handshakes are not part of a
//! measurement.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use zebu_client::Sasl;
use zebu_credentials::{CredentialArgs, Dialer, Wire};

use crate::client::Client;
use crate::wire::op;

/// How sessions are opened: with TLS and SASL, or without. The default is neither.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    dialer: Dialer,
    sasl: Option<Sasl>,
    /// The host names in certificates and tickets.
    hosts: Arc<BTreeMap<SocketAddr, String>>,
}

impl Entry {
    /// The settings of the arguments, for servers with these names.
    ///
    /// # Errors
    /// A file or a store cannot be used.
    pub(crate) fn new(
        args: &CredentialArgs,
        hosts: BTreeMap<SocketAddr, String>,
    ) -> anyhow::Result<Self> {
        let credentials = args.load(|remark| eprintln!("note: {remark}"))?;
        let dialer = credentials.dialer()?;
        Ok(Self { dialer, sasl: credentials.sasl, hosts: Arc::new(hosts) })
    }

    /// Whether sessions use neither TLS nor SASL.
    pub(crate) fn is_plain(&self) -> bool {
        !self.dialer.is_secure() && self.sasl.is_none()
    }

    /// Whether sessions use TLS, and SASL.
    pub(crate) fn has(&self) -> (bool, bool) {
        (self.dialer.is_secure(), self.sasl.is_some())
    }

    fn host(&self, server: SocketAddr) -> String {
        self.hosts.get(&server).cloned().unwrap_or_else(|| server.ip().to_string())
    }

    /// A connection, after its TLS handshake if there is one.
    pub(crate) fn connect(&self, server: SocketAddr, patience: Duration) -> anyhow::Result<Wire> {
        let deadline = std::time::Instant::now() + patience;
        let socket = TcpStream::connect_timeout(&server, patience)
            .with_context(|| format!("connect to {server}"))?;
        socket.set_nodelay(true)?;
        Ok(self.dialer.enter(socket, &self.host(server), deadline)?)
    }

    /// Authenticates a new session, if that is configured.
    pub(crate) fn prove(&self, client: &mut Client, server: SocketAddr) -> anyhow::Result<()> {
        let Some(sasl) = &self.sasl else { return Ok(()) };
        let mut exchange = sasl.exchange(&self.host(server))?;
        let mut token = exchange.begin()?;
        loop {
            let (err, body) = client.call(op::SASL, |to| to.buffer(Some(&token)))?;
            if err != 0 {
                bail!("{server} refuses to authenticate this user with SASL: error {err}");
            }
            let Some((length, rest)) = body.split_first_chunk() else {
                bail!("{server} answers SASL without a token");
            };
            let answer = match usize::try_from(i32::from_be_bytes(*length)) {
                Ok(length) if length == rest.len() => Some(rest),
                Ok(_) => bail!("{server} answers SASL with a token of another length"),
                Err(_) => None,
            };
            match exchange.answer(answer)? {
                Some(next) => token = next,
                None => return Ok(()),
            }
        }
    }
}
