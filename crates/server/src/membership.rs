//! The configuration of the ensemble as this server keeps it: in files beside `zoo.cfg`, and what its
//! data say about it.
//!
//! A file is replaced whole, and in this order: the new members, the pointer to them, and only then
//! what was proposed goes. So a start finds the old configuration or the new one.
//!
//! Source: `QuorumPeer.setQuorumVerifier`, `QuorumPeerConfig.editStaticConfig`.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use tracing::{info, warn};
use zebu_proto::path::reserved::CONFIG;
use zebu_proto::{ServerId, Zxid};
use zebu_store::Vfs;
use zebu_store::vfs::replace;
use zebu_tree::Tree;
use zebu_zab::ConfigChange;
use zebu_zab::config::{Membership, files};

use crate::config::EnsembleConfig;

/// Where the configuration is kept; without a file of the operator's, nowhere.
#[derive(Debug)]
pub struct ConfigFiles {
    vfs: Arc<dyn Vfs>,
    /// The operator's file.
    file: Option<PathBuf>,
    me: ServerId,
    /// The configuration in force.
    committed: Arc<Membership>,
    /// The version of what is proposed, if there is such a file.
    proposed: Option<Zxid>,
}

impl ConfigFiles {
    /// The files of a member that was started with `file`.
    pub fn new(vfs: Arc<dyn Vfs>, file: Option<PathBuf>, ensemble: &EnsembleConfig) -> Self {
        Self {
            vfs,
            file,
            me: ensemble.me,
            committed: Arc::new(ensemble.members.clone()),
            proposed: ensemble.proposed.as_ref().map(Membership::version),
        }
    }

    /// The configuration in force.
    pub fn committed(&self) -> &Arc<Membership> {
        &self.committed
    }

    /// Copies the operator's file before the members are taken out of it for the first time.
    ///
    /// # Errors
    /// It cannot be read or copied.
    pub fn back_up(&self) -> anyhow::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let copy = files::backup(file);
        let content =
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        self.write(&copy, &content)
    }

    /// Keeps a change.
    ///
    /// # Errors
    /// A file cannot be written: this server must not go on as if it had been.
    pub fn save(&mut self, change: &ConfigChange) -> anyhow::Result<()> {
        match change {
            ConfigChange::Proposed(config) => self.propose(config),
            ConfigChange::Withdrawn => self.withdraw(),
            ConfigChange::Committed(config) => self.commit(config.clone()),
        }
    }

    fn propose(&mut self, config: &Membership) -> anyhow::Result<()> {
        info!("a configuration is proposed: version {:x}", config.version().0);
        let Some(file) = &self.file else { return Ok(()) };
        self.write(&files::proposed(file), config.proposed_text().as_bytes())?;
        self.proposed = Some(config.version());
        Ok(())
    }

    fn withdraw(&mut self) -> anyhow::Result<()> {
        if let (Some(file), Some(_)) = (&self.file, self.proposed.take()) {
            let path = files::proposed(file);
            match self.vfs.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn commit(&mut self, config: Arc<Membership>) -> anyhow::Result<()> {
        let version = config.version();
        info!("the configuration has changed: version {:x}", version.0);
        for line in config.committed_text().lines() {
            info!("{line}");
        }
        self.committed = config;
        let Some(file) = &self.file else { return Ok(()) };
        let dynamic = files::committed(file, version);
        self.write(&dynamic, self.committed.committed_text().as_bytes())?;
        let text =
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let serves_clients = self.committed.member(self.me).is_some_and(|me| me.client.is_some());
        let pointer = dynamic.to_string_lossy();
        let edited = files::edited_static_text(&text, &pointer, serves_clients)
            .with_context(|| format!("cannot change {}", file.display()))?;
        self.write(file, edited.as_bytes())?;
        if self.proposed.is_some_and(|proposed| proposed <= version) {
            self.withdraw()?;
        }
        Ok(())
    }

    fn write(&self, path: &Path, content: &[u8]) -> anyhow::Result<()> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        replace(self.vfs.as_ref(), path, Path::new(&temporary), content)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The configuration that the data were left with, if they are an ensemble's.
pub fn in_data(tree: &Tree) -> Option<Membership> {
    let text = tree.node(CONFIG)?.data().filter(|text| !text.is_empty())?;
    Membership::agreed(text)
}

/// The newest configuration in the files beside `file` that this server has known to be in force,
/// whichever of them `file` points to.
pub fn in_files(file: &Path) -> Option<Membership> {
    let name = format!("{}.dynamic.", file.file_name()?.to_str()?);
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    let versions = beside.filter_map(|path| {
        let suffix = path.file_name()?.to_str()?.strip_prefix(&name)?;
        let version = i64::from_str_radix(suffix, 16).ok().map(Zxid)?;
        Some((version, path))
    });
    let (version, path) = versions.max()?;
    Some(Membership::agreed(&std::fs::read(path).ok()?)?.with_version(version))
}

/// Makes the configuration in force visible to clients, unless a transaction has shown a later one.
pub fn show(tree: &mut Tree, members: &Membership, now_ms: i64) {
    let shown = tree.node(CONFIG).map_or(Zxid::ZERO, |node| node.stat().mzxid);
    if shown < members.version() {
        overwrite(tree, members, now_ms);
    }
}

/// Makes the configuration in force visible to clients, whatever the data say: without
/// reconfigurations they are not where it comes from.
pub fn overwrite(tree: &mut Tree, members: &Membership, now_ms: i64) {
    tree.show_configuration(members.to_string().as_bytes(), members.version(), now_ms);
}

/// Looks whether a member may start with these members on these data, where they are changed by hand:
/// old and new quorums must have somebody in common, or what was acknowledged may be lost.
///
/// # Errors
/// More than one voter has come or gone since the data were written.
pub fn check_hand_made(ensemble: &EnsembleConfig, before: &Membership) -> anyhow::Result<()> {
    let voters = |config: &Membership| config.voters().map(|id| id.0).collect::<BTreeSet<_>>();
    let (then, now) = (voters(before), voters(&ensemble.members));
    let changed = then.symmetric_difference(&now).count();
    if changed <= 1 {
        return Ok(());
    }
    if ensemble.accept_members {
        warn!("the data are those of an ensemble with voters {then:?}, which was accepted");
        return Ok(());
    }
    anyhow::bail!(
        "{}: the data are those of an ensemble with voters {then:?}, not {now:?}: \
         to change more than one at a time can lose what was acknowledged\n\
         hint: change one server at a time, or use reconfig (reconfigEnabled=true); \
         zebu.acceptMembers=true starts all the same",
        ensemble.origin
    )
}
