//! Disks of their own for servers: tests fill them, and cut their power.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::fs::FallocateFlags;

/// The file that fills the disk.
const FILLER: &str = "filler";

/// The medium of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Memory. It is quick, and its power cannot be cut.
    Memory,
    /// A file with an ext4 file system.
    Ext4,
    /// A file with an XFS file system.
    Xfs,
}

impl Medium {
    /// Its name, for people and for `mount`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "tmpfs",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// The command that makes its file system, in a file.
    fn make(self) -> Option<Command> {
        let (program, words): (&str, &[&str]) = match self {
            Self::Memory => return None,
            Self::Ext4 => ("mkfs.ext4", &["-q", "-F"]),
            Self::Xfs => ("mkfs.xfs", &["-q", "-f"]),
        };
        let mut command = Command::new(program);
        command.args(words);
        Some(command)
    }
}

/// A mounted file system. Dropping it unmounts it.
#[derive(Debug)]
pub struct OwnDisk {
    path: PathBuf,
    medium: Medium,
    /// The source of the mount and its option.
    source: (PathBuf, String),
}

impl OwnDisk {
    /// Mounts a file system of this many MiB on a folder. A medium that is a file is at `image`.
    ///
    /// # Errors
    /// The machine does not permit mounts, or lacks the tools of the file system.
    pub fn mount(path: &Path, image: &Path, medium: Medium, mebibytes: u32) -> Result<Self> {
        let source = if let Some(mut make) = medium.make() {
            File::create(image)?.set_len(u64::from(mebibytes) << 20)?;
            run(make.arg(image))?;
            (image.to_owned(), "loop".to_owned())
        } else {
            (PathBuf::from("zebu-interop"), format!("size={mebibytes}m"))
        };
        let disk = Self { path: path.to_owned(), medium, source };
        disk.attach()?;
        Ok(disk)
    }

    fn attach(&self) -> Result<()> {
        let (source, option) = &self.source;
        let mut mount = Command::new("mount");
        mount.args(["-t", self.medium.name(), "-o", option]).arg(source).arg(&self.path);
        run(&mut mount)
    }

    /// Makes everything on it durable.
    ///
    /// # Errors
    /// The file system reports a failure.
    pub fn sync(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.path)?)?)
    }

    /// Whether its power can be cut.
    pub fn has_power(&self) -> bool {
        self.medium != Medium::Memory
    }

    /// Cuts its power: from now on the file system writes nothing, and each call of a process
    /// fails. What was not made durable is gone.
    ///
    /// # Errors
    /// The file system cannot be shut down.
    pub fn cut_power(&self) -> Result<()> {
        ensure!(self.has_power(), "a disk in memory has no power to cut");
        // The command does not write the journal first.
        let mut shutdown = Command::new("xfs_io");
        run(shutdown.args(["-x", "-c", "shutdown"]).arg(&self.path))
    }

    /// Gives its power back: the file system is mounted anew from what is durable. No process may
    /// use it.
    ///
    /// # Errors
    /// The file system is in use, or cannot be mounted.
    pub fn restore_power(&self) -> Result<()> {
        run(Command::new("umount").arg(&self.path))?;
        self.attach()
    }

    /// Puts an empty disk in its place. No process may use it.
    ///
    /// # Errors
    /// It is in use, is a disk in memory, or the new one cannot be mounted.
    pub fn replace(&self) -> Result<()> {
        let mut make = self.medium.make().context("a disk in memory cannot be replaced")?;
        run(Command::new("umount").arg(&self.path))?;
        run(make.arg(&self.source.0))?;
        self.attach()
    }

    /// Fills the disk.
    ///
    /// # Errors
    /// The file cannot be written for a reason other than a full disk.
    pub fn fill(&self) -> Result<()> {
        let mut file = File::options().create(true).append(true).open(self.path.join(FILLER))?;
        // Most of it need not be written.
        for length in (16..30).rev().map(|bits| 1 << bits) {
            let end = file.metadata()?.len();
            // If there is no space for this much, there may still be space for less.
            rustix::fs::fallocate(&file, FallocateFlags::empty(), end, length).ok();
        }
        for length in [1 << 16, 1] {
            loop {
                match file.write_all(&vec![0; length]) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Frees the space.
    ///
    /// # Errors
    /// The disk was not filled.
    pub fn empty(&self) -> Result<()> {
        Ok(fs::remove_file(self.path.join(FILLER))?)
    }
}

impl Drop for OwnDisk {
    fn drop(&mut self) {
        // If unmounting fails, the mount stays. There is no remedy.
        Command::new("umount").arg(&self.path).status().ok();
    }
}

/// Runs a command that must succeed.
fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{:?}", command.get_program()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", said.trim());
    Ok(())
}
