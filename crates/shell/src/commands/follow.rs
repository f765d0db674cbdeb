//! Follows a subtree: prints every change when it happens.

use std::time::Duration;

use jiff::Zoned;
use serde_json::json;
use zebu_client::{ErrorKind, Event, EventKind, Notice, PersistentWatch, WatchMode};

use super::Context;
use crate::failure::Result;
use crate::options::Arguments;
use crate::output::Style;
use crate::render;

pub(super) async fn watch(cx: &Context, args: &Arguments) -> Result {
    let path = args.try_word(0).unwrap_or("/");
    let count = args.number("n")?.unwrap_or(u64::MAX);
    let seconds = args.number("t")?.map(Duration::from_secs);
    let mut watch = cx.client.watch(path, WatchMode::Recursive).await?;
    if !cx.out.is_json() {
        cx.out.note(&format!("following {path}; stop with Ctrl-C"));
    }
    let follow = follow(cx, &mut watch, count, args.has("v"));
    match seconds {
        None => follow.await,
        // The end of the given time is not a failure.
        Some(time) => tokio::time::timeout(time, follow).await.unwrap_or(Ok(())),
    }
}

async fn follow(cx: &Context, watch: &mut PersistentWatch, count: u64, with_data: bool) -> Result {
    let mut seen = 0;
    while seen < count {
        match watch.next().await? {
            Notice::Event(event) => {
                show(cx, &event, with_data).await?;
                seen += 1;
            }
            Notice::Disconnected => cx.out.note("connection lost: changes are not seen for now"),
            Notice::Missed => {
                cx.out.note("connected again: changes in between may have been missed")
            }
        }
        cx.out.flush()?;
    }
    Ok(())
}

async fn show(cx: &Context, event: &Event, with_data: bool) -> Result {
    let (verb, style) = match event.kind {
        EventKind::Created => ("created", Style::Created),
        EventKind::Deleted => ("deleted", Style::Gone),
        EventKind::DataChanged => ("changed", Style::Changed),
        _ => ("watch removed", Style::Dim),
    };
    let wanted = with_data && matches!(event.kind, EventKind::Created | EventKind::DataChanged);
    let read = if wanted {
        match cx.client.get_data_or_null(&event.path).await {
            Ok(read) => Some(read),
            // The znode was deleted meanwhile, or the client may not read it.
            Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::Denied) => None,
            Err(error) => return Err(error.into()),
        }
    } else {
        None
    };
    let now = Zoned::now();
    let text = || {
        let time = now.strftime("%H:%M:%S%.3f").to_string();
        let mut line = format!(
            "{} {} {}",
            cx.out.paint(Style::Dim, &time),
            cx.out.paint(style, verb),
            event.path
        );
        if let Some((data, stat)) = &read {
            let data = data.as_deref().unwrap_or(b"null");
            line.push_str(&format!(" (version {}) {}", stat.version, render::for_screen(data)));
        }
        line
    };
    cx.out.emit(text, || {
        let mut object = json!({
            "time": now.timestamp().to_string(),
            "type": event.kind.to_string(),
            "path": event.path,
            "zxid": event.zxid.map(|zxid| format!("0x{:x}", zxid.0)),
        });
        if let (Some((data, stat)), Some(object)) = (&read, object.as_object_mut()) {
            render::put_data(object, data.as_deref());
            object.insert("version".to_owned(), stat.version.into());
        }
        object
    })
}
