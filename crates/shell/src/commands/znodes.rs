//! Commands for single znodes: create, read, change, delete, list.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Map, Value, json};
use zebu_client::{
    Acls, Client, CreateMode, ErrorCode, ErrorKind, Pending, Results, Stat, Version,
};
use zebu_proto::{TTL_MS_MAX, path};

use super::Context;
use crate::failure::{Failure, Result};
use crate::options::Arguments;
use crate::progress::Progress;
use crate::render;
use crate::session::Kind;
use crate::walk::{Walk, Want, join};

/// Maximum time of a `sync`.
const SYNC_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum number of znodes that `deleteall` deletes in one transaction.
const BATCH: usize = 1000;

/// Maximum number of path bytes in such a transaction. This is far below the servers' limit.
const BATCH_BYTES_MAX: usize = 512 * 1024;

/// Number of transactions in flight.
const BATCHES_IN_FLIGHT: usize = 10;

/// The version given by an option.
pub(super) fn version(args: &Arguments) -> Result<Version> {
    Ok(args.number("v")?.map_or(Version::ANY, Version))
}

/// Parses an ACL and reports invalid entries. If no entry is left, fails without a request.
pub(super) fn acl(cx: &Context, text: &str) -> Result<Acls> {
    let entries = render::parse_acl(text, &mut |wrong| cx.out.note(&wrong));
    if entries.is_empty() {
        return Err(Failure::of_code(ErrorCode::INVALID_ACL));
    }
    Ok(entries.into())
}

/// A JSON object with the path.
pub(super) fn object(path: &str) -> Map<String, Value> {
    Map::from_iter([("path".to_owned(), path.into())])
}

pub(super) async fn create(cx: &Context, args: &Arguments) -> Result {
    let (is_ephemeral, is_sequential) = (args.has("e"), args.has("s"));
    let (is_container, has_ttl) = (args.has("c"), args.has("t"));
    if is_container && (is_ephemeral || is_sequential) {
        return Err(Failure::new(
            "-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.",
        ));
    }
    let ttl = match args.value("t").map(str::parse::<i64>) {
        None => 0,
        Some(Ok(ms)) => ms,
        Some(Err(_)) => return Err(Failure::new("-t argument must be a long value")),
    };
    if has_ttl && is_ephemeral {
        return Err(Failure::new("TTLs cannot be used with Ephemeral znodes"));
    }
    if has_ttl && is_container {
        return Err(Failure::new("TTLs cannot be used with Container znodes"));
    }
    if has_ttl && !(1..=TTL_MS_MAX).contains(&ttl) {
        let message = format!("ttl must be positive and cannot be larger than: {TTL_MS_MAX}");
        return Err(Failure::new(message));
    }
    let ttl = Duration::from_millis(ttl.unsigned_abs());
    let mode = match (is_ephemeral, is_sequential, is_container, has_ttl) {
        (true, true, ..) => CreateMode::EphemeralSequential,
        (true, false, ..) => CreateMode::Ephemeral,
        (_, true, _, true) => CreateMode::SequentialTtl(ttl),
        (_, true, _, false) => CreateMode::PersistentSequential,
        (_, _, true, _) => CreateMode::Container,
        (_, _, _, true) => CreateMode::Ttl(ttl),
        _ => CreateMode::Persistent,
    };
    let path = args.word(0);
    let acl = match args.try_word(2) {
        None => Acls::open_to_all(),
        Some(text) => acl(cx, text)?,
    };
    let created = match args.try_word(1) {
        Some(data) => cx.client.create(path, data, mode, &acl),
        None => cx.client.create_null(path, mode, &acl),
    };
    let created = created.await?;
    cx.out.emit_aside(
        || format!("Created {}", created.path),
        || json!({ "path": created.path, "created": true, "stat": render::stat_json(&created.stat) }),
    )
}

pub(super) async fn delete(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    if args.count() > 1 {
        cx.out.note(
            "'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead.",
        );
    }
    cx.client.delete(path, version(args)?).await?;
    cx.out.json_only(|| json!({ "path": path, "deleted": true }))
}

