//! The recipes that Curator also has, against a real server.

mod embedded {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in"));
}
#[path = "../lost/frames.rs"]
mod frames;
#[path = "../lost/lossy.rs"]
#[allow(dead_code, reason = "these tests hold no request back")]
mod lossy;

mod behind;
mod caches;
mod counts;
mod discoveries;
mod gate;
mod locks;
mod models;
mod nodes;
mod queues;
mod semaphores;

use std::time::Duration;

use zebu_client::{Acls, Client, Connector, CreateMode};

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens")
}

async fn connect(servers: impl ToString) -> Client {
    let connector = Connector::new().authenticate("digest", "amy:secret");
    soon(connector.connect(&servers.to_string())).await.expect("it connects")
}

async fn create(client: &Client, path: &str, data: &str) {
    client.create(path, data, CreateMode::Persistent, &Acls::creator()).await.unwrap();
}

async fn names(client: &Client, path: &str) -> Vec<String> {
    let mut names = client.get_children(path).await.unwrap().0;
    names.sort();
    names
}

/// Waits for work that is done in the background.
#[allow(dead_code)]
async fn until_empty(client: &Client, path: &str) {
    let mut children = zebu_recipes::Children::of(client, path);
    while soon(children.next()).await.unwrap().is_some_and(|names| !names.is_empty()) {}
}

/// Every future is `Send`, so it can be spawned.
#[allow(dead_code)]
fn futures_can_be_sent(client: Client) {
    use zebu_recipes as r;
    fn sent<T>(_: impl Future<Output = T> + Send) {}
    let acl = Acls::creator();
    let (client, acl) = (&client, &acl);
    let mode = CreateMode::Ephemeral;
    sent(r::Lock::new(client, "/", acl).exclusive());
    sent(r::Lock::new(client, "/", acl).ask_back());
    sent(r::Mutex::new(client, "/", acl).acquire());
    sent(r::ReadWriteLock::new(client, "/", acl).read());
    sent(r::ReadWriteLock::new(client, "/", acl).write());
    sent(r::MultiLock::new(Vec::new()).acquire());
    sent(r::Semaphore::new(client, "/", 1, acl).acquire_many(1));
    sent(r::Election::new(client, "/", acl).lead(""));
    sent(r::Queue::new(client, "/", acl).put("", 1));
    sent(r::Queue::new(client, "/", acl).take());
    sent(r::ShardedQueue::new(client, "/", 1, acl).take());
    sent(r::IdQueue::new(client, "/", "/", acl).remove(""));
    sent(r::AtomicLong::new(client, "/", acl).increment());
    sent(r::SharedCount::new(client, "/", 0, acl).changes().next());
    sent(r::Cache::tree(client, "/").start().changes().next());
    sent(r::PersistentNode::keep(client, "/", "", mode, acl));
    sent(r::Group::new(client, "/", acl).join("", ""));
    sent(r::Discovery::new(client, "/", acl).register(r::ServiceInstance::new("", "")));
    sent(r::DoubleBarrier::new(client, "/", 1, acl).enter(""));
    sent(async move {
        let mut held = r::Lock::new(client, "/", acl).exclusive().await?;
        held.lost().await;
        let provider = r::Discovery::new(client, "/", acl).provider("", r::Random)?;
        provider.instance().await
    });
}
