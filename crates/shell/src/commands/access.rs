//! ACLs and identities.

use serde_json::json;

use super::Context;
use super::znodes::{acl, version};
use crate::failure::{Failure, Result};
use crate::options::Arguments;
use crate::progress::Progress;
use crate::render;
use crate::walk::{Walk, Want};

pub(super) async fn get_acl(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    let (acl, stat) = cx.client.get_acl(path).await?;
    let text = || {
        let list = render::acl(&acl);
        if args.has("s") { format!("{list}\n{}", render::stat(&stat)) } else { list }
    };
    cx.out.emit(text, || {
        let acl: Vec<_> = acl.iter().map(render::acl_entry).collect();
        json!({ "path": path, "acl": acl, "stat": render::stat_json(&stat) })
    })
}

pub(super) async fn set_acl(cx: &Context, args: &Arguments) -> Result {
    let path = args.word(0);
    let acl = acl(cx, args.word(1))?;
    let version = version(args)?;
    if !args.has("R") {
        let stat = cx.client.set_acl(path, &acl, version).await?;
        if args.has("s") {
            cx.out.text_only(&render::stat(&stat))?;
        }
        return cx.out.json_only(|| json!({ "path": path, "stat": render::stat_json(&stat) }));
    }
    let progress = Progress::counting(&cx.out, "changing");
    let (mut changed, mut failed) = (0_usize, 0_usize);
    let mut walk = Walk::new(&cx.client, path, Want::default(), u32::MAX);
    while let Some(found) = walk.next().await {
        let outcome = match found {
            Ok(found) => cx.client.set_acl(&found.path, &acl, version).await.map(|_| ()),
            Err(unread) if unread.depth == 0 => return Err(unread.error.into()),
            Err(unread) => Err(unread.error),
        };
        match outcome {
            Ok(()) => changed += 1,
            Err(error) => {
                failed += 1;
                cx.out.fail(&Failure::from(error).without_hint());
            }
        }
        progress.advance(1);
    }
    drop(progress);
    if failed > 0 {
        return Err(Failure::new(format!(
            "{failed} of {} ACLs could not be changed",
            changed + failed
        )));
    }
    cx.out.json_only(|| json!({ "path": path, "changed": changed }))
}

pub(super) async fn add_auth(cx: &Context, args: &Arguments) -> Result {
    let scheme = args.word(0);
    let auth = args.try_word(1).unwrap_or_default();
    if scheme == "digest" && args.count() == 1 {
        // Servers refuse empty credentials and close the session.
        return Err(Failure::new("no credentials").hint("addauth digest user:password"));
    }
    cx.client.authenticate(scheme, auth).await?;
    cx.credentials.lock().push((scheme.to_owned(), auth.to_owned()));
    cx.out.json_only(|| json!({ "scheme": scheme, "authenticated": true }))
}

pub(super) async fn who_am_i(cx: &Context) -> Result {
    let known = cx.client.who_am_i().await?;
    let text = || {
        let mut text = "Auth scheme: User".to_owned();
        known.iter().for_each(|who| text.push_str(&format!("\n{}: {}", who.scheme, who.user)));
        text
    };
    cx.out.emit(text, || {
        let known: Vec<_> =
            known.iter().map(|who| json!({ "scheme": who.scheme, "user": who.user })).collect();
        json!({ "identities": known })
    })
}
