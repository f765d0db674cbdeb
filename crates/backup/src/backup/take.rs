//! Makes a backup of a data directory: reads and checks all files, copies new ones, and writes a
//! manifest.

use sha2::{Digest as _, Sha256};
use zebu_store::log::{encode_record, header};
use zebu_store::snapshot::{SnapshotFile, looks_complete};
use zebu_store::{Nothing, PIECE_BYTES};

use super::live::Received;
use super::plan::{self, Seen, SeenLog};
use crate::error::{BackupError, Result};
use crate::manifest::{LogEntry, Manifest, SnapEntry};
use crate::repository::{Repository, hex};
use crate::source::{Directory, LogFile, SnapFile, Source as _};

/// The settings of a new backup.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The description of its source.
    pub source: String,
    /// The current time, in milliseconds since the Unix epoch.
    pub now_ms: i64,
    /// Whether to begin a new history.
    pub anew: bool,
    /// Every point since this time stays restorable. `None`: all points.
    pub horizon_ms: Option<i64>,
}

/// The result of a backup.
#[derive(Clone, Debug)]
pub struct Made {
    /// The new manifest.
    pub manifest: Manifest,
    /// Names of the files that were copied.
    pub copied: Vec<String>,
    /// Their total length.
    pub copied_bytes: u64,
    /// Damaged snapshots, which the backup omits.
    pub left_out: Vec<String>,
}

/// Makes a backup of a data directory.
///
/// # Errors
/// A file cannot be read or written, a log is damaged, or the source does not continue the last
/// backup.
pub fn take(source: &Directory, repository: &Repository, wish: &Wish) -> Result<Made> {
    let (number, last) = begin(repository, wish)?;
    let mut left_out = Vec::new();
    // Snapshots first, so the logs contain every transaction of which a snapshot may contain
    // effects.
    let files = source.snapshots()?;
    let mut snapshots = Vec::new();
    for file in &files {
        let known = |manifest: &Manifest| {
            manifest.snapshots.iter().find(|entry| entry.zxid == file.zxid).cloned()
        };
        match last.as_ref().and_then(known) {
            Some(entry) => snapshots.push(entry),
            None => snapshots.extend(check_snapshot(source, file, wish.now_ms, &mut left_out)?),
        }
    }
    let mut logs = Vec::new();
    for log in source.logs()? {
        let copy = last
            .as_ref()
            .and_then(|manifest| manifest.logs.iter().find(|entry| entry.first == log.first));
        logs.extend(check_log(source, &log, copy)?);
    }
    let seen = Seen { snapshots, logs };
    let (mut snapshots, logs) = agree(last.as_ref(), &seen, wish)?;
    let (mut copied, mut copied_bytes) = (Vec::new(), 0);
    let is_kept =
        |name: &str| last.as_ref().is_some_and(|last| last.files().any(|(kept, _)| kept == name));
    for entry in &mut snapshots {
        if is_kept(&entry.name()) {
            continue;
        }
        let file = files.iter().find(|file| file.zxid == entry.zxid);
        let file = file.ok_or_else(|| BackupError::Foreign(entry.name().into()))?;
        copy_snapshot(source, file, entry, repository)?;
        copied_bytes += entry.bytes;
        copied.push(entry.name());
    }
    for entry in &logs {
        let is_same = |last: &Manifest| last.logs.iter().any(|old| old.sha == entry.sha);
        if last.as_ref().is_some_and(is_same) {
            continue;
        }
        copy_log(source, entry, repository)?;
        copied_bytes += entry.bytes;
        copied.push(entry.name());
    }
    let manifest = publish(repository, number, snapshots, logs, wish)?;
    Ok(Made { manifest, copied, copied_bytes, left_out })
}

