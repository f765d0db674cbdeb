//! Restores a subtree into a live ensemble, as a client of it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::json;
use zebu_client::blocking::Client;
use zebu_client::{Acls, Connector, CreateMode, ErrorKind, Stat};
use zebu_credentials::Credentials;
use zebu_proto::{Acl, ExtendedTypes, Owner, Version};

use super::rebuild::Built;
use super::subtree::{self, Change, Content, Kind, Live, Plan};
use crate::dates;
use crate::error::{BackupError, Result};

/// The number of znodes that are read at a time.
const READS: usize = 256;
/// The most changes in one transaction.
const CHANGES_MAX: usize = 100;
/// Maximum bytes of the data of a batch.
const BYTES_MAX: usize = 256 << 10;
/// The most changes that are shown one by one.
const SHOWN_MAX: usize = 1_000;

/// The settings of a restore into a live ensemble.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The root of the subtree.
    pub subtree: &'a str,
    /// The servers, as clients name them.
    pub servers: &'a str,
    /// Whether existing znodes may be overwritten and deleted.
    pub over: bool,
    /// Whether to make the changes.
    pub apply: bool,
    /// Whether to print a JSON object instead of text.
    pub json: bool,
}

/// Shows the changes of the restore, and makes them if that is requested. Returns `true` if the
/// subtree is as in the backup afterwards.
///
/// # Errors
/// The ensemble cannot be read or written, the restore would overwrite existing data without
/// permission, or another client has changed the subtree meanwhile.
pub fn restore(
    built: &Built,
    target: &Target<'_>,
    identity: Option<(String, String)>,
    credentials: &Credentials,
    out: &mut dyn Write,
) -> Result<bool> {
    let root = target.subtree;
    let wanted = subtree::of_tree(&built.tree, root)?;
    if target.servers.contains('/') {
        let wrong = "the servers of --into-server must not have a path: --subtree names it";
        return Err(BackupError::Usage(wrong.to_owned()));
    }
    let mut connector = credentials.apply(Connector::new());
    if let Some((scheme, credential)) = identity {
        connector = connector.authenticate(&scheme, credential);
    }
    let failed = |error| BackupError::Ensemble {
        servers: target.servers.to_owned(),
        error: Box::new(error),
    };
    let client = Client::open(connector, target.servers).map_err(failed)?;
    let read = || -> Result<Plan> {
        let live = look(&client, root).map_err(failed)?;
        Ok(subtree::plan(&wanted, &live))
    };
    if let Some(above) = subtree::parent(root)
        && client.exists(above).map_err(failed)?.is_none()
    {
        return Err(BackupError::Usage(format!(
            "{above} does not exist there\nhint: create it first: nothing outside of {root} is touched"
        )));
    }
    let plan = read()?;
    let is_refused = plan.overwriting() > 0 && !target.over;
    show(built, target, &plan, out).map_err(BackupError::Output)?;
    if is_refused {
        return Err(BackupError::Overwrites {
            subtree: root.to_owned(),
            count: plan.overwriting(),
        });
    }
    if !target.apply || plan.changes.is_empty() {
        return Ok(plan.kept.is_empty());
    }
    let mut done = 0;
    for batch in batches(&plan.changes) {
        carry_out(&client, batch).map_err(|error| BackupError::Stopped {
            subtree: root.to_owned(),
            done,
            of: plan.changes.len(),
            error: Box::new(error),
        })?;
        done += batch.len();
    }
    let left = read()?;
    if !left.changes.is_empty() {
        let (subtree, count) = (root.to_owned(), left.changes.len());
        return Err(BackupError::ChangedMeanwhile { subtree, count });
    }
    // If the close request is lost, the session expires by itself.
    client.close().ok();
    if !target.json {
        writeln!(out, "{done} changes made; {root} is as it was, but for what is named above")
            .map_err(BackupError::Output)?;
    }
    Ok(left.kept.is_empty())
}

