//! A disk of a few megabytes, in memory, for what happens when it is full.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A file that takes all the room there is.
const FILLER: &str = "filler";

/// A filesystem of its own; it goes when this does.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts one of so many MiB on a folder.
    ///
    /// # Errors
    /// This machine does not let us.
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

    /// Leaves no room.
    ///
    /// # Errors
    /// The file cannot be written for another reason.
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

    /// Gives it back.
    ///
    /// # Errors
    /// It was not taken.
    pub fn empty(&self) -> Result<()> {
        Ok(fs::remove_file(self.path.join(FILLER))?)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A failure leaves a mount behind, and nothing else can be done about it.
        Command::new("umount").arg(&self.path).status().ok();
    }
}