/// Makes a backup of a snapshot that a server has sent.
///
/// # Errors
/// A file cannot be written, or the snapshot does not continue the last backup.
pub fn take_received(received: Received, repository: &Repository, wish: &Wish) -> Result<Made> {
    let (number, last) = begin(repository, wish)?;
    let Received { entry, staged, .. } = received;
    let seen = Seen { snapshots: vec![entry.clone()], logs: Vec::new() };
    let (snapshots, logs) = agree(last.as_ref(), &seen, wish)?;
    let (mut copied, mut copied_bytes) = (Vec::new(), 0);
    if snapshots.contains(&entry) {
        copied_bytes = staged.bytes();
        copied.push(entry.name());
        repository.put(staged, &entry.name())?;
    }
    let manifest = publish(repository, number, snapshots, logs, wish)?;
    Ok(Made { manifest, copied, copied_bytes, left_out: Vec::new() })
}

/// The backup that the next one continues.
pub(super) fn last(repository: &Repository, wish: &Wish) -> Result<Option<Manifest>> {
    begin(repository, wish).map(|(_, last)| last)
}

/// The number of the next backup, and the backup that it continues.
fn begin(repository: &Repository, wish: &Wish) -> Result<(u64, Option<Manifest>)> {
    let newest = repository.manifests()?.last().copied();
    let last = match newest.filter(|_| !wish.anew) {
        Some(number) => Some(crate::stored::read(repository, number)?),
        None => None,
    };
    Ok((newest.unwrap_or(0) + 1, last))
}

/// The content of the next backup.
fn agree(
    last: Option<&Manifest>,
    seen: &Seen,
    wish: &Wish,
) -> Result<(Vec<SnapEntry>, Vec<LogEntry>)> {
    let (mut snapshots, mut logs) = plan::merge(last, seen)
        .map_err(|mismatch| BackupError::Mismatch { of: wish.source.clone(), mismatch })?;
    if let Some(horizon_ms) = wish.horizon_ms {
        plan::retain(&mut snapshots, &mut logs, horizon_ms);
    }
    Ok((snapshots, logs))
}

/// Writes the manifest, which completes a backup.
fn publish(
    repository: &Repository,
    number: u64,
    snapshots: Vec<SnapEntry>,
    logs: Vec<LogEntry>,
    wish: &Wish,
) -> Result<Manifest> {
    let (made_ms, source) = (wish.now_ms, wish.source.clone());
    let manifest = Manifest { number, made_ms, source, snapshots, logs };
    if !repository.put_manifest(number, &manifest.encode())? {
        return Err(BackupError::Taken { repository: repository.name(), number });
    }
    Ok(manifest)
}

/// Reads and checks a snapshot. `None` if it was removed, is incomplete or is damaged.
fn check_snapshot(
    source: &Directory,
    file: &SnapFile,
    seen_ms: i64,
    left_out: &mut Vec<String>,
) -> Result<Option<SnapEntry>> {
    let SnapFile { zxid, compression, ref path, bytes } = *file;
    // ZooKeeper writes snapshots under their own names.
    let shape = SnapshotFile { path: path.clone(), zxid, compression, bytes };
    if !looks_complete(source.vfs().as_ref(), &shape) {
        return Ok(None);
    }
    match source.read_snapshot(file, &mut Nothing) {
        Ok(Some(sections)) => {
            let znodes = sections.nodes;
            Ok(Some(SnapEntry { zxid, compression, znodes, seen_ms, bytes, sha: String::new() }))
        }
        Ok(None) => Ok(None),
        Err(error) => {
            left_out.push(format!("{error}"));
            Ok(None)
        }
    }
}

fn copy_snapshot(
    source: &Directory,
    file: &SnapFile,
    entry: &mut SnapEntry,
    repository: &Repository,
) -> Result<()> {
    let Some(mut from) = source.open_file(&file.path)? else {
        return Err(BackupError::Moved { path: file.path.clone(), what: "removed" });
    };
    let mut staged = repository.stage()?;
    staged.copy(&mut from, &file.path)?;
    entry.bytes = staged.bytes();
    entry.sha = repository.put(staged, &entry.name())?;
    Ok(())
}

