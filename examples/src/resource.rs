//! A journal that refuses writers with an older fencing token than it has seen, and those who write to it.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longest line a writer may send, in bytes.
pub const LINE_BYTES_MAX: u64 = 4096;

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is in the journal, for good.
    Written,
    /// Its writer is one of yesterday.
    Refused {
        /// The largest token there was.
        newest: i64,
    },
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written => f.write_str("written\n"),
            Self::Refused { newest } => writeln!(f, "refused {newest}"),
        }
    }
}

/// The journal: lines of a token and what its holder wrote. Tokens never go down.
#[derive(Debug)]
pub struct Journal {
    file: File,
    newest: i64,
}

impl Journal {
    /// Opens it, and finds out the largest token it has seen.
    ///
    /// # Errors
    /// The file cannot be read or written. A line at the end that was not written completely is cut off: nobody was
    /// told that it is there.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).read(true).append(true).open(path)?;
        let (mut newest, mut whole) = (0, 0);
        let mut lines = BufReader::new(&file);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            whole += line.len() as u64;
            let token = parse(&String::from_utf8_lossy(&line)).map(|(token, _)| token);
            newest = newest.max(token.unwrap_or_default());
            line.clear();
        }
        file.set_len(whole)?;
        Ok(Self { file, newest })
    }

    /// The largest token there was.
    pub fn newest(&self) -> i64 {
        self.newest
    }

    /// Takes a line `TOKEN TEXT`, unless there was a larger token; returns when it is on the disk.
    ///
    /// # Errors
    /// It cannot be written: the journal must not be used any more.
    pub fn append(&mut self, line: &str) -> Result<Answer> {
        let Some((token, text)) = parse(line) else {
            // Whoever has no token is older than everybody.
            return Ok(Answer::Refused { newest: self.newest });
        };
        if token < self.newest {
            return Ok(Answer::Refused { newest: self.newest });
        }
        self.newest = token;
        self.file.write_all(format!("{token} {text}\n").as_bytes()).context("write")?;
        // Before anybody is told: the next leader must find it, and its token.
        self.file.sync_data().context("sync")?;
        Ok(Answer::Written)
    }
}

/// A line is a token larger than 0, and text.
fn parse(line: &str) -> Option<(i64, &str)> {
    let (token, text) = line.trim_end().split_once(' ')?;
    token.parse().ok().filter(|token| *token > 0).map(|token| (token, text))
}

/// A writer's connection to a journal.
#[derive(Debug)]
pub struct Remote {
    stream: tokio::io::BufReader<TcpStream>,
}

impl Remote {
    /// Connects to it.
    ///
    /// # Errors
    /// Nobody listens there.
    pub async fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| address.to_owned())?;
        Ok(Self { stream: tokio::io::BufReader::new(stream) })
    }

    /// Writes a line, and waits for the answer.
    ///
    /// # Errors
    /// The connection is lost: it may have been written.
    pub async fn append(&mut self, token: i64, text: &str) -> Result<Answer> {
        self.stream.write_all(format!("{token} {text}\n").as_bytes()).await?;
        let mut answer = String::new();
        self.stream.read_line(&mut answer).await?;
        match answer.trim_end().split_once(' ') {
            None if answer == "written\n" => Ok(Answer::Written),
            Some(("refused", newest)) => Ok(Answer::Refused { newest: newest.parse()? }),
            _ => bail!("the resource says {answer:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_never_go_down_not_even_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.append("5 a").unwrap(), Answer::Written);
        assert_eq!(journal.append("5 b").unwrap(), Answer::Written);
        assert_eq!(journal.append("4 late").unwrap(), Answer::Refused { newest: 5 });
        assert_eq!(journal.append("7 c").unwrap(), Answer::Written);
        for nonsense in ["", "x", "x y", "-1 y", "0 y", "99999999999999999999 y"] {
            assert_eq!(journal.append(nonsense).unwrap(), Answer::Refused { newest: 7 });
        }
        drop(journal);
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.append("6 late").unwrap(), Answer::Refused { newest: 7 });
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "5 a\n5 b\n7 c\n");
    }

    /// A crash in the middle of a line: it was never answered.
    #[test]
    fn half_a_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        std::fs::write(&path, "5 a\n99 b").unwrap();
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.newest(), 5);
        assert_eq!(journal.append("6 c").unwrap(), Answer::Written);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "5 a\n6 c\n");
    }
}
