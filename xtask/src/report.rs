//! `cargo xtask bench-report [FILE...]`: what `zebu bench compare --json FILE` measured, as tables
//! in the docs and the README and as plots beside them.
//!
//! The task keeps the figures in `docs/measured`, and writes the pages from everything there. The
//! same files give the same bytes, so a test compares the pages with the figures.

pub(crate) mod about;
mod aims;
mod figures;
mod pages;
mod plots;
mod subjects;
pub(crate) mod svg;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use figures::Figures;

/// The pages and their kinds.
const PAGES: [(&str, pages::Page); 2] =
    [("docs/performance.md", pages::Page::Full), ("README.md", pages::Page::Short)];
/// The directory of the plots.
const PLOTS: &str = "docs/plots";
/// The directory of the published figures.
const MEASURED: &str = "docs/measured";
/// The marks before and after the tables of a page.
const BEGIN: &str = "<!-- measured: what follows is written by `cargo xtask bench-report` -->";
const END: &str = "<!-- measured: end -->";

/// Keeps the figures of these files in the repository at `root`, and writes the tables and plots of
/// all kept figures.
pub(crate) fn write(root: &Path, files: &[String]) -> Result<()> {
    for file in files {
        let text = fs::read_to_string(file).with_context(|| format!("read {file}"))?;
        Figures::default().add(&text).with_context(|| file.clone())?;
        let text = about::published(&text).with_context(|| file.clone())?;
        let name = Path::new(file).file_name().with_context(|| file.clone())?;
        let path = root.join(MEASURED).join(name).with_extension("json");
        fs::create_dir_all(root.join(MEASURED))?;
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    let figures = kept(root)?;
    let plots = plots::all(&figures);
    let dir = root.join(PLOTS);
    fs::create_dir_all(&dir)?;
    for (name, _) in plots::NAMES {
        let path = dir.join(name);
        match plots.iter().find(|plot| plot.file == *name) {
            Some(plot) => fs::write(&path, &plot.svg)?,
            None if path.exists() => fs::remove_file(&path)?,
            None => continue,
        }
        println!("{PLOTS}/{name}");
    }
    for (name, page) in PAGES {
        let path = root.join(name);
        let text = fs::read_to_string(&path).with_context(|| format!("read {name}"))?;
        let inner = pages::render(&figures, &plots, page);
        let text = replaced(&text, &inner).with_context(|| name.to_owned())?;
        fs::write(&path, text)?;
        println!("{name}");
    }
    Ok(())
}

/// The figures in the repository. Those of a file replace those of files whose names are before its
/// name.
fn kept(root: &Path) -> Result<Figures> {
    let dir = root.join(MEASURED);
    let mut files = Vec::new();
    if dir.exists() {
        for entry in fs::read_dir(&dir)? {
            files.push(entry?.path());
        }
    }
    files.sort();
    ensure!(
        !files.is_empty(),
        "no figures are in {MEASURED}\nhint: zebu bench compare --suite all --rounds 5 --json FILE; cargo xtask bench-report FILE"
    );
    let mut figures = Figures::default();
    for file in files {
        let text = fs::read_to_string(&file)?;
        figures.add(&text).with_context(|| file.display().to_string())?;
    }
    Ok(figures)
}

/// `page` with `inner` between the marks.
fn replaced(page: &str, inner: &str) -> Result<String> {
    between(page, BEGIN, END, inner)
}

/// `page` with `inner` between the lines `begin` and `end`.
pub(crate) fn between(page: &str, begin: &str, end: &str, inner: &str) -> Result<String> {
    let marks = || format!("the lines {begin} and {end}");
    let (before, rest) = page.split_once(begin).with_context(marks)?;
    let (_, after) = rest.split_once(end).with_context(marks)?;
    Ok(format!("{before}{begin}\n\n{}\n\n{end}{after}", inner.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = include_str!("report/fixture.json");

    /// A repository with the pages only.
    fn repository() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("docs")).unwrap();
        let page = format!("# Before\n\n{BEGIN}\nold\n{END}\n\nAfter.\n");
        fs::write(dir.path().join("docs/performance.md"), &page).unwrap();
        fs::write(dir.path().join("README.md"), &page).unwrap();
        fs::write(dir.path().join("run.json"), FIXTURE).unwrap();
        dir
    }

    fn report(dir: &Path) -> Vec<(String, String)> {
        write(dir, &[dir.join("run.json").display().to_string()]).unwrap();
        let mut files = vec!["README.md".to_owned(), "docs/performance.md".to_owned()];
        for entry in fs::read_dir(dir.join(PLOTS)).unwrap() {
            files.push(format!("{PLOTS}/{}", entry.unwrap().file_name().display()));
        }
        files.sort();
        let read = |name: String| (name.clone(), fs::read_to_string(dir.join(name)).unwrap());
        files.into_iter().map(read).collect()
    }

    #[test]
    fn the_same_figures_give_the_same_bytes() {
        let dir = repository();
        let first = report(dir.path());
        assert_eq!(report(dir.path()), first);
        let (_, readme) = first.iter().find(|(name, _)| name == "README.md").unwrap();
        assert!(readme.starts_with("# Before\n"), "{readme}");
        assert!(readme.ends_with("\n\nAfter.\n"), "{readme}");
        assert!(!readme.contains("old"), "{readme}");
    }

    #[test]
    fn the_pages_say_what_was_measured_and_how() {
        let dir = repository();
        let files = report(dir.path());
        let page = &files.iter().find(|(name, _)| name == "docs/performance.md").unwrap().1;
        // 900, 1,000 and 1,100 against 100 each: the medians, the median of the ratios, and their
        // spread.
        let line = "| get, depth 1, 1 conn | 1,000 | 100 | 10.0 (9.00 to 11.0) |";
        assert!(page.contains(line), "{page}");
        // Lower is better: 4 against 10, 5 against 30, 6 against 12.
        let line =
            "| 5.00 µs | 12.0 µs | 2.50 (2.00 to 6.00) | 4 times java's | missed by 37.5 % |";
        assert!(page.contains(line), "{page}");
        let line = "| 221 bytes | 824 bytes | 3.73 | at most 250 bytes | met |";
        assert!(page.contains(line), "{page}");
        // Java has no value for this figure.
        assert!(page.contains("| 0.500 s | – | – | 10 times java's | – |"), "{page}");
        assert!(
            page.contains("3 rounds. `zebu bench compare --suite pipeline --rounds 3`"),
            "{page}"
        );
        assert!(page.contains("1 round. `zebu bench compare --suite SUITE --rounds 3`"), "{page}");
        assert!(!page.contains("/secret"), "paths of a machine are nobody's business: {page}");
        assert!(page.contains("zebu 3.9.5-zebu"), "{page}");
        assert!(page.contains("java, round 2: said"), "{page}");
        for name in ["latency.svg", "reads.svg"] {
            assert!(files.iter().any(|(file, _)| file.ends_with(name)), "{name}");
            assert!(page.contains(&format!("(plots/{name})")), "{name}: {page}");
        }
        // There are no measurements for this plot.
        assert!(!page.contains("plots/ensemble.svg"), "{page}");
        assert!(!page.contains("Three servers"), "{page}");
        let readme = &files.iter().find(|(name, _)| name == "README.md").unwrap().1;
        assert!(readme.contains("(docs/plots/ratios.svg)"), "{readme}");
    }

    #[test]
    fn aims_are_set_against_java_against_echo_and_against_nobody() {
        let dir = repository();
        let file = |name: &str, text: String| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let row = |group: &str, name: &str, better: &str, values: serde_json::Value| serde_json::json!({ "group": group, "name": name, "better": better, "values": values });
        let comparison = |servers: &[&str], command: &str, rows: Vec<serde_json::Value>| {
            let servers = servers.iter().map(|name| serde_json::json!({ "name": name }));
            serde_json::json!({
                "command": "compare",
                "arguments": command.split(' ').collect::<Vec<_>>(),
                "servers": servers.collect::<Vec<_>>(),
                "result": { "rows": rows, "notes": [] },
            })
            .to_string()
        };
        let get = |depth: u32| format!("get, depth {depth}, 16 conn");
        let java = comparison(
            &["zebu", "java"],
            "zebu bench compare --rounds 2 --suite all --json java.json",
            vec![
                row(
                    "requests/s",
                    &get(1),
                    "higher",
                    serde_json::json!({ "zebu": [160, 170], "java": [50, 50] }),
                ),
                row(
                    "requests/s",
                    &get(16),
                    "higher",
                    serde_json::json!({ "zebu": [1200, 1400], "java": [100, 100] }),
                ),
                row(
                    "longest request, ms",
                    "write while a snapshot is written",
                    "lower",
                    serde_json::json!({ "zebu": [12.5], "java": [900] }),
                ),
            ],
        );
        let bounds = comparison(
            &["zebu", "durable", "echo"],
            "zebu bench compare --servers zebu,durable,echo --rounds 3",
            vec![row(
                "requests/s",
                &get(1),
                "higher",
                serde_json::json!({ "zebu": [140, 150, 130], "durable": [199, 199, 199], "echo": [200, 200, 200] }),
            )],
        );
        let files = [file("java.json", java), file("limits.json", bounds)];
        write(dir.path(), &files).unwrap();
        let page = fs::read_to_string(dir.path().join("docs/performance.md")).unwrap();
        for line in [
            // The ratio to Java comes from the first file, the share of echo's from the second:
            // servers of one file took turns.
            "| getData/s, one at a time, 16 connections | pipeline | 140 | 50.0 | 199 | 200 | 3.30 (3.20 to 3.40) \
             | 0.8 of echo's | missed by 12.5 % (0.700 of echo's) |",
            "| getData/s, depth 16, 16 connections | pipeline | 1,300 | 100 | – | – | 13.0 (12.0 to 14.0) \
             | 12 times java's | met |",
            "| longest write while a snapshot is written | znodes | 12.5 ms | 900 ms | – | – | 72.0 \
             | at most 5 ms | missed by 7.50 ms |",
            // A server that did not take part has no column.
            "| longest request, ms | zebu | java | zebu : java |",
            "| requests/s | zebu | java | durable | echo | zebu : java | zebu : durable | zebu : echo |",
            "2 to 3 rounds. `zebu bench compare --suite pipeline --rounds 2`, \
             `zebu bench compare --suite pipeline --servers zebu,durable,echo --rounds 3`",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
        let readme = fs::read_to_string(dir.path().join("README.md")).unwrap();
        let line = "| Reads: getData/s, one at a time, 16 connections | 140 | 50.0 | 3.30 (3.20 to 3.40) |";
        assert!(readme.contains(line), "{readme}");
    }

    #[test]
    fn a_later_file_adds_rows_and_takes_the_place_of_others() {
        let dir = repository();
        let more = FIXTURE.replace("[900, 1000, 1100]", "[1900, 2000, 2100]");
        fs::write(dir.path().join("second.json"), more).unwrap();
        let files =
            ["run.json", "second.json"].map(|name| dir.path().join(name).display().to_string());
        write(dir.path(), &files).unwrap();
        let page = fs::read_to_string(dir.path().join("docs/performance.md")).unwrap();
        assert!(
            page.contains("| get, depth 1, 1 conn | 2,000 | 100 | 20.0 (19.0 to 21.0) |"),
            "{page}"
        );
    }

    #[test]
    fn a_file_that_is_no_comparison_and_a_page_without_marks_are_refused() {
        let dir = repository();
        fs::write(dir.path().join("run.json"), "{\"command\": \"run\"}").unwrap();
        let file = dir.path().join("run.json").display().to_string();
        let error = format!("{:#}", write(dir.path(), &[file]).unwrap_err());
        assert!(error.contains("zebu bench compare"), "{error}");
        assert!(replaced("# No marks\n", "x").is_err());
        assert!(write(dir.path(), &[]).is_err());
    }

    #[test]
    fn the_pages_and_plots_of_this_repository_show_its_figures() {
        let root = crate::steps::root();
        // The tables of this revision may be older than the directory.
        let Ok(figures) = kept(&root) else { return };
        let plots = plots::all(&figures);
        for (name, page) in PAGES {
            let text = fs::read_to_string(root.join(name)).unwrap();
            let current = replaced(&text, &pages::render(&figures, &plots, page)).unwrap();
            assert!(text == current, "{name}: run cargo xtask bench-report");
        }
        for (name, _) in plots::NAMES {
            let text = fs::read_to_string(root.join(PLOTS).join(name)).ok();
            let plot = plots.iter().find(|plot| plot.file == *name).map(|plot| plot.svg.clone());
            assert!(text == plot, "{name}: run cargo xtask bench-report");
        }
    }
}
