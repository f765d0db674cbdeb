//! Removes from answers what differs between two runs: times, session ids, and the order of sets.

use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use regex::{Captures, Regex};
use zebu_testkit::connection::Reply;
use zebu_testkit::wire::{Reader, Writer, op};

/// Milliseconds since 1970.
///
/// # Panics
/// The clock is before 1970.
pub fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_millis()).expect("before the year 292,000,000")
}

/// Replaces every 8 bytes of `payload` that are a time within `window`, aligned or not, by `shown`.
///
/// A session id contains the lower bytes of the server's start time. Together with two zero bytes
/// before it, it looks like that time. So ids are replaced before times, and `window` begins when
/// the servers run.
///
/// Returns the new payload and the number of times found.
pub fn blank_times(payload: &[u8], window: &RangeInclusive<i64>, shown: i64) -> (Vec<u8>, usize) {
    let mut out = payload.to_vec();
    let mut found = 0;
    let mut at = 0;
    while let Some(bytes) = payload.get(at..at + 8) {
        let value = i64::from_be_bytes(bytes.try_into().expect("8 bytes"));
        if window.contains(&value) {
            out[at..at + 8].copy_from_slice(&shown.to_be_bytes());
            found += 1;
            at += 8;
        } else {
            at += 1;
        }
    }
    (out, found)
}

/// Replaces each occurrence of a byte string by another one of the same length.
///
/// # Panics
/// The lengths differ.
pub fn replace(payload: &mut [u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    if from.is_empty() || payload.len() < from.len() {
        return;
    }
    let mut at = 0;
    while at + from.len() <= payload.len() {
        if payload[at..].starts_with(from) {
            payload[at..at + from.len()].copy_from_slice(to);
            at += from.len();
        } else {
            at += 1;
        }
    }
}

/// The answer to `opcode` with its unordered parts sorted: children, ephemerals, credentials.
///
/// An answer that cannot be parsed stays unchanged, so that the comparison reports it.
pub fn sort_sets(opcode: i32, payload: &[u8]) -> Vec<u8> {
    try_sort_sets(opcode, payload).ok().flatten().unwrap_or_else(|| payload.to_vec())
}

fn try_sort_sets(opcode: i32, payload: &[u8]) -> Result<Option<Vec<u8>>> {
    let reply = Reply::parse(payload)?;
    // A multiRead that fails half-way also has a body.
    if reply.xid == -1 || reply.err != 0 && (opcode != op::MULTI_READ || reply.body.is_empty()) {
        return Ok(None);
    }
    let mut reader = Reader::new(&reply.body);
    let out = Writer::new().int(reply.xid).long(reply.zxid).int(reply.err);
    let out = match opcode {
        op::GET_CHILDREN | op::GET_CHILDREN2 | op::GET_EPHEMERALS => {
            let out = sorted_names(&mut reader, out)?;
            out.raw(reader.rest())
        }
        op::WHO_AM_I => {
            let mut infos = reader.vector(|r| Ok((r.optional_string()?, r.optional_string()?)))?;
            infos.sort();
            let out = out.int(i32::try_from(infos.len())?);
            let out = infos.iter().fold(out, |out, (scheme, user)| {
                out.optional_string(scheme.as_deref()).optional_string(user.as_deref())
            });
            out.raw(reader.rest())
        }
        op::MULTI_READ => {
            let mut out = out;
            loop {
                let (kind, done, err) = (reader.int()?, reader.bool()?, reader.int()?);
                out = out.int(kind).bool(done).int(err);
                match (done, kind) {
                    (true, _) => break out.raw(reader.rest()),
                    (false, op::GET_DATA) => {
                        out = out.optional_buffer(reader.optional_buffer()?);
                        let before = reader.rest();
                        reader.stat()?;
                        out = out.raw(&before[..before.len() - reader.rest().len()]);
                    }
                    (false, op::GET_CHILDREN) => out = sorted_names(&mut reader, out)?,
                    (false, _) => out = out.int(reader.int()?),
                }
            }
        }
        _ => return Ok(None),
    };
    Ok(Some(out.done()))
}

fn sorted_names(reader: &mut Reader<'_>, out: Writer) -> Result<Writer> {
    let mut names = reader.vector(Reader::optional_string)?;
    names.sort();
    let out = out.int(i32::try_from(names.len())?);
    Ok(names.iter().fold(out, |out, name| out.optional_string(name.as_deref())))
}

/// A transcript without dates, session ids, durations and this machine's ports.
///
/// Session ids are numbered in the order of appearance. The beginning of 1970 stays: it is the time
/// of znodes that no client created.
///
/// # Panics
/// Never: the patterns are valid.
pub fn text(transcript: &str) -> String {
    let pattern = |text: &str| Regex::new(text).expect("a pattern");
    let day = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [0-9]{2} [0-9:]{8} [A-Z]+ ";
    let text = pattern(&format!("{day}20[0-9]{{2}}")).replace_all(transcript, "DATE");
    let text = pattern("127\\.0\\.0\\.1:[0-9]+").replace_all(&text, "SERVER");
    let text = pattern("\\b1[6-9][0-9]{11}\\b").replace_all(&text, "MILLISECONDS");
    let mut sessions: Vec<String> = Vec::new();
    let id = pattern("(?:0x1[0-9a-f]{14}|\\b[0-9]{17,18})\\b");
    let text = id.replace_all(&text, |found: &Captures<'_>| {
        let id = found[0].to_owned();
        let known = sessions.iter().position(|known| *known == id);
        let number = known.unwrap_or_else(|| {
            sessions.push(id);
            sessions.len() - 1
        });
        format!("SESSION-{number}")
    });
    text.into_owned()
}

