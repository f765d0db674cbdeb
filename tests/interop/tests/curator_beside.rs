//! Curator's recipes and Zebu's on the same znodes: locks exclude each other, and counts agree.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::runtime::Runtime;
use zebu_client::{Acls, Client};
use zebu_interop::deps;
use zebu_interop::run::{Program, succeed};
use zebu_interop::scenario::same;
use zebu_interop::server::{Options, PATIENCE, Server, java_with, soon};
use zebu_recipes::{
    AtomicLong, Election, Mutex, News, PriorityQueue, ReadWriteLock, Semaphore, SharedCount,
};

/// Long enough to detect a lock that was granted wrongly.
const MOMENT: Duration = Duration::from_millis(300);

/// The Java program, controlled step by step.
struct Curator {
    program: Program,
    steps: usize,
}

impl Curator {
    fn start(classes: &tempfile::TempDir, server: &Server) -> Result<Self> {
        let classpath = format!("{}:{}", classes.path().display(), deps::classpath_curator());
        let mut java = java_with(&classpath);
        java.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "Together"]);
        Ok(Self { program: Program::start(java.arg(server.connect_string()))?, steps: 0 })
    }

    /// Starts a step.
    fn begin(&mut self, step: &str) -> Result<String> {
        self.steps += 1;
        self.program.say(&format!("{} {step}", self.steps))?;
        Ok(self.steps.to_string())
    }

    /// Waits for the end of a step, and returns its result.
    async fn end(&self, label: &str) -> Result<String> {
        let found = |text: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(step, _)| *step == label).map(|(_, result)| result.to_owned())
        };
        let ended = async {
            loop {
                if let Some(result) = found(&self.program.text()?) {
                    return Ok(result);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        soon(ended).await.with_context(|| format!("step {label}"))?
    }

    async fn step(&mut self, step: &str) -> Result<bool> {
        let label = self.begin(step)?;
        match self.end(&label).await?.as_str() {
            "yes" => Ok(true),
            "no" => Ok(false),
            other => anyhow::bail!("{step}: {other}"),
        }
    }
}

/// Checks that a future is not ready.
async fn waits<T>(future: impl Future<Output = T>) -> Result<()> {
    ensure!(tokio::time::timeout(MOMENT, future).await.is_err(), "granted too early");
    Ok(())
}

async fn mutex(curator: &mut Curator, client: &Client) -> Result<()> {
    let mutex = Mutex::new(client, "/together/mutex", &Acls::open_to_all());
    let guard = soon(mutex.acquire()).await??;
    ensure!(!curator.step("try mutex").await?, "both hold the mutex");
    let taking = curator.begin("take mutex")?;
    while mutex.participants().await?.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    soon(guard.release()).await??;
    ensure!(curator.end(&taking).await? == "yes");
    ensure!(soon(mutex.try_acquire()).await??.is_none(), "both hold the mutex");
    let mut waiting = Box::pin(mutex.acquire());
    waits(&mut waiting).await?;
    // The holder is asked for the lock, and receives the request.
    ensure!(mutex.revoke().await? == 1);
    curator.program.wait_for(PATIENCE, |text| text.lines().any(|line| line == "revoked"))?;
    curator.step("release mutex").await?;
    let mut guard = soon(waiting).await??;
    let path = guard.path().to_owned();
    curator.step(&format!("revoke {path}")).await?;
    ensure!(soon(guard.news()).await? == News::Wanted);
    Ok(soon(guard.release()).await??)
}

async fn read_write(curator: &mut Curator, client: &Client) -> Result<()> {
    let lock = ReadWriteLock::new(client, "/together/rw", &Acls::open_to_all());
    let reading = soon(lock.read()).await??;
    ensure!(curator.step("try read").await?, "readers together");
    ensure!(!curator.step("try write").await?, "a writer beside readers");
    soon(reading.release()).await??;
    waits(lock.write()).await?;
    curator.step("release read").await?;
    let writing = soon(lock.write()).await??;
    ensure!(!curator.step("try read").await?, "a reader beside a writer");
    // For Curator, a writer that also reads, and continues to read, is a reader.
    let reading = soon(lock.read()).await??;
    soon(writing.release()).await??;
    ensure!(curator.step("try read").await?, "readers together");
    ensure!(!curator.step("try write").await?, "a writer beside a reader");
    curator.step("release read").await?;
    soon(reading.release()).await??;
    // And in the other direction.
    ensure!(curator.step("take write").await? && curator.step("take read").await?);
    ensure!(soon(lock.try_read()).await??.is_none(), "a reader beside a writer");
    curator.step("release write").await?;
    let reading = soon(lock.read()).await??;
    ensure!(
        soon(ReadWriteLock::new(client, "/together/rw", &Acls::open_to_all()).try_write())
            .await??
            .is_none()
    );
    curator.step("release read").await?;
    Ok(soon(reading.release()).await??)
}

async fn semaphore(curator: &mut Curator, client: &Client) -> Result<()> {
    let semaphore = Semaphore::new(client, "/together/semaphore", 2, &Acls::open_to_all());
    let one = soon(semaphore.acquire()).await??;
    ensure!(curator.step("take lease").await?);
    ensure!(!curator.step("try lease").await?, "three leases of two");
    let mut waiting = Box::pin(semaphore.acquire());
    waits(&mut waiting).await?;
    curator.step("release lease").await?;
    let two = soon(waiting).await??;
    let taking = curator.begin("take lease")?;
    soon(two.release()).await??;
    ensure!(curator.end(&taking).await? == "yes");
    soon(one.release()).await??;
    curator.step("release lease").await?;
    Ok(())
}

async fn counts(curator: &mut Curator, client: &Client) -> Result<()> {
    let counter = AtomicLong::new(client, "/together/counter", &Acls::open_to_all());
    let counter = counter.promoted_to_lock("/together/counter-lock");
    let adding = curator.begin("add 30")?;
    let mut added = 0;
    while added < 30 {
        match counter.increment().await {
            Err(zebu_recipes::Error::Contended(_)) => {}
            changed => added += i64::from(changed.map(|_| 1)?),
        }
    }
    ensure!(curator.end(&adding).await? == "yes");
    ensure!(counter.get().await? == 60, "{}", counter.get().await?);
    let count = SharedCount::new(client, "/together/count", 7, &Acls::open_to_all());
    let mut changes = count.changes();
    ensure!(soon(changes.next()).await??.value == 7);
    ensure!(curator.step("set -5").await?);
    ensure!(soon(changes.next()).await??.value == -5);
    Ok(())
}

async fn election(curator: &mut Curator, client: &Client) -> Result<()> {
    let election = Election::of_latch(client, "/together/latch", &Acls::open_to_all());
    let leading = soon(election.lead("ours")).await??;
    let standing = curator.begin("lead theirs")?;
    while election.candidates().await?.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let names: Vec<String> = election.candidates().await?.into_iter().map(|it| it.name).collect();
    ensure!(names == ["ours", "theirs"], "{names:?}");
    soon(leading.release()).await??;
    ensure!(curator.end(&standing).await? == "yes");
    Ok(soon(soon(election.lead("ours")).await??.release()).await??)
}

async fn queue(curator: &mut Curator, client: &Client) -> Result<()> {
    let acl = Acls::open_to_all();
    let queue = PriorityQueue::new(client, "/together/queue", "/together/queue-locks", &acl);
    // Zebu's queue returns items of Curator's, and the other way round.
    ensure!(curator.step("put longer").await? && curator.step("put short").await?);
    for wanted in ["short", "longer"] {
        let item = soon(queue.take()).await??;
        ensure!(item.elements()? == [wanted.as_bytes()], "{item:?}");
        soon(item.finish()).await??;
    }
    // Curator does not take an item that a Zebu worker has taken.
    soon(queue.put(&[b"held"], 1)).await??;
    let item = soon(queue.take()).await??;
    soon(queue.put(&[b"free"], 2)).await??;
    curator.step("consume all").await?;
    let consumed = |wanted: &'static str| {
        move |text: &str| text.lines().any(|line| line.strip_prefix("consumed ") == Some(wanted))
    };
    curator.program.wait_for(PATIENCE, consumed("free"))?;
    ensure!(!consumed("held")(&curator.program.text()?), "taken twice");
    // The item is given back in the background, and Curator looks again only after a change of the
    // queue.
    let mark = format!("/together/queue-locks/{}", item.name());
    drop(item);
    let given_back = async {
        while client.exists(&mark).await?.is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        anyhow::Ok(())
    };
    soon(given_back).await??;
    soon(queue.put(&[b"last"], 3)).await??;
    curator.program.wait_for(PATIENCE, consumed("held"))?;
    curator.program.wait_for(PATIENCE, consumed("last"))
}

/// The lock has one holder at a time, in either language.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn curator_and_ours_hold_the_same_locks() {
    let classes = tempfile::tempdir().expect("a folder");
    let mut javac = Command::new("javac");
    javac.args(["-Xlint:all,-classfile", "-Werror", "-cp", &deps::classpath_curator(), "-d"]);
    javac.arg(classes.path()).arg(deps::client("curator/Together.java"));
    succeed(&mut javac, PATIENCE).expect("it compiles");
    same("curator-together", &Options::default(), |server| {
        Runtime::new()?.block_on(async {
            let mut curator = Curator::start(&classes, server)?;
            let client = soon(Client::connect(&server.connect_string())).await??;
            mutex(&mut curator, &client).await.context("mutex")?;
            read_write(&mut curator, &client).await.context("read-write lock")?;
            semaphore(&mut curator, &client).await.context("semaphore")?;
            counts(&mut curator, &client).await.context("counts")?;
            election(&mut curator, &client).await.context("election")?;
            queue(&mut curator, &client).await.context("queue")?;
            soon(client.close()).await??;
            let output = curator.program.finish(PATIENCE)?;
            ensure!(output.status.success(), "{output:?}");
            Ok("they agree".to_owned())
        })
    });
}
