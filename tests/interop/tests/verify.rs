//! `zebu verify` on members that serve.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, Result};
use zebu_interop::deps;
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::raw::Session;
use zebu_interop::server::Kind::Zebu;
use zebu_interop::server::{self, Server};
use zebu_testkit::wire::{Writer, op};

fn copy_history(from: &Path, to: &Path) -> Result<()> {
    let (from, to) = (from.join("version-2"), to.join("version-2"));
    fs::create_dir_all(&to)?;
    for file in fs::read_dir(&from)? {
        let file = file?;
        fs::copy(file.path(), to.join(file.file_name())).context("copy")?;
    }
    Ok(())
}

fn set(session: &mut Session, path: &str, data: &[u8]) -> Result<()> {
    session.expect(op::SET_DATA, Writer::new().string(path).buffer(data).int(-1)).map(drop)
}

/// Two histories of equal length that differ only in their last three transactions.
fn two_histories() -> Result<[Server; 2]> {
    let alone = server::Options::default().property("zookeeper.digest.enabled", "false");
    let mut first = Server::start(Zebu, &alone)?;
    let mut session = Session::open(first.address(), 60_000)?;
    for path in ["/common", "/common/child", "/changed", "/gone"] {
        session.create(path, b"same", 0)?;
    }
    session.close()?;
    first.stop()?;
    let mut second = Server::prepare(Zebu, &alone, |_| Ok(()))?;
    copy_history(first.data(), second.data())?;
    for (server, data) in [(&mut first, "one"), (&mut second, "other")] {
        server.launch()?;
        let mut session = Session::open(server.address(), 60_000)?;
        set(&mut session, "/changed", data.as_bytes())?;
        if data == "one" {
            session.create("/left", b"", 0)?;
        } else {
            session.expect(op::DELETE, Writer::new().string("/gone").int(-1))?;
        }
        session.close()?;
        server.stop()?;
    }
    Ok([first, second])
}

/// The members' own lists do not contain their client addresses.
fn with_client_ports(ensemble: &mut Ensemble) -> Result<String> {
    let mut text = String::new();
    let config = ensemble.member(0).config();
    for line in fs::read_to_string(config)?.lines() {
        text.push_str(line);
        if let Some(id) = line.strip_prefix("server.").and_then(|rest| rest.split('=').next()) {
            let member = ensemble.member(id.parse::<usize>()? - 1);
            text.push_str(&format!(";{}", member.address()));
        }
        text.push('\n');
    }
    Ok(text)
}

fn verify(config: &Path) -> Result<(Output, String)> {
    let mut command = Command::new(deps::zebu());
    command.args(["verify", "members", "--znodes", "--timeout", "60000"]).arg(config);
    let output = command.output()?;
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok((output, text))
}

#[test]
fn the_znodes_in_which_a_member_differs_are_named() {
    let [first, second] = two_histories().unwrap();
    let options = options().property("zookeeper.digest.enabled", "false");
    for other in [false, true] {
        let mut ensemble = Ensemble::prepare(&[Zebu; 3], &options).unwrap();
        for index in 0..3 {
            let from = if other && index == 2 { &second } else { &first };
            copy_history(from.data(), ensemble.member(index).data()).unwrap();
        }
        let mut ensemble = ensemble.started().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("zoo.cfg");
        fs::write(&config, with_client_ports(&mut ensemble).unwrap()).unwrap();
        let (output, text) = verify(&config).unwrap();
        let named = |path: &str, what: &str| {
            let start = format!("znode    {path}: {what}: ");
            text.lines().find(|line| line.starts_with(&start)).map(str::to_owned)
        };
        if !other {
            assert_eq!(output.status.code(), Some(0), "{text}");
            assert!(!text.contains("znode    /"), "{text}");
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{text}");
        for (path, what) in [("/changed", "data"), ("/left", "existence"), ("/gone", "existence")] {
            let line = named(path, what).unwrap_or_else(|| panic!("{path}: {text}"));
            let values: Vec<&str> = line
                .split(": ")
                .nth(2)
                .unwrap()
                .split(", ")
                .filter_map(|it| it.split(" in ").next())
                .collect();
            assert!(values[0] == values[1] && values[1] != values[2], "{line}");
            assert!(line.ends_with("in server.3"), "{line}");
        }
        assert!(!text.contains("znode    /common"), "{text}");
    }
}
