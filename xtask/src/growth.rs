//! `cargo xtask growth`: how the figures of one server grow with the size of its work, measured,
//! and drawn on logarithmic scales.
//!
//! The figures are kept in `docs/measured/growth`, one file for each suite. The same files give the
//! same page and plots, so a test compares them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use zebu_figures::{Spread, number};

use crate::report::about;
use crate::report::svg::{Grown, grown};
use crate::steps;

/// The figures.
const MEASURED: &str = "docs/measured/growth";
/// The page and its plots.
const PAGE: &str = "docs/growth.md";
const PLOTS: &str = "docs/plots";
/// The marks before and after what this command writes into the page.
const BEGIN: &str = "<!-- measured: what follows is written by `cargo xtask growth` -->";
const END: &str = "<!-- measured: end -->";

/// One plot: a suite, its sizes, and the figures that are drawn.
struct Curve {
    suite: &'static str,
    title: &'static str,
    /// What the sizes count.
    of: &'static str,
    sizes: &'static str,
    /// Further options of the comparison.
    options: &'static [&'static str],
    figures: &'static [Figure],
}

/// The figure of one panel: its title with the unit, and the row's group and name. A `*` in the
/// name stands for the size.
struct Figure {
    title: &'static str,
    group: &'static str,
    name: &'static str,
}

const fn figure(title: &'static str, group: &'static str, name: &'static str) -> Figure {
    Figure { title, group, name }
}

const CURVES: &[Curve] = &[
    Curve {
        suite: "znodes",
        title: "Znodes of 100 bytes",
        of: "znodes",
        sizes: "10000,100000,1000000,10000000",
        options: &[],
        figures: &[
            figure("memory, bytes per znode", "bytes per znode", "resident after load"),
            figure(
                "memory after a start, bytes per znode",
                "bytes per znode",
                "resident after restart",
            ),
            figure("creates per second", "requests/s", "create"),
            figure(
                "written to the disk, times the bytes of the values",
                "times the bytes of the values",
                "written while loading",
            ),
            figure("start, s", "time, s", "start with all znodes"),
            figure("write a snapshot, s", "time, s", "write snapshot under load"),
            figure("p50 of reads at 4,000 requests/s, µs", "latency p50, us", "read, all znodes"),
            figure("p50 of writes at 4,000 requests/s, µs", "latency p50, us", "write, all znodes"),
            figure("p99 of reads, µs", "latency p99, us", "read, all znodes"),
            figure("p99 of writes, µs", "latency p99, us", "write, all znodes"),
        ],
    },
    Curve {
        suite: "neighbours",
        title: "Children of one znode, listed by three clients",
        of: "children",
        sizes: "1000,10000,100000,1000000",
        options: &["--fanout", "10", "--sessions", "10"],
        figures: &[
            figure(
                "p50 of reads at 4,000 requests/s beside the lists, times the quiet one",
                "times the quiet latency",
                "get, 4,000 per second, beside 3 that list * children, p50",
            ),
            figure(
                "p99 of reads at 4,000 requests/s beside the lists, times the quiet one",
                "times the quiet latency",
                "get, 4,000 per second, beside 3 that list * children, p99",
            ),
            figure(
                "children listed per second meanwhile",
                "children listed per second",
                "get, 4,000 per second, beside 3 that list * children",
            ),
            figure(
                "time of a list, ms",
                "time of a list, ms, median",
                "get, 4,000 per second, beside 3 that list * children",
            ),
        ],
    },
    Curve {
        suite: "watches",
        title: "Watches",
        of: "watches",
        sizes: "10000,100000,1000000,10000000",
        options: &["--fanout", "100"],
        figures: &[
            figure("memory, bytes per watch", "bytes per watch", "resident"),
            figure("watches set per second", "requests/s", "exists with watch"),
        ],
    },
    Curve {
        suite: "sessions",
        title: "Sessions",
        of: "sessions",
        sizes: "100,1000,10000,100000",
        options: &[],
        figures: &[
            figure("memory, bytes per session", "bytes per session", "resident after opening"),
            figure("time to open all, s", "time, s", "open sessions"),
            figure(
                "CPU time of idle sessions, % of a core",
                "server CPU, % of a core",
                "idle sessions",
            ),
        ],
    },
    Curve {
        suite: "log",
        title: "Transactions of one log",
        of: "transactions",
        sizes: "10000,100000,1000000,10000000",
        options: &[],
        figures: &[
            figure("start, s", "time, s", "start with all transactions"),
            figure("replayed, µs per transaction", "us per transaction", "replayed"),
            figure("peak of the memory, MB", "memory, MB", "peak of a start with a long log"),
        ],
    },
    Curve {
        suite: "learners",
        title: "Observers beside three voters, all on one machine",
        of: "observers",
        sizes: "1,5,10,20",
        options: &[],
        figures: &[
            figure("setData/s, depth 16", "requests/s", "leader: set, depth 16, 16 conn"),
            figure(
                "CPU time of the leader, µs per write",
                "server CPU, us/request",
                "leader: set, depth 16, 16 conn",
            ),
            figure("p50, one at a time, µs", "latency p50, us", "leader: set, depth 1, 16 conn"),
            figure(
                "until all members show the last write, ms",
                "time, ms",
                "until all learners show the last write",
            ),
        ],
    },
];

