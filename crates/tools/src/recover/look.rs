//! Inspects directories and members, and changes nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use zebu_config::{Config, DataConfig};
use zebu_proto::{HostPort, Zxid};
use zebu_store::log::read::{Tail, read_log};
use zebu_store::snapshot::{list, looks_complete};
use zebu_store::vfs::Sequential;
use zebu_store::{CommittedFile, EnsembleFile, EpochFile, EpochFiles, OsVfs, Vfs as _, names};
use zebu_zab::config::Role;

use super::decide::{Answer, Facts, Member, Place};
use crate::ask;
use crate::configuration::Access;
use crate::doctor::answers::client_of;
use crate::failure::Failure;

/// Collects all facts.
pub(super) fn look(
    config: &Config,
    also: &[PathBuf],
    access: &Access,
    timeout: Duration,
) -> Result<Facts, Failure> {
    let Some(ensemble) = &config.ensemble else {
        return Err(Failure::new(
            "error: the configuration names no other server: a server that stands alone has no quorum to lose; restore its \
             data from a backup instead",
        ));
    };
    let bytes_max = config.limits.record_bytes_max();
    let here = place(&config.data, bytes_max)?;
    let others = also.iter().map(|dir| {
        if !dir.is_dir() {
            return Err(Failure::new(format!("error: --also {}: no directory", dir.display())));
        }
        let data = DataConfig { dir: dir.clone(), log_dir: dir.clone(), ..config.data.clone() };
        place(&data, bytes_max)
    });
    let others = others.collect::<Result<_, _>>()?;
    let all = &ensemble.members;
    let me = ensemble.me;
    let mut asked: Vec<_> = (all.members())
        .map(|member| {
            let client = client_of(member, all, config, access.dialer.is_secure());
            // The lock shows that this server does not run, so another server is the leader.
            let quorum = if member.id == me { Vec::new() } else { member.quorum_addresses() };
            let votes = member.role == Role::Participant;
            let answer = Err("its client port is unknown".to_owned());
            (client, quorum, Member { server: member.id, votes, leads: false, answer })
        })
        .collect();
    thread::scope(|scope| {
        for (client, quorum, member) in &mut asked {
            scope.spawn(move || {
                member.leads = quorum.iter().any(|at| ask::connect(at, timeout).is_ok());
                if let Some(client) = client {
                    member.answer = ask_one(client, access, timeout);
                }
            });
        }
    });
    Ok(Facts {
        me,
        here,
        is_agreed: config.reconfig_enabled && all.version() > Zxid::ZERO,
        is_locked: is_locked(&config.data)?,
        others,
        newest: None,
        members: asked.into_iter().map(|(_, _, member)| member).collect(),
    })
}

fn ask_one(at: &HostPort, access: &Access, timeout: Duration) -> Result<Answer, String> {
    let answer =
        ask::word(&access.dialer, at, "srvr", timeout).map_err(|error| error.to_string())?;
    parse(&answer).ok_or_else(|| {
        format!("the answer to srvr is {:?}", answer.lines().next().unwrap_or_default())
    })
}

/// Parses the answer to `srvr`.
pub(crate) fn parse(answer: &str) -> Option<Answer> {
    if answer.starts_with("This ZooKeeper instance is not currently serving requests") {
        return Some(Answer { mode: String::new(), zxid: None });
    }
    let line = |key: &str| answer.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    line("Zookeeper version: ")?;
    let zxid = line("Zxid: 0x").and_then(|digits| i64::from_str_radix(digits, 16).ok());
    Some(Answer { mode: line("Mode: ").unwrap_or_default().to_owned(), zxid: zxid.map(Zxid) })
}

/// Whether a running server has locked one of the directories.
fn is_locked(data: &DataConfig) -> Result<bool, Failure> {
    for dir in [data.snapshots(), data.logs()] {
        match OsVfs.lock(&dir) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::new(format!("error: {}: {error}", dir.display()))),
        }
    }
    Ok(false)
}

/// Examines the directories of one server.
pub(super) fn place(data: &DataConfig, record_bytes_max: usize) -> Result<Place, Failure> {
    let (snapshots, logs) = (data.snapshots(), data.logs());
    let mut damage = None;
    let mut last = None;
    if snapshots.is_dir() {
        let all = list(&OsVfs, &snapshots)?;
        last = all.iter().find(|file| looks_complete(&OsVfs, file)).map(|file| file.zxid);
        if last.is_none() && !all.is_empty() {
            damage = Some(format!("{}: no snapshot is complete", snapshots.display()));
        }
    }
    if logs.is_dir() {
        let (logged, broken) = end_of_logs(&logs, record_bytes_max)?;
        last = last.max(logged);
        damage = damage.or(broken);
    }
    let vfs = || Arc::new(OsVfs);
    let current_epoch = EpochFiles::new(vfs(), &data.dir).read(EpochFile::Current)?;
    let committed = match logs.is_dir() {
        true => CommittedFile::new(vfs(), &logs).read()?,
        false => None,
    };
    // A server that was only started has an empty snapshot.
    let last = last.filter(|last| *last > Zxid::ZERO);
    let identity = EnsembleFile::new(vfs(), &data.dir).read()?.unwrap_or_default();
    Ok(Place { path: data.dir.clone(), last, committed, current_epoch, identity, damage })
}

/// The last transaction in the logs, and the damage of the newest damaged log.
fn end_of_logs(
    dir: &Path,
    record_bytes_max: usize,
) -> Result<(Option<Zxid>, Option<String>), Failure> {
    let mut firsts: Vec<Zxid> =
        OsVfs.list(dir)?.iter().filter_map(|entry| names::parse_log(&entry.name)).collect();
    firsts.sort();
    for first in firsts.into_iter().rev() {
        let path = dir.join(names::log(first));
        let mut last = None;
        let source = Sequential::new(OsVfs.open(&path)?);
        let (end, tail) =
            read_log(source, record_bytes_max, &mut |record| last = Some(record.zxid))?;
        let is_broken = matches!(tail, Tail::Damaged | Tail::MoreFollows { .. });
        let broken = is_broken.then(|| format!("{} at offset {}", path.display(), end.offset));
        if last.is_some() || broken.is_some() {
            return Ok((last, broken));
        }
    }
    Ok((None, None))
}
