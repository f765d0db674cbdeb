//! The messages of the protocol: one JSON object a line.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Judged;

/// Maximum length of a line from the program, in bytes.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;
/// The version of the protocol.
const VERSION: u64 = 1;
/// Maximum number of ids of one client.
const IDS_MAX: usize = 100;
/// Maximum length of an id, in bytes.
pub(super) const ID_BYTES_MAX: usize = 1024;
/// Maximum number of characters of a reason in the log.
const REASON_CHARS_MAX: usize = 200;

/// A request.
pub(super) struct Request<'r> {
    pub(super) id: u64,
    pub(super) scheme: &'r str,
    pub(super) address: IpAddr,
    pub(super) data: Option<&'r [u8]>,
}

impl Request<'_> {
    pub(super) fn line(&self) -> Vec<u8> {
        let object = json!({
            "version": VERSION,
            "id": self.id,
            "scheme": self.scheme,
            "address": self.address.to_string(),
            "data": self.data.map(|data| STANDARD.encode(data)),
        });
        let mut line = object.to_string().into_bytes();
        line.push(b'\n');
        line
    }
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) id: u64,
    pub(super) verdict: Judged,
    pub(super) reason: Option<String>,
    pub(super) cache_time: Option<Duration>,
}

impl Reply {
    /// Parses a line without its line end. Unknown fields are reserved for later versions.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        let object: Value =
            serde_json::from_slice(line).map_err(|_| "its answer is no JSON object".to_owned())?;
        let number = |name: &str| object.get(name).and_then(Value::as_u64);
        if number("version") != Some(VERSION) {
            return Err(format!("its answer is not of version {VERSION}"));
        }
        let id = number("id").ok_or("its answer has no id")?;
        let verdict = match object.get("result").and_then(Value::as_str) {
            Some("refused") => Judged::Refused,
            Some("unknown") => Judged::Unknown,
            Some("ok") => {
                let ids = object.get("ids").and_then(Value::as_array);
                let ids = ids.filter(|ids| (1..=IDS_MAX).contains(&ids.len()));
                let ids = ids.ok_or_else(|| format!("\"ids\" is not 1 to {IDS_MAX} texts"))?;
                let ids: Option<Vec<String>> = ids.iter().map(known_id).collect();
                Judged::Ids(
                    ids.ok_or("it gives an id that is empty, too long, or has control characters")?,
                )
            }
            _ => return Err("its \"result\" is not ok, refused or unknown".to_owned()),
        };
        let reason = object.get("reason").and_then(Value::as_str);
        let reason = reason.map(|text| text.chars().take(REASON_CHARS_MAX).collect());
        Ok(Self { id, verdict, reason, cache_time: number("cache_ms").map(Duration::from_millis) })
    }
}

fn known_id(value: &Value) -> Option<String> {
    value.as_str().filter(|id| super::is_id(id)).map(str::to_owned)
}
