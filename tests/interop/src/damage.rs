//! Damage in the files of stopped servers.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use zebu_testkit::Random;

/// The unit that a disk writes.
pub const SECTOR: u64 = 512;

/// The positions of the two slots of a sidecar, and of the durable end in each.
const SLOTS: [usize; 2] = [0, 4096];
const END: usize = 24;

/// The content of a damaged sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Zeros.
    Zeros,
    /// Any bytes.
    Noise,
    /// The bytes of another sector of this file.
    Elsewhere,
    /// One bit is inverted.
    Bit,
}

impl Damage {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Zeros, Self::Noise, Self::Elsewhere, Self::Bit];

    /// Damages a sector of a file that begins in this range. The file keeps its length.
    ///
    /// # Errors
    /// The range is empty, or the file cannot be changed.
    pub fn hit(self, path: &Path, within: Range<u64>, random: &mut Random) -> Result<()> {
        let file = File::options().read(true).write(true).open(path)?;
        let length = file.metadata()?.len();
        let within = within.start..within.end.min(length);
        ensure!(!within.is_empty(), "{}: nothing to damage in {within:?}", path.display());
        let sector = |at: u64| at / SECTOR * SECTOR;
        let at = sector(random.between(within.start, within.end - 1));
        let mut bytes = vec![0; (length - at).min(SECTOR) as usize];
        match self {
            Self::Zeros => {}
            Self::Noise => bytes = random.bytes(bytes.len()),
            Self::Elsewhere => {
                let most = length.saturating_sub(bytes.len() as u64);
                file.read_exact_at(&mut bytes, sector(random.between(0, most)))?;
            }
            Self::Bit => {
                file.read_exact_at(&mut bytes, at)?;
                let byte = random.index(bytes.len());
                bytes[byte] ^= 1 << random.below(8);
            }
        }
        Ok(file.write_all_at(&bytes, at)?)
    }
}

/// The logs or snapshots in a directory, oldest first. `prefix`: the name without the zxid.
///
/// # Errors
/// The directory cannot be read.
pub fn files(history: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(history)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let zxid = name.strip_prefix(prefix).and_then(|hex| i64::from_str_radix(hex, 16).ok());
        found.extend(zxid.map(|zxid| (zxid, path)));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The length of the durable part of a log, as its sidecar has it.
///
/// # Errors
/// It has no sidecar.
pub fn durable(log: &Path) -> Result<u64> {
    let name = log.file_name().and_then(|name| name.to_str()).context("a name")?;
    let sidecar = fs::read(log.with_file_name(name.replacen("log.", "durable.", 1)))?;
    let end = |slot: usize| {
        let bytes = sidecar.get(slot + END..slot + END + 8)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    };
    Ok(SLOTS.into_iter().filter_map(end).max().unwrap_or_default())
}
