//! The tables of figures in Markdown: what is aimed at first, then everything by subject.

use std::collections::BTreeSet;

use zebu_figures::{Spread, number};

use super::aims::{AREAS, JAVA, Key, verdict};
use super::figures::{Figures, Row};
use super::plots::Plot;
use super::subjects::{SUBJECTS, Subject};

/// The kind of page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// All tables, in `docs`.
    Full,
    /// The most important figures, in the README.
    Short,
}

/// The text between the marks of a page.
pub(crate) fn render(figures: &Figures, plots: &[Plot], page: Page) -> String {
    let mut text = String::new();
    if page == Page::Full {
        text.push_str(&introduction(figures));
    }
    let dir = if page == Page::Short { "docs/plots" } else { "plots" };
    text.push_str(&picture(plots, "ratios.svg", dir));
    if page == Page::Short {
        text.push_str(&short(figures));
        return text;
    }
    for area in AREAS {
        let found = keys(figures, area.keys);
        if !found.is_empty() {
            text.push_str(&format!("### {}: aims\n\n{}", area.title, aims(figures, &found)));
        }
    }
    for subject in SUBJECTS {
        text.push_str(&by_subject(figures, plots, subject));
    }
    if !figures.notes.is_empty() {
        text.push_str("### Notes\n\n");
        for note in &figures.notes {
            text.push_str(&format!("* {}\n", note.replace('\n', "; ")));
        }
    }
    text
}

/// An explanation of the tables, and the origin of the figures.
fn introduction(figures: &Figures) -> String {
    let mut text = format!(
        "Medians over the rounds, the servers in turn. A ratio is above 1 where {} is better, whichever direction is good \
         for a figure; it is the median of the ratios of each round, with the smallest and largest. `durable` and `echo` \
         only answer: they show the limits of this machine, its disk and the load generator.\n\n",
        figures.servers[0]
    );
    let mut lines: Vec<String> = Vec::new();
    for run in &figures.runs {
        for line in run.servers.iter().chain([&run.machine]) {
            if !lines.contains(line) {
                lines.push(line.clone());
            }
        }
    }
    for line in lines {
        text.push_str(&format!("* {line}\n"));
    }
    text.push('\n');
    text
}

fn picture(plots: &[Plot], file: &str, dir: &str) -> String {
    let plot = plots.iter().find(|plot| plot.file == file);
    plot.map_or_else(String::new, |plot| format!("![{}]({dir}/{file})\n\n", plot.title))
}

/// A row for a key, and the text that matches the key's `*`.
type Found<'a> = (&'a Key, &'a Row, &'a str);

fn keys<'a>(figures: &'a Figures, keys: &'a [Key]) -> Vec<Found<'a>> {
    let rows = |key: &'a Key| {
        figures.find(key.group, key.name).map(move |(row, stands_for)| (key, row, stands_for))
    };
    keys.iter().flat_map(rows).collect()
}

/// The table of the full page: all servers, the ratio to Java, the aim, and whether it was met.
fn aims(figures: &Figures, found: &[Found<'_>]) -> String {
    let mut heads = vec!["figure".to_owned(), "suite".to_owned()];
    heads.extend(figures.servers.iter().cloned());
    heads.extend(against_java(figures));
    heads.extend(["aim".to_owned(), String::new()]);
    let line = |(key, row, stands_for): &Found<'_>| {
        let mut cells = vec![key.label.replace('*', stands_for), key.suite.to_owned()];
        cells.extend(medians(figures, row, row.unit()));
        cells.extend(java_ratio(figures, row));
        cells.extend(verdict(figures, row, key.aim));
        cells
    };
    let lines: Vec<_> = found.iter().map(line).collect();
    let rows: Vec<&Row> = found.iter().map(|(_, row, _)| *row).collect();
    format!("{}. {}", rounds(&rows), commands(figures, &rows, "SUITE")) + &table(&heads, &lines)
}

/// The table of the short page: Zebu and Java.
fn short(figures: &Figures) -> String {
    let java = figures.server(JAVA);
    let mut heads = vec!["figure".to_owned(), figures.servers[0].clone()];
    heads.extend(java.map(|_| JAVA.to_owned()));
    heads.extend(against_java(figures));
    let mut lines = Vec::new();
    for area in AREAS {
        for (key, row, stands_for) in keys(figures, area.keys) {
            if !key.is_short {
                continue;
            }
            let all = medians(figures, row, row.unit());
            let label = key.label.replace('*', stands_for);
            let mut cells = vec![format!("{}: {label}", area.title)];
            cells.push(all[0].clone());
            cells.extend(java.map(|java| all[java].clone()));
            cells.extend(java_ratio(figures, row));
            lines.push(cells);
        }
    }
    table(&heads, &lines)
}

