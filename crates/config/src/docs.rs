//! The page about settings, `docs/config.md`, written from the registry so that it cannot drift.

use std::fmt::Write;

use super::registry::{Fate, Group, Part, Property, Setting, Switch};
use super::table::SETTINGS;

/// The page, as Markdown.
pub fn markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    for group in Group::ALL {
        page.push_str(&format!("\n## {}\n\n", group.title()));
        page.push_str("| key | property | value | default | in this version | meaning |\n|---|---|---|---|---|---|\n");
        for setting in SETTINGS.iter().filter(|setting| setting.group == group) {
            // Writing to a String cannot fail.
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} | {} | {} |",
                setting.key,
                property(setting),
                setting.kind,
                setting.default,
                fate(setting),
                setting.help
            );
        }
    }
    page
}

fn property(setting: &Setting) -> String {
    let also = setting.also.map(|name| format!(", `{name}`")).unwrap_or_default();
    match setting.property {
        Property::None => "–".to_owned(),
        Property::Prefixed => format!("`zookeeper.`…{also}"),
        Property::Full => format!("the same{also}"),
    }
}

fn fate(setting: &Setting) -> String {
    match setting.fate {
        Fate::Supported => "works".to_owned(),
        Fate::Harmless(why) => format!("no effect: {why}"),
        Fate::NotBuilt(part, switch) => {
            let when = match switch {
                Switch::Never => return format!("no effect: part of {}", part.name()),
                Switch::True => "refused when `true`",
                Switch::OtherProvider | Switch::OtherAuditLog => "refused when it names another",
            };
            match part {
                Part::Plugins => format!("{when}: Java classes cannot be loaded"),
                _ => format!("{when}: {}", part.missing()),
            }
        }
    }
}

const INTRODUCTION: &str = "\
# Configuration

This page lists every key of `zoo.cfg` and every property of ZooKeeper 3.9, and says what this version does with it.
The server's own registry generates the tables: `UPDATE_EXPECT=1 cargo test -p zebu-config` rewrites this page.

`zebu server --check zoo.cfg` validates a file and prints every setting with its value and its source.
It masks secrets.

## Where values come from

From the weakest source to the strongest:

1. the default;
2. `-Dname=value` words in the environment variable `SERVER_JVMFLAGS`, then those in `JVMFLAGS`;
3. `-D name=value` on the command line;
4. `zoo.cfg`: the file beats the property, as in ZooKeeper;
5. `--set key=value` on the command line.

The name of a property is `zookeeper.` and the key, unless the table says otherwise.
A key without a property is read from the file and from `--set` only.
Other flags in the two variables (`-Xmx1g`, `-XX:...`, `-cp ...`) are meant for a JVM and have no effect; the server lists them in one line of its log.
It also lists properties of other programs (`log4j.*`, `com.sun.management.*`, `java.security.*`), without their values.

Without any file the server listens on 127.0.0.1:2181 and keeps its data in `./zebu-data`.

## What differs from ZooKeeper

- An unknown key in `zoo.cfg`, and an unknown `-Dzookeeper.*`, is a warning with file and line, and with `--check` an error.
  ZooKeeper says nothing.
- Properties without the prefix (`jute.maxbuffer`, `readonlymode.enabled`, `znode.container.*`) also work in `zoo.cfg`.
- A property that must be a number and is not, or is out of range, prevents the start.
  ZooKeeper uses the default for some of them.
- A setting that enables a part which this version lacks prevents the start; the error names file and line.
  `zebu.runWithout` lists parts whose settings are only a warning: `plugins`, `tracing`.
- One `server.N` line without a `myid` file is enough to take the client port from it.
- The server reads a file as UTF-8, or as ISO-8859-1 if it is not valid UTF-8.
  ZooKeeper always reads ISO-8859-1.
- The server reports all faults of a configuration at once.
- `zebu server 0 DIR` and `--set clientPort=0` listen on a port the system chooses.
  In a file 0 means no listener, as in ZooKeeper.
- The HTTP admin server listens on 127.0.0.1 unless `admin.serverAddress` says otherwise; ZooKeeper's listens on all addresses.
- `DigestAuthenticationProvider.superDigest` and passwords are never printed.
";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_page_in_docs_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
        let page = markdown();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, &page).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == page,
            "docs/config.md is out of date: run with UPDATE_EXPECT=1 and read the difference"
        );
    }
}
