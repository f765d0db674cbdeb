//! A backup as a source of logs and snapshots.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use zebu_proto::Zxid;
use zebu_store::log::read::LogRecord;
use zebu_store::log::sidecar::Mark;
use zebu_store::snapshot::decompressed;
use zebu_store::snapshot::read::{Sections, read_snapshot};
use zebu_store::{OsVfs, Recover};

use crate::error::{At as _, BackupError, Result};
use crate::manifest::Manifest;
use crate::repository::{Repository, Sha, is_bucket};
use crate::source::{
    Directory, LogFile, LogReport, RECORD_BYTES_MAX, SnapFile, Source, read_records,
};

/// A manifest with its files.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The repository with the files.
    pub repository: Repository,
    /// The manifest.
    pub manifest: Manifest,
}

impl Stored {
    /// Reads the manifest with this number, or the newest.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn open(repository: Repository, number: Option<u64>) -> Result<Self> {
        let numbers = repository.manifests()?;
        let Some(number) = number.or(numbers.last().copied()) else {
            return Err(BackupError::Empty(repository.name()));
        };
        let manifest = read(&repository, number)?;
        Ok(Self { repository, manifest })
    }

    /// Opens a file. The error names it.
    fn open_file(&self, name: &str, sha: &Sha) -> Result<Box<dyn Read + Send>> {
        self.repository.file(name, sha)
    }
}

/// Opens a data directory, or the newest backup of a repository. `identity`: the keys for an
/// encrypted repository.
///
/// # Errors
/// The directory is neither, or cannot be read.
pub fn source(
    dir: &Path,
    log_dir: Option<&Path>,
    identity: Option<&Path>,
) -> Result<Box<dyn Source>> {
    match Repository::open(dir) {
        Err(error) if is_bucket(dir) => Err(error),
        Ok(mut repository) if log_dir.is_none() => {
            // With several sources, a key may belong to another source.
            repository.unlock(identity.filter(|_| repository.is_encrypted()))?;
            Ok(Box::new(Stored::open(repository, None)?))
        }
        _ => Ok(Box::new(Directory::open(Arc::new(OsVfs), dir, log_dir)?)),
    }
}

/// Reads a manifest.
///
/// # Errors
/// It is missing or damaged.
pub fn read(repository: &Repository, number: u64) -> Result<Manifest> {
    let path = repository.manifest_path(number);
    let text = repository.manifest(number)?;
    let manifest = match Manifest::decode(&text) {
        Ok(manifest) => manifest,
        Err(source) => return Err(BackupError::Manifest { path, source }),
    };
    if manifest.number != number {
        return Err(BackupError::OtherManifest { path, number: manifest.number });
    }
    Ok(manifest)
}

impl Source for Stored {
    fn name(&self) -> String {
        format!("{}, backup {}", self.repository.name(), self.manifest.number)
    }

    fn logs(&self) -> Result<Vec<LogFile>> {
        let file = |entry: &crate::manifest::LogEntry| LogFile {
            first: entry.first,
            path: self.repository.file_path(&entry.name(), &entry.sha),
            bytes: entry.bytes,
            previous: entry.previous,
        };
        Ok(self.manifest.logs.iter().map(file).collect())
    }

    fn snapshots(&self) -> Result<Vec<SnapFile>> {
        let file = |entry: &crate::manifest::SnapEntry| SnapFile {
            zxid: entry.zxid,
            compression: entry.compression,
            path: self.repository.file_path(&entry.name(), &entry.sha),
            bytes: entry.bytes,
        };
        Ok(self.manifest.snapshots.iter().map(file).collect())
    }

    fn read_log(
        &self,
        log: &LogFile,
        each: &mut dyn FnMut(LogRecord<'_>) -> Result<()>,
    ) -> Result<Option<LogReport>> {
        let entry = self.manifest.logs.iter().find(|entry| entry.first == log.first);
        let entry = entry.ok_or_else(|| BackupError::Foreign(log.path.clone()))?;
        // The whole log must exist.
        let mark = Mark {
            first: entry.first,
            previous: entry.previous.unwrap_or(Zxid::ZERO),
            end: entry.bytes,
            last: entry.last,
            records: entry.records,
            chain: entry.chain,
            sealed: true,
        };
        let file = self.open_file(&entry.name(), &entry.sha)?;
        read_records(file, log, Some(mark), each).map(Some)
    }

    fn read_snapshot(&self, file: &SnapFile, state: &mut dyn Recover) -> Result<Option<Sections>> {
        let entry = self.manifest.snapshots.iter().find(|entry| entry.zxid == file.zxid);
        let entry = entry.ok_or_else(|| BackupError::Foreign(file.path.clone()))?;
        let source = self.open_file(&entry.name(), &entry.sha)?;
        let source = decompressed(source, entry.compression);
        let sections = read_snapshot(source, RECORD_BYTES_MAX, true, state).at(&file.path)?;
        Ok(Some(sections))
    }
}
