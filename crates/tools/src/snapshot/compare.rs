//! Compares two snapshots level by level.

use std::cmp::Ordering;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::image::{Image, Node};
use crate::failure::Failure;

/// Arguments of `zebu snapshot compare`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(super) struct CompareArgs {
    /// The one snapshot
    #[arg(short, long, value_name = "FILE")]
    pub(super) left: PathBuf,

    /// The other
    #[arg(short, long, value_name = "FILE")]
    pub(super) right: PathBuf,

    /// Show subtrees that differ by more bytes of data than this
    #[arg(short, long, allow_negative_numbers = true)]
    pub(super) bytes: i64,

    /// Show subtrees that differ by more znodes than this
    #[arg(short, long, allow_negative_numbers = true)]
    pub(super) nodes: i64,

    /// For each znode, print the znode that it is compared with
    #[arg(short, long)]
    pub(super) debug: bool,

    /// Ask which level, or which znode's children, to compare next
    #[arg(short, long)]
    pub(super) interactive: bool,
}

const PROMPT: &str = "\
- Press enter to move to print current depth layer;
- Type a number to jump to and print all nodes at a given depth;
- Enter an ABSOLUTE path to print the immediate subtree of a node. Path must start with '/'.";

/// Compares two snapshots.
pub(super) fn run(
    args: &CompareArgs,
    answers: &mut dyn BufRead,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    writeln!(out, "Successfully parsed options!")?;
    let left = Layers::read(&args.left, out)?;
    let right = Layers::read(&args.right, out)?;
    left.outline(out)?;
    right.outline(out)?;
    let comparison = Comparison { left, right, args };
    if args.interactive {
        comparison.as_asked(answers, out)?;
    } else {
        comparison.thresholds(out)?;
        for depth in 0..comparison.depths() {
            writeln!(out, "Analysis for depth {depth}")?;
            comparison.layer(depth, out)?;
        }
    }
    writeln!(out, "All layers compared.")?;
    comparison.left.image.verdict()?;
    comparison.right.image.verdict()
}

/// A snapshot's znodes by their depth.
struct Layers {
    image: Image,
    /// Sorted by path.
    layers: Vec<Vec<usize>>,
}

impl Layers {
    fn read(path: &Path, out: &mut dyn Write) -> Result<Self, Failure> {
        let start = Instant::now();
        let image = Image::open(path)?;
        let name = path.file_name().unwrap_or_default().display();
        let seconds = |passed: Duration| passed.as_secs_f64();
        writeln!(
            out,
            "Deserialized snapshot in {name} in {:.6} seconds",
            seconds(start.elapsed())
        )?;
        let start = Instant::now();
        let mut depths = vec![0; image.nodes.len()];
        let mut layers: Vec<Vec<usize>> = Vec::new();
        for (at, node) in image.nodes.iter().enumerate() {
            depths[at] = if at == 0 { 0 } else { depths[node.parent] + 1 };
            if layers.len() <= depths[at] {
                layers.push(Vec::new());
            }
            layers[depths[at]].push(at);
        }
        for layer in &mut layers {
            layer.sort_by(|a, b| by_units(&image.nodes[*a].path, &image.nodes[*b].path));
        }
        writeln!(out, "Processed data tree in {:.6} seconds", seconds(start.elapsed()))?;
        Ok(Self { image, layers })
    }

    fn outline(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "Node count: {}", self.image.nodes.len())?;
        writeln!(out, "Total size: {}", self.image.nodes[0].bytes)?;
        writeln!(out, "Max depth: {}", self.layers.len())?;
        for (depth, layer) in self.layers.iter().enumerate() {
            writeln!(out, "Count of nodes at depth {depth}: {}", layer.len())?;
        }
        writeln!(out)
    }

    fn layer(&self, depth: usize) -> Vec<&Node> {
        let layer = self.layers.get(depth).map(Vec::as_slice).unwrap_or_default();
        layer.iter().map(|at| &self.image.nodes[*at]).collect()
    }

    /// The children of a znode, sorted. The root has the empty path, which no caller asks for.
    fn children(&self, path: &str) -> Option<Vec<&Node>> {
        let at = self.image.find(path).filter(|at| *at > 0)?;
        let mut children: Vec<&Node> =
            self.image.children(at).into_iter().map(|child| &self.image.nodes[child]).collect();
        children.sort_by(|a, b| by_units(&a.path, &b.path));
        Some(children)
    }
}

/// The order of strings in Java: by UTF-16 units.
fn by_units(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

struct Comparison<'a> {
    left: Layers,
    right: Layers,
    args: &'a CompareArgs,
}

