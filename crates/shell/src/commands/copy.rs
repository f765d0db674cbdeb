//! Copying znodes, within an ensemble or to another.

use serde_json::json;
use zebu_client::{Acls, Client};

use super::Context;
use super::znodes::is_ephemeral;
use crate::failure::{Failure, Result};
use crate::options::Arguments;
use crate::plant::{Planter, Seedling};
use crate::progress::Progress;
use crate::session::Session;
use crate::walk::{Walk, Want, transplant};

/// The prefix of a target in another ensemble.
const ELSEWHERE: &str = "zk://";

pub(super) async fn cp(cx: &Context, args: &Arguments) -> Result {
    let source = args.word(0);
    let Some(elsewhere) = args.word(1).strip_prefix(ELSEWHERE) else {
        let target = args.word(1);
        let inside = target.strip_prefix(source.trim_end_matches('/'));
        if inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            return Err(Failure::new(format!("{target} is below {source}"))
                .hint("a subtree cannot be copied into itself"));
        }
        return copy(cx, args, source, &cx.client, target).await;
    };
    let Some((hosts, path)) = elsewhere.split_once('/') else {
        return Err(Failure::new(format!("the target has no path: {ELSEWHERE}{elsewhere}"))
            .hint("write a target in another ensemble as zk://host:port/path"));
    };
    let other = Session::open(hosts, &cx.settings)?;
    for (scheme, auth) in cx.credentials.lock().iter() {
        other.client.authenticate(scheme, auth).detach();
    }
    let copied = copy(cx, args, source, &other.client, &format!("/{path}")).await;
    // The copy is complete, so it does not matter whether the server receives the close request.
    other.client.close().await.ok();
    copied
}

async fn copy(
    cx: &Context,
    args: &Arguments,
    source: &str,
    target_client: &Client,
    target: &str,
) -> Result {
    let depth = if args.has("r") { u32::MAX } else { 0 };
    let progress = Progress::counting(&cx.out, "copying");
    let mut planter = Planter::new(target_client, args.has("f"), &progress);
    let with_acl = !args.has("no-acl");
    let mut walk = Walk::new(&cx.client, source, Want { data: true, acl: with_acl }, depth);
    let mut skipped = 0_usize;
    while let Some(found) = walk.next().await {
        let found = found.map_err(|unread| Failure::from(unread.error))?;
        if is_ephemeral(&found.stat) {
            skipped += 1;
            continue;
        }
        let acl = if with_acl { found.acl.into() } else { Acls::open_to_all() };
        let path = transplant(&found.path, source, target);
        planter.plant(Seedling { path, data: found.data, acl }).await?;
    }
    let planted = planter.finish().await?;
    drop(progress);
    if skipped > 0 && !cx.out.is_json() {
        cx.out.note(&format!(
            "{skipped} ephemeral znodes were left out: they belong to their sessions"
        ));
    }
    cx.out.json_only(|| {
        json!({
            "from": source,
            "to": target,
            "created": planted.created,
            "overwritten": planted.overwritten,
            "skipped": skipped,
        })
    })
}
