//! The results of a comparison: every figure of every server in every round, and the table of their
//! medians, spreads and ratios.

use serde_json::json;
use zebu_figures::{Spread, number, times_better};

use crate::table::Table;

/// Whether a higher or a lower figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// One figure, for every server.
#[derive(Clone, Debug)]
struct Row {
    group: &'static str,
    name: String,
    better: Better,
    /// The values of each server, one for each round.
    values: Vec<Vec<Option<f64>>>,
}

/// All figures.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    servers: Vec<String>,
    rounds: usize,
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// The place for one server's figures of one round.
#[derive(Debug)]
pub(crate) struct Sheet<'b> {
    board: &'b mut Board,
    server: usize,
    round: usize,
}

impl Board {
    pub(crate) fn new(servers: Vec<String>, rounds: usize) -> Self {
        Self { servers, rounds, rows: Vec::new(), notes: Vec::new() }
    }

    pub(crate) fn sheet(&mut self, server: usize, round: usize) -> Sheet<'_> {
        Sheet { board: self, server, round }
    }

    /// One table for each group of figures, in the order in which the groups were first entered.
    pub(crate) fn render(&self) -> String {
        let mut groups: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !groups.contains(&row.group) {
                groups.push(row.group);
            }
        }
        let mut text = String::new();
        for group in groups {
            let mut heads = vec![group.to_owned()];
            let versus =
                self.servers.iter().skip(1).map(|other| format!("{} vs {other}", self.servers[0]));
            for name in self.servers.iter().cloned().chain(versus) {
                heads.push(name);
                if self.rounds > 1 {
                    heads.push("spread".to_owned());
                }
            }
            let mut table = Table::new(heads);
            for row in self.rows.iter().filter(|row| row.group == group) {
                table.row(self.cells(row));
            }
            text.push_str(&table.render());
            text.push('\n');
        }
        for note in &self.notes {
            text.push_str(&format!("note: {note}\n"));
        }
        text
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let mut cells = vec![row.name.clone()];
        for values in &row.values {
            let present: Vec<f64> = values.iter().flatten().copied().collect();
            cells.extend(self.median_and_spread(&present, ""));
        }
        for server in 1..self.servers.len() {
            cells.extend(self.median_and_spread(&row.ratios(server), "x"));
        }
        cells
    }

    /// The median and, after several rounds, the smallest and the largest value.
    fn median_and_spread(&self, values: &[f64], suffix: &str) -> Vec<String> {
        let spread = Spread::of(values.iter().copied());
        let mut cells = vec![match &spread {
            Some(of) => format!("{}{suffix}", number(of.median)),
            None => "-".to_owned(),
        }];
        if self.rounds > 1 {
            cells.push(match spread {
                Some(of) if of.count > 1 => format!("{}..{}", number(of.least), number(of.most)),
                _ => String::new(),
            });
        }
        cells
    }

    /// The raw figures.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "group": row.group,
                "name": row.name,
                "better": if row.better == Better::Higher { "higher" } else { "lower" },
                "values": self.servers.iter().zip(&row.values)
                    .map(|(server, values)| (server.clone(), json!(values)))
                    .collect::<serde_json::Map<_, _>>(),
            })
        });
        json!({ "rows": rows.collect::<Vec<_>>(), "notes": self.notes })
    }
}

impl Row {
    /// For each round, how many times better the first server is than `other`.
    fn ratios(&self, other: usize) -> Vec<f64> {
        times_better(self.better == Better::Higher, &self.values[0], &self.values[other])
    }
}

impl Sheet<'_> {
    /// Enters a figure.
    pub(crate) fn put(
        &mut self,
        group: &'static str,
        name: impl Into<String>,
        better: Better,
        value: impl Into<Option<f64>>,
    ) {
        let Some(value) = value.into() else { return };
        let name = name.into();
        let rows = &mut self.board.rows;
        let index = match rows.iter().position(|row| row.group == group && row.name == name) {
            Some(index) => index,
            None => {
                let values = vec![vec![None; self.board.rounds]; self.board.servers.len()];
                rows.push(Row { group, name, better, values });
                rows.len() - 1
            }
        };
        rows[index].values[self.server][self.round] = Some(value);
    }

    /// Adds a remark.
    pub(crate) fn note(&mut self, note: &str) {
        let server = &self.board.servers[self.server];
        let note = format!("{server}, round {}: {note}", self.round + 1);
        self.board.notes.push(note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_say_how_many_times_better_the_first_server_is() {
        let mut board = Board::new(vec!["zebu".into(), "java".into()], 2);
        for (server, round, ops, us) in
            [(0, 0, 800.0, 10.0), (1, 0, 100.0, 40.0), (0, 1, 600.0, 20.0), (1, 1, 100.0, 40.0)]
        {
            let mut sheet = board.sheet(server, round);
            sheet.put("throughput", "get", Better::Higher, ops);
            sheet.put("latency", "get", Better::Lower, us);
        }
        assert_eq!(
            board.render(),
            "throughput  zebu    spread  java    spread  zebu vs java      spread\n\
             get          700  600..800   100  100..100         7.00x  6.00..8.00\n\
             \n\
             latency  zebu      spread  java      spread  zebu vs java      spread\n\
             get      15.0  10.0..20.0  40.0  40.0..40.0         3.00x  2.00..4.00\n\
             \n"
        );
    }

    #[test]
    fn what_one_server_lacks_has_no_ratio() {
        let mut board = Board::new(vec!["zebu".into(), "java".into()], 1);
        board.sheet(1, 0).put("memory", "heap", Better::Lower, 5.0);
        board.sheet(1, 0).put("memory", "absent", Better::Lower, None);
        board.sheet(1, 0).note("said");
        let text = board.render();
        assert!(
            text.starts_with(
                "memory  zebu  java  zebu vs java\nheap       -  5.00             -\n"
            ),
            "{text}"
        );
        assert!(!text.contains("absent"), "{text}");
        assert!(text.ends_with("note: java, round 1: said\n"), "{text}");
    }
}
