//! The schemes `key` and `ensemble`, enabled by their class names: both servers give the same
//! answers.

use std::fmt::Write as _;

use anyhow::Result;
use zebu_interop::scenario::same;
use zebu_interop::server::{Options, Server};
use zebu_interop::told::Told;

const KEY: &str = "org.apache.zookeeper.server.auth.KeyAuthenticationProvider";
const ENSEMBLE: &str = "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_key() {
    let options = Options::default().config("authProvider.1", KEY);
    same("scheme-key", &options, |server| {
        let mut story = String::new();
        let mut first = Told::new(server, "before there is a key")?;
        first.auth("key", Some(b"any text"))?;
        first.who_am_i()?;
        first.create("/auth", "x", (31, "auth", ""))?;
        first.create("/empty", "x", (31, "key", ""))?;
        first.create("/other", "x", (31, "key", "of somebody else"))?;
        for path in ["/auth", "/empty", "/other"] {
            first.get(path)?;
        }
        first.create("/key", "7", (31, "world", "anyone"))?;
        story.push_str(&first.end()?);
        for (key, claims) in [
            ("7", &["21", "0", "-14", "+7", "22", "", "x", " 7", "2147483648"][..]),
            ("+7", &["21", "22"]),
            ("-1", &["-2147483648", "5"]),
            ("0", &["5", "x"]),
            ("", &["7"]),
            ("seven", &["7"]),
        ] {
            let mut owner = Told::new(server, &format!("the key {key:?}"))?;
            owner.set("/key", Some(key))?;
            story.push_str(&owner.end()?);
            for claim in claims {
                let mut other = Told::new(server, "a claim")?;
                other.auth("key", Some(claim.as_bytes()))?;
                other.get("/auth").ok();
                story.push_str(&other.end()?);
            }
        }
        let mut none = Told::new(server, "no claim")?;
        none.get("/auth")?;
        none.set("/key", None)?;
        none.auth("key", None)?;
        story.push_str(&none.end()?);
        let mut null = Told::new(server, "a null as the key")?;
        null.auth("key", Some(b"any text"))?;
        null.get("/auth")?;
        story.push_str(&null.end()?);
        Ok(story)
    });
}

fn metric(server: &Server, name: &str) -> Result<String> {
    let text = server.four_letter_word("mntr")?;
    let line = text.lines().find(|line| line.starts_with(&format!("zk_{name}\t")));
    Ok(line.unwrap_or("no such metric").to_owned())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_name_of_an_ensemble() {
    for names in [None, Some("one, two,,"), Some("")] {
        let mut options = Options::default().config("authProvider.ens", ENSEMBLE);
        if let Some(names) = names {
            // The setting is in the file, because a property with a blank would be split in two.
            options = options.config("ensembleAuthName", names);
        }
        same(&format!("scheme-ensemble-{}", names.map_or(9, str::len)), &options, |server| {
            let mut story = String::new();
            for claim in [
                Some("one"),
                Some("two"),
                Some(" two"),
                Some("three"),
                Some("one, two"),
                Some(""),
                None,
            ] {
                let mut told = Told::new(server, "a client")?;
                told.auth("ensemble", claim.map(str::as_bytes))?;
                told.who_am_i().ok();
                story.push_str(&told.end()?);
            }
            let mut told = Told::new(server, "ACLs")?;
            told.auth("ensemble", None)?;
            told.create("/ensemble", "x", (31, "ensemble", "one"))?;
            told.create("/auth", "x", (31, "auth", ""))?;
            story.push_str(&told.end()?);
            for name in ["ensemble_auth_success", "ensemble_auth_fail", "ensemble_auth_skip"] {
                writeln!(story, "{}", metric(server, name)?)?;
            }
            Ok(story)
        });
    }
}
