//! A resource outside of the ensemble that a leader writes to, and that refuses former leaders: a
//! journal of lines, each with the fencing token of its writer.
//!
//! ```text
//! cargo run --example resource -- --file /tmp/journal
//! printf '5 hello\n4 too late\n' | nc -N 127.0.0.1 7070
//! ```
//!
//! answers `written`, then `refused 5`. The journal itself contains the largest token, so the token
//! survives a crash of this program.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use clap::Parser;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use zebu_examples::resource::{Journal, LINE_BYTES_MAX};

/// A journal that refuses older fencing tokens
#[derive(Parser)]
struct Args {
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1:7070")]
    listen: SocketAddr,

    /// The file of the journal
    #[arg(long)]
    file: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    zebu_examples::exit_code(run(Args::parse()).await)
}

async fn run(args: Args) -> Result<()> {
    let journal = Journal::open(&args.file).with_context(|| args.file.display().to_string())?;
    println!("newest token {}", journal.newest());
    let journal = Arc::new(Mutex::new(journal));
    let listener = TcpListener::bind(args.listen).await.context("listen")?;
    println!("listening on {}", listener.local_addr()?);
    let stop = zebu_examples::asked_to_stop();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            asked = &mut stop => return Ok(asked?),
            accepted = listener.accept() => {
                let (stream, _) = accepted.context("accept")?;
                tokio::spawn(serve(stream, journal.clone()));
            }
        }
    }
}

/// Accepts lines from one writer until it disconnects or sends an invalid line.
async fn serve(mut stream: TcpStream, journal: Arc<Mutex<Journal>>) -> Result<()> {
    let (input, mut output) = stream.split();
    let mut input = BufReader::new(input);
    loop {
        let mut line = String::new();
        // Reads at most the maximum length of a line.
        (&mut input).take(LINE_BYTES_MAX).read_line(&mut line).await?;
        if line.is_empty() {
            return Ok(());
        }
        let written = {
            let mut journal = journal.lock().expect("nobody panics with it");
            journal.append(line.trim_end())
        };
        let answer = match written {
            Ok(answer) => answer.to_string(),
            Err(error) => {
                // The state of the file is unknown now, so no writer gets an answer.
                eprintln!("error: {error:#}");
                std::process::exit(1);
            }
        };
        output.write_all(answer.as_bytes()).await?;
    }
}