/// What was measured of a suite.
struct Grew {
    machine: String,
    command: String,
    /// By group and name, then by size.
    rows: BTreeMap<(String, String), BTreeMap<u64, Spread>>,
    notes: Vec<String>,
}

/// How to measure.
pub(crate) struct How {
    /// How often each size is measured.
    pub(crate) rounds: usize,
    /// Where the servers keep their data.
    pub(crate) dir: PathBuf,
    /// The executable; `None`: a release of this source.
    pub(crate) zebu: Option<PathBuf>,
    /// Only draw what is kept.
    pub(crate) draw: bool,
}

/// Measures the suites in `only`, or all of them, and draws everything that is kept.
pub(crate) fn run(only: &[String], how: &How) -> Result<()> {
    let root = steps::root();
    for suite in only {
        let is_known = CURVES.iter().any(|curve| curve.suite == suite);
        let known: Vec<_> = CURVES.iter().map(|curve| curve.suite).collect();
        ensure!(is_known, "{suite} has no curves; these have: {}", known.join(", "));
    }
    if !how.draw {
        let zebu = match &how.zebu {
            Some(zebu) => zebu.clone(),
            None => {
                steps::run(steps::cargo(&["build", "--release", "-p", "zebu"]))?;
                steps::target().join("release/zebu")
            }
        };
        let wanted = |curve: &&Curve| only.is_empty() || only.iter().any(|it| it == curve.suite);
        for curve in CURVES.iter().filter(wanted) {
            measure(&root, curve, how, &zebu)?;
        }
    }
    draw(&root)
}

fn measure(root: &Path, curve: &Curve, how: &How, zebu: &Path) -> Result<()> {
    let measured = tempfile::tempdir()?;
    let json = measured.path().join("figures.json");
    let mut command = std::process::Command::new(zebu);
    command.args(["bench", "compare", "--servers", "zebu", "--minutes", "600"]);
    command.args(["--suite", curve.suite, "--sizes", curve.sizes]).args(curve.options);
    command.args(["--rounds", &how.rounds.to_string()]);
    command.arg("--dir").arg(&how.dir).arg("--json").arg(&json);
    steps::run(command)?;
    let text = fs::read_to_string(&json).with_context(|| json.display().to_string())?;
    let kept = root.join(MEASURED).join(curve.suite).with_extension("json");
    fs::create_dir_all(root.join(MEASURED))?;
    fs::write(&kept, about::published(&text)?).with_context(|| kept.display().to_string())
}

/// Writes the page and the plots.
fn draw(root: &Path) -> Result<()> {
    fs::create_dir_all(root.join(PLOTS))?;
    for (file, svg) in plots(root)? {
        fs::write(root.join(PLOTS).join(&file), svg)?;
        println!("{PLOTS}/{file}");
    }
    let path = root.join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("read {PAGE}"))?;
    fs::write(&path, replaced(&page, &text(root)?)?)?;
    println!("{PAGE}");
    Ok(())
}

