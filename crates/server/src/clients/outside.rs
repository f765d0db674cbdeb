//! Authentication schemes that an external program decides: the sockets, the clock and the threads
//! of [`zebu_auth::outside`].

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Instant;

use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tracing::{info, warn};
use zebu_auth::Secret;
use zebu_auth::outside::{DATA_BYTES_MAX, Input, Judged, Output, Outside, Rules};
use zebu_proto::Id;
use zebu_replica::auth::{Answer, AuthProvider, Claim, Question, Refused, Verdict};

use crate::config::OutsideCheck;

/// Maximum number of requests on their way to a scheme's thread. Further clients are refused
/// without an answer.
const QUEUE_MAX: usize = 256;
/// Maximum number of bytes of one read.
const READ_BYTES: usize = 16 << 10;

/// A scheme that a program behind a Unix socket decides. Its thread ends when this is dropped.
#[derive(Debug)]
pub struct OutsideScheme {
    scheme: String,
    questions: mpsc::Sender<(Question, Answer)>,
}

impl OutsideScheme {
    /// Starts the thread, which connects to the program for the first request.
    ///
    /// # Errors
    /// The system provides no further thread or no random bytes.
    pub fn start(check: &OutsideCheck, rules: Rules) -> io::Result<Self> {
        let secret = zebu_auth::random::bytes();
        let secret = secret.ok_or_else(|| io::Error::other("the system has no random bytes"))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (questions, asked) = mpsc::channel(QUEUE_MAX);
        let link = Driver::new(check.path.clone(), Outside::new(&*check.scheme, rules, secret));
        let thread = std::thread::Builder::new().name("zebu-auth".to_owned());
        thread.spawn(move || runtime.block_on(link.run(asked)))?;
        Ok(Self { scheme: check.scheme.clone(), questions })
    }
}

impl AuthProvider for OutsideScheme {
    fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Another program decides, so no thread waits for its answer.
    fn authenticate(&self, _: &Claim<'_>) -> Verdict {
        Err(Refused::Elsewhere)
    }

    fn takes_time(&self) -> bool {
        true
    }

    fn ask(&self, question: Question, answer: Answer) {
        if question.data.as_ref().is_some_and(|data| data.len() > DATA_BYTES_MAX) {
            answer.give(Err(Refused::Credentials));
            return;
        }
        // A request that does not fit is dropped, which refuses the client.
        drop(self.questions.try_send((question, answer)));
    }

    fn is_authenticated(&self) -> bool {
        true
    }

    fn is_valid(&self, id: &str) -> bool {
        zebu_auth::outside::is_id(id)
    }

    fn matches(&self, id: &str, expression: &str) -> bool {
        id == expression
    }

    fn is_exact(&self) -> bool {
        true
    }
}

/// The connection to the program.
enum Link {
    Down,
    Dialling(Pin<Box<dyn Future<Output = io::Result<UnixStream>> + Send>>),
    Up { stream: UnixStream, unsent: Vec<u8>, read: Box<[u8; READ_BYTES]> },
}

impl Link {
    /// Bytes that the connection has not taken.
    fn unsent(&self) -> usize {
        match self {
            Self::Up { unsent, .. } => unsent.len(),
            Self::Down | Self::Dialling(_) => 0,
        }
    }

    /// The next event of the connection. May be dropped and called again.
    async fn next(&mut self) -> Result<Input, io::Error> {
        match self {
            Self::Down => std::future::pending().await,
            Self::Dialling(dial) => {
                let stream = dial.await?;
                let read = Box::new([0; READ_BYTES]);
                *self = Self::Up { stream, unsent: Vec::new(), read };
                Ok(Input::Connected)
            }
            Self::Up { stream, unsent, read } => loop {
                let interest = match unsent.is_empty() {
                    true => Interest::READABLE,
                    false => Interest::READABLE | Interest::WRITABLE,
                };
                let ready = stream.ready(interest).await?;
                if ready.is_writable() && !unsent.is_empty() {
                    match stream.try_write(unsent) {
                        Ok(sent) => drop(unsent.drain(..sent)),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                }
                if ready.is_readable() {
                    match stream.try_read(&mut read[..]) {
                        Ok(0) => return Err(io::Error::other("it has closed the connection")),
                        Ok(count) => return Ok(Input::Received(read[..count].to_vec())),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                }
            },
        }
    }
}

/// Reports events to the core, and executes its outputs.
struct Driver {
    path: PathBuf,
    core: Outside,
    began: Instant,
    link: Link,
    next_ticket: u64,
    answers: BTreeMap<u64, Answer>,
}

impl Driver {
    fn new(path: PathBuf, core: Outside) -> Self {
        let (began, answers) = (Instant::now(), BTreeMap::new());
        Self { path, core, began, link: Link::Down, next_ticket: 1, answers }
    }

    /// Runs until no sender exists.
    async fn run(mut self, mut asked: mpsc::Receiver<(Question, Answer)>) {
        let mut out = Vec::new();
        loop {
            let due = self.core.due().map(|due| self.began + due);
            let input = tokio::select! {
                question = asked.recv() => match question {
                    Some((question, answer)) => self.take(question, answer),
                    None => return,
                },
                happened = self.link.next() => happened.unwrap_or_else(|error| {
                    let unsent = self.link.unsent();
                    self.link = Link::Down;
                    Input::Ended { why: error.to_string(), unsent }
                }),
                () = until(due) => Input::Tick,
            };
            self.core.step(self.began.elapsed(), input, &mut out);
            for output in out.drain(..) {
                self.carry_out(output);
            }
        }
    }

    fn take(&mut self, Question { peer, data }: Question, answer: Answer) -> Input {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.answers.insert(ticket, answer);
        Input::Ask { ticket, peer, data: data.map(Secret::new) }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Dial => {
                let path = self.path.clone();
                self.link = Link::Dialling(Box::pin(async { UnixStream::connect(path).await }));
            }
            Output::Send(line) => {
                if let Link::Up { unsent, .. } = &mut self.link {
                    unsent.extend_from_slice(line.expose());
                }
            }
            Output::Close => self.link = Link::Down,
            Output::Judged(ticket, judged) => {
                if let Some(answer) = self.answers.remove(&ticket) {
                    answer.give(self.verdict(judged));
                }
            }
            Output::Warn(text) => warn!("{text}"),
            Output::Inform(text) => info!("{text}"),
        }
    }

    fn verdict(&self, judged: Judged) -> Verdict {
        match judged {
            Judged::Ids(ids) => {
                let scheme = self.core.scheme();
                Ok(ids.into_iter().map(|id| Id::new(scheme, id)).collect())
            }
            Judged::Refused => Err(Refused::Credentials),
            Judged::Unknown => Err(Refused::Elsewhere),
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
