//! A journal that refuses writers with an older fencing token than it has seen, and its writers.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The maximum length of a line from a writer, in bytes.
pub const LINE_BYTES_MAX: u64 = 4096;

/// The result of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The line is in the journal, durably.
    Written,
    /// Its writer has an outdated token.
    Refused {
        /// The largest token so far.
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

/// The journal: lines with a token and the text of its holder. Tokens never decrease.
#[derive(Debug)]
pub struct Journal {
    file: File,
    newest: i64,
}

impl Journal {
    /// Opens the journal, and reads the largest token in it.
    ///
    /// # Errors
    /// The file cannot be read or written. An incomplete line at the end is no error: it is cut
    /// off, because no writer got an answer for it.
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

    /// The largest token so far.
    pub fn newest(&self) -> i64 {
        self.newest
    }

    /// Writes a line `TOKEN TEXT`, unless there was a larger token. Returns when the line is on the
    /// disk.
    ///
    /// # Errors
    /// The line cannot be written: the journal must not be used any more.
    pub fn append(&mut self, line: &str) -> Result<Answer> {
        let Some((token, text)) = parse(line) else {
            // A writer without a token counts as older than all others.
            return Ok(Answer::Refused { newest: self.newest });
        };
        if token < self.newest {
            return Ok(Answer::Refused { newest: self.newest });
        }
        self.newest = token;
        self.file.write_all(format!("{token} {text}\n").as_bytes()).context("write")?;
        // Durable before the writer gets its answer: the next leader must find the line and its
        // token.
        self.file.sync_data().context("sync")?;
        Ok(Answer::Written)
    }
}

/// A line consists of a token greater than 0, and text.
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
    /// Connects to a journal.
    ///
    /// # Errors
    /// No program listens there.
    pub async fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| address.to_owned())?;
        Ok(Self { stream: tokio::io::BufReader::new(stream) })
    }

    /// Writes a line, and waits for the answer.
    ///
    /// # Errors
    /// The connection is lost: the line may have been written.
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

    /// A crash in the middle of a line: the line was never answered.
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