/// The heading of the column of ratios to Java, if Java took part.
fn against_java(figures: &Figures) -> Option<String> {
    figures.server(JAVA).map(|_| format!("{} : {JAVA}", figures.servers[0]))
}

fn java_ratio(figures: &Figures, row: &Row) -> Option<String> {
    figures.server(JAVA).map(|java| ratio(row.times_better(java)))
}

/// A subject's plots, and its rows by group.
fn by_subject(figures: &Figures, plots: &[Plot], subject: &Subject) -> String {
    let rows: Vec<&Row> = subject
        .rows
        .iter()
        .flat_map(|(group, pattern)| figures.find(group, pattern).map(|(row, _)| row))
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!("### {}\n\n", subject.title);
    for file in subject.plots {
        text.push_str(&picture(plots, file, "plots"));
    }
    let commands = commands(figures, &rows, subject.suite);
    text.push_str(&format!("{}. {commands}", rounds(&rows)));
    for rows in rows.chunk_by(|row, next| row.group == next.group) {
        text.push_str(&by_group(figures, rows));
    }
    text
}

/// The table of a group: its servers, and the first one's ratio to each other.
fn by_group(figures: &Figures, rows: &[&Row]) -> String {
    let took_part = |server: &usize| rows.iter().any(|row| row.of(*server).is_some());
    let servers: Vec<usize> = (0..figures.servers.len()).filter(took_part).collect();
    let mut heads = vec![titled(&rows[0].group)];
    heads.extend(servers.iter().map(|server| figures.servers[*server].clone()));
    let others: Vec<usize> = servers.iter().copied().filter(|server| *server != 0).collect();
    let versus = |other: &usize| format!("{} : {}", figures.servers[0], figures.servers[*other]);
    heads.extend(others.iter().map(versus));
    let line = |row: &&Row| {
        let mut cells = vec![row.name.clone()];
        cells.extend(servers.iter().map(|server| median(row.of(*server), "")));
        cells.extend(others.iter().map(|other| ratio(row.times_better(*other))));
        cells
    };
    table(&heads, &rows.iter().map(line).collect::<Vec<_>>())
}

/// The number of rounds of some rows.
fn rounds(rows: &[&Row]) -> String {
    let counts = rows.iter().filter_map(|row| row.of(0)).map(|of| of.count);
    let (least, most) = (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0));
    match (least, most) {
        (1, 1) => "1 round".to_owned(),
        (least, most) if least == most => format!("{most} rounds"),
        (least, most) => format!("{least} to {most} rounds"),
    }
}

/// The commands that repeat the measurement of some rows.
fn commands(figures: &Figures, rows: &[&Row], suite: &str) -> String {
    let runs: BTreeSet<usize> = rows.iter().flat_map(|row| row.runs()).collect();
    let mut commands: Vec<String> = Vec::new();
    for run in runs {
        let command = format!("`{}`", figures.runs[run].command(suite));
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    format!("{}\n\n", commands.join(", "))
}

/// A group's name with the sign of its unit.
fn titled(group: &str) -> String {
    match group.split_once(", us") {
        Some((what, rest)) => format!("{what}, µs{rest}"),
        None => group.to_owned(),
    }
}

/// The median of each server.
fn medians(figures: &Figures, row: &Row, unit: &str) -> Vec<String> {
    (0..figures.servers.len()).map(|server| median(row.of(server), unit)).collect()
}

fn median(of: Option<Spread>, unit: &str) -> String {
    match of {
        Some(of) => format!("{} {unit}", number(of.median)).trim_end().to_owned(),
        None => "–".to_owned(),
    }
}

fn ratio(of: Option<Spread>) -> String {
    match of {
        Some(Spread { median, count: 1, .. }) => number(median),
        Some(of) => format!("{} ({} to {})", number(of.median), number(of.least), number(of.most)),
        None => "–".to_owned(),
    }
}

fn table(heads: &[String], lines: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for cells in lines {
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text.push('\n');
    text
}
