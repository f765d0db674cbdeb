//! The commands of tasks, and their execution.

use std::time::Duration;

use zebu_client::{Client, Retry};

/// The command of a task. No command runs a program: otherwise, every client that may create a task
/// could control the machine of the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `echo TEXT`: returns the text.
    Echo(String),
    /// `sum N N N`: returns the sum.
    Sum(Vec<i64>),
    /// `sleep MS`: waits for this time.
    Sleep(Duration),
    /// `await PATH`: waits until this znode exists.
    Await(String),
}

/// The command of a task is invalid. This is a result, not a failure, so the client learns of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// The first word is not a command.
    #[error("no such command: {0}\nhint: echo TEXT, sum N N N, sleep MS, await PATH")]
    Command(String),
    /// The arguments do not fit the command.
    #[error("{command} does not take this: {found}")]
    Argument {
        /// The command.
        command: &'static str,
        /// The arguments.
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

/// Executes the command of a task, and returns its result. May be cancelled at any point.
///
/// # Errors
/// The session is over, or requests failed repeatedly. An invalid command is not an error: it
/// becomes the result of the task.
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

/// Waits until the znode exists.
///
/// # Errors
/// The session is over, or requests failed again and again.
pub async fn appears(client: &Client, path: &str) -> zebu_client::Result<()> {
    loop {
        // The read sets the watch, so a change right after the read wakes this task.
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