/// Reads a log up to its last complete record. `None` if it was removed or has no record.
fn check_log(
    source: &Directory,
    log: &LogFile,
    copy: Option<&LogEntry>,
) -> Result<Option<SeenLog>> {
    let mut hash = Sha256::new_with_prefix(header());
    let mut encoded = Vec::new();
    let mut chain_at_copy = None;
    let (mut first_ms, mut last_ms) = (None, 0);
    let mut mark =
        zebu_store::log::sidecar::Mark::start(log.first, log.previous.unwrap_or_default());
    let report = source.read_log(log, &mut |record| {
        encoded.clear();
        encode_record(record.body, &mut encoded);
        hash.update(&encoded);
        mark.advance(record.zxid, record.body);
        if copy.is_some_and(|copy| copy.bytes == mark.end) {
            chain_at_copy = Some(mark.chain);
        }
        last_ms = time_of(record.body);
        first_ms.get_or_insert(last_ms);
        Ok(())
    })?;
    let Some(report) = report else { return Ok(None) };
    if let Some(damage) = report.damage {
        return Err(BackupError::DamagedLog { path: log.path.clone(), damage });
    }
    let Some(first_ms) = first_ms else { return Ok(None) };
    let entry = LogEntry {
        first: log.first,
        previous: log.previous,
        last: mark.last,
        records: mark.records,
        chain: mark.chain,
        first_ms,
        last_ms,
        bytes: mark.end,
        sha: hex(hash),
    };
    Ok(Some(SeenLog { entry, chain_at_copy }))
}

/// Copies the checked part of a log. Later records are for the next backup.
fn copy_log(source: &Directory, entry: &LogEntry, repository: &Repository) -> Result<()> {
    let path = source.log_dir().join(entry.name());
    let log = LogFile { first: entry.first, path, bytes: entry.bytes, previous: entry.previous };
    let mut staged = repository.stage()?;
    // One write for many records costs much less of the processor than one for each.
    let mut gathered = header().to_vec();
    source.read_log(&log, &mut |record| {
        if staged.bytes() + (gathered.len() as u64) < entry.bytes {
            encode_record(record.body, &mut gathered);
            if gathered.len() >= PIECE_BYTES {
                staged.write_all(&gathered)?;
                gathered.clear();
            }
        }
        Ok(())
    })?;
    staged.write_all(&gathered)?;
    if staged.sha() != entry.sha {
        return Err(BackupError::Moved { path: log.path, what: "changed" });
    }
    repository.put(staged, &entry.name())?;
    Ok(())
}

/// The time in a transaction's header.
fn time_of(body: &[u8]) -> i64 {
    let bytes = body.get(20..28).expect("a record is not smaller than its header");
    i64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

/// Removes backups older than `horizon_ms`, except for the newest `keep`, and their files.
///
/// Returns the numbers of removed manifests and files. Removes only files that a removed manifest
/// names, so a backup that another process is making loses nothing.
///
/// # Errors
/// A manifest cannot be read, so the needed files are unknown.
pub fn prune(repository: &Repository, horizon_ms: i64, keep: usize) -> Result<(usize, usize)> {
    let numbers = repository.manifests()?;
    let manifests: Vec<Manifest> = numbers
        .iter()
        .map(|number| crate::stored::read(repository, *number))
        .collect::<Result<_>>()?;
    let old = manifests.len().saturating_sub(keep);
    let (removed, kept): (Vec<_>, Vec<_>) = (manifests.into_iter().enumerate())
        .partition(|(at, manifest)| *at < old && manifest.made_ms < horizon_ms);
    let needed: std::collections::BTreeSet<_> =
        kept.iter().flat_map(|(_, manifest)| manifest.files()).collect();
    let unneeded: std::collections::BTreeSet<_> = removed
        .iter()
        .flat_map(|(_, manifest)| manifest.files())
        .filter(|file| !needed.contains(file))
        .collect();
    for (_, manifest) in &removed {
        repository.remove_manifest(manifest.number)?;
    }
    for (name, sha) in &unneeded {
        repository.remove(name, sha)?;
    }
    Ok((removed.len(), unneeded.len()))
}
