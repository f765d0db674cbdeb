//! Prints all znodes of a snapshot.

use std::io::{self, Write};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::image::{Image, Node};
use crate::date;

/// The number of the root in the JSON. The others follow.
const FIRST_INODE: u32 = 1001;

/// Prints the znodes with their stats, and with their data or its length; then the sessions.
pub(super) fn details(image: &Image, with_data: bool, out: &mut dyn Write) -> io::Result<()> {
    // The original counts the root twice: as `/` and as the empty path.
    writeln!(out, "ZNode Details (count={}):", image.nodes.len() + 1)?;
    let mut last = image.zxid;
    let mut todo = vec![0];
    while let Some(at) = todo.pop() {
        let node = &image.nodes[at];
        last = last.max(node.stat.mzxid.0).max(node.stat.pzxid.0);
        writeln!(out, "----\n{}", if at == 0 { "/" } else { &node.path })?;
        stat(node, out)?;
        if with_data {
            let data = node.data.as_deref().unwrap_or_default();
            writeln!(out, "  data = {}", BASE64_STANDARD.encode(data))?;
        } else {
            writeln!(out, "  dataLength = {}", node.data_bytes())?;
        }
        todo.extend(image.children(at).into_iter().rev());
    }
    writeln!(out, "----\nSession Details (sid, timeout, ephemeralCount):")?;
    for (id, timeout_ms, ephemerals) in image.sessions() {
        writeln!(out, "{:#016x}, {timeout_ms}, {ephemerals}", id.0)?;
    }
    writeln!(out, "----\nLast zxid: 0x{last:x}")
}

fn stat(node: &Node, out: &mut dyn Write) -> io::Result<()> {
    let stat = &node.stat;
    writeln!(out, "  cZxid = {:#016x}", stat.czxid.0)?;
    writeln!(out, "  ctime = {}", date::full(stat.ctime))?;
    writeln!(out, "  mZxid = {:#016x}", stat.mzxid.0)?;
    writeln!(out, "  mtime = {}", date::full(stat.mtime))?;
    writeln!(out, "  pZxid = {:#016x}", stat.pzxid.0)?;
    writeln!(out, "  cversion = {}", stat.cversion)?;
    writeln!(out, "  dataVersion = {}", stat.version)?;
    writeln!(out, "  aclVersion = {}", stat.aversion)?;
    writeln!(out, "  ephemeralOwner = {:#016x}", stat.ephemeral_owner)
}

/// Prints names and sizes in the format that ncdu imports. A znode with children is a list that
/// begins with the znode itself.
pub(super) fn json(image: &Image, now_ms: i64, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        "[1,0,{{\"progname\":\"SnapshotFormatter.java\",\"progver\":\"0.01\",\"timestamp\":{now_ms}}}"
    )?;
    let mut inode = FIRST_INODE;
    // `None` closes a list.
    let mut todo = vec![Some(0)];
    while let Some(next) = todo.pop() {
        let Some(at) = next else {
            write!(out, "]")?;
            continue;
        };
        let (node, children) = (&image.nodes[at], image.children(at));
        write!(out, ",")?;
        if !children.is_empty() {
            write!(out, "[")?;
            todo.push(None);
            todo.extend(children.into_iter().rev().map(Some));
        }
        let (name, bytes) = (escaped(node.name()), node.data_bytes());
        write!(
            out,
            "{{\"name\":\"{name}\",\"asize\":{bytes},\"dsize\":{bytes},\"dev\":0,\"ino\":{inode}}}"
        )?;
        inode += 1;
    }
    write!(out, "]")
}

/// Escapes a name for a text in quotation marks.
fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for c in name.chars() {
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            // Servers refuse these characters in the names that clients create.
            c if c < ' ' => escaped.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => escaped.push(c),
        }
    }
    escaped
}