impl Comparison<'_> {
    fn depths(&self) -> usize {
        self.left.layers.len().max(self.right.layers.len())
    }

    fn thresholds(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "Printing analysis for nodes difference larger than {} bytes or node count difference larger than {}.",
            self.args.bytes, self.args.nodes
        )
    }

    fn layer(&self, depth: usize, out: &mut dyn Write) -> io::Result<()> {
        self.side_by_side(&self.left.layer(depth), &self.right.layer(depth), out)
    }

    /// Compares level by level, or as the answers say.
    fn as_asked(&self, answers: &mut dyn BufRead, out: &mut dyn Write) -> Result<(), Failure> {
        let last = self.depths() - 1;
        let mut depth = 0;
        while depth <= last {
            writeln!(out, "Current depth is {depth}\n{PROMPT}")?;
            out.flush()?;
            let mut line = String::new();
            if answers.read_line(&mut line)? == 0 {
                return Err(Failure::new("error: no answer"));
            }
            let answer = line.trim_end_matches(['\n', '\r']);
            self.thresholds(out)?;
            if answer.is_empty() {
                writeln!(out, "Analysis for depth {depth}")?;
                self.layer(depth, out)?;
                depth += 1;
            } else if answer.starts_with('/') {
                writeln!(out, "Analysis for node {answer}")?;
                self.subtree(answer, out)?;
            } else if let Ok(number) = answer.parse::<i32>() {
                let Some(wanted) = usize::try_from(number).ok().filter(|wanted| *wanted <= last)
                else {
                    writeln!(out, "Depth must be in range [0, {last}]")?;
                    continue;
                };
                depth = wanted;
                writeln!(out, "Analysis for depth {depth}")?;
                self.layer(depth, out)?;
            } else {
                writeln!(
                    out,
                    "Input {answer} is not valid. Depth must be in range [0, {last}]. \
                     Path must be an absolute path which starts with '/'."
                )?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn subtree(&self, path: &str, out: &mut dyn Write) -> io::Result<()> {
        let (left, right) = (self.left.children(path), self.right.children(path));
        if left.is_none() && right.is_none() {
            return writeln!(out, "Path {path} is neither found in left tree nor right tree.");
        }
        self.side_by_side(&left.unwrap_or_default(), &right.unwrap_or_default(), out)
    }

    /// Compares two sorted lists.
    fn side_by_side(&self, left: &[&Node], right: &[&Node], out: &mut dyn Write) -> io::Result<()> {
        let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => {
                    let order = by_units(&a.path, &b.path);
                    if self.args.debug {
                        writeln!(out, "Comparing {} to {}", a.path, b.path)?;
                        let said = match order {
                            Ordering::Less => "left is less",
                            Ordering::Greater => "right is less",
                            Ordering::Equal => "same",
                        };
                        writeln!(out, "{said}")?;
                    }
                    order
                }
            };
            match order {
                Ordering::Less => self.alone("left", left.next().expect("it is there"), out)?,
                Ordering::Greater => {
                    self.alone("right", right.next().expect("it is there"), out)?
                }
                Ordering::Equal => {
                    let (a, b) = (left.next(), right.next());
                    self.both(a.expect("it is there"), b.expect("it is there"), out)?;
                }
            }
        }
    }

    /// Whether a difference is large enough for a line.
    fn counts(&self, bytes: i64, nodes: i64) -> bool {
        bytes > self.args.bytes || nodes > self.args.nodes
    }

    fn shows_all(&self) -> bool {
        self.args.debug || self.args.interactive
    }

    fn alone(&self, side: &str, node: &Node, out: &mut dyn Write) -> io::Result<()> {
        let Node { path, bytes, descendants, .. } = node;
        if self.counts(bytes.cast_signed(), descendants.cast_signed()) {
            writeln!(
                out,
                "Node {path} found only in {side} tree. Descendant size: {bytes}. Descendant count: {descendants}"
            )
        } else if self.shows_all() {
            writeln!(out, "Filtered {side} node {path} of size {bytes}")
        } else {
            Ok(())
        }
    }

    fn both(&self, left: &Node, right: &Node, out: &mut dyn Write) -> io::Result<()> {
        let path = &left.path;
        let bytes = right.bytes.cast_signed() - left.bytes.cast_signed();
        let nodes = right.descendants.cast_signed() - left.descendants.cast_signed();
        if self.counts(bytes.abs(), nodes.abs()) {
            writeln!(
                out,
                "Node {path} found in both trees. Delta: {bytes} bytes, {nodes} descendants"
            )
        } else if self.shows_all() {
            let (left, right) = (left.bytes, right.bytes);
            writeln!(out, "Filtered node {path} of left size {left}, right size {right}")
        } else {
            Ok(())
        }
    }
}
