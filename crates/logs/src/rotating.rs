//! An append-only file that is replaced by a new one when it is large or old.
//!
//! `name` is the current file and `name.1` the newest of the older ones. The number of files is
//! limited. The names are those of log4j's and logback's rolling files in the original's
//! configuration.
//!
//! If a file cannot be replaced, writing continues in it, so that no line is lost. If the file is
//! moved away or removed by another program, it is created again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Interval of the checks whether the file still exists under its name.
pub(crate) const LOOK_EVERY_MS: i64 = 1_000;

/// When a file is replaced, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Size in bytes above which a file is replaced; `None`: no limit.
    pub bytes_max: Option<u64>,
    /// Maximum number of files, including the current one; at least 1.
    pub files_max: u32,
    /// The period of time that one file covers.
    pub every: Period,
}

/// The period of time that one file covers, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Period {
    /// Unlimited.
    #[default]
    Ever,
    /// One hour.
    Hour,
    /// One day.
    Day,
}

impl Period {
    /// The number of the period that contains a time.
    pub(crate) fn of(self, wall_ms: i64) -> i64 {
        match self {
            Self::Ever => 0,
            Self::Hour => wall_ms.div_euclid(3_600_000),
            Self::Day => wall_ms.div_euclid(86_400_000),
        }
    }
}

/// An append-only file that is replaced by a new one when it is large or old.
#[derive(Debug)]
pub struct RotatingFile {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    bytes: u64,
    period: i64,
    looked_ms: i64,
    trouble: Option<io::Error>,
}

