//! The file in which an oracle permits this server, one of two, to continue alone.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tracing::info;
use zebu_zab::Input;

use super::Net;

/// Time between two reads of the file: a fraction of the duration of an election without the other
/// server.
const PAUSE: Duration = Duration::from_millis(25);

/// Passes the answer in the file to the replica, now and after each change.
///
/// Source: `QuorumOracleMaj.askOracle`.
pub(super) async fn watch(net: Arc<Net>, path: PathBuf) {
    let mut said = None;
    while !net.shared.ending.is_stopping() {
        let file = path.clone();
        let Ok(allows) = tokio::task::spawn_blocking(move || allows_alone(&file)).await else {
            return;
        };
        if said != Some(allows) {
            said = Some(allows);
            let what = if allows { "may" } else { "may not" };
            info!("the oracle {} says that this server {what} continue alone", path.display());
            net.report(Input::Oracle(allows));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether the first character is `1`. An unreadable file means no.
fn allows_alone(path: &Path) -> bool {
    let mut first = [0; 1];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == *b"1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_character_is_what_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("oracle");
        assert!(!allows_alone(&path));
        for (text, allows) in [("1", true), ("1\n", true), ("0", false), ("", false), (" 1", false)]
        {
            std::fs::write(&path, text).unwrap();
            assert_eq!(allows_alone(&path), allows, "{text:?}");
        }
    }
}
