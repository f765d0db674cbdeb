//! Data directories and backups: checks each of them, and then compares all of them at the newest
//! transaction that all have.
//!
//! Only one tree at a time is in memory.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use zebu_backup::repository::Repository;
use zebu_backup::restore::rebuild::{self, Proof};
use zebu_backup::source::{Directory, Source};
use zebu_backup::stored;
use zebu_proto::{SessionId, Zxid};
use zebu_store::OsVfs;
use zebu_tree::{Tree, Walk, digest_counts};

use super::alone::{self, Alone};
use super::report::{Finding, Kind, Place, Report};
use super::spool::{Spool, Znode, acl_text, compare};
use super::{DirectoriesArgs, VerifyError, histories};

type Result<T, E = VerifyError> = std::result::Result<T, E>;

/// The number of znodes that are visited at a time.
const STEP_ZNODES: usize = 1 << 16;

/// The part of a tree that is compared.
struct Image {
    digest: i64,
    znodes: usize,
    sessions: BTreeSet<SessionId>,
    spool: Option<Spool>,
}

/// A directory that was opened.
struct Opened {
    name: String,
    source: Box<dyn Source>,
    directory: Option<Directory>,
}

/// Verifies directories.
///
/// # Errors
/// A directory cannot be opened, or temporary files cannot be written.
pub(super) fn verify(args: &DirectoriesArgs) -> Result<Report> {
    if args.log_dir.is_some() && args.dirs.len() != 1 {
        return Err(VerifyError::LogDir);
    }
    let opened = (args.dirs.iter())
        .map(|dir| open(dir, args.log_dir.as_deref(), args.identity.as_deref()))
        .collect::<Result<Vec<_>>>()?;
    let mut report = Report::default();
    let mut looked = Vec::new();
    for place in &opened {
        let mut alone = alone::look(&place.name, place.source.as_ref(), place.directory.as_ref())?;
        report.findings.append(&mut alone.findings);
        looked.push(alone);
    }
    let moments: Vec<_> = looked.iter().map(|alone| alone.snapshots.clone()).collect();
    let limit = looked.iter().filter_map(|alone| alone.damaged_behind).min();
    let mut logs: Vec<_> = looked.iter_mut().map(|alone| &mut alone.history).collect();
    let common = histories::compare(&mut logs, &moments, limit.unwrap_or(Zxid(i64::MAX)))
        .map_err(VerifyError::Temporary)?;
    // Each tree is built at its own end, to show whether a start succeeds. A tree that ends at the
    // common transaction is not built again.
    let is_alone = opened.len() == 1;
    let mut images: Vec<Option<Image>> = Vec::new();
    for (place, alone) in opened.iter().zip(&looked) {
        let wants = !is_alone && alone.last() == common.last;
        images.push(at_end(place, alone, wants && args.znodes, &mut report)?.filter(|_| wants));
    }
    if is_alone {
        return Ok(report);
    }
    if let Some((zxid, found)) = &common.parted {
        let (has, lacks): (Vec<_>, Vec<_>) =
            opened.iter().zip(found).partition(|(_, hash)| hash.is_some());
        let names = |places: Vec<(&Opened, &Option<u64>)>| {
            places.iter().map(|(place, _)| place.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let how = if lacks.is_empty() {
            "is another one".to_owned()
        } else {
            format!("is in {} and not in {}", names(has), names(lacks))
        };
        let text = format!(
            "the histories diverge: transaction {zxid} {how}; {} transactions differ",
            common.differing
        );
        report.add(Finding::new(Kind::Differs, "", text).at(*zxid));
    }
    let mut tried = None;
    for zxid in [common.last, common.limited].into_iter().flatten() {
        if tried == Some(zxid) {
            break;
        }
        tried = Some(zxid);
        if images.iter().any(Option::is_none) || Some(zxid) != common.last {
            let built = all_at(&opened, zxid, &mut images, Some(zxid) == common.last, args.znodes)?;
            if let Err(finding) = built {
                report.add(finding);
                continue;
            }
        }
        let images = images.into_iter().flatten().collect();
        compare_images(images, &opened, zxid, args.limit, &mut report)?;
        return Ok(report);
    }
    if tried.is_none() {
        let text = "the directories have no transaction in common, so they cannot be compared";
        report.add(Finding::new(Kind::Unknown, "", text));
    }
    Ok(report)
}

fn open(dir: &Path, log_dir: Option<&Path>, identity: Option<&Path>) -> Result<Opened> {
    let source = stored::source(dir, log_dir, identity)?;
    let is_backup = log_dir.is_none() && Repository::open(dir).is_ok();
    let directory = match is_backup {
        true => None,
        false => Some(Directory::open(Arc::new(OsVfs), dir, log_dir)?),
    };
    Ok(Opened { name: dir.display().to_string(), source, directory })
}

/// Builds and describes a directory's newest tree, as a start builds it.
fn at_end(
    place: &Opened,
    alone: &Alone,
    znodes: bool,
    report: &mut Report,
) -> Result<Option<Image>> {
    let name = &place.name;
    let mut facts = vec![
        ("snapshots", alone.snapshots.len().to_string()),
        ("logs", alone.logs.to_string()),
        ("transactions", alone.history.txns.to_string()),
    ];
    let is_empty = alone.last().is_none();
    let image = match alone.last().map(|last| build(place, last, znodes)).transpose()? {
        Some(Ok((image, mismatches))) => {
            facts.extend([
                ("last", alone.last().unwrap_or_default().to_string()),
                ("znodes", image.znodes.to_string()),
                ("sessions", image.sessions.len().to_string()),
                ("digest", format!("{:#x}", image.digest)),
            ]);
            if mismatches > 0 {
                let text = format!(
                    "its tree did not have the digest that {mismatches} transactions carry, so it is not the tree of its leader"
                );
                report.add(Finding::new(Kind::Damage, name, text));
            }
            Some(image)
        }
        Some(Err(why)) => {
            report.add(Finding::new(
                Kind::Damage,
                name,
                format!("its newest tree cannot be built: {why}"),
            ));
            None
        }
        None => None,
    };
    if is_empty {
        report.add(Finding::new(Kind::Unknown, name, "nothing in it can be read"));
    }
    report.places.push(Place { name: name.clone(), facts });
    Ok(image)
}

/// Builds every tree as of a transaction, or reports those that cannot be built. `keep`: whether
/// the existing trees are as of this transaction.
fn all_at(
    opened: &[Opened],
    zxid: Zxid,
    images: &mut [Option<Image>],
    keep: bool,
    znodes: bool,
) -> Result<Result<(), Finding>> {
    for (place, image) in opened.iter().zip(images) {
        if keep && image.is_some() {
            continue;
        }
        match build(place, zxid, znodes)? {
            Ok((built, _)) => *image = Some(built),
            Err(why) => {
                let text = format!("its tree after transaction {zxid} cannot be built: {why}");
                return Ok(Err(Finding::new(Kind::Unknown, &place.name, text).at(zxid)));
            }
        }
    }
    Ok(Ok(()))
}

/// Builds a tree. The inner error is the reason why it cannot be built. The number counts
/// mismatched digests.
fn build(place: &Opened, zxid: Zxid, znodes: bool) -> Result<Result<(Image, u64), String>> {
    let built = match rebuild::build_as_started(place.source.as_ref(), zxid) {
        Ok(built) => built,
        Err(error) => return Ok(Err(error.to_string().replace('\n', "; "))),
    };
    let tree = built.tree;
    let image = Image {
        digest: tree.digest(),
        znodes: tree.znode_count(),
        sessions: tree.sessions().map(|(session, _)| session).collect(),
        spool: znodes.then(|| spool(&tree)).transpose().map_err(VerifyError::Temporary)?,
    };
    // The mismatches that were counted while the snapshot was loaded, and that of the last
    // transaction if none was counted.
    let others = tree.digest_mismatches().max(u64::from(built.proof == Proof::OtherDigest));
    Ok(Ok((image, others)))
}

fn spool(tree: &Tree) -> std::io::Result<Spool> {
    let acls: std::collections::BTreeMap<i64, String> =
        tree.acl_table().map(|(id, acl)| (id, acl_text(&acl))).collect();
    let mut spool = Spool::new()?;
    let mut failed = None;
    let mut walk = Walk::new(tree);
    while failed.is_none() {
        let done = walk.step(tree, STEP_ZNODES, &mut |path, data, acl, stat| {
            let path = if path.is_empty() { "/" } else { path };
            if failed.is_some() || !digest_counts(path) {
                return;
            }
            let acl = acls.get(&acl).cloned().unwrap_or_else(|| format!("unknown ({acl})"));
            failed = spool.add(path, &Znode::new(data, acl, *stat)).err();
        });
        if done {
            break;
        }
    }
    failed.map_or(Ok(spool), Err)
}

fn compare_images(
    mut images: Vec<Image>,
    opened: &[Opened],
    zxid: Zxid,
    limit: usize,
    report: &mut Report,
) -> Result<()> {
    report.compared_at = Some(zxid);
    report.compared = opened.iter().map(|place| place.name.clone()).collect();
    let mut by = |what: &str, values: Vec<String>| {
        if values.iter().any(|value| *value != values[0]) {
            let values: Vec<_> = (opened.iter().zip(values))
                .map(|(place, value)| format!("{value} in {}", place.name))
                .collect();
            let text = format!("{what} after transaction {zxid}: {}", values.join(", "));
            report.add(Finding::new(Kind::Differs, "", text).at(zxid));
        }
    };
    by("digest", images.iter().map(|image| format!("{:#x}", image.digest)).collect());
    by("znodes", images.iter().map(|image| image.znodes.to_string()).collect());
    let in_all = (images.iter().skip(1))
        .fold(images[0].sessions.clone(), |all, image| &all & &image.sessions);
    let alone = |image: &Image| {
        let sessions: Vec<_> =
            (&image.sessions - &in_all).iter().map(ToString::to_string).collect();
        if sessions.is_empty() { "no other".to_owned() } else { sessions.join(" ") }
    };
    by("sessions that not all have", images.iter().map(alone).collect());
    let mut spools: Vec<Spool> = images.iter_mut().filter_map(|image| image.spool.take()).collect();
    if spools.len() == opened.len() {
        let mut all = 0;
        compare(&mut spools, &mut |difference| {
            all += 1;
            if report.znodes.len() < limit {
                report.znodes.push(difference);
            }
            true
        })
        .map_err(VerifyError::Temporary)?;
        report.differing = Some(all);
        if all > 0 {
            let text = format!("{all} znodes differ after transaction {zxid}");
            report.add(Finding::new(Kind::Differs, "", text).at(zxid));
        }
    }
    Ok(())
}
