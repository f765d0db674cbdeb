//! `zebu bench clients`: the same load through several client libraries, in turn, against one
//! server.
//!
//! Each client keeps a number of requests in flight on one session, in a process of its own, so the
//! figures are those of an application. The folder of this file contains the programs for the C
//! client and for kazoo. The program for the C client is compiled when it is needed.

mod ours;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use zebu_figures::{Spread, number};

use crate::cleanup;
use crate::client::Client;
use crate::compare::{START_LIMIT, progress};
use crate::contestant::Contestant;
use crate::output::Output;
use crate::suite::{ANSWER_LIMIT, ROOT};

use crate::table::Table;
use crate::wire::{self, op};

const C_SOURCE: &str = include_str!("clients/driver.c");
const PYTHON_SOURCE: &str = include_str!("clients/driver.py");

/// Where `cargo xtask deps` puts the Python that has kazoo.
const PYTHON_OF_DEPS: &str = ".deps/venv/bin/python";

/// The library that programs over the C client load.
const SONAME: &str = "libzookeeper_mt.so.2";

/// Where `cargo xtask capi` puts Zebu's C library.
const LIBRARIES_OF_XTASK: &str = "target/capi/lib";

/// A client library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Library {
    /// zebu-client
    Zebu,
    /// the C client, `libzookeeper_mt`
    C,
    /// the same program over Zebu's `libzookeeper_mt`
    ZebuC,
    /// kazoo
    Kazoo,
}

impl Library {
    fn name(self) -> &'static str {
        match self {
            Self::Zebu => "zebu",
            Self::C => "c",
            Self::ZebuC => "zebu-c",
            Self::Kazoo => "kazoo",
        }
    }
}

/// The requested operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Load {
    /// getData, for some time
    Get,
    /// setData, for some time
    Set,
    /// each znode read once
    All,
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Set => "set",
            Self::All => "all",
        }
    }
}

/// Run the same load through several client libraries in turn, and print requests per second
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientsArgs {
    /// Client libraries; ratios are the first one's against each other one
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME", default_values = ["zebu", "c", "kazoo"])]
    clients: Vec<Library>,
    /// Loads
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME", default_values = ["get", "set", "all"])]
    load: Vec<Load>,
    /// Requests kept in flight, for get and set
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16, 128])]
    depths: Vec<u32>,
    /// Length of each measured window, for get and set
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,
    /// Znodes; as many reads are in flight at most when each is read once
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    keys: u32,
    /// Bytes of each value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    size: usize,
    /// How often each client runs each load, in turn
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// A server that is running [default: a zebu server of its own]
    #[arg(long, value_name = "ADDRESS")]
    server: Option<SocketAddr>,
    /// The zebu executable [default: this one]
    #[arg(long, value_name = "PATH")]
    zebu: Option<PathBuf>,
    /// The Python that has kazoo [default: that of .deps, or python3]
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// The folder with Zebu's libzookeeper_mt, for zebu-c
    #[arg(long, value_name = "DIR", default_value = LIBRARIES_OF_XTASK)]
    libraries: PathBuf,
    /// Where the data directory is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Write the raw numbers, with all parameters, to this file (- for stdout)
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
}

/// One client's share of one load, in a process of its own; only this program calls it.
#[derive(Clone, Debug, Args)]
#[command(hide = true)]
pub(crate) struct DriveArgs {
    server: SocketAddr,
    #[arg(value_enum)]
    load: Load,
    depth: u32,
    seconds: f64,
    keys: u32,
    size: usize,
}

impl DriveArgs {
    /// The arguments for the other programs.
    fn words(&self) -> [String; 6] {
        let load = self.load.name().to_owned();
        let numbers = [self.keys.to_string(), self.size.to_string()];
        let [keys, size] = numbers;
        let (depth, seconds) = (self.depth.to_string(), self.seconds.to_string());
        [self.server.to_string(), load, depth, seconds, keys, size]
    }
}

/// Runs one load through `zebu-client`, and prints the results.
pub(crate) fn drive(args: &DriveArgs) -> anyhow::Result<()> {
    println!("{}", ours::run(args)?);
    Ok(())
}

/// The results of one run of one client.
#[derive(Clone, Copy, Debug)]
struct Done {
    requests: f64,
    seconds: f64,
}

impl Done {
    fn per_second(self) -> f64 {
        self.requests / self.seconds
    }