/// The plots of everything that is kept, by file.
fn plots(root: &Path) -> Result<Vec<(String, String)>> {
    let mut plots = Vec::new();
    for curve in CURVES {
        let Some(grew) = kept(root, curve)? else { continue };
        let panels: Vec<Grown> = curve.figures.iter().filter_map(|it| grew.panel(it)).collect();
        if let Some(svg) = grown(curve.title, curve.of, &panels) {
            plots.push((format!("growth-{}.svg", curve.suite), svg));
        }
    }
    Ok(plots)
}

/// The tables of everything that is kept.
fn text(root: &Path) -> Result<String> {
    let mut text = String::new();
    for curve in CURVES {
        let Some(grew) = kept(root, curve)? else { continue };
        let suite = curve.suite;
        text.push_str(&format!("## {}\n\n", curve.title));
        text.push_str(&format!("![{}](plots/growth-{suite}.svg)\n\n", curve.title));
        text.push_str(&format!("`{}`\n\n{}\n\n", grew.command, grew.machine));
        text.push_str(&grew.table(curve));
        for note in &grew.notes {
            text.push_str(&format!("\n* {}\n", note.replace('\n', "; ")));
        }
        text.push('\n');
    }
    Ok(text)
}

/// The kept figures of a suite, if there are any.
fn kept(root: &Path, curve: &Curve) -> Result<Option<Grew>> {
    let path = root.join(MEASURED).join(curve.suite).with_extension("json");
    match fs::read_to_string(&path) {
        Ok(text) => parse(&text, curve.suite).with_context(|| path.display().to_string()).map(Some),
        Err(_) => Ok(None),
    }
}

/// Reads the figures of a comparison by sizes.
fn parse(text: &str, suite: &str) -> Result<Grew> {
    let json: Value = serde_json::from_str(text)?;
    ensure!(json["command"] == "compare", "not written by zebu bench compare --json");
    let run = about::run(&json);
    let mut rows: BTreeMap<_, BTreeMap<u64, Spread>> = BTreeMap::new();
    for row in json["result"]["rows"].as_array().context("no rows")? {
        let key = |key: &str| row[key].as_str().map(str::to_owned).context("a row without name");
        let by_size = row["values"].as_object().context("a row without values")?;
        let mut spreads = BTreeMap::new();
        for (size, values) in by_size {
            let size = size.parse().with_context(|| format!("{size} is no size"))?;
            let values = values.as_array().into_iter().flatten().filter_map(Value::as_f64);
            spreads.extend(Spread::of(values).map(|spread| (size, spread)));
        }
        rows.insert((key("group")?, key("name")?), spreads);
    }
    let notes = json["result"]["notes"].as_array().into_iter().flatten();
    let notes = notes.filter_map(|note| note.as_str().map(str::to_owned)).collect();
    Ok(Grew { machine: run.machine.clone(), command: run.command(suite), rows, notes })
}

impl Grew {
    /// A figure by size, if it was measured.
    fn of(&self, figure: &Figure) -> Option<BTreeMap<u64, Spread>> {
        let (before, after) = figure.name.split_once('*').unwrap_or((figure.name, ""));
        let is_it = |name: &str| match figure.name.contains('*') {
            true => name.starts_with(before) && name.ends_with(after),
            false => name == figure.name,
        };
        let rows =
            self.rows.iter().filter(|((group, name), _)| group == figure.group && is_it(name));
        let row: BTreeMap<u64, Spread> = rows.flat_map(|(_, row)| row.clone()).collect();
        (!row.is_empty()).then_some(row)
    }

    fn panel(&self, figure: &Figure) -> Option<Grown> {
        let points = self.of(figure)?.iter().map(|(size, of)| (*size as f64, *of)).collect();
        Some(Grown { title: figure.title.to_owned(), points })
    }