pub(super) async fn delete_all(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    let batch = match args.value("b").map(str::parse::<i64>) {
        None => BATCH,
        Some(Ok(size)) => usize::try_from(size).unwrap_or(0),
        Some(Err(_)) => return Err(Failure::new("-b argument must be an int value")),
    };
    let progress = Progress::counting(&cx.out, "reading");
    let mut paths = Vec::new();
    let mut walk = Walk::new(&cx.client, path, Want::default(), u32::MAX);
    while let Some(found) = walk.next().await {
        paths.push(found.map_err(|unread| Failure::from(unread.error))?.path);
        progress.advance(1);
    }
    drop(progress);
    let progress = Progress::to(&cx.out, "deleting", paths.len());
    // Descendants come before their parents now.
    paths.reverse();
    let is_done = if batch == 0 {
        delete_each(&cx.client, &paths, &progress).await?;
        true
    } else {
        delete_in_batches(&cx.client, &paths, batch, &progress).await
    };
    drop(progress);
    if !is_done {
        let failure = Failure::new("Failed to delete some node(s) in the subtree!");
        return Err(failure.hint(format!(
            "another client creates or deletes znodes there, or you lack the permission; ls -R {path} shows the rest"
        )));
    }
    cx.out.json_only(|| json!({ "path": path, "deleted": paths.len() }))
}

async fn delete_each(client: &Client, paths: &[String], progress: &Progress) -> Result {
    for path in paths {
        client.delete(path, Version::ANY).await?;
        progress.advance(1);
    }
    Ok(())
}

/// Returns whether all of them are deleted.
async fn delete_in_batches(
    client: &Client,
    paths: &[String],
    batch: usize,
    progress: &Progress,
) -> bool {
    let mut under_way: VecDeque<(usize, Pending<Results>)> = VecDeque::new();
    let mut rest = paths;
    while !rest.is_empty() || !under_way.is_empty() {
        if !rest.is_empty() && under_way.len() < BATCHES_IN_FLIGHT {
            let mut transaction = client.transaction();
            let (mut count, mut bytes) = (0, 0);
            while let Some(path) = rest.get(count)
                && count < batch
                && (count == 0 || bytes + path.len() < BATCH_BYTES_MAX)
            {
                transaction.delete(path, Version::ANY);
                bytes += path.len();
                count += 1;
            }
            rest = &rest[count..];
            under_way.push_back((count, transaction.commit()));
            continue;
        }
        let Some((count, committed)) = under_way.pop_front() else { break };
        if committed.await.is_err() {
            return false;
        }
        progress.advance(count);
    }
    true
}

pub(super) async fn set(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    let data = if args.has("b") {
        render::from_base64(args.word(1))?
    } else {
        args.word(1).as_bytes().to_vec()
    };
    let stat = cx.client.set_data(path, data, version(args)?).await?;
    if args.has("s") {
        cx.out.text_only(&render::stat(&stat))?;
    }
    cx.out.json_only(|| json!({ "path": path, "stat": render::stat_json(&stat) }))
}

/// Whether a second argument asks for a watch: the deprecated syntax.
fn wants_watch(cx: &Context, args: &Arguments, name: &str, instead: &str) -> bool {
    let is_old = args.count() > 1;
    if is_old {
        cx.out.note(&format!(
            "'{name} path [watch]' has been deprecated. Please use '{instead}' instead."
        ));
    }
    args.has("w") || is_old
}

pub(super) async fn get(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    let (data, stat) = if wants_watch(cx, args, "get", "get [-s] [-w] path") {
        let (data, stat, watch) = cx.client.watch_data_or_null(path).await?;
        cx.watches.keep(Kind::Data, path, watch);
        (data, stat)
    } else {
        cx.client.get_data_or_null(path).await?
    };
    let text = || {
        let data = data.as_deref().unwrap_or(b"null");
        let mut text = if args.has("x") {
            render::hex_dump(data).into_bytes()
        } else if args.has("b") {
            render::to_base64(data).into_bytes()
        } else if cx.out.is_terminal() {
            render::for_screen(data).into_bytes()
        } else {
            data.to_vec()
        };
        if args.has("s") {
            text.push(b'\n');
            text.extend_from_slice(render::stat(&stat).as_bytes());
        }
        text
    };
    cx.out.emit(text, || {
        let mut object = object(path);
        render::put_data(&mut object, data.as_deref());
        object.insert("stat".to_owned(), render::stat_json(&stat));
        object.into()
    })
}

