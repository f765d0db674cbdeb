//! Transactions for members with damaged logs, over the election port: asking for them, and answering.
//!
//! An answer comes from the records of the logs that are whole, whether this member votes or not. It is bounded in bytes and in
//! time, and so is what an answer may bring.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc::{self, Sender};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, info};
use zebu_jute::Encode as _;
use zebu_proto::ServerId;
use zebu_proto::quorum::{Missing, RepairAnswer, RepairQuestion};
use zebu_state::Answered;

use super::greeting::Halves;
use super::{Handle, Net, election};
use crate::shared::Shared;

/// Members that are answered at the same time; others ask again.
pub(super) const ANSWERED_MAX: usize = 2;

/// Bytes of an answer at which it ends; the member asks for the rest.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Time after which an answer ends; the member asks for the rest.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// What a member that does not read, or sends nothing, is waited for beyond that.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that are sent at once, roughly.
const PIECE_BYTES: usize = 256 << 10;

/// Answers a question, and closes the connection.
///
/// # Errors
/// The other end is gone, or does not read.
pub(super) async fn answer(
    net: &Arc<Net>,
    halves: Halves,
    question: RepairQuestion,
) -> io::Result<()> {
    let RepairQuestion { server, missing } = question;
    if net.members.lock().committed().member(server).is_none() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is no member"));
    }
    let place = net.answering.clone().try_acquire_owned();
    let Ok(place) = place else { return Err(io::ErrorKind::ResourceBusy.into()) };
    let (to, mut pieces) = mpsc::channel(2);
    let shared = net.shared.clone();
    let due = Instant::now() + ANSWER_TIME_MAX;
    tokio::task::spawn_blocking(move || {
        let _place = place;
        read(&shared, &missing, due, &to);
    });
    let mut socket = halves.to;
    let sent = async {
        while let Some(piece) = pieces.recv().await {
            let piece: Vec<u8> = piece;
            socket.write_all(&piece).await?;
        }
        socket.flush().await?;
        socket.shutdown().await
    };
    timeout_at(due + PATIENCE, sent).await.map_err(|_| io::ErrorKind::TimedOut)??;
    info!("server {} was sent transactions that its damaged log lacks", server.0);
    Ok(())
}

/// Reads whole records and hands them over, until somebody is tired of it.
fn read(shared: &Shared, missing: &[Missing], due: Instant, to: &Sender<Vec<u8>>) {
    let (mut piece, mut bytes, mut has_all) = (Vec::new(), 0, true);
    let read = shared.disk.snapshots.logs().whole(missing, &mut |record| {
        RepairAnswer::encode_record(record.body, &mut piece);
        if piece.len() >= PIECE_BYTES {
            bytes += piece.len();
            let now = shared.clock.monotonic();
            shared.ending.wait_for(shared.disk.pause_shipping(now, piece.len() as u64));
            has_all = to.blocking_send(std::mem::take(&mut piece)).is_ok()
                && bytes < ANSWER_BYTES_MAX
                && Instant::now() < due;
        }
        if has_all { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if let Err(failure) = read {
        // What was sent is of use all the same.
        debug!("logs cannot be read for another member: {failure}");
    }
    let end = if has_all { RepairAnswer::End } else { RepairAnswer::More };
    piece.extend(end.to_bytes());
    let _ = to.blocking_send(piece); // the connection may have ended
}

/// Asks a member for transactions, and hands over each that it sends.
///
/// # Errors
/// The member cannot be reached, does not know the question, sends something else than an answer, or more than `bytes_max`.
async fn ask(
    net: &Net,
    server: ServerId,
    missing: Vec<Missing>,
    bytes_max: usize,
    each: &mut (dyn FnMut(&[u8]) + Send),
) -> io::Result<Answered> {
    let question = RepairQuestion::new(net.me().id, missing);
    let halves = election::introduce(net, server, &question.to_bytes()).await?;
    let (mut from, mut received, mut left) = (halves.from, halves.received, bytes_max);
    // The member may wait for a moment until it closes the connection.
    let _to = halves.to;
    loop {
        match next(&mut received, left)? {
            Some(RepairAnswer::Record(body)) => {
                left = left.saturating_sub(body.len());
                each(&body);
            }
            Some(RepairAnswer::End) => return Ok(Answered::Complete),
            Some(RepairAnswer::More) => return Ok(Answered::More),
            None => {
                let read = timeout(ANSWER_TIME_MAX, from.read_buf(&mut received)).await;
                if read.map_err(|_| io::ErrorKind::TimedOut)?? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
}

fn next(received: &mut BytesMut, bytes_max: usize) -> io::Result<Option<RepairAnswer>> {
    RepairAnswer::decode(received, bytes_max)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

impl Handle {
    /// All other members, as far as they are known.
    pub fn others(&self) -> Vec<ServerId> {
        let me = self.net.config.me;
        let committed = self.net.members.lock().committed().clone();
        committed.members().map(|member| member.id).filter(|id| *id != me).collect()
    }

    /// Asks a member for transactions, and hands over each that it sends. Blocks.
    pub fn ask_for_repair(
        &self,
        server: ServerId,
        missing: Vec<Missing>,
        bytes_max: usize,
        each: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Answered {
        let asked = async {
            let answer = ask(&self.net, server, missing, bytes_max, each);
            tokio::select! {
                answer = answer => answer,
                _ = self.net.shared.stopped() => Err(io::ErrorKind::Interrupted.into()),
            }
        };
        self.runtime.block_on(asked).unwrap_or_else(|failure| {
            debug!("server {} does not say which transactions it has: {failure}", server.0);
            Answered::Failed
        })
    }
}
