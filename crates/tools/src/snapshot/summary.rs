//! Sums up the subtrees of a snapshot.

use std::io::{self, Write};

use super::image::Image;

/// Prints the descendants and bytes of every znode with children, from `start` down to `depth`
/// levels; 0 means all.
pub(super) fn print(
    image: &Image,
    start: usize,
    depth: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut todo = vec![(start, 0)];
    while let Some((at, level)) = todo.pop() {
        let node = &image.nodes[at];
        if node.descendants == 0 || (depth > 0 && level > depth) {
            continue;
        }
        let indent = "--".repeat(level);
        let path = if at == 0 { "/" } else { &node.path };
        writeln!(out, "{indent} {path}")?;
        writeln!(out, "{indent}   children: {}", node.descendants)?;
        writeln!(out, "{indent}   data: {}", node.bytes)?;
        todo.extend(image.children(at).into_iter().rev().map(|child| (child, level + 1)));
    }
    writeln!(out)
}
