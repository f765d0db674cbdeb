//! `zebu bench` without the rest of `zebu`:
//! `cargo run --release -p zebu-bench --example bench -- run`.

use clap::Parser;

/// Measure ZooKeeper-compatible servers
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: zebu_bench::BenchArgs,
}

fn main() -> anyhow::Result<()> {
    zebu_bench::run(Cli::parse().bench)
}
