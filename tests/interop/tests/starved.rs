//! Sessions of servers with too little processor time: a client that sends in time keeps its
//! session, however late the server reads.
//!
//! The clients are starved, too, so each records its own sends by its own clock. Only clients that
//! were never silent for their timeout are checked. `ZEBU_STARVED_SESSIONS`, `_TIMEOUT` and
//! `_SECONDS` (both in seconds) and `_LOOPS` change the size; `--nocapture` shows measurements.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use zebu_interop::ensemble::Ensemble;
use zebu_interop::raw::Session;
use zebu_interop::server::{Kind::Zebu, Options};
use zebu_testkit::connection::{Hello, Reply};
use zebu_testkit::wire::{Reader, Writer, frame, op, open_acl, split_frame};

/// The parent of all ephemerals.
const PARENT: &str = "/starved";

/// The parameters of a run.
#[derive(Clone, Copy)]
struct Plan {
    sessions: usize,
    timeout: Duration,
    /// Number of threads that keep processors busy.
    loops: u64,
    /// How long they run. The leader is killed after a quarter of that time, and restarted after
    /// half of it.
    starved: Duration,
}

/// The times of a client's sends, by its own clock.
#[derive(Clone, Copy, Debug)]
struct Spoken {
    last: Instant,
    /// The longest time from before one send until after the next one.
    silence: Duration,
}

impl Spoken {
    fn new(now: Instant) -> Self {
        Self { last: now, silence: Duration::ZERO }
    }

    /// A send happened between these times.
    fn note(&mut self, before: Instant, after: Instant) {
        self.silence = self.silence.max(after - self.last);
        self.last = before;
    }
}

/// One session and its client.
struct Client {
    addresses: Arc<[SocketAddr]>,
    timeout: Duration,
    next: usize,
    id: i64,
    password: Vec<u8>,
    path: String,
    /// Sends that a server's socket accepted.
    said: Spoken,
    /// Sends that were answered.
    answered: Spoken,
    /// Number of reconnections.
    renewals: usize,
    /// Whether a server reported that the session does not exist.
    refused: Option<Instant>,
}

/// A connection, and the received part of a frame.
struct Conn {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Conn {
    /// The next frame, if it arrives in time. The end of the connection is an error.
    async fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>> {
        let until = Instant::now() + patience;
        loop {
            if let Some((payload, rest)) = split_frame(&self.received) {
                let payload = payload.to_vec();
                self.received = rest.to_vec();
                return Ok(Some(payload));
            }
            let left = until.saturating_duration_since(Instant::now());
            let mut chunk = [0; 4096];
            match timeout(left, self.stream.read(&mut chunk)).await {
                Ok(Ok(0)) => bail!("closed"),
                Ok(read) => self.received.extend_from_slice(&chunk[..read?]),
                Err(_) => return Ok(None),
            }
        }
    }
}

impl Client {
    async fn say(&mut self, conn: &mut Conn, payload: &[u8]) -> Result<Instant> {
        let before = Instant::now();
        conn.stream.write_all(&frame(payload)).await?;
        self.said.note(before, Instant::now());
        Ok(before)
    }

    /// Connects the session to the next server; `None` if that server reports that the session does
    /// not exist.
    async fn connect(&mut self) -> Result<Option<Conn>> {
        self.next = (self.next + 1) % self.addresses.len();
        let patience = self.timeout / 3;
        let stream = timeout(patience, TcpStream::connect(self.addresses[self.next])).await??;
        stream.set_nodelay(true)?;
        let mut conn = Conn { stream, received: Vec::new() };
        let timeout_ms = i32::try_from(self.timeout.as_millis())?;
        let request = Hello::renewal(timeout_ms, self.id, &self.password).bytes();
        let before = self.say(&mut conn, &request).await?;
        let answer = conn.receive(patience).await?.context("no answer")?;
        let mut reader = Reader::new(&answer);
        let _version = reader.int()?;
        if reader.int()? <= 0 {
            return Ok(None);
        }
        self.id = reader.long()?;
        self.password = reader.buffer()?.to_vec();
        self.answered.note(before, Instant::now());
        self.renewals += 1;
        Ok(Some(conn))
    }

