//! Backups as text and as JSON.

use std::io::{self, Write};

use jiff::SignedDuration;
use serde_json::json;

use super::plan;
use super::take::Made;
use super::verify::Verdict;
use crate::dates;
use crate::manifest::Manifest;

/// Prints a new backup.
pub(super) fn made(
    made: &Made,
    (manifests, files): (usize, usize),
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Made { manifest, copied, copied_bytes, left_out } = made;
    if json {
        let value = json!({
            "number": manifest.number, "last": manifest.last().to_string(), "copied": copied,
            "copied_bytes": copied_bytes, "bytes": manifest.bytes(), "left_out": left_out,
            "removed_backups": manifests, "removed_files": files,
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    let (copied, bytes) = (copied.len(), manifest.bytes());
    writeln!(
        out,
        "backup {} of {}: {}\ncopied {copied} files, {copied_bytes} bytes of {bytes}",
        manifest.number,
        manifest.source,
        extent(manifest)
    )?;
    if manifests + files > 0 {
        writeln!(out, "removed {manifests} old backups and {files} files that no backup needs")?;
    }
    Ok(())
}

/// Prints a backup of a list.
pub(super) fn manifest(manifest: &Manifest, json: bool, out: &mut dyn Write) -> io::Result<()> {
    let (number, made, bytes) = (manifest.number, dates::utc(manifest.made_ms), manifest.bytes());
    let (snapshots, logs) = (manifest.snapshots.len(), manifest.logs.len());
    if json {
        let gap = plan::gap(&manifest.logs);
        let gap = gap.map(|(after, before)| json!([after.to_string(), before.to_string()]));
        let value = json!({
            "number": number, "made": made, "made_ms": manifest.made_ms, "source": manifest.source,
            "last": manifest.last().to_string(), "last_time": manifest.last_ms().map(dates::utc),
            "snapshots": snapshots, "logs": logs, "bytes": bytes, "gap": gap,
        });
        writeln!(out, "{value}")?;
    } else {
        writeln!(
            out,
            "backup {number} made {made}: {}; {snapshots} snapshots, {logs} logs, {bytes} bytes; {}",
            extent(manifest),
            manifest.source
        )?;
    }
    Ok(())
}

/// The range of transactions that can be restored.
fn extent(manifest: &Manifest) -> String {
    let time = manifest.last_ms().map(|ms| format!(" of {}", dates::utc(ms))).unwrap_or_default();
    let first = match (manifest.logs.first(), manifest.snapshots.first()) {
        (Some(log), _) if plan::is_first(log) => "the first transaction".to_owned(),
        (_, Some(snapshot)) => snapshot.zxid.to_string(),
        _ => "nothing".to_owned(),
    };
    format!("from {first} to {}{time}", manifest.last())
}

/// Prints the result of a verification.
pub(super) fn verdict(
    manifest: &Manifest,
    verdict: &Verdict,
    out: &mut dyn Write,
) -> io::Result<()> {
    let word = if verdict.faults.is_empty() { "verified" } else { "DAMAGED" };
    let Verdict { files, bytes, .. } = verdict;
    writeln!(
        out,
        "backup {} {word}: {files} files, {bytes} bytes; {}",
        manifest.number,
        extent(manifest)
    )?;
    Ok(())
}

/// Prints the age of the newest backup.
pub(super) fn age(
    manifest: &Manifest,
    age: SignedDuration,
    metrics: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if !metrics {
        writeln!(
            out,
            "backup {} made {}, {age:#} ago: {}",
            manifest.number,
            dates::utc(manifest.made_ms),
            extent(manifest)
        )?;
        return Ok(());
    }
    let gauges = [
        ("age_seconds", "How old the newest backup is.", age.as_secs()),
        (
            "made_seconds",
            "When the newest backup was made, since the Unix epoch.",
            manifest.made_ms / 1000,
        ),
        ("number", "The number of the newest backup.", manifest.number as i64),
        ("bytes", "How long all files of the newest backup are together.", manifest.bytes() as i64),
    ];
    for (name, help, value) in gauges {
        let name = format!("zebu_backup_{name}");
        writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}")?;
    }
    Ok(())
}