impl RotatingFile {
    /// Opens a file and keeps its content. `now_ms`: the wall clock's time.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path, rotation: Rotation, now_ms: i64) -> io::Result<Self> {
        let file = open(path)?;
        let metadata = file.metadata()?;
        let written_ms = metadata.modified().ok().and_then(|at| {
            let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
            i64::try_from(since.as_millis()).ok()
        });
        let bytes = metadata.len();
        let last_ms = written_ms.filter(|_| bytes > 0).unwrap_or(now_ms);
        let period = rotation.every.of(last_ms);
        Ok(Self {
            path: path.to_owned(),
            rotation,
            file,
            bytes,
            period,
            looked_ms: now_ms,
            trouble: None,
        })
    }

    /// The path of the current file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines at this time of the wall clock.
    ///
    /// # Errors
    /// The lines were not written, or only some of them.
    pub fn write(&mut self, lines: &[u8], now_ms: i64) -> io::Result<()> {
        if now_ms < self.looked_ms || now_ms >= self.looked_ms + LOOK_EVERY_MS {
            self.looked_ms = now_ms;
            if !self.path.exists() {
                self.trouble = self.begin(now_ms).err();
            }
        }
        if self.is_full(lines.len() as u64, now_ms) {
            self.trouble = self.rotate(now_ms).err();
        }
        self.file.write_all(lines)?;
        self.bytes += lines.len() as u64;
        Ok(())
    }

    /// The error of replacing or creating the file, if that failed since the last call.
    pub fn trouble(&mut self) -> Option<io::Error> {
        self.trouble.take()
    }

    fn is_full(&self, more: u64, now_ms: i64) -> bool {
        let is_long = self.rotation.bytes_max.is_some_and(|most| self.bytes + more > most);
        self.bytes > 0 && (is_long || self.rotation.every.of(now_ms) != self.period)
    }

    fn begin(&mut self, now_ms: i64) -> io::Result<()> {
        self.file = open(&self.path)?;
        self.bytes = self.file.metadata()?.len();
        self.period = self.rotation.every.of(now_ms);
        Ok(())
    }

    fn rotate(&mut self, now_ms: i64) -> io::Result<()> {
        // Even if replacing fails, it is not tried again for each line.
        let bytes = std::mem::take(&mut self.bytes);
        self.period = self.rotation.every.of(now_ms);
        let oldest = self.rotation.files_max.max(1) - 1;
        let done = self.shift(oldest).and_then(|()| self.begin(now_ms));
        if done.is_err() {
            self.bytes = bytes.min(self.rotation.bytes_max.unwrap_or(u64::MAX) / 2);
        }
        done
    }

    /// Renames the files, so that `name` is free. `oldest`: the largest number that is kept.
    fn shift(&self, oldest: u32) -> io::Result<()> {
        if oldest == 0 {
            return absent_is_fine(fs::remove_file(&self.path));
        }
        for number in (1..oldest).rev() {
            absent_is_fine(fs::rename(self.numbered(number), self.numbered(number + 1)))?;
        }
        absent_is_fine(fs::rename(&self.path, self.numbered(1)))
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Opens a file of a log, or creates it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o640);
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    fn read(path: &Path, suffix: &str) -> Option<String> {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        fs::read_to_string(name).ok()
    }

    #[test]
    fn a_long_file_is_replaced_and_no_more_remain_than_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let rotation = Rotation { bytes_max: Some(8), files_max: 3, every: Period::Ever };
        let mut file = RotatingFile::open(&path, rotation, 0).unwrap();
        for line in ["one\n", "two\n", "three\n", "four, which is longer than a file\n", "five\n"] {
            file.write(line.as_bytes(), 0).unwrap();
        }
        assert_eq!(read(&path, ""), Some("five\n".to_owned()));
        assert_eq!(read(&path, ".1"), Some("four, which is longer than a file\n".to_owned()));
        assert_eq!(read(&path, ".2"), Some("three\n".to_owned()));
        assert_eq!(read(&path, ".3"), None);
        // The existing file counts when a server starts.
        drop(file);
        let mut file = RotatingFile::open(&path, rotation, 0).unwrap();
        file.write(b"six\n", 0).unwrap();
        assert_eq!(read(&path, ".1"), Some("five\n".to_owned()));
        let one = Rotation { files_max: 1, ..rotation };
        let mut file = RotatingFile::open(&path, one, 0).unwrap();
        file.write(b"seven\n", 0).unwrap();
        assert_eq!(read(&path, ""), Some("seven\n".to_owned()));
        assert_eq!(read(&path, ".1"), Some("five\n".to_owned()));
    }

    #[test]
    fn an_old_file_is_replaced_when_its_day_or_hour_is_over() {
        let dir = tempfile::tempdir().unwrap();
        for (every, length) in [(Period::Day, DAY_MS), (Period::Hour, 3_600_000)] {
            let path = dir.path().join(format!("{length}"));
            let rotation = Rotation { bytes_max: None, files_max: 9, every };
            let start = 40 * DAY_MS;
            let mut file = RotatingFile::open(&path, rotation, start).unwrap();
            file.write(b"first\n", start + length - 1).unwrap();
            assert_eq!(read(&path, ".1"), None);
            file.write(b"second\n", start + length).unwrap();
            file.write(b"third\n", start + length).unwrap();
            assert_eq!(read(&path, ".1"), Some("first\n".to_owned()));
            assert_eq!(read(&path, ""), Some("second\nthird\n".to_owned()));
            // A clock that is set back starts one new file, not a new one for each line.
            file.write(b"a\n", start).unwrap();
            file.write(b"b\n", start).unwrap();
            assert_eq!(read(&path, ""), Some("a\nb\n".to_owned()));
        }
    }

    #[test]
    fn a_file_that_somebody_has_taken_away_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let rotation = Rotation { bytes_max: None, files_max: 2, every: Period::Ever };
        let mut file = RotatingFile::open(&path, rotation, 0).unwrap();
        file.write(b"one\n", 0).unwrap();
        fs::rename(&path, dir.path().join("elsewhere")).unwrap();
        file.write(b"two\n", LOOK_EVERY_MS).unwrap();
        assert_eq!(read(&path, ""), Some("two\n".to_owned()));
    }

    #[test]
    fn a_file_that_cannot_be_replaced_is_written_to_further() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        // A file cannot replace a directory that is not empty.
        fs::create_dir_all(dir.path().join("a.log.1/full")).unwrap();
        let rotation = Rotation { bytes_max: Some(4), files_max: 2, every: Period::Ever };
        let mut file = RotatingFile::open(&path, rotation, 0).unwrap();
        file.write(b"one\n", 0).unwrap();
        assert!(file.trouble().is_none());
        file.write(b"two\n", 0).unwrap();
        assert!(file.trouble().is_some());
        assert_eq!(read(&path, ""), Some("one\ntwo\n".to_owned()));
    }
}
