//! Servers and clients of release 3.4: Zebu's clients at ZooKeeper 3.4.14, and its command line at
//! Zebu.

use std::fmt::Write;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::runtime::Runtime;
use zebu_client::{
    Acls, Client, Connector, CreateMode, ErrorCode, Reconfiguration, Stat, Version, WatchMode,
    WatcherType,
};
use zebu_interop::deps;
use zebu_interop::normalise::text;
use zebu_interop::run::{Program, succeed};
use zebu_interop::scenario::{Transcript, compare};
use zebu_interop::server::{Kind, Options, PATIENCE, Server, java, soon};
use zebu_recipes::Lock;

fn timeless(stat: Stat) -> Stat {
    Stat { ctime: 0, mtime: 0, ..stat }
}

async fn connect(server: &Server) -> Result<Client> {
    let connector = Connector::new().session_timeout(Duration::from_secs(20)).server_version(3, 4);
    Ok(soon(connector.connect(&server.connect_string())).await??)
}

/// Every kind of request that servers of 3.4 know.
async fn known(client: &Client, out: &mut Transcript) -> Result<()> {
    let open = Acls::open_to_all();
    soon(client.create_all("/n/deep/er", &open)).await??;
    for (name, mode) in [
        ("persistent", CreateMode::Persistent),
        ("persistent-", CreateMode::PersistentSequential),
        ("ephemeral", CreateMode::Ephemeral),
        ("ephemeral-", CreateMode::EphemeralSequential),
        ("persistent", CreateMode::Persistent),
        ("ephemeral/child", CreateMode::Persistent),
    ] {
        let created = soon(client.create(&format!("/n/{name}"), "data", mode, &open)).await?;
        if let Ok(created) = &created {
            // The server has told the path alone.
            ensure!(created.stat.ctime == 0, "{created:?}");
            let read = soon(client.exists(&created.path)).await??.context("it is there")?;
            ensure!(created.stat == timeless(read), "{created:?} is not {read:?}");
        }
        out.say(name, created.map(|created| (created.path, created.stat.data_length)));
    }
    let marked = CreateMode::EphemeralSequential;
    let marked = soon(client.create_protected("/n/p-", "", marked, &open)).await??;
    out.say("protected", marked.path.ends_with("-p-0000000004"));
    out.say("data", soon(client.get_data("/n/persistent")).await??.0);
    out.say("version", soon(client.set_data("/n", "x", Version(0))).await??.version);
    out.say("ACL", soon(client.get_acl("/n")).await??.0);
    out.say("ACL", soon(client.set_acl("/n", &open, Version(0))).await??.aversion);
    let mut names = soon(client.get_children("/n/deep")).await??.0;
    names.sort();
    out.say("children", names);
    soon(client.authenticate("digest", "amy:secret")).await??;
    soon(client.sync("/")).await??;

    let mut transaction = client.transaction();
    let made = transaction.create("/n/m-", "m", CreateMode::PersistentSequential, &open);
    let set = transaction.set_data("/n", "y", Version(1));
    transaction.check("/n", Version(2)).delete("/n/persistent", Version::ANY);
    let results = soon(transaction.commit()).await??;
    out.say("transaction", (&results.get(made).path, results.get(set).version));
    let mut transaction = client.transaction();
    transaction.set_data("/n", "z", Version::ANY);
    transaction.check("/n", Version(7));
    let error = soon(transaction.commit()).await?.unwrap_err();
    out.say("failing", (error.code(), error.failed_operation()));

    let (_, _, changed) = soon(client.watch_data("/n")).await??;
    let (_, _, children) = soon(client.watch_children("/n")).await??;
    let (_, born) = soon(client.watch_exists("/born")).await??;
    // The server of 3.4 is not asked to remove this one.
    drop(soon(client.watch_data("/n/deep")).await??);
    soon(client.set_data("/n", "w", Version::ANY)).await??;
    soon(client.create("/born", "", CreateMode::Persistent, &open)).await??;
    soon(client.delete("/n/deep/er", Version::ANY)).await??;
    soon(client.delete("/n/deep", Version::ANY)).await??;
    for watch in [changed, children, born] {
        let event = soon(watch).await??;
        out.say("event", (event.kind, event.path));
    }
    out.say("deleted", soon(client.delete_all("/n")).await??);
    Ok(())
}

