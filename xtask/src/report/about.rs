//! How figures came about: the machine, who took part, and the command that measures them again.

use anyhow::Result;
use serde_json::{Value, json};
use zebu_figures::number;

/// Options with paths on a machine, which do not affect the results.
const PLACES: [&str; 6] = ["--dir", "--json", "--zebu", "--java", "--java-classpath", "--keep"];
/// The only one of these options without a value.
const ALONE: &str = "--keep";
/// The option that names suites.
const SUITE: &str = "--suite";

/// One comparison.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// A description of the machine and its other load.
    pub(crate) machine: String,
    /// The compared servers, with their versions.
    pub(crate) servers: Vec<String>,
    /// The words of the command, without suites and paths.
    words: Vec<String>,
}

impl Run {
    /// The command that repeats these suites.
    pub(crate) fn command(&self, suites: &str) -> String {
        let options: String = self.words.iter().map(|word| format!(" {word}")).collect();
        format!("zebu bench compare {SUITE} {suites}{options}")
    }
}

/// The description in a file.
pub(crate) fn run(json: &Value) -> Run {
    let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
    let figure = |value: &Value| value.as_f64().map_or_else(|| "-".to_owned(), number);
    let machine = &json["machine"];
    let machine = format!(
        "{} CPUs ({}), {} of memory, kernel {}; a durable 4 KiB write takes {} µs, a round trip on loopback {} µs; \
         load average before {}",
        machine["cpus"],
        text(&machine["cpu"]),
        memory(&text(&machine["memory"])),
        text(&machine["kernel"]),
        figure(&json["fdatasync_us"]),
        figure(&json["round_trip_us"]),
        figure(&json["load_average"]),
    );
    // Servers that only answer have no version.
    let version = |server: &Value| {
        server["version"].as_str().map(|version| format!("{} {version}", text(&server["name"])))
    };
    let servers = json["servers"].as_array().into_iter().flatten().filter_map(version).collect();
    let words = json["arguments"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<&str> = words.skip_while(|word| *word != "compare").skip(1).collect();
    let words = without_places(&words).into_iter().map(str::to_owned).collect();
    Run { machine, servers, words }
}

/// The text of a comparison for the repository: without paths of a machine, and with one figure in
/// each line.
pub(crate) fn published(text: &str) -> Result<String> {
    let json: Value = serde_json::from_str(text)?;
    let words = json["arguments"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<&str> = words.skip_while(|word| *word != "compare").collect();
    let servers = json["servers"].as_array().into_iter().flatten();
    let servers =
        servers.map(|server| json!({ "name": server["name"], "version": server["version"] }));
    let mut head = json!({
        "command": json["command"],
        "arguments": without_options(&words, &PLACES),
        "machine": json["machine"],
        "servers": servers.collect::<Vec<_>>(),
    });
    for key in ["fdatasync_us", "round_trip_us", "load_average"] {
        head[key] = json[key].clone();
    }
    let rows = json["result"]["rows"].as_array().into_iter().flatten();
    let rows: Vec<String> = rows.map(Value::to_string).collect();
    let notes = json["result"]["notes"].as_array().into_iter().flatten();
    let notes: Vec<String> = notes.map(Value::to_string).collect();
    let head = head.to_string();
    let head = head.strip_suffix('}').unwrap_or(&head);
    Ok(format!(
        "{head},\n\"result\": {{\"notes\": [\n{}\n], \"rows\": [\n{}\n]}}}}\n",
        notes.join(",\n"),
        rows.join(",\n")
    ))
}

/// `24000000 kB` as GB.
fn memory(text: &str) -> String {
    match text.strip_suffix(" kB").and_then(|kib| kib.parse::<f64>().ok()) {
        Some(kib) => format!("{} GB", number(kib * 1024.0 / 1e9)),
        None => text.to_owned(),
    }
}

/// The words that matter for a repetition of one suite.
fn without_places<'a>(words: &[&'a str]) -> Vec<&'a str> {
    without_options(words, &[&PLACES[..], &[SUITE]].concat())
}

/// The words without these options and their values.
fn without_options<'a>(words: &[&'a str], options: &[&str]) -> Vec<&'a str> {
    let mut kept = Vec::new();
    let mut is_value = false;
    for word in words {
        let name = word.split('=').next().unwrap_or_default();
        if is_value {
            is_value = false;
        } else if options.contains(&name) {
            is_value = name == *word && name != ALONE;
        } else {
            kept.push(*word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_name_places_and_suites_are_left_out() {
        let words = [
            "--dir",
            "/a",
            "--json=/b",
            "--keep",
            "--rounds",
            "5",
            "--zebu",
            "/z",
            "--suite",
            "all",
        ];
        assert_eq!(without_places(&words), ["--rounds", "5"]);
        assert_eq!(without_places(&["--suite=latency", "--quick"]), ["--quick"]);
    }
}
