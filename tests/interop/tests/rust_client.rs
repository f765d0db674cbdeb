//! The `zookeeper-client` crate, an asynchronous client with watches and locks.

use std::time::Duration;

use anyhow::Result;
use zebu_interop::normalise::text;
use zebu_interop::scenario::{Transcript, same};
use zebu_interop::server::Options;
use zookeeper_client::{
    Acl, Acls, AddWatchMode, AuthId, Client, CreateMode, EnsembleUpdate, Error, LockPrefix,
    OneshotWatcher, Permission, Stat,
};

/// A stat without its times.
fn timeless(stat: Stat) -> Stat {
    Stat { ctime: 0, mtime: 0, ..stat }
}

async fn connect(cluster: &str) -> Result<Client> {
    Ok(Client::connector().with_session_timeout(Duration::from_secs(20)).connect(cluster).await?)
}

async fn nodes(client: &Client, out: &mut Transcript) -> Result<()> {
    let open = Acls::anyone_all();
    let modes = [
        CreateMode::Persistent,
        CreateMode::PersistentSequential,
        CreateMode::Ephemeral,
        CreateMode::EphemeralSequential,
        CreateMode::Container,
    ];
    out.say("mkdir", client.mkdir("/n/deep/er", &modes[0].with_acls(open)).await);
    for mode in modes {
        let path = format!("/n/{mode:?}-");
        let created = client.create(&path, b"data", &mode.with_acls(open)).await;
        out.say(&path, created.map(|(stat, sequence)| (timeless(stat), sequence)));
    }
    let options = CreateMode::Persistent.with_acls(open).with_ttl(Duration::from_secs(600));
    let created = client.create("/n/ttl", b"", &options).await;
    out.say("ttl", created.map(|(stat, sequence)| (timeless(stat), sequence)));
    let persistent = CreateMode::Persistent.with_acls(open);
    for path in ["/n", "/none/child", "/n/Ephemeral-/child", "/n/large"] {
        let created = client.create(path, &[b'x'; 900_000], &persistent).await;
        out.say(path, created.map(|(stat, _)| timeless(stat)));
    }
    for path in ["/n", "/n/Ephemeral-", "/none"] {
        out.say(path, client.get_data(path).await.map(|(data, stat)| (data, timeless(stat))));
    }
    for (path, version) in [("/n", None), ("/n", Some(1)), ("/n", Some(7)), ("/none", None)] {
        let set = client.set_data(path, b"new", version).await;
        out.say(&format!("set {path} {version:?}"), set.map(timeless));
    }
    for path in ["/n", "/none"] {
        out.say("exists", client.check_stat(path).await.map(|stat| stat.map(timeless)));
        let mut children = client.get_children(path).await;
        if let Ok((names, stat)) = &mut children {
            names.sort();
            *stat = timeless(*stat);
        }
        out.say("children", children);
        out.say("descendants", client.count_descendants_number(path).await);
        let ephemerals = client.list_ephemerals(path).await.map(|mut paths| {
            paths.sort();
            paths
        });
        out.say("ephemerals", ephemerals);
    }
    for (path, version) in [("/n", None), ("/n/ttl", Some(4)), ("/n/ttl", Some(0)), ("/x", None)] {
        out.say(&format!("delete {path} {version:?}"), client.delete(path, version).await);
    }
    out.say("sync", client.sync("/n").await);
    out.say("config", client.get_config().await);
    let reconfig = client
        .update_ensemble(EnsembleUpdate::New { ensemble: ["server.1=a:1:2;3"].into_iter() }, None);
    out.say("reconfig", reconfig.await.map(|(config, _)| config));
    Ok(())
}

async fn multi(client: &Client, out: &mut Transcript) -> Result<()> {
    let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let mut writer = client.new_multi_writer();
    writer.add_create("/m", b"m", &open)?;
    let sequential = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
    writer.add_create("/m/s-", b"s", &sequential)?;
    writer.add_create("/m/c", b"c", &CreateMode::Container.with_acls(Acls::anyone_all()))?;
    writer.add_set_data("/m", b"mm", Some(0))?;
    writer.add_check_version("/m", 1)?;
    writer.add_delete("/m/s-0000000000", Some(0))?;
    let results = writer.commit().await.map(|results| {
        // Times are nested deep in the results.
        let shown = format!("{results:?}");
        let times = regex::Regex::new("(ctime|mtime): [0-9]+").expect("a pattern");
        times.replace_all(&shown, "$1").into_owned()
    });
    out.say("multi", results);
    let mut writer = client.new_multi_writer();
    writer.add_create("/m/a", b"a", &open)?;
    writer.add_check_version("/m", 9)?;
    out.say("failing multi", writer.commit().await.map(|results| results.len()));
    let mut reader = client.new_multi_reader();
    reader.add_get_data("/m/c")?;
    reader.add_get_data("/none")?;
    reader.add_get_children("/m")?;
    let results = reader.commit().await.map(|results| results.len());
    out.say("multi read", results);
    Ok(())
}

