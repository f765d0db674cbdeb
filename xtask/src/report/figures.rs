//! The figures of comparisons: read, merged, and boiled down to medians and ratios.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Options of a command that name places on somebody's machine, and nothing that matters.
const PLACES: [&str; 6] = ["--dir", "--json", "--zebu", "--java", "--java-classpath", "--keep"];
/// Of those, what stands alone.
const ALONE: &str = "--keep";

/// One kind of figure, by server and round.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) group: String,
    pub(crate) name: String,
    is_more_better: bool,
    /// By server, in the order of [`Figures::servers`], then by round.
    values: Vec<Vec<Option<f64>>>,
}

/// The median of some values and the smallest and largest of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// How many values there are.
    pub(crate) count: usize,
}

/// What one or several comparisons measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// The first is set against the others.
    pub(crate) servers: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// Machine, versions, commands and notes, a sentence each.
    pub(crate) about: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl Figures {
    /// Adds what a file has. Rows that are there already are replaced.
    pub(crate) fn add(&mut self, text: &str) -> Result<()> {
        let json: Value = serde_json::from_str(text)?;
        ensure!(json["command"] == "compare", "not written by zebu bench compare --json");
        let rows = json["result"]["rows"].as_array().context("no rows")?;
        let servers = server_names(rows, &json);
        ensure!(!servers.is_empty(), "no servers");
        ensure!(
            self.servers.is_empty() || self.servers == servers,
            "other servers than in the files before: {servers:?}, not {:?}",
            self.servers
        );
        self.servers = servers;
        for row in rows {
            let row = self.row_of(row).with_context(|| row.to_string())?;
            let is_same = |other: &Row| other.group == row.group && other.name == row.name;
            match self.rows.iter().position(is_same) {
                Some(index) => self.rows[index] = row,
                None => self.rows.push(row),
            }
        }
        for line in about(&json) {
            if !self.about.contains(&line) {
                self.about.push(line);
            }
        }
        let notes = json["result"]["notes"].as_array().into_iter().flatten();
        self.notes.extend(notes.filter_map(|note| note.as_str().map(str::to_owned)));
        Ok(())
    }

    fn row_of(&self, json: &Value) -> Result<Row> {
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
            values: self.servers.iter().map(of_server).collect(),
        })
    }

    /// The rows of a group whose name is `pattern`, in which one `*` stands for anything; with what it stands for.
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
    /// What a server reached.
    pub(crate) fn of(&self, server: usize) -> Option<Spread> {
        Spread::of(self.values[server].iter().flatten().copied().collect())
    }

    /// How many times better the first server is than another, round by round.
    pub(crate) fn times_better(&self, other: usize) -> Option<Spread> {
        let pairs = self.values[0].iter().zip(self.values.get(other)?);
        let pairs = pairs.filter_map(|(first, other)| first.zip(*other));
        let ratio = |(first, other)| match self.is_more_better {
            true => first / other,
            false => other / first,
        };
        Spread::of(pairs.map(ratio).filter(|ratio: &f64| ratio.is_finite()).collect())
    }

    /// What the figure is measured in: what stands behind the comma of its group, or all of it.
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

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        Some(Self { median, least, most, count: values.len() })
    }
}

/// The servers' names as the rows have them, in the order of the file's list.
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

/// Machine, versions and command.
fn about(json: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
    let machine = &json["machine"];
    let mut lines = vec![format!(
        "{} CPUs ({}), {} of memory, kernel {}; a durable 4 KiB write takes {} µs, a round trip on loopback {} µs; load average \
         before {}",
        machine["cpus"],
        text(&machine["cpu"]),
        memory(&text(&machine["memory"])),
        text(&machine["kernel"]),
        json["fdatasync_us"].as_f64().map_or_else(|| "-".to_owned(), number),
        json["round_trip_us"].as_f64().map_or_else(|| "-".to_owned(), number),
        json["load_average"].as_f64().map_or_else(|| "-".to_owned(), number),
    )];
    for server in json["servers"].as_array().into_iter().flatten() {
        lines.push(format!("{} {}", text(&server["name"]), text(&server["version"])));
    }
    let words = json["arguments"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<&str> = words.skip_while(|word| *word != "compare").collect();
    if !words.is_empty() {
        lines.push(format!("`zebu bench {}`", without_places(&words).join(" ")));
    }
    lines
}

/// `24000000 kB` as GB.
fn memory(text: &str) -> String {
    match text.strip_suffix(" kB").and_then(|kib| kib.parse::<f64>().ok()) {
        Some(kib) => format!("{} GB", number(kib * 1024.0 / 1e9)),
        None => text.to_owned(),
    }
}

fn without_places<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut kept = Vec::new();
    let mut is_value = false;
    for word in words {
        let name = word.split('=').next().unwrap_or_default();
        if is_value {
            is_value = false;
        } else if PLACES.contains(&name) {
            is_value = name == *word && name != ALONE;
        } else {
            kept.push(*word);
        }
    }
    kept
}

/// A number with three significant digits and more only in front of the point, as `zebu bench` prints it.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude < 100.0 {
        let decimals = match magnitude {
            m if m >= 10.0 => 1,
            m if m >= 1.0 => 2,
            m if m >= 0.01 => 3,
            0.0 => 0,
            _ => 5,
        };
        return format!("{value:.decimals$}");
    }
    let digits = format!("{magnitude:.0}");
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_name_places_are_left_out() {
        let words =
            ["compare", "--dir", "/a", "--json=/b", "--keep", "--rounds", "5", "--zebu", "/z"];
        assert_eq!(without_places(&words), ["compare", "--rounds", "5"]);
    }

    #[test]
    fn medians_of_even_and_odd_numbers_of_rounds() {
        let spread = |values: &[f64]| Spread::of(values.to_vec()).unwrap();
        assert_eq!(spread(&[3.0, 1.0, 9.0]).median, 3.0);
        let even = spread(&[4.0, 1.0, 2.0, 9.0]);
        assert_eq!((even.median, even.least, even.most, even.count), (3.0, 1.0, 9.0, 4));
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [(0.0, "0"), (0.25, "0.250"), (12.34, "12.3"), (-1_234_567.0, "-1,234,567")]
        {
            assert_eq!(number(value), text);
        }
    }
}
