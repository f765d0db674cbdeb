//! Zebu's client: the same scenario against the original and against Zebu.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use zebu_client::{
    Acls, Client, Connector, CreateMode, Notice, OpResult, Perms, PersistentWatch, Reconfiguration,
    SessionState, Stat, Version, WatchMode, WatcherType,
};
use zebu_interop::normalise::text;
use zebu_interop::scenario::{Transcript, same};
use zebu_interop::server::{Options, Server, soon};

/// A stat without its times, with an owner only as a flag.
fn timeless(stat: Stat) -> Stat {
    let ephemeral_owner = i64::from(stat.ephemeral_owner != 0);
    Stat { ctime: 0, mtime: 0, ephemeral_owner, ..stat }
}

async fn connect(servers: &str) -> Result<Client> {
    let connector = Connector::new().session_timeout(Duration::from_secs(20));
    Ok(soon(connector.connect(servers)).await??)
}

async fn znodes(client: &Client, out: &mut Transcript) -> Result<()> {
    let open = Acls::open_to_all();
    out.say("create all", client.create_all("/n/deep/er", &open).await);
    out.say("again", client.create_all("/n/deep/er", &open).await);
    for (name, mode) in [
        ("persistent", CreateMode::Persistent),
        ("persistent-", CreateMode::PersistentSequential),
        ("ephemeral", CreateMode::Ephemeral),
        ("ephemeral-", CreateMode::EphemeralSequential),
        ("", CreateMode::EphemeralSequential),
        ("container", CreateMode::Container),
        ("ttl", CreateMode::Ttl(Duration::from_secs(600))),
        ("ttl-", CreateMode::SequentialTtl(Duration::from_secs(600))),
    ] {
        let path = format!("/n/{name}");
        let created = client.create(&path, "data", mode, &open).await;
        out.say(&path, created.map(|created| (created.path, timeless(created.stat))));
    }
    for path in ["/n", "/none/child", "/n/ephemeral/child", "/n/large"] {
        let created = client.create(path, [b'x'; 900_000], CreateMode::Persistent, &open).await;
        out.say(path, created.map(|created| timeless(created.stat)));
    }
    for path in ["/n", "/n/ephemeral", "/none"] {
        let data = client.get_data(path).await;
        out.say(path, data.map(|(data, stat)| (data, timeless(stat))));
        out.say("exists", client.exists(path).await.map(|stat| stat.map(timeless)));
        let children = client.get_children(path).await.map(|(mut names, stat)| {
            names.sort();
            (names, timeless(stat))
        });
        out.say("children", children);
        out.say("descendants", client.count_descendants(path).await);
        let ephemerals = client.ephemerals(path).await.map(|mut paths| {
            paths.sort();
            paths
        });
        out.say("ephemerals", ephemerals);
        let acl = client.get_acl(path).await;
        out.say("acl", acl.map(|(acl, stat)| (acl, timeless(stat))));
    }
    for (path, version) in [("/n", Version::ANY), ("/n", Version(1)), ("/n", Version(7))] {
        let set = client.set_data(path, "new", version).await;
        out.say(&format!("set {path} {}", version.0), set.map(timeless));
    }
    for (path, version) in [("/n", -1), ("/n/ttl", 4), ("/n/ttl", 0), ("/x", -1), ("/", -1)] {
        out.say(&format!("delete {path} {version}"), client.delete(path, Version(version)).await);
    }
    out.say("sync", client.sync("/n").await);
    out.say("config", client.get_config().await.map(|(text, stat)| (text, timeless(stat))));
    let change = Reconfiguration::Members(&["server.1=127.0.0.1:1:2;3"]);
    out.say("reconfigure", client.reconfigure(change, None).await.map(|(text, _)| text));
    out.say("delete all", client.delete_all("/n/deep").await);
    out.say("delete all", client.delete_all("/none").await);
    Ok(())
}

