//! Answers four-letter words: the driver of [`crate::four_letter`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zebu_transport::Stream;

use crate::counting::server_facts::ServerFactsView;
use crate::four_letter::{Answer, Effect, Received, Whitelist, Word};
use crate::shared::Shared;

/// Maximum time in which a client must read an answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// The request in the first bytes of a connection.
#[derive(Clone, Copy, Debug)]
pub enum Question {
    /// Invalid bytes: close the connection.
    Interrupt,
    /// A word, with its argument if it has one.
    Word(Word, i64),
}

/// Whether the request is complete.
#[derive(Clone, Copy, Debug)]
pub enum Parsed {
    /// The request is complete.
    Whole(Question),
    /// The argument has not arrived yet.
    Partial,
}

impl Question {
    /// The request in a connection's first four bytes and `rest`, if it is one.
    ///
    /// A forbidden word is refused at once, without waiting for its argument.
    pub fn parse(first: [u8; 4], rest: &[u8], whitelist: &Whitelist) -> Option<Parsed> {
        match Received::from_bytes(first)? {
            Received::TelnetInterrupt => Some(Parsed::Whole(Self::Interrupt)),
            Received::Word(word) if word.argument_bytes() == 0 || !whitelist.allows(word) => {
                Some(Parsed::Whole(Self::Word(word, 0)))
            }
            Received::Word(word) => Some(match rest.first_chunk::<8>() {
                Some(argument) => Parsed::Whole(Self::Word(word, i64::from_be_bytes(*argument))),
                None => Parsed::Partial,
            }),
        }
    }
}

/// Sends the answer in pieces.
pub async fn answer(shared: &Arc<Shared>, stream: &mut Stream, question: Question) {
    let Question::Word(word, argument) = question else { return };
    let serving = shared.serving().is_some();
    let (mut answer, effect) = Answer::begin(word, argument, &shared.clients.whitelist, serving);
    match effect {
        Effect::None => {}
        Effect::ResetConnections => {
            shared.reset_connections();
        }
        Effect::ResetServer => {
            shared.reset_stats();
        }
        Effect::SetTraceMask(mask) => shared.clients.trace_mask.store(mask, Ordering::Relaxed),
    }
    if word == Word::Dump {
        shared.counting.session_list.renew(|| shared.inbox().poke()).await;
    }
    let facts = ServerFactsView(shared.clone());
    let mut text = String::new();
    let send = async {
        loop {
            text.clear();
            if !answer.next(&facts, &mut text) {
                break;
            }
            let mut left = text.as_bytes();
            while !left.is_empty() {
                match stream.try_write(left) {
                    Ok(sent) => left = &left[sent..],
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        if stream.socket().writable().await.is_err() {
                            return;
                        }
                    }
                    Err(_) => return,
                }
            }
            // An answer can be long and its reader fast, so other tasks get their turn in between.
            tokio::task::yield_now().await;
        }
        stream.finish();
        while stream.flush().is_ok() && stream.has_unsent() {
            if stream.socket().writable().await.is_err() {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(ANSWER_TIME, send).await;
}