    /// Parses the output of a program.
    fn read(text: &str) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_str(text).with_context(|| format!("read {text:?}"))?;
        let number =
            |key: &str| value[key].as_f64().with_context(|| format!("no {key} in {text:?}"));
        let errors = number("errors")?;
        ensure!(errors == 0.0, "{errors} requests have failed");
        let done = Self { requests: number("requests")?, seconds: number("seconds")? };
        ensure!(done.requests > 0.0 && done.seconds > 0.0, "nothing was done: {text:?}");
        Ok(done)
    }
}

/// The programs that use each library.
struct Programs {
    zebu: PathBuf,
    c: Option<PathBuf>,
    libraries: PathBuf,
    python: PathBuf,
    script: PathBuf,
}

impl Programs {
    fn prepare(args: &ClientsArgs, dir: &Path) -> anyhow::Result<Self> {
        let zebu = match &args.zebu {
            Some(zebu) => zebu.clone(),
            None => std::env::current_exe().context("find this program")?,
        };
        let is_in_c = |library: &Library| matches!(library, Library::C | Library::ZebuC);
        let c = args.clients.iter().any(is_in_c).then(|| compile(dir)).transpose()?;
        let libraries = args.libraries.clone();
        // Otherwise the system would load the original's library.
        ensure!(
            !args.clients.contains(&Library::ZebuC) || libraries.join(SONAME).exists(),
            "{} is missing\nhint: cargo xtask capi, or --libraries",
            libraries.join(SONAME).display()
        );
        let script = dir.join("driver.py");
        fs::write(&script, PYTHON_SOURCE)?;
        let of_deps = Path::new(PYTHON_OF_DEPS);
        let python = args.python.clone();
        let default = || if of_deps.exists() { of_deps.into() } else { PathBuf::from("python3") };
        Ok(Self { zebu, c, libraries, python: python.unwrap_or_else(default), script })
    }

    fn command(&self, library: Library) -> Command {
        match library {
            Library::Zebu => {
                let mut command = Command::new(&self.zebu);
                command.args(["bench", "drive"]);
                command
            }
            Library::C => Command::new(self.c.as_ref().expect("compiled")),
            Library::ZebuC => {
                let mut command = Command::new(self.c.as_ref().expect("compiled"));
                command.env("LD_LIBRARY_PATH", &self.libraries);
                command
            }
            Library::Kazoo => {
                let mut command = Command::new(&self.python);
                command.arg(&self.script);
                command
            }
        }
    }

    fn run(&self, library: Library, job: &DriveArgs) -> anyhow::Result<Done> {
        let mut command = self.command(library);
        let output = command.args(job.words()).stdin(Stdio::null()).output();
        let name = library.name();
        let output = output.with_context(|| format!("start {:?}", command.get_program()))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("{name}: {}\n{errors}", output.status);
        }
        Done::read(String::from_utf8_lossy(&output.stdout).trim()).context(name)
    }
}

fn compile(dir: &Path) -> anyhow::Result<PathBuf> {
    let (source, program) = (dir.join("driver.c"), dir.join("driver"));
    fs::write(&source, C_SOURCE)?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-DTHREADED", "-o"]).arg(&program).arg(&source);
    gcc.args(["-lzookeeper_mt", "-lpthread"]);
    let output = gcc.output().context("start gcc\nhint: cargo xtask deps installs it")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "compile the C client's program\n{errors}hint: cargo xtask deps installs its library"
    );
    Ok(program)
}

/// Creates the znodes that all clients work on.
fn fill(server: SocketAddr, keys: u32, size: usize) -> anyhow::Result<()> {
    let mut client = Client::connect(server, ANSWER_LIMIT)?;
    client.ensure(ROOT)?;
    let data = vec![b'x'; size];
    for key in 0..keys {
        let path = path(key);
        let (err, _) = client.call(op::CREATE, |to| wire::create_body(to, &path, &data))?;
        ensure!(err == 0 || err == wire::ERR_NODE_EXISTS, "create {path}: error {err}");
    }
    client.close()
}

/// The path of a znode. The programs of the other clients build the same paths.
pub(crate) fn path(key: u32) -> String {
    format!("{ROOT}/c{key:07}")
}