/// The live znodes of a subtree, without those that are deleted meanwhile.
fn look(client: &Client, root: &str) -> zebu_client::Result<BTreeMap<String, Live>> {
    client.sync(root)?;
    if client.exists(root)?.is_none() {
        return Ok(BTreeMap::new());
    }
    let mut paths = client.descendants(root)?;
    if root == "/" {
        paths.retain(|path| !subtree::is_reserved(path));
    }
    let mut found = BTreeMap::new();
    for some in paths.chunks(READS) {
        let asynchronous = client.asynchronous();
        let asked: Vec<_> = (some.iter())
            .map(|path| (path, asynchronous.get_data_or_null(path), asynchronous.get_acl(path)))
            .collect();
        for (path, data, acl) in asked {
            let read = client.wait(async { Ok((data.await?, acl.await?)) });
            match read {
                Ok(((data, stat), (acl, _))) => {
                    let data = data.unwrap_or_default().to_vec();
                    found.insert(path.clone(), live(data, acl, &stat));
                }
                Err(error) if zebu_client::Error::kind(&error) == ErrorKind::Gone => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

fn live(data: Vec<u8>, acl: Vec<Acl>, stat: &Stat) -> Live {
    let types = ExtendedTypes { enabled: true, emulate_353: false };
    let kind = Kind::from(Owner::decode(stat.ephemeral_owner, types));
    let (version, acl_version) = (Version(stat.version), Version(stat.aversion));
    Live { content: Content { kind, data, acl }, version, acl_version }
}

/// The changes in batches, one transaction each. A transaction cannot set an ACL, so such a change
/// has its own batch.
fn batches(changes: &[(String, Change)]) -> Vec<&[(String, Change)]> {
    let weight = |change: &Change| match change {
        Change::Create(content) => content.data.len(),
        Change::SetData(data, _) => data.len(),
        Change::Delete(_) | Change::SetAcl(..) => 0,
    };
    let is_alone = |change: &Change| matches!(change, Change::SetAcl(..));
    let (mut found, mut start, mut bytes) = (Vec::new(), 0, 0_usize);
    for (at, (_, change)) in changes.iter().enumerate() {
        let is_full = at - start == CHANGES_MAX || bytes.saturating_add(weight(change)) > BYTES_MAX;
        if at > start && (is_full || is_alone(change)) {
            found.push(&changes[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes = bytes.saturating_add(weight(change));
    }
    if start < changes.len() {
        found.push(&changes[start..]);
    }
    found
}

/// Makes all changes of a batch, or none.
fn carry_out(client: &Client, batch: &[(String, Change)]) -> zebu_client::Result<()> {
    if let [(path, Change::SetAcl(acl, version))] = batch {
        return client.set_acl(path, &Acls::from(acl.clone()), *version).map(drop);
    }
    let mut transaction = client.transaction();
    for (path, change) in batch {
        match change {
            Change::Create(content) => {
                let acl = Acls::from(content.acl.clone());
                transaction.create(path, &content.data, mode(content.kind), &acl);
            }
            Change::SetData(data, version) => {
                transaction.set_data(path, data, *version);
            }
            Change::Delete(version) => {
                transaction.delete(path, *version);
            }
            // Such a change has a separate batch.
            Change::SetAcl(..) => {}
        }
    }
    client.commit(transaction).map(drop)
}

fn mode(kind: Kind) -> CreateMode {
    match kind {
        Kind::Container => CreateMode::Container,
        Kind::Ttl(ttl_ms) => {
            let ttl_ms = u64::try_from(ttl_ms).unwrap_or_default();
            CreateMode::Ttl(std::time::Duration::from_millis(ttl_ms))
        }
        // A plan contains no ephemerals.
        Kind::Persistent | Kind::Ephemeral => CreateMode::Persistent,
    }
}

fn show(built: &Built, target: &Target<'_>, plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let Plan { changes, equal, ephemerals, held, kept } = plan;
    if target.json {
        let changes: Vec<_> = changes
            .iter()
            .map(|(path, change)| json!({ "path": path, "change": change.to_string() }))
            .collect();
        let kept: Vec<_> =
            kept.iter().map(|(path, why)| json!({ "path": path, "why": why })).collect();
        let value = json!({
            "zxid": built.zxid.to_string(), "time": built.time_ms.map(dates::utc),
            "subtree": target.subtree, "servers": target.servers, "changes": changes,
            "overwriting": plan.overwriting(), "equal": equal, "ephemerals_left_out": ephemerals,
            "ephemerals_now": held, "kept": kept, "apply": target.apply,
        });
        return writeln!(out, "{value}");
    }
    let time = built.time_ms.map(|ms| format!(" of {}", dates::utc(ms))).unwrap_or_default();
    writeln!(out, "{} as of transaction {}{time}", target.subtree, built.zxid)?;
    let mut lines = |what: &str, lines: &mut dyn ExactSizeIterator<Item = String>| {
        let more = lines.len().saturating_sub(SHOWN_MAX);
        for line in lines.take(SHOWN_MAX) {
            writeln!(out, "{what} {line}")?;
        }
        if more > 0 {
            writeln!(out, "{what} {more} more")?;
        }
        io::Result::Ok(())
    };
    lines("change:", &mut changes.iter().map(|(path, change)| format!("{path}: {change}")))?;
    lines("left out, an ephemeral:", &mut ephemerals.iter().cloned())?;
    lines("stays, an ephemeral of now:", &mut held.iter().cloned())?;
    lines("stays as it is:", &mut kept.iter().map(|(path, why)| format!("{path}: {why}")))?;
    let (all, lost) = (changes.len(), plan.overwriting());
    writeln!(
        out,
        "{all} changes, {lost} of them overwrite or delete existing data; {equal} znodes are equal"
    )?;
    if !target.apply && all > 0 {
        writeln!(out, "nothing was changed; --apply makes these changes")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_and_acls_are_set_alone() {
        let content = |bytes: usize| Content {
            kind: Kind::Persistent,
            data: vec![0; bytes],
            acl: Acl::open(),
        };
        let create = |bytes: usize| ("/a".to_owned(), Change::Create(content(bytes)));
        let acl = ("/a".to_owned(), Change::SetAcl(Acl::open(), Version(0)));
        let sizes = |changes: &[(String, Change)]| -> Vec<usize> {
            batches(changes).into_iter().map(<[_]>::len).collect()
        };
        assert_eq!(sizes(&vec![create(1); 250]), [100, 100, 50]);
        assert_eq!(sizes(&[create(1), create(BYTES_MAX), create(1), create(1)]), [1, 1, 2]);
        assert_eq!(sizes(&[create(1), acl.clone(), acl.clone()]), [1, 1, 1]);
        assert_eq!(sizes(&[]), [0; 0]);
    }
}
