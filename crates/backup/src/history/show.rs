//! A history as text, one line a change, and as JSON, one object a line.

use std::fmt::Write as _;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};
use zebu_proto::{Acl, SessionId, Zxid};

use super::Item;
use super::addresses::Addresses;
use super::trace::{Cause, Change, Event, Gap, Kind, Origin};
use crate::dates;

/// The most characters of data that are shown by default.
const SHOWN_CHARS_MAX: usize = 60;

/// Shows changes.
pub(super) struct Show<'a> {
    out: &'a mut dyn Write,
    json: bool,
    data: bool,
    addresses: &'a Addresses,
}

impl<'a> Show<'a> {
    pub(super) fn new(
        out: &'a mut dyn Write,
        json: bool,
        data: bool,
        addresses: &'a Addresses,
    ) -> Self {
        Self { out, json, data, addresses }
    }

    pub(super) fn item(&mut self, item: &Item) -> io::Result<()> {
        let line = match (item, self.json) {
            (item, true) => self.json(item).to_string(),
            (Item::Event(event), false) => self.text(event),
            (Item::Gap(gap), false) => gap_text(*gap),
        };
        writeln!(self.out, "{line}")
    }

    /// An item as a JSON object.
    pub(super) fn json(&self, item: &Item) -> Value {
        match item {
            Item::Event(event) => self.event_json(event),
            Item::Gap(Gap { after, before, .. }) => {
                let before = before.map(|before| before.to_string());
                json!({"gap": {"after": after.to_string(), "before": before}})
            }
        }
    }

    fn text(&self, event: &Event) -> String {
        let time = event.time_ms.map_or_else(|| "(time unknown)".to_owned(), dates::utc);
        let path = if event.path.is_empty() { "/" } else { &event.path };
        let zxid = zxid(event).unwrap_or_else(|| "(zxid unknown)".to_owned());
        let mut line = format!("{time} {zxid} {path} {}", change(&event.change));
        let mut add = |text: std::fmt::Arguments<'_>| {
            line.write_fmt(text).expect("memory takes everything");
        };
        match &event.change {
            Change::Created { kind, data, acl } => {
                match kind {
                    Kind::Persistent => {}
                    Kind::Ephemeral(session) => {
                        add(format_args!(", ephemeral of 0x{:x}", session.0))
                    }
                    Kind::Container => add(format_args!(", container")),
                    Kind::Ttl(ttl_ms) => add(format_args!(", TTL {ttl_ms} ms")),
                }
                if *acl != Acl::open() {
                    let when = match event.origin {
                        Origin::Log { .. } => "",
                        Origin::Snapshot => " in the snapshot",
                    };
                    add(format_args!(", ACL{when} {}", acl_text(acl)));
                }
                match data {
                    Some(data) => add(format_args!(", {}", self.data_text(data))),
                    None => add(format_args!(", with data that were overwritten since")),
                }
            }
            Change::DataSet { version, data } => {
                add(format_args!(" to version {version}, {}", self.data_text(data)));
            }
            Change::AclSet { version, acl } => {
                add(format_args!(" to ACL version {version}, {}", acl_text(acl)));
            }
            Change::Deleted(cause) => add(format_args!(", {}", cause_text(*cause))),
            Change::Vanished { after } => add(format_args!(" after {after}")),
        }
        match &event.origin {
            Origin::Log { session, .. } if *session == SessionId::NONE => {
                add(format_args!(" -- by the server"));
            }
            Origin::Log { session, cxid, multi } => {
                add(format_args!(" -- session 0x{:x} cxid {cxid}", session.0));
                if let Some((at, of)) = multi {
                    add(format_args!(", operation {at} of {of}"));
                }
                if let Some(callers) = self.addresses.of(*session) {
                    if !callers.addresses.is_empty() {
                        add(format_args!(", from {}", join(&callers.addresses)));
                    }
                    if !callers.users.is_empty() {
                        add(format_args!(", user {}", join(&callers.users)));
                    }
                }
            }
            Origin::Snapshot if matches!(event.change, Change::Vanished { .. }) => {
                add(format_args!(" -- by a transaction that is missing"));
            }
            Origin::Snapshot => add(format_args!(" -- from a snapshot, session unknown")),
        }
        line
    }

    fn data_text(&self, data: &[u8]) -> String {
        let bytes = data.len();
        if data.is_empty() {
            return "no data".to_owned();
        }
        let text = str::from_utf8(data).ok();
        let shown = match text {
            Some(text) if self.data => text.escape_debug().to_string(),
            Some(text) => text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect(),
            None if self.data => return format!("{bytes} bytes base64 {}", BASE64.encode(data)),
            None => return format!("{bytes} bytes that are no text"),
        };
        let is_cut = !self.data && text.is_some_and(|text| text.chars().count() > SHOWN_CHARS_MAX);
        format!("{bytes} bytes \"{shown}\"{}", if is_cut { "..." } else { "" })
    }

    fn event_json(&self, event: &Event) -> Value {
        let mut all = Map::new();
        let mut put = |key: &str, value: Value| {
            all.insert(key.to_owned(), value);
        };
        put("zxid", zxid(event).into());
        put("time", event.time_ms.map(dates::utc).into());
        put("time_ms", event.time_ms.into());
        put("path", if event.path.is_empty() { "/" } else { &event.path }.into());
        put("change", change(&event.change).into());
        let data = |data: &[u8]| {
            let text = str::from_utf8(data).ok();
            let shown = |text: &str| text.chars().take(SHOWN_CHARS_MAX).collect::<String>();
            match text {
                Some(text) if self.data => json!({"bytes": data.len(), "text": text}),
                Some(text) => json!({"bytes": data.len(), "begin": shown(text)}),
                None if self.data => json!({"bytes": data.len(), "base64": BASE64.encode(data)}),
                None => json!({"bytes": data.len()}),
            }
        };
        match &event.change {
            Change::Created { kind, data: bytes, acl } => {
                let (kind, more) = match kind {
                    Kind::Persistent => ("persistent", Value::Null),
                    Kind::Ephemeral(owner) => ("ephemeral", format!("0x{:x}", owner.0).into()),
                    Kind::Container => ("container", Value::Null),
                    Kind::Ttl(ttl_ms) => ("ttl", (*ttl_ms).into()),
                };
                put("kind", kind.into());
                match kind {
                    "ephemeral" => put("owner", more),
                    "ttl" => put("ttl_ms", more),
                    _ => {}
                }
                put("acl", acl_json(acl));
                put("data", bytes.as_deref().map_or(Value::Null, data));
            }
            Change::DataSet { version, data: bytes } => {
                put("version", (*version).into());
                put("data", data(bytes));
            }
            Change::AclSet { version, acl } => {
                put("version", (*version).into());
                put("acl", acl_json(acl));
            }
            Change::Deleted(cause) => put("cause", cause_text(*cause).into()),
            Change::Vanished { after } => put("after", after.to_string().into()),
        }
        match &event.origin {
            Origin::Log { session, cxid, multi } => {
                put("source", "log".into());
                put("session", format!("0x{:x}", session.0).into());
                put("cxid", (*cxid).into());
                put("multi", multi.map(|(at, of)| json!({"operation": at, "of": of})).into());
                if let Some(callers) = self.addresses.of(*session) {
                    put("addresses", json!(callers.addresses));
                    put("users", json!(callers.users));
                }
            }
            Origin::Snapshot if matches!(event.change, Change::Vanished { .. }) => {
                put("source", Value::Null);
            }
            Origin::Snapshot => put("source", "snapshot".into()),
        }
        Value::Object(all)
    }
}

