//! Gets the files of a remote server: `GET /backup/files` of its HTTP server, which only Zebu has.
//!
//! Files that the last backup does not contain are received into a temporary directory. Then the
//! backup is made as from any other data directory, with the same checks.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use serde_json::Value;
use tempfile::TempDir;
use zebu_credentials::Dialer;
use zebu_store::{OsVfs, names};

use super::live::{self, Address, ServerError};
use crate::error::{At as _, BackupError, Result};
use crate::manifest::Manifest;
use crate::source::Directory;

/// The path of the list. The files are below it.
const FILES: &str = "/backup/files";
/// The longest accepted list.
const LIST_BYTES_MAX: usize = 64 << 20;

/// A server's files in a temporary directory.
#[derive(Debug)]
pub struct Shipped {
    /// The received files.
    pub source: Directory,
    _folder: TempDir,
}

/// Receives the files that the last backup lacks. `None`: the server sends only snapshots.
///
/// # Errors
/// The server does not answer, refuses, or sends something else; or the files cannot be written.
pub fn ship(
    address: &Address,
    dialer: &Dialer,
    authorization: Option<&HeaderValue>,
    last: Option<&Manifest>,
) -> Result<Option<Shipped>> {
    let failed = |source| BackupError::Server { address: address.to_string(), source };
    let runtime = live::runtime().map_err(failed)?;
    let ask = |path: String| {
        let authorization = authorization.cloned();
        async move { live::ask(address, dialer, authorization, &path).await }
    };
    let Some(listed) = runtime.block_on(list(&ask)).map_err(failed)? else { return Ok(None) };
    let folder = tempfile::tempdir().at(&std::env::temp_dir())?;
    let dir = folder.path().join(names::VERSION_DIR);
    std::fs::create_dir(&dir).at(&dir)?;
    for name in wanted(&listed, last) {
        let path = dir.join(&name);
        let mut file = File::create(&path).at(&path)?;
        let received = runtime.block_on(async {
            let mut answer = ask(format!("{FILES}/{name}")).await?;
            match answer.head.status {
                StatusCode::OK => {}
                // The file was purged after it was listed.
                StatusCode::NOT_FOUND => return Ok(false),
                _ => return Err(answer.refused().await),
            }
            while let Some(data) = answer.next().await? {
                let written = file.write_all(&data).at(&path);
                written.map_err(|error| ServerError::Kept(Box::new(error)))?;
            }
            Ok(true)
        });
        if !received.map_err(failed)? {
            std::fs::remove_file(&path).at(&path)?;
        }
    }
    let source = Directory::open(Arc::new(OsVfs), folder.path(), None)?;
    Ok(Some(Shipped { source, _folder: folder }))
}

/// The names and lengths of a server's files; `None` if the server does not know this page.
async fn list<A>(ask: &impl Fn(String) -> A) -> Result<Option<Vec<(String, u64)>>, ServerError>
where
    A: Future<Output = Result<live::Answer, ServerError>>,
{
    let mut answer = ask(FILES.to_owned()).await?;
    match answer.head.status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(None),
        _ => return Err(answer.refused().await),
    }
    let mut text = Vec::new();
    while let Some(data) = answer.next().await? {
        text.extend_from_slice(&data);
        if text.len() > LIST_BYTES_MAX {
            return Err(ServerError::List);
        }
    }
    let json: Value = serde_json::from_slice(&text).map_err(|_| ServerError::List)?;
    let files = json["files"].as_array().ok_or(ServerError::List)?;
    let file = |file: &Value| Some((file["name"].as_str()?.to_owned(), file["bytes"].as_u64()?));
    let files: Option<Vec<_>> = files.iter().map(file).collect();
    // The name becomes part of a path here.
    let files = files.filter(|files| files.iter().all(|(name, _)| names::is_data(name)));
    files.ok_or(ServerError::List).map(Some)
}

/// The files that the last backup lacks, and always the newest log. A sidecar is requested before
/// its log, so the log contains everything that the sidecar describes.
fn wanted(listed: &[(String, u64)], last: Option<&Manifest>) -> Vec<String> {
    let newest = listed.iter().filter_map(|(name, _)| names::parse_log(name)).max();
    let is_kept = |name: &str, bytes: u64| {
        let Some(last) = last else { return false };
        match (names::parse_log(name), names::parse_snapshot(name)) {
            (Some(first), _) => {
                let mut logs = last.logs.iter();
                Some(first) != newest && logs.any(|log| (log.first, log.bytes) == (first, bytes))
            }
            (_, Some((zxid, _))) => last.snapshots.iter().any(|snapshot| snapshot.zxid == zxid),
            _ => true,
        }
    };
    let mut found = Vec::new();
    for (name, bytes) in listed {
        if names::parse_sidecar(name).is_some() || is_kept(name, *bytes) {
            continue;
        }
        if let Some(sidecar) = names::parse_log(name).map(names::sidecar) {
            found.extend(
                listed.iter().map(|(name, _)| name).find(|name| **name == sidecar).cloned(),
            );
        }
        found.push(name.clone());
    }
    found
}

#[cfg(test)]
mod tests {
    use zebu_proto::Zxid;

    use super::*;
    use crate::manifest::LogEntry;

    #[test]
    fn what_is_new_is_wanted_and_the_newest_log_with_its_sidecar() {
        let listed: Vec<(String, u64)> = [
            ("durable.1", 8192),
            ("durable.9", 8192),
            ("log.1", 700),
            ("log.9", 300),
            ("snapshot.0", 50),
            ("snapshot.8", 60),
        ]
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .into();
        let everything = ["durable.1", "log.1", "durable.9", "log.9", "snapshot.0", "snapshot.8"];
        assert_eq!(wanted(&listed, None), everything);
        let log = |first: i64, bytes: u64| LogEntry {
            first: Zxid(first),
            previous: None,
            last: Zxid(first),
            records: 1,
            chain: 0,
            first_ms: 0,
            last_ms: 0,
            bytes,
            sha: String::new(),
        };
        let last = |logs: Vec<LogEntry>| Manifest {
            number: 1,
            made_ms: 0,
            source: String::new(),
            snapshots: Vec::new(),
            logs,
        };
        let has = last(vec![log(1, 700), log(9, 300)]);
        assert_eq!(wanted(&listed, Some(&has)), ["durable.9", "log.9", "snapshot.0", "snapshot.8"]);
        let has = last(vec![log(1, 699)]);
        assert_eq!(wanted(&listed, Some(&has)), everything);
    }
}
