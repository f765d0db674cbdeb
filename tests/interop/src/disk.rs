//! A small disk in memory, for tests of full disks.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The file that fills the disk.
const FILLER: &str = "filler";

/// A mounted filesystem. Dropping it unmounts it.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a filesystem of this many MiB on a folder.
    ///
    /// # Errors
    /// The machine does not permit mounts.
    pub fn mount(path: &Path, mebibytes: u32) -> Result<Self> {
        let mut command = Command::new("mount");
        command
            .args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "zebu-interop"])
            .arg(path);
        let output = command.output().context("mount")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?}: {}", said.trim());
        Ok(Self { path: path.to_owned() })
    }

    /// Fills the disk.
    ///
    /// # Errors
    /// The file cannot be written for a reason other than a full disk.
    pub fn fill(&self) -> Result<()> {
        let mut file = File::create(self.path.join(FILLER))?;
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

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // If unmounting fails, the mount stays. There is no remedy.
        Command::new("umount").arg(&self.path).status().ok();
    }
}
