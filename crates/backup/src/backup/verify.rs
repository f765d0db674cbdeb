//! Reads every file of a backup, and checks it against the manifest and against itself.

use zebu_store::Nothing;

use super::plan;
use crate::error::Result;
use crate::source::Source as _;
use crate::stored::Stored;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The number of files.
    pub files: usize,
    /// Their total length.
    pub bytes: u64,
    /// The faults, one sentence each.
    pub faults: Vec<String>,
    /// Further remarks for the operator.
    pub notes: Vec<String>,
}

/// Verifies a backup.
///
/// # Errors
/// None: an unreadable file is a fault in the result.
pub fn verify(stored: &Stored) -> Verdict {
    let mut verdict = Verdict::default();
    let manifest = &stored.manifest;
    for (name, sha) in manifest.files() {
        let path = stored.repository.file_path(&name, sha);
        match stored.repository.hash(&name, sha) {
            Ok((bytes, found)) => {
                verdict.files += 1;
                verdict.bytes += bytes;
                if found != *sha {
                    verdict.faults.push(format!(
                        "{}: its content is not what was backed up ({bytes} bytes)",
                        path.display()
                    ));
                }
            }
            Err(error) => verdict.faults.push(format!("{error}")),
        }
    }
    if !verdict.faults.is_empty() {
        return verdict;
    }
    if let Err(error) = verify_content(stored, &mut verdict) {
        verdict.faults.push(format!("{error}"));
    }
    if let Some((after, before)) = plan::gap(&manifest.logs) {
        verdict.notes.push(format!(
            "transactions between {after} and {before} are missing: nothing between them can be restored"
        ));
    }
    verdict
}

/// Reads what the files contain, as a restore does.
fn verify_content(stored: &Stored, verdict: &mut Verdict) -> Result<()> {
    for (file, entry) in stored.snapshots()?.iter().zip(&stored.manifest.snapshots) {
        match stored.read_snapshot(file, &mut Nothing) {
            Ok(sections) if sections.is_some_and(|sections| sections.nodes == entry.znodes) => {}
            Ok(_) => verdict.faults.push(format!(
                "{}: it does not have the {} znodes that were backed up",
                file.path.display(),
                entry.znodes
            )),
            Err(error) => verdict.faults.push(format!("{error}")),
        }
    }
    for log in stored.logs()? {
        let report = stored.read_log(&log, &mut |_| Ok(()))?;
        if let Some(damage) = report.and_then(|report| report.damage) {
            verdict.faults.push(format!("{}: {damage}", log.path.display()));
        }
    }
    Ok(())
}
