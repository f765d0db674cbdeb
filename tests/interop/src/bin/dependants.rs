//! Kafka, HBase and Solr over an ensemble whose servers change from the original to Zebu and back:
//! `cargo xtask dependants [kafka] [hbase] [solr]`.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use zebu_interop::dependants::Dependant;

fn wanted(words: impl Iterator<Item = String>) -> Result<Vec<Dependant>> {
    let named = |word: String| {
        Dependant::ALL.into_iter().find(|known| known.name() == word).with_context(|| {
            let names: Vec<_> = Dependant::ALL.iter().map(|known| known.name()).collect();
            format!("no such application: {word}\napplications: {}", names.join(" "))
        })
    };
    let named: Vec<_> = words.map(named).collect::<Result<_>>()?;
    Ok(if named.is_empty() { Dependant::ALL.into() } else { named })
}

fn run() -> Result<()> {
    for dependant in wanted(std::env::args().skip(1))? {
        let seen = dependant.outlives_the_replacement_of_its_servers()?;
        println!("{}: {}", dependant.name(), seen.last().context("a step")?);
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
