//! The figures of comparisons: read, merged, and boiled down to medians and ratios.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use zebu_figures::{Spread, times_better};

use super::about::{self, Run};

/// One kind of figure, by server and round.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) group: String,
    pub(crate) name: String,
    is_more_better: bool,
    /// The values of each file, in the order of the files.
    parts: Vec<Part>,
}

/// The values of one file.
#[derive(Clone, Debug)]
struct Part {
    /// The index of the file's run in [`Figures::runs`].
    run: usize,
    /// The values by server, in the order of [`Figures::servers`] when the file was read, then by
    /// round.
    values: Vec<Vec<Option<f64>>>,
}

/// The measurements of one or several comparisons.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// All servers of all comparisons. The first one is compared with the others.
    pub(crate) servers: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// The comparisons.
    pub(crate) runs: Vec<Run>,
    pub(crate) notes: Vec<String>,
}

impl Figures {
    /// Adds a file. Its values of a row and a server replace those of earlier files. A ratio is
    /// computed from values of one file only, because its servers took turns.
    pub(crate) fn add(&mut self, text: &str) -> Result<()> {
        let json: Value = serde_json::from_str(text)?;
        ensure!(json["command"] == "compare", "not written by zebu bench compare --json");
        let rows = json["result"]["rows"].as_array().context("no rows")?;
        let servers = server_names(rows, &json);
        let first = servers.first().context("no servers")?;
        ensure!(
            self.servers.is_empty() || self.servers[0] == *first,
            "{first} is set against the others here, and {:?} in the files before",
            self.servers[0]
        );
        for server in servers {
            if !self.servers.contains(&server) {
                self.servers.push(server);
            }
        }
        let run = self.runs.len();
        self.runs.push(about::run(&json));
        for row in rows {
            let row = self.row_of(run, row).with_context(|| row.to_string())?;
            let is_same = |other: &Row| other.group == row.group && other.name == row.name;
            match self.rows.iter_mut().find(|other| is_same(other)) {
                Some(there) => there.parts.extend(row.parts),
                None => self.rows.push(row),
            }
        }
        let notes = json["result"]["notes"].as_array().into_iter().flatten();
        self.notes.extend(notes.filter_map(|note| note.as_str().map(str::to_owned)));
        Ok(())
    }

    fn row_of(&self, run: usize, json: &Value) -> Result<Row> {
        let text =
            |key: &str| json[key].as_str().map(str::to_owned).with_context(|| key.to_owned());
        let of_server = |name: &String| {
            let values = json["values"][name].as_array();
            values.map(|values| values.iter().map(Value::as_f64).collect()).unwrap_or_default()
        };
        Ok(Row {
            group: text("group")?,
            name: text("name")?,
            is_more_better: json["better"] == "higher",
            parts: vec![Part { run, values: self.servers.iter().map(of_server).collect() }],
        })
    }

    /// The index of the server with this name.
    pub(crate) fn server(&self, name: &str) -> Option<usize> {
        self.servers.iter().position(|server| server == name)
    }

    /// The rows of a group whose names match `pattern`, in which one `*` matches any text. Each row
    /// comes with that text.
    pub(crate) fn find<'a>(
        &'a self,
        group: &'a str,
        pattern: &'a str,
    ) -> impl Iterator<Item = (&'a Row, &'a str)> {
        self.rows.iter().filter(move |row| row.group == group).filter_map(move |row| {
            let Some((before, after)) = pattern.split_once('*') else {
                return (row.name == pattern).then_some((row, ""));
            };
            Some((row, row.name.strip_prefix(before)?.strip_suffix(after)?))
        })
    }
}

impl Row {
    /// A server's values.
    pub(crate) fn of(&self, server: usize) -> Option<Spread> {
        self.parts
            .iter()
            .rev()
            .find_map(|part| Spread::of(part.of(server).iter().flatten().copied()))
    }

    /// How many times better the first server is than another, for each round.
    pub(crate) fn times_better(&self, other: usize) -> Option<Spread> {
        self.parts.iter().rev().find_map(|part| {
            Spread::of(times_better(self.is_more_better, part.of(0), part.of(other)))
        })
    }

    /// The runs with values of this row.
    pub(crate) fn runs(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|part| part.run)
    }

    /// The unit of the figure: the text after the comma in the name of its group, or the whole
    /// name.
    pub(crate) fn unit(&self) -> &str {
        match self.group.rsplit_once(", ") {
            Some((_, "us")) => "µs",
            Some((_, "us/request")) => "µs",
            Some((_, "% of a core")) => "% of a core",
            Some((_, unit)) => unit,
            None if self.group.starts_with("bytes") => "bytes",
            None if self.group.starts_with("s ") => "s",
            None if self.group == "MB/s" => "MB/s",
            None if self.group.starts_with('%') => "%",
            None => "",
        }
    }
}

impl Part {
    fn of(&self, server: usize) -> &[Option<f64>] {
        self.values.get(server).map_or(&[], Vec::as_slice)
    }
}

/// The servers' names in the rows, in the order of the file's list.
fn server_names(rows: &[Value], json: &Value) -> Vec<String> {
    let listed = json["servers"].as_array().into_iter().flatten();
    let listed: Vec<&str> = listed.filter_map(|server| server["name"].as_str()).collect();
    let mut names: Vec<String> = Vec::new();
    for (index, name) in listed.iter().enumerate() {
        let earlier = listed[..index].iter().filter(|other| *other == name).count();
        names.push(if earlier == 0 {
            (*name).to_owned()
        } else {
            format!("{name}-{}", earlier + 1)
        });
    }
    names.retain(|name| rows.iter().any(|row| row["values"].get(name).is_some()));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one figure for two servers.
    fn file(other: &str, zebu: [f64; 2], others: [f64; 2]) -> String {
        serde_json::json!({
            "command": "compare",
            "servers": [{ "name": "zebu" }, { "name": other }],
            "result": { "rows": [{
                "group": "requests/s", "name": "get", "better": "higher",
                "values": { "zebu": zebu, other: others },
            }] },
        })
        .to_string()
    }

    #[test]
    fn files_may_have_other_servers_and_ratios_stay_within_a_file() {
        let mut figures = Figures::default();
        figures.add(&file("java", [10.0, 20.0], [10.0, 10.0])).unwrap();
        figures.add(&file("echo", [30.0, 50.0], [100.0, 100.0])).unwrap();
        assert_eq!(figures.servers, ["zebu", "java", "echo"]);
        let row = &figures.rows[0];
        let median = |of: Option<Spread>| of.unwrap().median;
        assert_eq!(figures.rows.len(), 1);
        assert_eq!(median(row.of(0)), 40.0, "the last file counts");
        assert_eq!(median(row.of(1)), 10.0);
        assert_eq!(median(row.times_better(1)), 1.5, "of the file that has java");
        assert_eq!(median(row.times_better(2)), 0.4);
        assert_eq!(row.runs().collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn files_that_set_another_server_against_the_others_do_not_go_together() {
        let mut figures = Figures::default();
        figures.add(&file("java", [1.0, 1.0], [1.0, 1.0])).unwrap();
        let error = figures.add(&file("java", [1.0, 1.0], [1.0, 1.0]).replace("zebu", "abc"));
        assert!(error.unwrap_err().to_string().contains("abc"));
    }
}
