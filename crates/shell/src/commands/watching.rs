//! Persistent watches, and the removal of watches.

use serde_json::json;
use zebu_client::{SessionState, WatchMode, WatcherType};

use super::Context;
use crate::command;
use crate::failure::{Failure, Result};
use crate::options::Arguments;
use crate::session::Kind;

pub(super) async fn add_watch(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    let (mode, kind) = match args.value("m").map(str::to_uppercase).as_deref() {
        None | Some("PERSISTENT_RECURSIVE") => (WatchMode::Recursive, Kind::Recursive),
        Some("PERSISTENT") => (WatchMode::Persistent, Kind::Persistent),
        Some(_) => return Err(Failure::usage(command::find("addWatch").expect("a command"))),
    };
    let watch = cx.client.watch(path, mode).await?;
    cx.watches.keep(kind, path, watch);
    cx.out.json_only(|| json!({ "path": path, "watched": true }))
}

pub(super) async fn remove_watches(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    let kind = if args.has("c") {
        WatcherType::Children
    } else if args.has("d") {
        WatcherType::Data
    } else if args.has("p") {
        WatcherType::Persistent
    } else if args.has("r") {
        WatcherType::PersistentRecursive
    } else {
        WatcherType::Any
    };
    let is_connected =
        matches!(cx.client.state(), SessionState::Connected | SessionState::ConnectedReadOnly);
    if args.has("l") && !is_connected {
        // The client sends its watches with the next connection, and leaves out this one.
        if !cx.watches.forget(path, kind) {
            return Err(Failure::no_watcher(path));
        }
    } else {
        cx.client.remove_watches(path, kind).await?;
        cx.watches.forget(path, kind);
    }
    cx.out.json_only(|| json!({ "path": path, "removed": true }))
}
