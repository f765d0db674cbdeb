//! A scenario executed against the original and against Zebu: the two transcripts must be equal.

use std::fmt::{Debug, Write};
use std::fs;

use anyhow::Result;
use similar::TextDiff;

use crate::server::{Kind, Options, Server};

/// The server under test: Zebu. With `ZEBU_INTEROP_SUBJECT=java` it is the original a second time,
/// which shows whether a scenario is deterministic.
pub fn subject() -> Kind {
    match std::env::var("ZEBU_INTEROP_SUBJECT").as_deref() {
        Ok("java") => Kind::Java395,
        _ => Kind::Zebu,
    }
}

/// Runs `story` against a fresh server of each kind and compares the results.
///
/// With `ZEBU_INTEROP_SHOW` set, the transcripts are printed.
///
/// # Panics
/// The transcripts differ, or the story fails on either server.
pub fn same(name: &str, options: &Options, story: impl Fn(&mut Server) -> Result<String>) {
    let mut transcripts = Vec::new();
    for kind in [Kind::Java395, subject()] {
        let mut server = Server::start(kind, options).unwrap_or_else(|e| panic!("{name}: {e:#}"));
        let text = story(&mut server).unwrap_or_else(|e| panic!("{name} against {kind:?}: {e:#}"));
        assert!(server.is_alive(), "{name}: {kind:?} died\n{}", server.log());
        if std::env::var_os("ZEBU_INTEROP_SHOW").is_some() {
            println!("---- {name} against {kind:?}\n{text}");
        }
        transcripts.push(text);
    }
    compare(name, &transcripts[0], &transcripts[1]);
}

/// A transcript, line by line.
#[derive(Debug, Default)]
pub struct Transcript(String);

impl Transcript {
    /// Adds a line with what was seen.
    pub fn say(&mut self, what: &str, seen: impl Debug) {
        self.0 += &format!("{what}: {seen:?}\n");
    }

    /// All lines.
    pub fn done(self) -> String {
        self.0
    }
}

/// Fails with the difference of two transcripts, if there is one.
///
/// # Panics
/// They differ.
pub fn compare(name: &str, java: &str, ours: &str) {
    if java == ours {
        return;
    }
    let diff = TextDiff::from_lines(java, ours);
    let mut text = String::new();
    let unified = diff.unified_diff().context_radius(3).header("java", "zebu").to_string();
    writeln!(text, "{name}: the servers differ\n{unified}").expect("writing to a string");
    let folder = std::env::temp_dir().join("zebu-interop-differences");
    if fs::create_dir_all(&folder).is_ok() {
        fs::write(folder.join(format!("{name}.java.txt")), java).ok();
        fs::write(folder.join(format!("{name}.zebu.txt")), ours).ok();
        writeln!(text, "whole transcripts: {}/{name}.*.txt", folder.display()).expect("string");
    }
    panic!("{text}");
}
