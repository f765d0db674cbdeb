//! Quotas: the limits are data of special znodes, which the servers read.

use serde_json::json;
use zebu_client::{Acls, Client, CreateMode, Error, ErrorCode, ErrorKind, Version};
use zebu_proto::path::reserved::{LIMITS, QUOTA, STATS};

use super::Context;
use crate::command;
use crate::failure::{Failure, Result};
use crate::limits::{BYTES, BYTES_HARD, COUNT, COUNT_HARD, Limits};
use crate::options::Arguments;
use crate::walk::{Walk, Want};

/// The options and their limits.
const KINDS: [(&str, &str); 4] = [("n", COUNT), ("b", BYTES), ("N", COUNT_HARD), ("B", BYTES_HARD)];

fn place(path: &str) -> String {
    format!("{QUOTA}{path}")
}

fn limits_of(path: &str) -> String {
    format!("{QUOTA}{path}/{LIMITS}")
}

fn usage_of(path: &str) -> String {
    format!("{QUOTA}{path}/{STATS}")
}

async fn read(client: &Client, path: &str) -> Result<Limits, Error> {
    Ok(Limits::parse(&client.get_data(path).await?.0))
}

pub(super) async fn list(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    let place = limits_of(path);
    if !cx.out.is_json() {
        cx.out.note(&format!("absolute path is {place}"));
    }
    let usage = usage_of(path);
    let both: Result<_, Error> =
        async { Ok((read(&cx.client, &place).await?, read(&cx.client, &usage).await?)) }.await;
    let (limits, used) = match both {
        Ok(found) => found,
        Err(error) if error.code() == ErrorCode::NO_NODE => {
            let text = || format!("quota for {path} does not exist.");
            return cx.out.emit_aside(text, || json!({ "path": path, "quota": null }));
        }
        Err(error) => return Err(error.into()),
    };
    cx.out.emit(
        || {
            format!(
                "Output quota for {path} {}\nOutput stat for {path} {}",
                limits.text(),
                used.text()
            )
        },
        || json!({ "path": path, "quota": limits.json(), "used": used.json() }),
    )
}

/// The limit that the options name. Exactly one option is required.
fn wanted(args: &Arguments) -> Result<(&'static str, i64)> {
    let mut given = KINDS.iter().filter(|(option, _)| args.has(option));
    let (Some((option, key)), None) = (given.next(), given.next()) else {
        let failure = Failure::usage(command::find("setquota").expect("a command"));
        return Err(failure.hint("set one limit at a time, for example: setquota -n 100 /app"));
    };
    let value = args.value(option).unwrap_or_default();
    let number = match *key {
        COUNT | COUNT_HARD => value.parse::<i32>().map(i64::from),
        _ => value.parse::<i64>(),
    };
    let number = number
        .map_err(|_| Failure::new("NumberFormatException happens when parsing the option value"))?;
    match *key {
        COUNT | COUNT_HARD if number <= 0 => {
            Err(Failure::new("the num quota must be greater than zero"))
        }
        BYTES | BYTES_HARD if number < 0 => {
            Err(Failure::new("the bytes quota must be greater than or equal to zero"))
        }
        _ => Ok((key, number)),
    }
}

pub(super) async fn set(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    if path.starts_with(QUOTA) {
        return Err(Failure::new(format!("cannot set a quota under the path: {QUOTA}")));
    }
    if path == "/" {
        return Err(Failure::new("Path must not end with / character")
            .hint("the root cannot have a quota; set one on each znode below it"));
    }
    let (key, value) = wanted(args)?;
    let client = &cx.client;
    if client.exists(path).await?.is_none() {
        return Err(Failure::new(format!("{path} does not exist."))
            .hint("create the znode before its quota"));
    }
    refuse_below(client, path).await?;
    refuse_above(client, path).await?;
    create_place(client, &place(path)).await?;
    let (limits_path, usage_path) = (limits_of(path), usage_of(path));
    let known = match read(client, &limits_path).await {
        Ok(limits) => Some(limits),
        Err(error) if error.kind() == ErrorKind::Gone => None,
        Err(error) => return Err(error.into()),
    };
    let is_new = known.is_none();
    let mut limits = known.unwrap_or_else(Limits::unlimited);
    limits.set(key, value);
    if is_new {
        let create = |path: &str, limits: &Limits| {
            client.create(path, limits.text(), CreateMode::Persistent, &Acls::open_to_all())
        };
        let (limits, usage) =
            (create(&limits_path, &limits), create(&usage_path, &Limits::unused()));
        limits.await?;
        usage.await?;
    }
    let used = read(client, &usage_path).await?;
    warn(cx, &limits, &used)?;
    if !is_new {
        client.set_data(&limits_path, limits.text(), Version::ANY).await?;
    }
    cx.out.json_only(|| json!({ "path": path, "quota": limits.json(), "used": used.json() }))
}