    /// One line for each figure, one column for each size.
    fn table(&self, curve: &Curve) -> String {
        let found = || curve.figures.iter().filter_map(|it| Some((it.title, self.of(it)?)));
        let sizes: std::collections::BTreeSet<u64> =
            found().flat_map(|(_, row)| row.into_keys()).collect();
        let heads: Vec<String> = sizes.iter().map(|size| number(*size as f64)).collect();
        let mut text = format!("| {} | {} |\n", curve.of, heads.join(" | "));
        text.push_str(&format!("|---{}|\n", "|---".repeat(sizes.len())));
        for (title, row) in found() {
            let cell = |size: &u64| row.get(size).map_or_else(|| "–".to_owned(), shown);
            let cells: Vec<String> = sizes.iter().map(cell).collect();
            text.push_str(&format!("| {title} | {} |\n", cells.join(" | ")));
        }
        text
    }
}

/// The median, with the spread where there are several rounds.
fn shown(of: &Spread) -> String {
    match of.count {
        1 => number(of.median),
        _ => format!("{} ({} to {})", number(of.median), number(of.least), number(of.most)),
    }
}

/// `page` with `inner` between the marks.
fn replaced(page: &str, inner: &str) -> Result<String> {
    crate::report::between(page, BEGIN, END, inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> String {
        let row = |name: &str, small: Value, large: Value| {
            serde_json::json!({ "group": "bytes per watch", "name": name, "better": "lower",
                "values": { "10000": small, "100000": large } })
        };
        serde_json::json!({
            "command": "compare",
            "arguments": ["zebu", "bench", "compare", "--suite", "watches", "--sizes", "10000,100000", "--dir", "/secret"],
            "servers": [{ "name": "zebu" }],
            "result": { "rows": [
                row("resident", serde_json::json!([19, 21]), serde_json::json!([18, 22, 20])),
                row("in use", serde_json::json!([]), serde_json::json!([])),
            ], "notes": ["a note"] },
        })
        .to_string()
    }

    #[test]
    fn a_size_is_a_column_and_a_figure_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join(MEASURED)).unwrap();
        fs::write(root.join(PAGE), format!("# Growth\n\n{BEGIN}\nold\n{END}\n")).unwrap();
        fs::write(root.join(MEASURED).join("watches.json"), file()).unwrap();
        draw(root).unwrap();
        let page = fs::read_to_string(root.join(PAGE)).unwrap();
        assert!(page.contains("| watches | 10,000 | 100,000 |"), "{page}");
        let line = "| memory, bytes per watch | 20.0 (19.0 to 21.0) | 20.0 (18.0 to 22.0) |";
        assert!(page.contains(line), "{page}");
        assert!(page.contains("`zebu bench compare --suite watches --sizes 10000,100000`"));
        assert!(page.contains("* a note") && !page.contains("old") && !page.contains("secret"));
        let svg = fs::read_to_string(root.join(PLOTS).join("growth-watches.svg")).unwrap();
        assert!(svg.contains(">10k<") && svg.contains(">100k<"), "{svg}");
        assert!(svg.contains("bytes per watch"), "{svg}");
    }

    #[test]
    fn unknown_suites_and_other_files_are_refused() {
        let how = How { rounds: 1, dir: PathBuf::new(), zebu: None, draw: true };
        let error = run(&["cats".to_owned()], &how).unwrap_err().to_string();
        assert!(error.starts_with("cats has no curves; these have: znodes, "), "{error}");
        assert!(parse("{\"command\": \"run\"}", "watches").is_err());
    }

    #[test]
    fn the_page_and_the_plots_of_this_repository_show_its_figures() {
        let root = steps::root();
        for (file, svg) in plots(&root).unwrap() {
            let there = fs::read_to_string(root.join(PLOTS).join(&file)).unwrap();
            assert!(there == svg, "{file}: run cargo xtask growth --draw");
        }
        let page = fs::read_to_string(root.join(PAGE)).unwrap();
        let current = replaced(&page, &text(&root).unwrap()).unwrap();
        assert!(page == current, "{PAGE}: run cargo xtask growth --draw");
    }
}