/// Requests that only later servers know.
async fn unknown(client: &Client, out: &mut Transcript) -> Result<()> {
    let open = Acls::open_to_all();
    let ttl = CreateMode::Ttl(Duration::from_secs(60));
    let mut transaction = client.transaction();
    transaction.create("/t", "", CreateMode::Container, &open);
    let reads = client.reads().data("/");
    let change = Reconfiguration::Members(&["server.1=127.0.0.1:1:2;3"]);
    let codes = [
        soon(client.create("/c", "", CreateMode::Container, &open)).await?.map(drop),
        soon(client.create("/t", "", ttl, &open)).await?.map(drop),
        soon(transaction.commit()).await?.map(drop),
        soon(reads.send()).await?.map(drop),
        soon(client.watch("/", WatchMode::Recursive)).await?.map(drop),
        soon(client.check_watches("/", WatcherType::Any)).await?.map(drop),
        soon(client.remove_watches("/", WatcherType::Any)).await?,
        soon(client.count_descendants("/")).await?.map(drop),
        soon(client.ephemerals("/")).await?.map(drop),
        soon(client.who_am_i()).await?.map(drop),
        soon(client.reconfigure(change, None)).await?.map(drop),
    ];
    for (at, code) in codes.into_iter().enumerate() {
        let code = code.map_err(|error| error.code());
        ensure!(code == Err(ErrorCode::UNIMPLEMENTED), "request {at}: {code:?}");
    }
    out.say("connections", client.metrics().connections);
    Ok(())
}

/// Watches and ephemerals outlast a restart of the server.
async fn lasting(server: &mut Server, client: &Client, out: &mut Transcript) -> Result<()> {
    let open = Acls::open_to_all();
    soon(client.create("/mine", "", CreateMode::Ephemeral, &open)).await??;
    let (_, _, changed) = soon(client.watch_data("/mine")).await??;
    server.restart()?;
    let other = connect(server).await?;
    soon(client.connected()).await??;
    soon(other.set_data("/mine", "changed", Version::ANY)).await??;
    let event = soon(changed).await??;
    out.say("after a restart", (event.kind, event.path));
    Ok(())
}

/// Locks have a fencing token, which grows.
async fn locks(client: &Client, out: &mut Transcript) -> Result<()> {
    let lock = Lock::new(client, "/lock", &Acls::open_to_all());
    let mut last = None;
    for _ in 0..2 {
        let held = soon(lock.exclusive()).await??;
        let read = soon(client.exists(held.path())).await??.context("it is held")?;
        ensure!(held.token().0 == read.czxid, "{} is not {}", held.token(), read.czxid);
        ensure!(last < Some(held.token()), "{last:?}");
        last = Some(held.token());
        soon(held.release()).await??;
    }
    out.say("locks", "held");
    Ok(())
}

