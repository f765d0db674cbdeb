//! Edits data in the user's editor, without overwriting changes that another client made meanwhile.

use std::io::{Read, Write};
use std::process::Command;

use serde_json::json;
use zebu_client::{ErrorCode, Version};

use super::Context;
use crate::failure::{Failure, Result};
use crate::options::Arguments;
use crate::render;

/// The editor if neither `VISUAL` nor `EDITOR` is set.
const DEFAULT_EDITOR: &str = "vi";

pub(super) async fn edit(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    let (before, stat) = cx.client.get_data(path).await?;
    let mut file = tempfile::Builder::new().prefix("zebu-edit-").suffix(".txt").tempfile()?;
    file.write_all(&before)?;
    file.flush()?;
    let name = file.path().to_owned();
    cx.out.flush()?;
    tokio::task::spawn_blocking(move || run_editor(&name))
        .await
        .map_err(|error| Failure::new(error.to_string()))??;
    let mut after = Vec::new();
    // Some editors replace the file, so it is opened again by name.
    std::fs::File::open(file.path())?.read_to_end(&mut after)?;
    // Editors also add a line end to the last line.
    if after.last() == Some(&b'\n') && before.last() != Some(&b'\n') {
        after.pop();
    }
    if after == before.as_ref() {
        cx.out.note("nothing changed");
        return cx.out.json_only(|| json!({ "path": path, "changed": false }));
    }
    match cx.client.set_data(path, &after, Version(stat.version)).await {
        Ok(stat) => {
            if !cx.out.is_json() {
                cx.out.note(&format!("saved as version {}", stat.version));
            }
            cx.out.json_only(
                || json!({ "path": path, "changed": true, "stat": render::stat_json(&stat) }),
            )
        }
        Err(error) => {
            // Keeps the file, so that the user's changes are not lost.
            let kept = file.keep().map_err(|error| Failure::from(error.error))?.1;
            let kept = kept.display();
            if error.code() == ErrorCode::BAD_VERSION {
                return Err(Failure::new(format!("another client changed {path} meanwhile"))
                    .hint(format!("your text is in the file {kept}; edit again and merge it")));
            }
            Err(Failure::from(error).hint(format!("your text is in the file {kept}")))
        }
    }
}

/// Runs the editor and waits for its end. The variable may contain options.
fn run_editor(file: &std::path::Path) -> Result {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor =
        set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| DEFAULT_EDITOR.to_owned());
    let mut words = editor.split_whitespace();
    let status =
        Command::new(words.next().unwrap_or(DEFAULT_EDITOR)).args(words).arg(file).status();
    let failed = |what: String| {
        Failure::new(format!("{editor}: {what}")).hint("set the variable EDITOR to your editor")
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(status.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}