/// Runs the comparison.
pub(crate) fn run(args: &ClientsArgs) -> anyhow::Result<()> {
    ensure!(args.keys > 0 && args.seconds > 0.0 && args.rounds > 0, "there is nothing to do");
    ensure!(!args.clients.is_empty() && !args.depths.contains(&0), "there is nothing to do");
    cleanup::on_interrupt();
    let output = Output::new(args.json.as_deref());
    let dir = tempfile::Builder::new().prefix("zebu-bench-clients-").tempdir_in(&args.dir)?;
    let folder = std::path::absolute(dir.path())?;
    let programs = Programs::prepare(args, &folder)?;
    let mut running = None;
    let server = match args.server {
        Some(server) => server,
        None => {
            let own = Contestant::Zebu { program: programs.zebu.clone() }.start(&folder, &[])?;
            let own = running.insert(own);
            own.wait_for("/", START_LIMIT)?;
            own.address
        }
    };
    fill(server, args.keys, args.size)?;
    let mut found: BTreeMap<(Load, u32, Library), Vec<Done>> = BTreeMap::new();
    for round in 1..=args.rounds {
        for &load in &args.load {
            let depths = if load == Load::All { &[args.keys][..] } else { &args.depths };
            for &depth in depths {
                for &library in &args.clients {
                    progress(&format!(
                        "round {round}: {} {} depth {depth}",
                        library.name(),
                        load.name()
                    ));
                    let (seconds, keys, size) = (args.seconds, args.keys, args.size);
                    let job = DriveArgs { server, load, depth, seconds, keys, size };
                    found
                        .entry((load, depth, library))
                        .or_default()
                        .push(programs.run(library, &job)?);
                }
            }
        }
    }
    show(args, &found, output)?;
    if let Some(running) = running {
        running.stop()?;
    }
    // The znodes on a server of the user's stay. `deleteall /zebu-bench` removes them.
    Ok(())
}

fn show(
    args: &ClientsArgs,
    found: &BTreeMap<(Load, u32, Library), Vec<Done>>,
    output: Output<'_>,
) -> anyhow::Result<()> {
    let mut heads = vec!["requests/s".to_owned(), "depth".to_owned()];
    heads.extend(args.clients.iter().map(|library| library.name().to_owned()));
    let first = args.clients[0];
    let others = &args.clients[1..];
    heads.extend(others.iter().map(|other| format!("{}/{}", first.name(), other.name())));
    let mut table = Table::new(heads);
    let mut rows: Vec<(Load, u32)> = found.keys().map(|(load, depth, _)| (*load, *depth)).collect();
    rows.dedup();
    for (load, depth) in rows {
        let rates = |library| -> Vec<f64> {
            let done = found.get(&(load, depth, library)).map_or(&[][..], Vec::as_slice);
            done.iter().map(|done| done.per_second()).collect()
        };
        let mut cells = vec![load.name().to_owned(), depth.to_string()];
        cells.extend(args.clients.iter().map(|library| spread(rates(*library), false)));
        cells.extend(others.iter().map(|other| {
            // Ratios are formed between runs that followed each other.
            let pairs = rates(first).into_iter().zip(rates(*other));
            spread(pairs.map(|(ours, theirs)| ours / theirs).collect(), true)
        }));
        table.row(cells);
    }
    output.text(&table.render());
    let runs: Vec<Value> = found
        .iter()
        .flat_map(|((load, depth, library), runs)| {
            runs.iter().map(move |done| {
                json!({
                    "load": load.name(),
                    "depth": depth,
                    "client": library.name(),
                    "requests": done.requests,
                    "seconds": done.seconds,
                })
            })
        })
        .collect();
    output.json(&json!({
        "parameters": {
            "seconds": args.seconds,
            "keys": args.keys,
            "size": args.size,
            "rounds": args.rounds,
            "server": args.server.map(|server| server.to_string()),
        },
        "runs": runs,
    }))
}

/// The median and, if wanted and known, the smallest and the largest value.
fn spread(values: Vec<f64>, is_wide: bool) -> String {
    match Spread::of(values) {
        None => number(f64::NAN),
        Some(of) if is_wide && of.count > 1 => {
            format!("{} ({}..{})", number(of.median), number(of.least), number(of.most))
        }
        Some(of) => number(of.median),
    }
}

/// The time limit for one answer. A run with a later answer fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_is_believed_when_it_is_whole() {
        let done = Done::read("{\"requests\": 100, \"seconds\": 0.5, \"errors\": 0}").unwrap();
        assert_eq!(done.per_second(), 200.0);
        for text in [
            "",
            "{\"requests\": 100, \"seconds\": 0.5}",
            "{\"requests\": 100, \"seconds\": 0.5, \"errors\": 1}",
            "{\"requests\": 0, \"seconds\": 0.5, \"errors\": 0}",
        ] {
            assert!(Done::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn all_programs_work_on_the_same_znodes() {
        assert_eq!(path(42), "/zebu-bench/c0000042");
        assert!(
            C_SOURCE.contains("/zebu-bench/c%07ld") && PYTHON_SOURCE.contains("/zebu-bench/c%07d")
        );
    }
}
