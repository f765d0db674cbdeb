//! Credentials: sent on every connection. Their submitter learns the result.

use std::time::Duration;

use bytes::Bytes;
use zebu_proto::reply::ReplyHeader;
use zebu_proto::{ErrorCode, OpCode, Xid};

use super::{Phase, Session, buffer};
use crate::Frame;
use crate::event::{Answer, Ending, Failure, Output, RequestId};

#[derive(Debug)]
pub(super) struct Credential {
    pub(super) scheme: String,
    pub(super) auth: Vec<u8>,
    /// The caller that waits for the result.
    pub(super) asked: Option<Asked>,
}

/// A caller that waits for the result of its credentials. The credentials stay when it stops
/// waiting.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: RequestId,
    pub(super) made: Duration,
    /// Until when it waits without a connection.
    pub(super) until: Duration,
    /// Whether a server may have received them.
    pub(super) is_sent: bool,
}

impl Session {
    /// The callers that wait for results of their credentials.
    pub(super) fn asked(&self) -> impl Iterator<Item = &Asked> {
        self.credentials.iter().filter_map(|credential| credential.asked.as_ref())
    }

    /// Until when callers wait for a connection to send their credentials.
    pub(super) fn asking_until(&self) -> Option<Duration> {
        match self.phase {
            // The answer arrives, or is lost with the connection.
            Phase::Connected(_) => None,
            _ => self.asked().map(|asked| asked.until).min(),
        }
    }

    /// Without a connection, fails callers that waited too long. The credentials stay.
    pub(super) fn give_up_asking(&mut self, now: Duration, out: &mut Vec<Output>) {
        if matches!(self.phase, Phase::Connected(_)) {
            return;
        }
        let timeout = self.options.request_timeout;
        for credential in &mut self.credentials {
            let Some(asked) = credential.asked.take_if(|asked| asked.until <= now) else {
                continue;
            };
            let failure = match timeout {
                Some(timeout) if asked.made + timeout <= now => {
                    Failure::TimedOut { is_sent: asked.is_sent }
                }
                _ if asked.is_sent => Failure::Lost,
                _ => Failure::NoConnection,
            };
            out.push(Output::Done(asked.id, Err(failure)));
        }
    }

    pub(super) fn authenticated(
        &mut self,
        header: &ReplyHeader,
        out: &mut Vec<Output>,
    ) -> Option<()> {
        let Phase::Connected(link) = &mut self.phase else { return None };
        let place = link.credentials.pop_front()?;
        if header.err != ErrorCode::OK {
            self.end(Ending::AuthFailed, out);
            return Some(());
        }
        if let Some(asked) = self.credentials[place].asked.take() {
            let answer = Answer { zxid: header.zxid, err: header.err, body: Bytes::new() };
            out.push(Output::Done(asked.id, Ok(answer)));
        }
        Some(())
    }

    pub(super) fn authenticate(
        &mut self,
        now: Duration,
        id: RequestId,
        scheme: String,
        auth: Vec<u8>,
        out: &mut Vec<Output>,
    ) {
        if let Phase::Over(ending) = self.phase {
            out.push(Output::Done(id, Err(Failure::Over(ending))));
            return;
        }
        let place = self.credentials.len();
        let is_sent = matches!(self.phase, Phase::Connected(_));
        let asked = Asked { id, made: now, until: self.waits_until(now), is_sent };
        let credential = Credential { scheme, auth, asked: Some(asked) };
        if let Phase::Connected(link) = &mut self.phase {
            link.credentials.push_back(place);
            link.send_as(now, &auth_frame(&credential), Xid::AUTH, buffer(out));
        }
        self.credentials.push(credential);
    }
}

pub(super) fn auth_frame(credential: &Credential) -> Frame {
    Frame::new(OpCode::AUTH, |out| {
        out.int(0);
        out.text(&credential.scheme);
        out.buffer(Some(&credential.auth));
    })
}
