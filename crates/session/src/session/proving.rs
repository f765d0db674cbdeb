//! The SASL exchange between the handshake and all other requests.
//!
//! The caller makes the tokens. Source: `ZooKeeperSaslClient`.

use std::time::Duration;

use bytes::{Buf as _, Bytes};
use zebu_jute::{Decode, Decoder};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::{ErrorCode, OpCode};

use super::{Phase, REPLY_HEADER_BYTES, Session, Stage, buffer};
use crate::Frame;
use crate::event::{Attempt, Challenge, Ending, Output, Proof};
use crate::link::{Awaited, Link};

impl Session {
    /// Starts SASL on an established connection.
    pub(super) fn prove(&mut self, now: Duration, link: Box<Link>, out: &mut Vec<Output>) {
        let (attempt, server) = (link.attempt, link.server);
        // As long as a server may be silent: a ticket server may have to be asked.
        let until = now + self.read_timeout();
        let stage = Stage::Proving { link, is_asked: true };
        self.phase = Phase::Connecting { attempt, server, until, stage };
        out.push(Output::Prove(attempt, Challenge::First));
    }

    /// Handles a frame during SASL. `None` if it is invalid.
    pub(super) fn challenged(&mut self, mut frame: Bytes, out: &mut Vec<Output>) -> Option<()> {
        let Phase::Connecting { attempt, stage: Stage::Proving { link, is_asked }, .. } =
            &mut self.phase
        else {
            return None;
        };
        let header = ReplyHeader::from_bytes(&frame).ok()?;
        if *is_asked {
            // The server sent a frame out of turn.
            return None;
        }
        let Awaited::Proof = link.answered(header.xid)? else { return None };
        frame.advance(REPLY_HEADER_BYTES);
        match header.err {
            ErrorCode::OK => {
                let token = Decoder::new(&frame).buffer().ok()?;
                let token = token.map(|token| frame.slice_ref(token));
                *is_asked = true;
                out.push(Output::Prove(*attempt, Challenge::Token(token)));
            }
            ErrorCode::AUTH_FAILED | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => {
                self.end(Ending::AuthFailed, out);
            }
            _ => return None,
        }
        Some(())
    }

    /// Handles the caller's reply to a challenge.
    pub(super) fn proof(
        &mut self,
        now: Duration,
        from: Attempt,
        proof: Proof,
        out: &mut Vec<Output>,
    ) {
        let Phase::Connecting { attempt, stage, .. } = &mut self.phase else { return };
        let Stage::Proving { link, is_asked: is_asked @ true } = stage else { return };
        if *attempt != from {
            return;
        }
        *is_asked = false;
        match proof {
            Proof::Token(token) => {
                let frame = Frame::new(OpCode::SASL, |out| out.buffer(Some(&token)));
                link.send(now, now, &frame, Awaited::Proof, buffer(out));
                self.xid = link.xid();
            }
            Proof::Done => {
                let Stage::Proving { link, .. } = std::mem::replace(stage, Stage::Dialing) else {
                    unreachable!("it was matched above")
                };
                self.establish(now, link, out);
            }
            Proof::Failed => self.end(Ending::AuthFailed, out),
        }
    }
}