fn gap_text(gap: Gap) -> String {
    let after = gap.after;
    match gap.before {
        Some(before) if after == Zxid::ZERO => {
            format!("-- the transactions before {before} are in none of the logs")
        }
        Some(before) => {
            format!("-- transactions between {after} and {before} are in none of the logs")
        }
        None => format!("-- the transactions after {after} are in none of the logs"),
    }
}

/// The transaction of a change; `None` if unknown.
fn zxid(event: &Event) -> Option<String> {
    let is_known = !matches!(event.change, Change::Vanished { .. });
    is_known.then(|| event.zxid.to_string())
}

fn change(change: &Change) -> &'static str {
    match change {
        Change::Created { .. } => "created",
        Change::DataSet { .. } => "data set",
        Change::AclSet { .. } => "ACL set",
        Change::Deleted(_) | Change::Vanished { .. } => "deleted",
    }
}

fn cause_text(cause: Cause) -> &'static str {
    match cause {
        Cause::Request => "by a request",
        Cause::SessionEnd => "because its session ended",
        Cause::Reaper => "by the server: an empty container, or a TTL that had passed",
    }
}

fn acl_entry(entry: &Acl) -> String {
    let letters = [(1, 'r'), (2, 'w'), (4, 'c'), (8, 'd'), (16, 'a')];
    let perms = letters.iter().filter(|(bit, _)| entry.perms.0 & bit != 0);
    let perms: String = perms.map(|(_, letter)| *letter).collect();
    format!("{}:{}:{perms}", entry.id.scheme, entry.id.id)
}

fn acl_text(acl: &[Acl]) -> String {
    acl.iter().map(acl_entry).collect::<Vec<_>>().join(",")
}

fn acl_json(acl: &[Acl]) -> Value {
    acl.iter().map(acl_entry).collect::<Vec<_>>().into()
}

fn join(values: &std::collections::BTreeSet<String>) -> String {
    values.iter().map(String::as_str).collect::<Vec<_>>().join(" and ")
}