/// Creates the missing parents of a quota's znodes.
async fn create_place(client: &Client, place: &str) -> Result {
    let ends = place.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    for path in ends.map(|end| &place[..end]).chain([place]) {
        if client.exists(path).await?.is_some() {
            continue;
        }
        match client.create_null(path, CreateMode::Persistent, &Acls::open_to_all()).await {
            Err(error) if error.code() != ErrorCode::NODE_EXISTS => return Err(error.into()),
            // Another client may have created the znode meanwhile.
            _ => {}
        }
    }
    Ok(())
}

/// Warns if the usage already exceeds a limit.
fn warn(cx: &Context, limits: &Limits, used: &Limits) -> Result {
    let kinds = [("count", COUNT, COUNT_HARD), ("bytes", BYTES, BYTES_HARD)];
    for (name, soft, hard) in kinds {
        let is_exceeded = |limit: i64| limit > -1 && limit < used.get(soft);
        if is_exceeded(limits.get(soft)) || is_exceeded(limits.get(hard)) {
            cx.out.text_only(&format!(
                "[Warning]: the {name} quota you create is less than the existing {name}:{}",
                used.get(soft)
            ))?;
        }
    }
    Ok(())
}

async fn refuse_below(client: &Client, path: &str) -> Result {
    let root = place(path);
    let mut walk = Walk::new(client, root.trim_end_matches('/'), Want::default(), u32::MAX);
    while let Some(found) = walk.next().await {
        let found = match found {
            Ok(found) => found,
            Err(unread) if unread.error.kind() == ErrorKind::Gone => return Ok(()),
            Err(unread) => return Err(unread.error.into()),
        };
        if found.path != root && found.children.iter().any(|name| name == LIMITS) {
            let child = found.path.trim_start_matches(QUOTA);
            return Err(Failure::new(format!("{path} has a child {child} which has a quota")));
        }
    }
    Ok(())
}

async fn refuse_above(client: &Client, path: &str) -> Result {
    for (end, _) in path.match_indices('/').filter(|(at, _)| *at > 0) {
        let parent = &path[..end];
        match client.get_children(&place(parent)).await {
            Ok((names, _)) if names.iter().any(|name| name == LIMITS) => {
                return Err(Failure::new(format!(
                    "{path} has a parent {parent} which has a quota"
                )));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Gone => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) async fn delete(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    let given: Vec<&str> =
        KINDS.iter().filter(|(option, _)| args.has(option)).map(|(_, key)| *key).collect();
    if given.len() > 1 {
        let failure = Failure::usage(command::find("delquota").expect("a command"));
        return Err(failure.hint("delete one limit at a time, or all of them without an option"));
    }
    let client = &cx.client;
    let limits_path = limits_of(path);
    if client.exists(&limits_path).await?.is_none() {
        return cx.out.emit(
            || format!("Quota does not exist for {path}"),
            || json!({ "path": path, "quota": null }),
        );
    }
    if let [key] = given[..] {
        let mut limits = read(client, &limits_path).await?;
        limits.set(key, -1);
        client.set_data(&limits_path, limits.text(), Version::ANY).await?;
        return cx.out.json_only(|| json!({ "path": path, "quota": limits.json() }));
    }
    let mut place = place(path);
    for name in client.get_children(&place).await?.0 {
        client.delete(&format!("{place}/{name}"), Version::ANY).await?;
    }
    // Also deletes parents without other children.
    while place != QUOTA && client.get_children(&place).await?.0.is_empty() {
        client.delete(&place, Version::ANY).await?;
        place.truncate(place.rfind('/').unwrap_or(0));
    }
    cx.out.json_only(|| json!({ "path": path, "quota": null }))
}
