//! A member's configuration of the ensemble: the files beside `zoo.cfg`, and the configuration in
//! the data.
//!
//! Files are replaced atomically in a fixed order: first the new members, then the pointer to them;
//! the proposed configuration is removed last. So a start finds either the old configuration or the
//! new one.
//! Source: `QuorumPeer.setQuorumVerifier`, `QuorumPeerConfig.editStaticConfig`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::path::reserved::CONFIG;
use zebu_proto::{ServerId, Zxid};
use zebu_store::Vfs;
use zebu_store::vfs::{read, replace};
use zebu_tree::Tree;
use zebu_zab::ConfigChange;
use zebu_zab::config::{Membership, TextError, files};

use crate::faults;

/// A configuration could not be stored. The server must not continue as if it had been.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The disk failed.
    #[error("cannot {act} {}", path.display())]
    Io {
        /// The operation that failed.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The operator's file is not a properties file any more.
    #[error("cannot change {}", path.display())]
    Static {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: TextError,
    },
}

impl ConfigError {
    fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { act, path, source }
    }
}

/// The stored configuration. Without an operator's file, nothing is stored.
#[derive(Debug)]
pub struct ConfigFiles {
    vfs: Arc<dyn Vfs>,
    /// The operator's file.
    file: Option<PathBuf>,
    me: ServerId,
    /// The committed configuration.
    committed: Arc<Membership>,
    /// The version of the proposed configuration, if its file exists.
    proposed: Option<Zxid>,
}

impl ConfigFiles {
    /// The files of the member `me`, which was started with `file`. `committed` was read from it,
    /// and `proposed` from the file beside it.
    pub fn new(
        vfs: Arc<dyn Vfs>,
        file: Option<PathBuf>,
        me: ServerId,
        committed: Arc<Membership>,
        proposed: Option<&Membership>,
    ) -> Self {
        Self { vfs, file, me, committed, proposed: proposed.map(Membership::version) }
    }

    /// The committed configuration.
    pub fn committed(&self) -> &Arc<Membership> {
        &self.committed
    }

    /// Makes the configuration read at the start durable: a killed process may have left files that
    /// a power cut could undo, and other servers may soon depend on them.
    ///
    /// # Errors
    /// The disk failed.
    pub fn settle(&self) -> Result<(), ConfigError> {
        let Some(file) = &self.file else { return Ok(()) };
        self.vfs.sync_dir(dir(file)).map_err(ConfigError::io("make durable", file))
    }

    /// Backs up the operator's file before the members are first removed from it.
    ///
    /// # Errors
    /// It cannot be read or copied.
    pub fn back_up(&self) -> Result<(), ConfigError> {
        let Some(file) = &self.file else { return Ok(()) };
        let content = self.read(file)?;
        self.write(&files::backup(file), &content)
    }

    /// Stores a change.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn save(&mut self, change: &ConfigChange) -> Result<(), ConfigError> {
        match change {
            ConfigChange::Proposed(config) => self.propose(config),
            ConfigChange::Withdrawn => self.withdraw(),
            ConfigChange::Committed(config) => self.commit(config.clone()),
            ConfigChange::Heard(_) => Ok(()),
        }
    }

    fn propose(&mut self, config: &Membership) -> Result<(), ConfigError> {
        let Some(file) = &self.file else { return Ok(()) };
        self.write(&files::proposed(file), config.proposed_text().as_bytes())?;
        self.proposed = Some(config.version());
        Ok(())
    }

    fn withdraw(&mut self) -> Result<(), ConfigError> {
        if let (Some(file), Some(_)) = (&self.file, self.proposed.take()) {
            let path = files::proposed(file);
            match self.vfs.remove(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result.map_err(ConfigError::io("remove", &path))?,
            }
        }
        Ok(())
    }

    fn commit(&mut self, config: Arc<Membership>) -> Result<(), ConfigError> {
        let version = config.version();
        self.committed = config;
        let Some(file) = &self.file else { return Ok(()) };
        if faults::configuration_not_kept() {
            return Ok(());
        }
        let dynamic = files::committed(file, version);
        self.write(&dynamic, self.committed.committed_text().as_bytes())?;
        let text = self.read(file)?;
        let serves_clients = self.committed.member(self.me).is_some_and(|me| me.client.is_some());
        let pointer = dynamic.to_string_lossy();
        let edited = files::edited_static_text(&text, &pointer, serves_clients);
        let edited = edited.map_err(|source| ConfigError::Static { path: file.clone(), source })?;
        self.write(file, edited.as_bytes())?;
        if self.proposed.is_some_and(|proposed| proposed <= version) {
            self.withdraw()?;
        }
        Ok(())
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, ConfigError> {
        read(self.vfs.as_ref(), path).map_err(ConfigError::io("read", path))
    }

    fn write(&self, path: &Path, content: &[u8]) -> Result<(), ConfigError> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        replace(self.vfs.as_ref(), path, Path::new(&temporary), content)
            .map_err(ConfigError::io("write", path))
    }
}

fn dir(file: &Path) -> &Path {
    file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The configuration in the data, if the data belong to an ensemble.
pub fn in_data(tree: &Tree) -> Option<Membership> {
    let text = tree.node(CONFIG)?.data().filter(|text| !text.is_empty())?;
    Membership::agreed(text)
}

/// The newest committed configuration in the files beside `file`, whichever of them `file` points
/// to.
pub fn in_files(vfs: &dyn Vfs, file: &Path) -> Option<Membership> {
    let name = format!("{}.dynamic.", file.file_name()?.to_str()?);
    let dir = dir(file);
    let beside = vfs.list(dir).ok()?;
    let versions = beside.into_iter().filter_map(|entry| {
        let suffix = entry.name.strip_prefix(&name)?;
        let version = i64::from_str_radix(suffix, 16).ok().map(Zxid)?;
        Some((version, dir.join(&entry.name)))
    });
    let (version, path) = versions.max()?;
    Some(Membership::agreed(&read(vfs, &path).ok()?)?.with_version(version))
}

/// Shows the committed configuration to clients, unless a transaction has shown a later one.
pub fn show(tree: &mut Tree, members: &Membership, now_ms: i64) {
    let shown = tree.node(CONFIG).map_or(Zxid::ZERO, |node| node.stat().mzxid);
    if shown < members.version() {
        overwrite(tree, members, now_ms);
    }
}

/// Shows the committed configuration to clients, whatever the data contain: without
/// reconfiguration, the data are not its source.
pub fn overwrite(tree: &mut Tree, members: &Membership, now_ms: i64) {
    tree.show_configuration(members.to_string().as_bytes(), members.version(), now_ms);
}
