//! What tasks say, and how they are executed.

use std::time::Duration;

use zebu_client::{Client, Retry};

/// A command that a task asks for. There is no command that runs a program: a worker that did whatever stands
/// in a znode would hand the machine to everybody who may create one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `echo TEXT`: the text.
    Echo(String),
    /// `sum N N N`: the sum.
    Sum(Vec<i64>),
    /// `sleep MS`: takes a while.
    Sleep(Duration),
    /// `await PATH`: until there is such a znode.
    Await(String),
}

/// What a task says makes no sense. A result, not a failure: the client is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// The first word is no command.
    #[error("no such command: {0}\nhint: echo TEXT, sum N N N, sleep MS, await PATH")]
    Command(String),
    /// What follows is not what the command wants.
    #[error("{command} does not take this: {found}")]
    Argument {
        /// The command.
        command: &'static str,
        /// What follows it.
        found: String,
    },
}

impl std::str::FromStr for Command {
    type Err = Unclear;

    fn from_str(text: &str) -> Result<Self, Unclear> {
        let (command, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let refuse = |command| Unclear::Argument { command, found: rest.to_owned() };
        match command {
            "echo" => Ok(Self::Echo(rest.to_owned())),
            "sum" => {
                let numbers: Result<_, _> = rest.split_whitespace().map(str::parse).collect();
                numbers.map(Self::Sum).map_err(|_| refuse("sum"))
            }
            "sleep" => {
                let ms = rest.trim().parse().map_err(|_| refuse("sleep"))?;
                Ok(Self::Sleep(Duration::from_millis(ms)))
            }
            "await" if rest.starts_with('/') => Ok(Self::Await(rest.trim().to_owned())),
            "await" => Err(refuse("await")),
            _ => Err(Unclear::Command(command.to_owned())),
        }
    }
}

/// Executes what a task says, and returns its result. May be cancelled anywhere.
///
/// # Errors
/// The session is over, or requests failed again and again. A task that makes no sense is none: its result
/// says so.
pub async fn execute(client: &Client, task: &str) -> zebu_client::Result<String> {
    let command = match task.parse() {
        Ok(command) => command,
        Err(unclear) => return Ok(format!("failed: {unclear}")),
    };
    Ok(match command {
        Command::Echo(text) => format!("done: {text}"),
        Command::Sum(numbers) => {
            let sum = numbers.iter().try_fold(0_i64, |sum, number| sum.checked_add(*number));
            sum.map_or("failed: too large".to_owned(), |sum| format!("done: {sum}"))
        }
        Command::Sleep(time) => {
            tokio::time::sleep(time).await;
            "done".to_owned()
        }
        Command::Await(path) => {
            appears(client, &path).await?;
            "done".to_owned()
        }
    })
}

/// Waits until there is such a znode.
///
/// # Errors
/// The session is over, or requests failed again and again.
pub async fn appears(client: &Client, path: &str) -> zebu_client::Result<()> {
    loop {
        // The watch is set together with the look: what happens in between wakes us.
        let (stat, change) = Retry::default().reads(|| client.watch_exists(path)).await?;
        if stat.is_some() {
            return Ok(());
        }
        change.await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_understood_or_refused() {
        assert_eq!("echo a b".parse(), Ok(Command::Echo("a b".into())));
        assert_eq!("sum 1 -2 3".parse(), Ok(Command::Sum(vec![1, -2, 3])));
        assert_eq!("sleep 20".parse(), Ok(Command::Sleep(Duration::from_millis(20))));
        assert_eq!("await /a".parse(), Ok(Command::Await("/a".into())));
        for unclear in ["", "rm -rf /", "sum 1 x", "sleep", "await a", "sleep -1"] {
            unclear.parse::<Command>().unwrap_err();
        }
    }
}