/// Whether a line of `mntr` with this key exists only in Zebu, with a row in COMPAT.md. The counts
/// of operations belong to a future version of the original. The original reports slow fsyncs in
/// JMX only, and has no limit on what a session owns. It does not count failed authentications or
/// refused servers, has no schemes that ask a program, and never doubts a tree.
pub fn is_only_ours(key: &str) -> bool {
    key.starts_with("zk_op_count_")
        || key.starts_with("zk_external_auth_")
        || matches!(
            key,
            "zk_audit_events_lost"
                | "zk_auth_attempts_limited"
                | "zk_auth_failures"
                | "zk_ephemeral_node_limit_violation"
                | "zk_fsync_threshold_exceed_count"
                | "zk_identity_connections_rejected"
                | "zk_peer_connections_refused"
                | "zk_scrub_damage_count"
                | "zk_tree_doubts_count"
                | "zk_unauthenticated_connections_expired"
        )
}

#[test]
fn transcripts_lose_what_differs_from_run_to_run() {
    let transcript = "ctime = Sat Nov 21 15:02:31 UTC 2026\nmtime = Thu Jan 01 00:00:00 UTC 1970\n\
                      owner 0x100001ec8930000 at 127.0.0.1:2181\nowner 0x100001ec8930001";
    assert_eq!(
        text(transcript),
        "ctime = DATE\nmtime = Thu Jan 01 00:00:00 UTC 1970\n\
         owner SESSION-0 at SERVER\nowner SESSION-1"
    );
}

#[test]
fn times_are_blanked() {
    let payload = Writer::new().int(7).long(1000).long(1001).long(5).done();
    let expected = Writer::new().int(7).long(1 << 40).long(1 << 40).long(5).done();
    assert_eq!(blank_times(&payload, &(999..=1002), 1 << 40), (expected, 2));
}

#[test]
fn session_ids_are_no_times() {
    // An id of a server that started at that time, after a number that is 0, as in a stat.
    let started = now_ms();
    let id = 1 << 56 | (started & 0xff_ffff_ffff) << 16;
    let payload = Writer::new().int(0).long(id).int(0).done();
    let later = started + 1..=started + 60_000;
    assert_eq!(blank_times(&payload, &later, 1), (payload.clone(), 0));
    // A time after the server's start is not an id.
    let mut times = Writer::new().long(started + 1).int(0).done();
    let before = times.clone();
    replace(&mut times, &id.to_be_bytes(), &[0xff; 8]);
    assert_eq!(times, before);
}

#[test]
fn children_are_sorted() {
    let payload = Writer::new().int(1).long(2).int(0).strings(&["b", "a"]).done();
    let sorted = Writer::new().int(1).long(2).int(0).strings(&["a", "b"]).done();
    assert_eq!(sort_sets(op::GET_CHILDREN, &payload), sorted);
    assert_eq!(sort_sets(op::GET_DATA, &payload), payload);
}