async fn several(client: &Client, out: &mut Transcript) -> Result<()> {
    let open = Acls::open_to_all();
    let mut transaction = client.transaction();
    transaction.create("/m", "m", CreateMode::Persistent, &open);
    transaction.create("/m/s-", "s", CreateMode::PersistentSequential, &open);
    transaction.create("/m/c", "c", CreateMode::Container, &open);
    transaction.create("/m/t", "t", CreateMode::Ttl(Duration::from_secs(600)), &open);
    transaction.set_data("/m", "mm", Version(0));
    transaction.check("/m", Version(1)).delete("/m/s-0000000000", Version(0));
    for result in transaction.commit().await?.iter() {
        match result.clone() {
            OpResult::Created(created) => {
                out.say(&created.path, created.stat.map(timeless));
            }
            OpResult::Set(stat) => out.say("set", timeless(stat)),
            result => out.say("done", result),
        }
    }
    let mut transaction = client.transaction();
    transaction.create("/m/a", "a", CreateMode::Persistent, &open);
    transaction.check("/m", Version(9));
    transaction.delete("/m", Version::ANY);
    out.say("failing", transaction.commit().await);
    out.say("empty", client.transaction().commit().await);
    let reads = client.reads().data("/m/c").data("/none").children("/m").children("/none");
    for result in reads.send().await? {
        out.say("read", result.map(|read| format!("{read:?}").len()));
    }
    // Many requests in flight. They are executed in the order of the calls.
    let sets: Vec<_> =
        (0..500).map(|n| client.set_data("/m", n.to_string(), Version(n + 1))).collect();
    for set in sets {
        set.await?;
    }
    out.say("after all", client.get_data("/m").await.map(|(data, stat)| (data, stat.version)));
    Ok(())
}

async fn access(client: &Client, other: &Client, out: &mut Transcript) -> Result<()> {
    out.say("authenticate", client.authenticate("digest", "user:secret").await);
    let mut known = client.who_am_i().await?;
    known.sort_by(|a, b| a.scheme.cmp(&b.scheme));
    out.say("who am i", known);
    let acl = Acls::creator().and(Acls::address("10.0.0.0/8", Perms::READ));
    let created = client.create("/acl", "secret", CreateMode::Persistent, &acl).await;
    out.say("create", created.map(|created| timeless(created.stat)));
    out.say("acl", client.get_acl("/acl").await.map(|(acl, _)| acl));
    out.say("acl of another", other.get_acl("/acl").await.map(|(acl, _)| acl));
    out.say("read of another", other.get_data("/acl").await.map(|(data, _)| data));
    let set = client.set_acl("/acl", &Acls::anyone(Perms::READ), Version(0)).await;
    out.say("set acl", set.map(timeless));
    out.say("read of another", other.get_data("/acl").await.map(|(data, _)| data));
    out.say("write of another", other.set_data("/acl", "", Version::ANY).await.map(timeless));
    let wrong = Acls::to(Perms::ALL, "nonsense", "x");
    let created = client.create("/bad", "", CreateMode::Persistent, &wrong).await;
    out.say("unknown scheme", created.map(|created| created.path));
    let created = other.create("/bad", "", CreateMode::Persistent, &Acls::creator()).await;
    out.say("nobody's own", created.map(|created| created.path));
    Ok(())
}

/// Events of a persistent watch, up to an event at `path`.
async fn up_to(watch: &mut PersistentWatch, path: &str) -> Result<Vec<String>> {
    let mut told = Vec::new();
    loop {
        match soon(watch.next()).await?? {
            Notice::Event(event) => {
                told.push(format!("{} {} {:?}", event.kind, event.path, event.zxid));
                if event.path == path {
                    return Ok(told);
                }
            }
            notice => told.push(format!("{notice:?}")),
        }
    }
}

async fn watches(client: &Client, other: &Client, out: &mut Transcript) -> Result<()> {
    let open = Acls::open_to_all();
    client.create("/w", "", CreateMode::Persistent, &open).await?;
    let (_, _, data) = client.watch_data("/w").await?;
    let (_, _, children) = client.watch_children("/w").await?;
    let (_, exists) = client.watch_exists("/w/new").await?;
    let mut recursive = client.watch("/w", WatchMode::Recursive).await?;
    let mut persistent = client.watch("/w", WatchMode::Persistent).await?;
    other.set_data("/w", "1", Version::ANY).await?;
    other.create("/w/new", "", CreateMode::Persistent, &open).await?;
    other.set_data("/w/new", "2", Version::ANY).await?;
    other.delete("/w/new", Version::ANY).await?;
    other.create("/w/end", "", CreateMode::Persistent, &open).await?;
    other.set_data("/w", "end", Version::ANY).await?;
    out.say("data", soon(data).await?);
    out.say("children", soon(children).await?);
    out.say("exists", soon(exists).await?);
    out.say("recursive", up_to(&mut recursive, "/w/end").await?);
    for _ in 0..5 {
        out.say("persistent", soon(persistent.next()).await?);
    }
    for kind in [WatcherType::Persistent, WatcherType::PersistentRecursive, WatcherType::Any] {
        out.say("has", client.check_watches("/w", kind).await);
    }
    drop(recursive);
    out.say("dropped", client.check_watches("/w", WatcherType::PersistentRecursive).await);
    out.say("remove", client.remove_watches("/w", WatcherType::Any).await);
    out.say("removed", soon(persistent.next()).await?);
    out.say("after it", soon(persistent.next()).await?);
    out.say("nothing left", client.remove_watches("/w", WatcherType::Any).await);
    Ok(())
}

