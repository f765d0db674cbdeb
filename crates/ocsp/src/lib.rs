//! Asks the OCSP responders of authorities about the certificates of a connection, after its
//! handshake.
//!
//! [`zebu_auth::tls::ocsp`] decides which requests to send, and judges the answers. This crate owns
//! the sockets, the deadlines and the limit of requests. No thread waits for a responder, so other
//! connections are not delayed.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use zebu_auth::tls::ocsp::http::{ANSWER_BYTES_MAX, body};
use zebu_auth::tls::ocsp::{Ocsp, OcspError, Question, ResponderFault, Side};

/// Maximum time for one answer.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum time for all requests about one connection: less than the time limit for its
/// authentication.
pub const CHECK_TIME_MAX: Duration = Duration::from_secs(8);
/// Maximum number of simultaneous requests of a process.
const ASKED_MAX: usize = 16;

/// One permit for each request.
static PLACES: Semaphore = Semaphore::const_new(ASKED_MAX);

/// Checks the certificates that the other side has presented, after the handshake has verified them
/// in all other respects. `None`: it has presented none.
///
/// # Errors
/// A certificate is revoked, or no responder or list finds it good.
pub async fn check(
    ocsp: &Ocsp,
    chain: Option<&[CertificateDer<'_>]>,
    side: Side,
) -> Result<(), OcspError> {
    let chain = chain.unwrap_or_default();
    if chain.is_empty() {
        return Ok(());
    }
    let until = tokio::time::Instant::now() + CHECK_TIME_MAX;
    for question in ocsp.questions(chain, Timestamp::now())? {
        let asked = tokio::time::timeout_at(until, ask(&question)).await;
        let answer = asked.unwrap_or(Err(ResponderFault::Late));
        match ocsp.settle(&question, answer.as_deref().map_err(Clone::clone), Timestamp::now()) {
            Err(OcspError::Unclear { .. })
                if ocsp.is_good_by_lists(chain, side, Timestamp::now()) => {}
            settled => settled?,
        }
    }
    Ok(())
}

/// As [`check`], for callers that block.
///
/// # Errors
/// As for [`check`], or a resource of the system is exhausted.
pub fn check_blocking(
    ocsp: &Ocsp,
    chain: Option<&[CertificateDer<'_>]>,
    side: Side,
) -> io::Result<()> {
    // A runtime within a runtime is not permitted, so it has a thread of its own.
    std::thread::scope(|scope| {
        let asking = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let checked = runtime.block_on(check(ocsp, chain, side));
            runtime.shutdown_background();
            checked.map_err(refused)
        };
        let asked =
            std::thread::Builder::new().name("ocsp".to_owned()).spawn_scoped(scope, asking)?;
        asked.join().unwrap_or_else(|_| Err(io::Error::other("the question about it has failed")))
    })
}

/// The error of a connection whose certificate is not accepted.
pub fn refused(error: OcspError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Sends a request to one responder.
async fn ask(question: &Question) -> Result<Vec<u8>, ResponderFault> {
    let place = question.place().map_err(|_| ResponderFault::NoPlace)?;
    let _permit = PLACES.acquire().await.expect("no code closes the semaphore");
    let exchange = async {
        let mut socket = TcpStream::connect(place.address())
            .await
            .map_err(|error| ResponderFault::Unreachable(error.to_string()))?;
        let broken = |error: io::Error| ResponderFault::Broken(error.to_string());
        socket.write_all(&place.request(&question.request())).await.map_err(broken)?;
        let mut bytes = Vec::new();
        loop {
            let room = (ANSWER_BYTES_MAX + 1).saturating_sub(bytes.len());
            let count =
                (&mut socket).take(room as u64).read_buf(&mut bytes).await.map_err(broken)?;
            if let Some(body) = body(&bytes, count == 0)? {
                return Ok(body.to_vec());
            }
        }
    };
    let slow = ResponderFault::Slow(ANSWER_TIME_MAX.as_secs());
    timeout(ANSWER_TIME_MAX, exchange).await.unwrap_or(Err(slow))
}
