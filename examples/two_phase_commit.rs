//! Two-phase commit: either all participants carry out a proposal, or none does.
//!
//! ```text
//! cargo run --example two_phase_commit -- participant a --vote yes
//! cargo run --example two_phase_commit -- participant b --vote yes
//! cargo run --example two_phase_commit -- propose t1 --to a,b "move 10 from a to b"
//! ```
//!
//! Kill any processes: the remaining ones make one decision, and a process that returns finds it.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use zebu_client::{Acls, Client, ErrorKind, Retry};
use zebu_examples::connection::{Connection, is_session_over, log};
use zebu_recipes::{Agreement, Children, Decision, Proposal};

/// Make a proposal, or take part in proposals
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The parent of all proposals
    #[arg(long, value_name = "PATH", default_value = "/agreements")]
    path: String,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a proposal, and wait for the decision
    Propose {
        /// The proposal's name
        name: String,

        /// The participants that have to agree
        #[arg(long, required = true, value_delimiter = ',')]
        to: Vec<String>,

        /// The content of the proposal
        text: String,
    },
    /// Vote on all proposals to this participant, and carry out the decisions
    Participant {
        /// The name of the participant
        name: String,

        /// Its vote on all proposals
        #[arg(long, default_value = "yes")]
        vote: Vote,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Vote {
    Yes,
    No,
    /// It does not vote
    Never,
}

#[tokio::main]
async fn main() -> ExitCode {
    log();
    zebu_examples::exit_code(run(&Args::parse()).await)
}

async fn run(args: &Args) -> Result<()> {
    let mut finished = BTreeSet::new();
    loop {
        let (client, acl) = args.connection.open().await?;
        Retry::default().reads(|| client.create_all(&args.path, &acl)).await?;
        let doing = async {
            match &args.command {
                Command::Propose { name, to, text } => {
                    let agreement = Agreement::new(&client, &format!("{}/{name}", args.path), &acl);
                    let participants = to.iter().cloned().collect();
                    let proposal = Proposal { participants, text: text.clone() };
                    propose(&agreement, &proposal).await
                }
                Command::Participant { name, vote } => {
                    take_part(&client, &acl, &args.path, name, *vote, &mut finished).await
                }
            }
        };
        let end = tokio::select! {
            end = doing => end,
            asked = zebu_examples::asked_to_stop() => asked.map_err(Into::into),
        };
        match end {
            Err(error) if is_session_over(&error) => println!("session over"),
            end => {
                client.close().await?;
                return end;
            }
        }
    }
}

async fn propose(agreement: &Agreement, proposal: &Proposal) -> Result<()> {
    match agreement.propose(proposal).await {
        // An equal proposal is our own: an attempt whose answer was lost has made it, or an earlier
        // session.
        Err(zebu_recipes::Error::Client(error))
            if matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Conflict)
                && agreement.proposal().await?.as_ref() == Some(proposal) => {}
        proposed => proposed?,
    }
    println!("proposed");
    println!("{:?}", agreement.decision().await?);
    Ok(())
}

/// Takes part in one proposal after the other. Finished proposals need no further action.
async fn take_part(
    client: &Client,
    acl: &Acls,
    parent: &str,
    me: &str,
    vote: Vote,
    finished: &mut BTreeSet<String>,
) -> Result<()> {
    println!("{me} is ready");
    let mut proposals = Children::of(client, parent);
    loop {
        let names = proposals.next().await?.unwrap_or_default();
        let new: Vec<String> = names.difference(finished).cloned().collect();
        for name in new {
            let agreement = Agreement::new(client, &format!("{parent}/{name}"), acl);
            let Some(proposal) = agreement.proposal().await? else { continue };
            if proposal.participants.contains(me) {
                println!("{name}: {}", proposal.text);
                match vote {
                    Vote::Never => {}
                    // Before it votes yes, a participant must have everything on its disk that it
                    // needs to carry out the proposal.
                    Vote::Yes | Vote::No => agreement.vote(me, vote == Vote::Yes).await?,
                }
                match agreement.decision().await? {
                    Decision::Commit => println!("{name}: done"),
                    Decision::Abort => println!("{name}: not done"),
                }
            }
            finished.insert(name);
        }
    }
}
