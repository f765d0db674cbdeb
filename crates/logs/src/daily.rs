//! A file for each day in UTC: `name.year.month.day`, as the original documents for its trace.
//!
//! The number of files is limited. If a new file cannot be begun, writing continues in the old one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::rotating::{LOOK_EVERY_MS, Period, open};

/// An append-only file for each day.
#[derive(Debug)]
pub struct DailyFile {
    prefix: PathBuf,
    files_max: u32,
    day: i64,
    path: PathBuf,
    file: File,
    looked_ms: i64,
    trouble: Option<io::Error>,
}

impl DailyFile {
    /// Opens the file of the day that contains `now_ms`, and keeps its content. `files_max`:
    /// maximum number of files, including the current one.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(prefix: &Path, files_max: u32, now_ms: i64) -> io::Result<Self> {
        let path = named(prefix, now_ms);
        let mut daily = Self {
            prefix: prefix.to_owned(),
            files_max,
            day: Period::Day.of(now_ms),
            file: open(&path)?,
            path,
            looked_ms: now_ms,
            trouble: None,
        };
        daily.trouble = daily.remove_oldest().err();
        Ok(daily)
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
        let day = Period::Day.of(now_ms);
        let looks = now_ms < self.looked_ms || now_ms >= self.looked_ms + LOOK_EVERY_MS;
        if looks {
            self.looked_ms = now_ms;
        }
        if day != self.day || (looks && !self.path.exists()) {
            // Even if this fails, it is not tried again for each line.
            self.day = day;
            self.trouble = self.begin(now_ms).err();
        }
        self.file.write_all(lines)
    }

    /// The error of the beginning of a file or of the removal of old ones, if that failed since the
    /// last call.
    pub fn trouble(&mut self) -> Option<io::Error> {
        self.trouble.take()
    }

    fn begin(&mut self, now_ms: i64) -> io::Result<()> {
        let path = named(&self.prefix, now_ms);
        self.file = open(&path)?;
        self.path = path;
        self.remove_oldest()
    }

    /// Removes files of the oldest days until the number is right.
    fn remove_oldest(&self) -> io::Result<()> {
        let folder = self.prefix.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut others = Vec::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            if Some(name.as_os_str()) != self.path.file_name() && self.is_ours(&name) {
                others.push(name);
            }
        }
        // The order of the names is that of the days.
        others.sort();
        let kept = usize::try_from(self.files_max.max(1) - 1).unwrap_or(usize::MAX);
        let removed = others.len().saturating_sub(kept);
        others.iter().take(removed).try_for_each(|name| fs::remove_file(folder.join(name)))
    }

    /// Whether a file has the name of a day's file.
    fn is_ours(&self, name: &OsString) -> bool {
        let prefix = self.prefix.file_name().unwrap_or_default().as_encoded_bytes();
        let day = name.as_encoded_bytes().strip_prefix(prefix).unwrap_or_default();
        let pattern = b".dddd.dd.dd";
        let is_like = |(at, pattern): (&u8, &u8)| match pattern {
            b'd' => at.is_ascii_digit(),
            other => at == other,
        };
        day.len() == pattern.len() && day.iter().zip(pattern).all(is_like)
    }
}

fn named(prefix: &Path, now_ms: i64) -> PathBuf {
    let at = Timestamp::from_millisecond(now_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut name = prefix.as_os_str().to_owned();
    name.push(at.strftime(".%Y.%m.%d").to_string());
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;
    /// 2023-11-14.
    const START_MS: i64 = 1_699_920_000_000;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// CFG-14.
    #[test]
    fn each_day_has_a_file_and_no_more_remain_than_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path().join("trace");
        for other in ["trace", "trace.1", "trace.2023.11.1x", "trace.2023.11.100", "t.2023.11.10"] {
            fs::write(dir.path().join(other), "").unwrap();
        }
        let others = names(dir.path());
        let mut file = DailyFile::open(&prefix, 2, START_MS).unwrap();
        file.write(b"one\n", START_MS + DAY_MS - 1).unwrap();
        file.write(b"two\n", START_MS + DAY_MS).unwrap();
        file.write(b"three\n", START_MS + 2 * DAY_MS).unwrap();
        file.write(b"four\n", START_MS + 2 * DAY_MS).unwrap();
        assert!(file.trouble().is_none());
        let days = ["trace.2023.11.15", "trace.2023.11.16"];
        let mut wanted = others.clone();
        wanted.extend(days.map(str::to_owned));
        wanted.sort();
        assert_eq!(names(dir.path()), wanted);
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(
            (read(days[0]), read(days[1])),
            ("two\n".to_owned(), "three\nfour\n".to_owned())
        );
        // A server that starts again continues the file, and keeps the newer number.
        drop(file);
        let mut file = DailyFile::open(&prefix, 1, START_MS + 2 * DAY_MS).unwrap();
        file.write(b"five\n", START_MS + 2 * DAY_MS).unwrap();
        assert_eq!(read(days[1]), "three\nfour\nfive\n");
        assert!(!dir.path().join(days[0]).exists());
        // A clock that is set back removes the file of a later day, not the current one.
        file.write(b"six\n", START_MS).unwrap();
        assert_eq!(read("trace.2023.11.14"), "six\n");
        assert_eq!(file.path(), dir.path().join("trace.2023.11.14"));
        assert_eq!(names(dir.path()).len(), others.len() + 1);
    }

    #[test]
    fn a_file_that_cannot_be_begun_leaves_the_old_one_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path().join("trace");
        fs::create_dir(dir.path().join("trace.2023.11.15")).unwrap();
        let mut file = DailyFile::open(&prefix, 9, START_MS).unwrap();
        file.write(b"one\n", START_MS + DAY_MS).unwrap();
        assert!(file.trouble().is_some());
        file.write(b"two\n", START_MS + DAY_MS).unwrap();
        assert!(file.trouble().is_none());
        let text = fs::read_to_string(dir.path().join("trace.2023.11.14")).unwrap();
        assert_eq!(text, "one\ntwo\n");
        fs::remove_file(dir.path().join("trace.2023.11.14")).unwrap();
        file.write(b"three\n", START_MS + 2 * DAY_MS).unwrap();
        fs::remove_file(dir.path().join("trace.2023.11.16")).unwrap();
        file.write(b"four\n", START_MS + 2 * DAY_MS + LOOK_EVERY_MS).unwrap();
        let text = fs::read_to_string(dir.path().join("trace.2023.11.16")).unwrap();
        assert_eq!(text, "four\n");
    }
}