pub(super) async fn stat(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    let stat = if wants_watch(cx, args, "stat", "stat [-w] path") {
        let (stat, watch) = cx.client.watch_exists(path).await?;
        let kind = if stat.is_some() { Kind::Data } else { Kind::Exist };
        cx.watches.keep(kind, path, watch);
        stat
    } else {
        cx.client.exists(path).await?
    };
    let stat = stat.ok_or_else(|| Failure::no_node(path))?;
    let json = || json!({ "path": path, "stat": render::stat_json(&stat) });
    cx.out.emit(|| render::stat(&stat), json)
}

pub(super) async fn ls(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    if args.has("?") {
        cx.out.text_only(
            "usage: ls [options] path\n -?   help\n -R   recurse\n -s   stat\n -w   watch",
        )?;
    }
    let is_watching = wants_watch(cx, args, "ls", "ls [-w] path");
    if args.has("R") {
        return list_all(cx, path, is_watching).await;
    }
    let (mut children, stat) = if is_watching {
        let (children, stat, watch) = cx.client.watch_children(path).await?;
        cx.watches.keep(Kind::Child, path, watch);
        (children, stat)
    } else {
        cx.client.get_children(path).await?
    };
    children.sort_unstable();
    let text = || {
        let list = format!("[{}]", children.join(", "));
        if args.has("s") { format!("{list}\n{}", render::stat(&stat)) } else { list }
    };
    let json = || json!({ "path": path, "children": children, "stat": render::stat_json(&stat) });
    cx.out.emit(text, json)
}

/// Lists a znode, then the children of each znode below it, in blocks.
async fn list_all(cx: &Context, root: &str, is_watching: bool) -> Result {
    let show = |path: &str| cx.out.emit(|| path, || object(path).into());
    let mut walk = Walk::new(&cx.client, root, Want::default(), u32::MAX);
    let mut is_first = true;
    while let Some(found) = walk.next().await {
        let found = found.map_err(|unread| Failure::from(unread.error))?;
        if std::mem::take(&mut is_first) {
            show(root)?;
        }
        if is_watching {
            leave_watches(cx, &found.path, found.path == root).await?;
        }
        for name in &found.children {
            show(&join(&found.path, name))?;
        }
    }
    Ok(())
}

async fn leave_watches(cx: &Context, path: &str, is_root: bool) -> Result {
    if is_root {
        let (_, _, watch) = cx.client.watch_data(path).await?;
        cx.watches.keep(Kind::Data, path, watch);
    }
    match cx.client.watch_children(path).await {
        Ok((_, _, watch)) => cx.watches.keep(Kind::Child, path, watch),
        Err(error) if error.kind() == ErrorKind::Gone => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

pub(super) async fn sync(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    let synced = tokio::time::timeout(SYNC_TIME_MAX, cx.client.sync(path)).await;
    match synced {
        Err(_) => Err(Failure::new("sync has not ended within 30 s")
            .hint("check whether the ensemble has a leader")),
        Ok(Err(error)) if error.kind() == ErrorKind::Invalid => Err(error.into()),
        Ok(Err(error)) => {
            let code = error.code().0;
            cx.out.text_only(&format!("Sync has failed. rc={code}"))?;
            Err(error.into())
        }
        Ok(Ok(())) => cx.out.emit(|| "Sync is OK", || json!({ "path": path, "synced": true })),
    }
}

pub(super) async fn ephemerals(cx: &Context, args: &Arguments) -> Result {
    let prefix = args.try_word(0).unwrap_or("/");
    path::validate(prefix).map_err(|wrong| Failure::of_path(wrong, prefix))?;
    let paths = cx.client.ephemerals(prefix).await?;
    cx.out.emit(|| format!("[{}]", paths.join(", ")), || json!({ "ephemerals": paths }))
}

pub(super) async fn count_children(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    let count = cx.client.count_descendants(path).await?;
    cx.out.emit(|| count.to_string(), || json!({ "path": path, "count": count }))
}

/// Whether a znode is deleted with its session.
pub(super) fn is_ephemeral(stat: &Stat) -> bool {
    stat.ephemeral_owner != 0
}