    /// A session with its ephemeral.
    async fn open(&mut self) -> Result<Conn> {
        let mut conn = self.connect().await?.context("refused")?;
        let now = Instant::now();
        (self.said, self.answered) = (Spoken::new(now), Spoken::new(now));
        let request = Writer::request(1, op::CREATE).string(&self.path).buffer(b"");
        let request = request.acl(&open_acl()).int(1).done();
        self.say(&mut conn, &request).await?;
        let answer = conn.receive(Duration::from_secs(60)).await?.context("no answer")?;
        let reply = Reply::parse(&answer)?;
        ensure!(reply.err == 0, "create: {}", reply.err);
        Ok(conn)
    }

    /// Sends pings until the connection ends or the server is silent for too long.
    async fn ping(&mut self, conn: &mut Conn, stop: &AtomicBool) -> Result<()> {
        let mut unanswered = None;
        let mut next = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            if Instant::now() >= next {
                let before = self.say(conn, &Writer::request(-2, op::PING).done()).await?;
                unanswered.get_or_insert(before);
                next = before + self.timeout / 3;
            }
            let left = next.saturating_duration_since(Instant::now());
            if conn.receive(left).await?.is_some()
                && let Some(before) = unanswered.take()
            {
                self.answered.note(before, Instant::now());
            }
            if unanswered.is_some_and(|since| since.elapsed() > self.timeout * 2 / 3) {
                bail!("a silent server");
            }
        }
        Ok(())
    }

    /// Keeps the session alive until it must stop, or until the session does not exist.
    async fn live(mut self, mut conn: Conn, stop: Arc<AtomicBool>) -> Self {
        while self.ping(&mut conn, &stop).await.is_err() {
            conn = loop {
                if stop.load(Ordering::Relaxed) {
                    return self;
                }
                match self.connect().await {
                    Ok(Some(conn)) => break conn,
                    Ok(None) => {
                        self.refused = Some(Instant::now());
                        return self;
                    }
                    Err(_) => sleep(Duration::from_millis(100)).await,
                }
            };
        }
        self
    }
}

/// Runs all clients, and reports when all sessions are open.
async fn clients(
    plan: Plan,
    addresses: Arc<[SocketAddr]>,
    ready: watch::Sender<bool>,
    stop: Arc<AtomicBool>,
) -> Result<Vec<Client>> {
    let openings = Arc::new(Semaphore::new(64));
    let left = Arc::new(Semaphore::new(0));
    let mut tasks = Vec::new();
    for number in 0..plan.sessions {
        let now = Instant::now();
        let mut client = Client {
            addresses: addresses.clone(),
            timeout: plan.timeout,
            next: number,
            id: 0,
            password: vec![0; 16],
            path: format!("{PARENT}/{number}"),
            said: Spoken::new(now),
            answered: Spoken::new(now),
            renewals: 0,
            refused: None,
        };
        let (openings, left, stop) = (openings.clone(), left.clone(), stop.clone());
        tasks.push(tokio::spawn(async move {
            let turn = openings.acquire().await?;
            let conn = client.open().await?;
            drop(turn);
            left.add_permits(1);
            anyhow::Ok(client.live(conn, stop).await)
        }));
    }
    let all = left.acquire_many(u32::try_from(plan.sessions)?).await?;
    ready.send_replace(true);
    drop(all);
    let mut clients = Vec::new();
    for task in tasks {
        clients.push(task.await??);
    }
    Ok(clients)
}

