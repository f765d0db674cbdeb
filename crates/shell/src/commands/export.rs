//! Writes a subtree to a file: one JSON value a line, parents before children.

use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value, json};
use zebu_proto::path::reserved::ZOOKEEPER;

use super::Context;
use super::znodes::{is_ephemeral, object};
use crate::failure::{Failure, Result};
use crate::options::Arguments;
use crate::progress::Progress;
use crate::render;
use crate::walk::{Found, Walk, Want};

/// The name of the format, in the first line.
pub(super) const FORMAT: &str = "zebu-export";

/// The version of the format.
pub(super) const FORMAT_VERSION: u64 = 1;

/// The target of the lines.
enum Sink<'a> {
    Stdout(&'a Context),
    File(BufWriter<tempfile::NamedTempFile>),
}

impl Sink<'_> {
    fn line(&mut self, value: &Value) -> Result {
        match self {
            Self::Stdout(cx) => cx.out.emit(|| value.to_string(), || value.clone()),
            Self::File(file) => Ok(writeln!(file, "{value}")?),
        }
    }
}

pub(super) async fn export(cx: &Context, args: &Arguments) -> Result {
    let root = args.word(0);
    let file = args.try_word(1).filter(|file| *file != "-");
    let mut sink = match file {
        None => Sink::Stdout(cx),
        Some(file) => Sink::File(BufWriter::new(beside(Path::new(file))?)),
    };
    let progress = file.map(|_| Progress::counting(&cx.out, "writing"));
    sink.line(&json!({ "format": FORMAT, "version": FORMAT_VERSION, "root": root }))?;
    let (mut written, mut skipped) = (0_usize, 0_usize);
    let mut walk = Walk::new(&cx.client, root, Want { data: true, acl: true }, u32::MAX);
    while let Some(found) = walk.next().await {
        let found = found.map_err(|unread| Failure::from(unread.error))?;
        if is_ephemeral(&found.stat) && !args.has("e") {
            skipped += 1;
            continue;
        }
        if is_the_services(&found.path, root) {
            continue;
        }
        sink.line(&line(&found).into())?;
        written += 1;
        if let Some(progress) = &progress {
            progress.advance(1);
        }
    }
    sink.line(&json!({ "znodes": written }))?;
    drop(progress);
    if skipped > 0 {
        cx.out.note(&format!("{skipped} ephemeral znodes were left out; include them with -e"));
    }
    let (Sink::File(writer), Some(file)) = (sink, file) else { return Ok(()) };
    // The file appears under its name only when it is complete.
    let written_file = writer.into_inner().map_err(|error| Failure::from(error.into_error()))?;
    written_file.persist(file).map_err(|error| Failure::new(format!("{file}: {}", error.error)))?;
    cx.out
        .json_only(|| json!({ "root": root, "file": file, "znodes": written, "skipped": skipped }))
}

/// A temporary file in the folder of the file that it will replace.
fn beside(file: &Path) -> Result<tempfile::NamedTempFile> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
    made.map_err(|error| Failure::new(format!("{}: {error}", file.display())))
}

/// The server's own znodes are not part of an export of their parents.
fn is_the_services(path: &str, root: &str) -> bool {
    let is_inside = |path: &str| {
        path.strip_prefix(ZOOKEEPER).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_inside(path) && !is_inside(root)
}

fn line(found: &Found) -> Map<String, Value> {
    let mut object = object(&found.path);
    render::put_data(&mut object, found.data.as_deref());
    let acl: Vec<Value> = found.acl.iter().map(|acl| render::acl_entry(acl).into()).collect();
    object.insert("acl".to_owned(), acl.into());
    object.insert("stat".to_owned(), render::stat_json(&found.stat));
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_services_own_znodes_are_left_out() {
        assert!(is_the_services("/zookeeper", "/") && is_the_services("/zookeeper/quota", "/"));
        assert!(!is_the_services("/zookeeper/quota", "/zookeeper"));
        assert!(!is_the_services("/zookeepers", "/"));
    }
}
