//! The configuration of the ensemble, and its changes.

use serde_json::json;
use zebu_client::{Reconfiguration, Stat};
use zebu_proto::properties::{self, Properties};
use zebu_proto::{BUILT_ON, VERSION};

use super::Context;
use crate::command;
use crate::failure::{Failure, Result};
use crate::options::Arguments;
use crate::render;
use crate::session::Kind;

pub(super) async fn config(cx: &Context, args: &Arguments) -> Result {
    let (data, stat) = if args.has("w") {
        let (data, stat, watch) = cx.client.watch_config().await?;
        cx.watches.keep(Kind::Data, zebu_proto::path::reserved::CONFIG, watch);
        (data, stat)
    } else {
        cx.client.get_config().await?
    };
    let text = String::from_utf8_lossy(&data);
    let shown = if args.has("c") { clients(&data)? } else { text.clone().into_owned() };
    show(cx, args, &shown, "config", &stat)
}

fn show(cx: &Context, args: &Arguments, text: &str, key: &str, stat: &Stat) -> Result {
    cx.out.emit(
        || if args.has("s") { format!("{text}\n{}", render::stat(stat)) } else { text.to_owned() },
        || json!({ key: text, "stat": render::stat_json(stat) }),
    )
}

/// The version of a configuration and the client addresses of its servers, sorted by id. Source:
/// `ConfigUtils.getClientConfigStr`.
fn clients(config: &[u8]) -> Result<String> {
    let properties = properties::parse(config)
        .map_err(|error| Failure::new(format!("configuration: {error}")))?;
    let mut version = "";
    let mut servers = Vec::new();
    for (key, value) in pairs(&properties) {
        if key == "version" {
            version = value.trim();
        }
        let Some(id) = key.strip_prefix("server.") else { continue };
        let Some((_, client)) = value.rsplit_once(';') else { continue };
        // A port alone means all addresses.
        let client = client.trim();
        let address =
            if client.contains(':') { client.to_owned() } else { format!("0.0.0.0:{client}") };
        servers.push((id.parse::<u64>().unwrap_or(u64::MAX), address));
    }
    servers.sort();
    let list: Vec<String> = servers.into_iter().map(|(_, address)| address).collect();
    Ok(format!("{version} {}", list.join(",")))
}

pub(super) async fn reconfig(cx: &Context, args: &Arguments) -> Result {
    let (whole, step) =
        (args.has("file") || args.has("members"), args.has("add") || args.has("remove"));
    if !whole && !step {
        return Err(Failure::usage(command::find("reconfig").expect("a command")));
    }
    let version = match args.value("v").map(|text| i64::from_str_radix(text, 16)) {
        None => None,
        Some(Ok(version)) => Some(version),
        Some(Err(_)) => {
            return Err(Failure::new("-v must be followed by a long (configuration version)"));
        }
    };
    if whole && step {
        return Err(Failure::new(
            "Can't use -file or -members together with -add or -remove (mixing incremental and \
             non-incremental modes is not allowed)",
        ));
    }
    if args.has("file") && args.has("members") {
        return Err(Failure::new(
            "Can't use -file and -members together (conflicting non-incremental modes)",
        ));
    }
    let lower = |name: &'static str| args.values(name).map(str::to_lowercase).collect::<Vec<_>>();
    let (joining, leaving) = (lower("add"), lower("remove"));
    let members = match args.value("file") {
        Some(file) => members_of(file)?,
        None => lower("members"),
    };
    let change = if whole {
        cx.client.reconfigure(Reconfiguration::Members(&borrowed(&members)), version)
    } else {
        let (joining, leaving) = (borrowed(&joining), borrowed(&leaving));
        let change = Reconfiguration::Change { joining: &joining, leaving: &leaving };
        cx.client.reconfigure(change, version)
    };
    let (data, stat) = change.await.map_err(|error| Failure::of_code(error.code()))?;
    let config = String::from_utf8_lossy(&data);
    if cx.out.is_json() {
        return show(cx, args, &config, "config", &stat);
    }
    show(cx, args, &format!("Committed new configuration:\n{config}"), "config", &stat)
}

fn borrowed(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

/// The keys and values of a file.
fn pairs(properties: &Properties) -> impl Iterator<Item = (&str, &str)> {
    properties.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str()))
}

/// The lines of a configuration file that describe the members.
fn members_of(file: &str) -> Result<Vec<String>> {
    let wrong =
        |error: &dyn std::fmt::Display| Failure::new(format!("Error processing {file}: {error}"));
    let bytes = std::fs::read(file).map_err(|error| wrong(&error))?;
    let properties = properties::parse(&bytes).map_err(|error| wrong(&error))?;
    let is_member =
        |key: &str| ["server.", "group.", "weight."].iter().any(|prefix| key.starts_with(prefix));
    let members: Vec<String> = pairs(&properties)
        .filter(|(key, _)| is_member(key))
        .map(|(key, value)| format!("{key}={}", value.trim()))
        .collect();
    if members.is_empty() {
        return Err(wrong(&"it names no server").hint("a line is server.1=host:2888:3888;2181"));
    }
    Ok(members)
}

pub(super) fn version(cx: &Context) -> Result {
    let version = format!("{VERSION}, built on {BUILT_ON}");
    cx.out.emit(|| format!("ZooKeeper CLI version: {version}"), || json!({ "version": version }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_clients_connect() {
        let config =
            b"server.10=h10:1:2:participant;0.0.0.0:2190\nserver.2=h2:1:2:observer;[::1]:2182\n\
                       server.3=h3:1:2:participant;2183\nserver.4=h4:1:2\nversion=100000003";
        assert_eq!(clients(config).unwrap(), "100000003 [::1]:2182,0.0.0.0:2183,0.0.0.0:2190");
        assert_eq!(clients(b"").unwrap(), " ");
    }

    #[test]
    fn members_come_from_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "tickTime=2000\nserver.1=a:1:2;3\ngroup.1=1:2\nweight.1=1\n";
        std::fs::write(file.path(), text).unwrap();
        let name = file.path().to_str().unwrap();
        assert_eq!(members_of(name).unwrap(), ["server.1=a:1:2;3", "group.1=1:2", "weight.1=1"]);
        std::fs::write(file.path(), "tickTime=2000\n").unwrap();
        assert!(members_of(name).unwrap_err().text().contains("names no server"));
    }
}