fn story(kind: Kind) -> Result<String> {
    let mut server = Server::start(kind, &Options::default())?;
    let mut out = Transcript::default();
    Runtime::new()?.block_on(async {
        let client = connect(&server).await?;
        known(&client, &mut out).await.context("what is known")?;
        unknown(&client, &mut out).await.context("what is not known")?;
        locks(&client, &mut out).await.context("locks")?;
        lasting(&mut server, &client, &mut out).await.context("a restart")?;
        anyhow::Ok(())
    })?;
    Ok(out.done())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn zebu_client_works_with_servers_of_34() {
    let [old, zebu] = [Kind::Java3414, Kind::Zebu]
        .map(|kind| story(kind).unwrap_or_else(|failure| panic!("{kind:?}: {failure:?}")));
    compare("zebu-client at 3.4.14", &old, &zebu);
}

/// Why the version must be told.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn servers_of_34_close_connections_on_requests_of_later_releases() -> Result<()> {
    let server = Server::start(Kind::Java3414, &Options::default())?;
    Runtime::new()?.block_on(async {
        let client = soon(Connector::new().connect(&server.connect_string())).await??;
        let created = client.create("/a", "", CreateMode::Persistent, &Acls::open_to_all());
        let code = soon(created).await?.map_err(|error| error.code());
        ensure!(code == Err(ErrorCode::UNIMPLEMENTED), "{code:?}");
        // The session goes on, on another connection.
        while client.metrics().connections < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        soon(client.connected()).await??;
        Ok(())
    })
}

/// The command line of the C client with Zebu's library, at both servers.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_libraries_for_c_work_with_servers_of_34() -> Result<()> {
    let [old, zebu] = [Kind::Java3414, Kind::Zebu].map(|kind| -> Result<String> {
        let server = Server::start(kind, &Options::default())?;
        let mut cli = Command::new("/usr/lib/zookeeper/bin/cli_mt");
        cli.env("LD_LIBRARY_PATH", deps::our_libraries().join("lib"));
        let mut cli = Program::start(cli.arg(server.connect_string()))?;
        cli.wait_for(PATIENCE, |text| text.contains("Got a new session id"))?;
        for line in [
            "create /cli",
            "create +e /cli/e",
            "create +s /cli/s-",
            "get /cli",
            "set /cli hello",
            "wexists /cli",
            "set /cli again",
            "ls2 /cli",
            "sync /cli",
            "delete /cli/e",
            "delete /none",
            "quit",
        ] {
            cli.say(line)?;
        }
        let ended = cli.finish(PATIENCE)?;
        ensure!(ended.status.success(), "{}", ended.text);
        // The threads of the library print in any order.
        let mut lines: Vec<String> = text(&ended.text)
            .lines()
            .filter(|line| line.contains("rc = ") || line.contains("_EVENT state"))
            .map(str::to_owned)
            .collect();
        lines.sort();
        Ok(lines.join("\n") + "\n")
    });
    let (old, zebu) = (old?, zebu?);
    ensure!(old.contains("[/cli]: rc = 0") && old.contains("CHANGED_EVENT"), "{old}");
    ensure!(old.contains("/none: rc = -101"), "{old}");
    compare("libraries for C at 3.4.14", &old, &zebu);
    Ok(())
}

/// The command line of 3.4.14 sees the same at both servers.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_command_line_of_34_works_with_zebu() -> Result<()> {
    let [old, zebu] = [Kind::Java3414, Kind::Zebu].map(|kind| -> Result<String> {
        let server = Server::start(kind, &Options::default())?;
        let mut shown = String::new();
        for words in [
            &["create", "/a", "data"][..],
            &["create", "-e", "/e", "data"],
            &["create", "-s", "/s-", "data"],
            &["set", "/a", "more"],
            &["get", "/a"],
            &["ls2", "/"],
            &["setAcl", "/a", "world:anyone:r"],
            &["getAcl", "/a"],
            &["setquota", "-n", "5", "/a"],
            &["listquota", "/a"],
            &["delete", "/none"],
            &["rmr", "/a"],
        ] {
            let mut cli = java(Kind::Java3414);
            cli.args(["org.apache.zookeeper.ZooKeeperMain", "-server", &server.connect_string()]);
            let told = succeed(cli.args(words), 2 * PATIENCE);
            let told = told.unwrap_or_else(|failure| format!("{failure:#}"));
            writeln!(shown, "> {words:?}\n{}", text(&told).trim_end())?;
        }
        Ok(shown)
    });
    compare("the command line of 3.4.14", &old?, &zebu?);
    Ok(())
}
