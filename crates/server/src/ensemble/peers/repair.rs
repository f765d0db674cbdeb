//! Transactions for members with damaged logs, over the election port: requests and answers.
//!
//! An answer consists of the intact records of this member's logs, whether the member votes or not.
//! Its bytes and its time are limited, and so is the answer that a requesting member accepts.

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
use crate::shared::{Clock, Disk, Ending};

/// Members that get answers at the same time. Others must ask again.
pub(super) const ANSWERED_MAX: usize = 2;

/// Bytes after which an answer ends. The other member asks for the rest.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Time after which an answer ends. The other member asks for the rest.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Additional time for a member that does not read, or sends nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes sent at once, approximately.
const PIECE_BYTES: usize = 256 << 10;

/// Answers a request, and closes the connection.
///
/// # Errors
/// The other end has disconnected, or does not read.
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
        read((&shared.disk, &shared.ending, shared.clock), &missing, due, &to);
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

/// Reads intact records and passes them on, until the answer is too long, takes too long, or the
/// connection has ended.
fn read(
    (disk, ending, clock): (&Disk, &Ending, Clock),
    missing: &[Missing],
    due: Instant,
    to: &Sender<Vec<u8>>,
) {
    let (mut piece, mut bytes, mut has_all) = (Vec::new(), 0, true);
    let read = disk.snapshots.logs().whole(missing, &mut |record| {
        RepairAnswer::encode_record(record.body, &mut piece);
        if piece.len() >= PIECE_BYTES {
            bytes += piece.len();
            let now = clock.monotonic();
            ending.wait_for(disk.pause_shipping(now, piece.len() as u64));
            has_all = to.blocking_send(std::mem::take(&mut piece)).is_ok()
                && bytes < ANSWER_BYTES_MAX
                && Instant::now() < due;
        }
        if has_all { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if let Err(failure) = read {
        // The records sent so far are useful nevertheless.
        debug!("logs cannot be read for another member: {failure}");
    }
    let end = if has_all { RepairAnswer::End } else { RepairAnswer::More };
    piece.extend(end.to_bytes());
    let _ = to.blocking_send(piece); // the connection may have ended
}

/// Asks a member for transactions, and passes each of them to `each`.
///
/// # Errors
/// The member cannot be reached, does not know this request, sends no valid answer, or sends more
/// than `bytes_max`.
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
    // The member may wait a moment for this end to close the connection.
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
    /// All other members of the committed configuration that this server knows.
    pub fn others(&self) -> Vec<ServerId> {
        let me = self.net.config.me;
        let committed = self.net.members.lock().committed().clone();
        committed.members().map(|member| member.id).filter(|id| *id != me).collect()
    }

    /// Asks a member for transactions, and passes each of them to `each`. Blocks.
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
                _ = self.net.shared.ending.stopped() => Err(io::ErrorKind::Interrupted.into()),
            }
        };
        self.runtime.block_on(asked).unwrap_or_else(|failure| {
            debug!("server {} does not say which transactions it has: {failure}", server.0);
            Answered::Failed
        })
    }
}
