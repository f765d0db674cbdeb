//! The state of the system for an administrator: the master, the workers, the tasks.

use std::fmt::Write as _;

use anyhow::Result;
use zebu_client::{Client, ErrorKind, Retry};

use super::Layout;
use crate::date::utc;

/// The state of the whole system, as text.
///
/// # Errors
/// The errors of reading.
pub async fn show(client: &Client, layout: &Layout) -> Result<String> {
    let mut text = String::new();
    let master = layout.master();
    match read(client, &master).await? {
        Some((name, since_ms)) => writeln!(text, "master: {name} since {}", utc(since_ms))?,
        None => writeln!(text, "no master")?,
    }
    writeln!(text, "workers:")?;
    for worker in list(client, &layout.workers()).await? {
        if let Some((status, _)) = read(client, &layout.worker(&worker)).await? {
            writeln!(text, "  {worker}: {status}")?;
        }
    }
    writeln!(text, "waiting:")?;
    for task in list(client, &layout.tasks()).await? {
        if let Some((command, _)) = read(client, &layout.task(&task)).await? {
            writeln!(text, "  {task}: {command}")?;
        }
    }
    writeln!(text, "assigned:")?;
    for worker in list(client, &layout.assignments()).await? {
        for task in list(client, &layout.assigned_to(&worker)).await? {
            writeln!(text, "  {task} to {worker}")?;
        }
    }
    writeln!(text, "finished:")?;
    for task in list(client, &layout.results()).await? {
        if let Some((result, _)) = read(client, &layout.result(&task)).await? {
            writeln!(text, "  {task}: {result}")?;
        }
    }
    Ok(text)
}

/// The names of a znode's children in order; none if the znode does not exist.
async fn list(client: &Client, path: &str) -> Result<Vec<String>> {
    match Retry::default().reads(|| client.get_children(path)).await {
        Ok((mut names, _)) => {
            names.sort();
            Ok(names)
        }
        Err(error) if error.kind() == ErrorKind::Gone => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// The data of a znode, and the time of its creation in ms since 1970; `None` if it does not exist.
async fn read(client: &Client, path: &str) -> Result<Option<(String, i64)>> {
    match Retry::default().reads(|| client.get_data(path)).await {
        Ok((data, stat)) => Ok(Some((String::from_utf8_lossy(&data).into_owned(), stat.ctime))),
        Err(error) if error.kind() == ErrorKind::Gone => Ok(None),
        Err(error) => Err(error.into()),
    }
}