fn run(plan: Plan) -> Result<()> {
    let options = Options::default()
        .config("tickTime", 2_000)
        .config("initLimit", 10)
        .config("syncLimit", 5)
        .config("forceSync", "no");
    let mut ensemble = Ensemble::start(&[Zebu; 3], &options)?;
    let addresses: Arc<[SocketAddr]> = ensemble.addresses().into();
    let mut session = Session::open(addresses[0], 30_000)?;
    session.create(PARENT, b"", 0)?;
    session.close()?;

    let stop = Arc::new(AtomicBool::new(false));
    let (ready, mut is_ready) = watch::channel(false);
    let clients = {
        let (addresses, stop) = (addresses.clone(), stop.clone());
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(clients(plan, addresses, ready, stop))
        })
    };
    let began = Instant::now();
    tokio::runtime::Builder::new_current_thread()
        .build()?
        .block_on(is_ready.wait_for(|is| *is))
        .context("the clients are gone")?;
    println!("{} sessions after {:?}", plan.sessions, began.elapsed());

    let calm = Arc::new(AtomicBool::new(false));
    let loops: Vec<_> = (0..plan.loops)
        .map(|_| {
            let calm = calm.clone();
            thread::spawn(move || {
                while !calm.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    thread::sleep(plan.starved / 4);
    let leader = ensemble.leader(None)?;
    ensemble.member(leader).kill()?;
    println!("leader {} killed after {:?}", leader + 1, began.elapsed());
    thread::sleep(plan.starved / 4);
    ensemble.member(leader).spawn()?;
    thread::sleep(plan.starved / 2);
    calm.store(true, Ordering::Relaxed);
    for busy in loops {
        busy.join().expect("it does not panic");
    }
    println!("calm after {:?}", began.elapsed());
    ensemble.wait_for_all()?;
    // Every client that still looks for a server finds one.
    thread::sleep(plan.timeout);
    let mut session = Session::open(addresses[0], 30_000)?;
    session.expect(op::SYNC, Writer::new().string("/"))?;
    let body = session.expect(op::GET_CHILDREN, Writer::new().string(PARENT).bool(false))?;
    let children = Reader::new(&body).vector(Reader::string)?;
    stop.store(true, Ordering::Relaxed);
    let clients = clients.join().expect("it does not panic")?;
    session.close()?;

    let name = |client: &Client| client.path[PARENT.len() + 1..].to_owned();
    let there: BTreeSet<String> = children.into_iter().collect();
    let lost: Vec<&Client> = clients.iter().filter(|it| !there.contains(&name(it))).collect();
    let count = |of: &dyn Fn(&Client) -> bool| lost.iter().filter(|it| of(it)).count();
    let longest = |of: &dyn Fn(&Client) -> Duration| clients.iter().map(of).max();
    println!(
        "{} lost, {} refused; spoke in time: {}; answered in time: {}; longest silence {:?}, without an answer {:?}; \
         renewals {}",
        lost.len(),
        count(&|it| it.refused.is_some()),
        count(&|it| it.said.silence < plan.timeout),
        count(&|it| it.answered.silence < plan.timeout),
        longest(&|it| it.said.silence),
        longest(&|it| it.answered.silence),
        clients.iter().map(|it| it.renewals - 1).sum::<usize>(),
    );
    for member in ensemble.members() {
        let times = |words: &str| member.log_lines(&[words]).lines().count();
        println!(
            "{}: stood still {} times, did not listen {} times\n{}",
            member.address(),
            times("stood still"),
            times("did not listen"),
            member.log_lines(&["leading", "following", "looking"])
        );
    }
    let blameless = count(&|it| it.said.silence < plan.timeout);
    ensure!(blameless == 0, "{blameless} sessions are gone whose clients have spoken in time");
    Ok(())
}

#[test]
fn sessions_outlive_a_leader_on_a_busy_machine() {
    let setting = |name: &str, otherwise: u64| {
        let given = std::env::var(name).ok();
        given.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
    };
    let plan = Plan {
        sessions: setting("ZEBU_STARVED_SESSIONS", 2_000) as usize,
        timeout: Duration::from_secs(setting("ZEBU_STARVED_TIMEOUT", 6)),
        loops: setting("ZEBU_STARVED_LOOPS", 3),
        starved: Duration::from_secs(setting("ZEBU_STARVED_SECONDS", 16)),
    };
    run(plan).unwrap_or_else(|failure| panic!("{failure:?}"));
}