async fn acls(client: &Client, other: &Client, out: &mut Transcript) -> Result<()> {
    out.say("auth", client.auth("digest", b"user:secret").await);
    let mut users = client.list_auth_users().await?;
    users.sort_by_key(|user| user.scheme().to_owned());
    out.say("who am i", users);
    let list = [
        Acl::new(Permission::ALL, AuthId::authed()),
        Acl::new(Permission::READ, AuthId::new("ip", "10.0.0.0/8")),
    ];
    let options = CreateMode::Persistent.with_acls(Acls::new(&list));
    let created = client.create("/acl", b"secret", &options).await;
    out.say("create", created.map(|(stat, _)| timeless(stat)));
    out.say("acl", client.get_acl("/acl").await.map(|(acl, _)| acl));
    out.say("acl of another", other.get_acl("/acl").await.map(|(acl, _)| acl));
    out.say("read of another", other.get_data("/acl").await.map(|(data, _)| data));
    let set = client.set_acl("/acl", &[Acl::new(Permission::READ, AuthId::anyone())], Some(0));
    out.say("set acl", set.await.map(timeless));
    out.say("read of another", other.get_data("/acl").await.map(|(data, _)| data));
    out.say("write of another", other.set_data("/acl", b"", None).await.map(timeless));
    let wrong = [Acl::new(Permission::ALL, AuthId::new("nonsense", "x"))];
    let options = CreateMode::Persistent.with_acls(Acls::new(&wrong));
    let created = client.create("/bad", b"", &options).await;
    out.say("unknown scheme", created.map(|(stat, _)| timeless(stat)));
    Ok(())
}

async fn watches(client: &Client, other: &Client, out: &mut Transcript) -> Result<()> {
    let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create("/w", b"", &open).await?;
    let (_, _, data): (_, _, OneshotWatcher) = client.get_and_watch_data("/w").await?;
    let (_, children) = client.list_and_watch_children("/w").await?;
    let (_, exists) = client.check_and_watch_stat("/w/new").await?;
    let mut recursive = client.watch("/w", AddWatchMode::PersistentRecursive).await?;
    let mut persistent = client.watch("/w", AddWatchMode::Persistent).await?;
    other.set_data("/w", b"1", None).await?;
    other.create("/w/new", b"", &open).await?;
    other.set_data("/w/new", b"2", None).await?;
    other.delete("/w/new", None).await?;
    other.delete("/w", None).await?;
    out.say("data", data.changed().await);
    out.say("children", children.changed().await);
    out.say("exists", exists.changed().await);
    for _ in 0..5 {
        out.say("recursive", recursive.changed().await);
    }
    for _ in 0..4 {
        out.say("persistent", persistent.changed().await);
    }
    // Dropping a watcher removes the watch at the server.
    drop((recursive, persistent));
    let (_, exists) = client.check_and_watch_stat("/w").await?;
    drop(exists);
    out.say("watches removed", client.sync("/w").await);
    Ok(())
}

async fn locks(client: &Client, other: &Client, out: &mut Transcript) -> Result<()> {
    let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.mkdir("/locks", &open).await?;
    let prefix = || LockPrefix::new_curator("/locks", "latch");
    let lock = client.lock(prefix()?, b"first", Acls::anyone_all()).await?;
    let created = lock.create("/locked", b"", &open).await;
    out.say("create under a lock", created.map(|(stat, _)| timeless(stat)));
    let second = other.lock(prefix()?, b"second", Acls::anyone_all());
    let release = async {
        // The second contender waits when its znode exists beside the first one's.
        while other.list_children("/locks").await?.len() < 2 {
            tokio::task::yield_now().await;
        }
        drop(lock);
        Ok::<_, Error>(())
    };
    let (second, released) = tokio::join!(second, release);
    out.say("released", released);
    out.say("second", second.map(|lock| lock.lock_path().ends_with("0000000001")));
    Ok(())
}

async fn story(cluster: &str) -> Result<String> {
    let mut out = Transcript::default();
    let client = connect(cluster).await?;
    let other = connect(cluster).await?;
    out.say("timeout", client.session_timeout());
    nodes(&client, &mut out).await?;
    multi(&client, &mut out).await?;
    acls(&client, &other, &mut out).await?;
    watches(&client, &other, &mut out).await?;
    locks(&client, &other, &mut out).await?;

    let chroot = connect(&format!("{cluster}/n")).await?;
    out.say("chroot", chroot.get_data("/").await.map(|(data, _)| data));
    let created = chroot
        .create("/below", b"", &CreateMode::Ephemeral.with_acls(Acls::anyone_all()))
        .await
        .map(|(stat, _)| timeless(stat).ephemeral_owner != 0);
    out.say("create below a chroot", created);
    let (_, gone) = other.check_and_watch_stat("/n/below").await?;
    // The crate ends the session in the background, so its ephemeral tells when the session is
    // over.
    let session = chroot.into_session();
    let event = gone.changed().await;
    out.say("its ephemeral", (event.event_type, event.path));
    let again = Client::connector().with_session(session).connect(cluster).await;
    out.say("session after its end", again.map(|_| ()));
    Ok(out.done())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn rust_client() {
    let options = Options::default().config("extendedTypesEnabled", true);
    same("rust-client", &options, |server| {
        let runtime = tokio::runtime::Runtime::new()?;
        let transcript = runtime.block_on(story(&server.connect_string()))?;
        Ok(text(&transcript))
    });
}