/// The server is restarted; meanwhile only time passes.
async fn restart(server: &mut Server, out: &mut Transcript) -> Result<()> {
    let cluster = server.connect_string();
    let client = connect(&cluster).await?;
    client.authenticate("digest", "user:secret").await?;
    let id = client.session_id();
    client.create("/kept", "", CreateMode::Ephemeral, &Acls::creator()).await?;
    let (_, _, data) = client.watch_data("/kept").await?;
    let mut tree = client.watch("/", WatchMode::Recursive).await?;
    let mut events = client.session_events();
    server.stop()?;
    out.say("stopped", soon(events.next()).await?);
    let read = client.get_data("/kept");
    server.launch()?;
    out.say("started", soon(events.next()).await?);
    let (_, stat) = soon(read).await??;
    out.say("still mine", stat.ephemeral_owner == id.0 && client.session_id() == id);
    client.set_data("/kept", "1", Version(0)).await?;
    out.say("data", soon(data).await?.map(|event| (event.kind, event.path)));
    for _ in 0..3 {
        let notice = soon(tree.next()).await??;
        let Notice::Event(event) = notice else {
            out.say("tree", notice);
            continue;
        };
        out.say("tree", (event.kind, event.path));
    }
    let ticket = client.leave().context("it was connected")?;
    let resumed = soon(Connector::new().resume(ticket).connect(&cluster)).await??;
    out.say("resumed", resumed.session_id() == id);
    out.say("closed", resumed.close().await);
    let again = soon(Connector::new().resume(ticket).connect(&cluster)).await?;
    out.say("over", again.map(|_| ()));
    Ok(())
}

async fn chroot(cluster: &str, other: &Client, out: &mut Transcript) -> Result<()> {
    let inside = connect(&format!("{cluster}/n")).await?;
    out.say("root", inside.get_data("/").await.map(|(data, _)| data));
    let open = Acls::open_to_all();
    let created = inside.create("/below-", "", CreateMode::EphemeralSequential, &open).await?;
    out.say("below", &created.path);
    out.say("ephemerals", inside.ephemerals("/").await);
    let (_, gone) = other.watch_exists(&format!("/n{}", created.path)).await?;
    let (_, _, changed) = inside.watch_children("/").await?;
    let protected = inside.create_protected("/p-", "", CreateMode::EphemeralSequential, &open);
    let protected = protected.await?.path;
    out.say("protected", protected.rsplit_once("-p-").map(|(_, number)| number.to_owned()));
    out.say("changed", soon(changed).await?.map(|event| event.path));
    drop(inside);
    out.say("gone", soon(gone).await?.map(|event| (event.kind, event.path)));
    Ok(())
}

async fn story(server: &mut Server) -> Result<String> {
    let mut out = Transcript::default();
    let cluster = server.connect_string();
    let client = connect(&cluster).await?;
    let other = connect(&cluster).await?;
    out.say("timeout", client.session_timeout());
    znodes(&client, &mut out).await?;
    several(&client, &mut out).await?;
    access(&client, &other, &mut out).await?;
    watches(&client, &other, &mut out).await?;
    chroot(&cluster, &other, &mut out).await?;
    out.say("close", other.close().await);
    let mut events = client.session_events();
    out.say("refused", client.authenticate("nonsense", "x").await);
    out.say("state", soon(events.next()).await?);
    assert_eq!(client.state(), SessionState::AuthFailed);
    restart(server, &mut out).await?;
    Ok(out.done())
}

/// API-14, ACL-06, ERR-05, MUL-10.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn zebu_client() {
    let options = Options::default().config("extendedTypesEnabled", true);
    same("zebu-client", &options, |server| {
        let transcript = Runtime::new()?.block_on(story(server))?;
        Ok(text(&transcript))
    });
}
