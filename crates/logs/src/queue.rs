//! The path of entries to the writing thread. The queue is bounded: a slow disk or collector costs
//! entries, but neither memory nor the time of a client. Lost entries are reported at the place
//! where the others are, so that no reader believes that it is complete.
//!
//! A caller takes one lock for all the entries it adds. The writer is woken only while it waits.
//! After each write it pauses, so entries added during the pause cost no system call.
//!
//! A [`Sink`] decides where entries go. [`ToFile`] writes them to a file, as lines.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};

use crate::rotating::RotatingFile;

/// The pause after each write to a file.
const PAUSE: Duration = Duration::from_millis(10);

/// Maximum number of bytes written at once.
const WRITTEN_TOGETHER: usize = 1 << 18;

/// An entry.
pub trait Entry: Send + 'static {
    /// Number of bytes that the entry occupies while it waits.
    fn bytes(&self) -> usize;
}

/// An entry that becomes one or more lines.
pub trait Lines: Entry {
    /// The data that all entries share.
    type Context: Send + 'static;

    /// The lines of the entry, each with its line end.
    fn render(&self, context: &Self::Context, out: &mut String);

    /// The line that reports this number of lost entries before it.
    fn missing(context: &Self::Context, count: u64, now_ms: i64, out: &mut String);
}

/// The limits of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Maximum number of entries.
    pub entries: usize,
    /// Maximum number of their bytes.
    pub bytes: usize,
}

/// Receives events of a queue.
pub trait Watcher: Send + Sync + 'static {
    /// Entries were lost, because the queue was full or the sink could not take them.
    fn lost(&self, count: u64);

    /// The file cannot be written or replaced. Only the first failure of a series is reported.
    fn failed(&self, error: &io::Error);
}

/// Entries for a sink. The sink removes those that need no further attempt.
#[derive(Debug)]
pub struct Batch<E> {
    /// The entries, oldest first.
    pub entries: VecDeque<E>,
    /// Number of entries lost since the sink last set it to 0.
    pub missing: u64,
    /// Whether the queue is closed. What a sink leaves in such a batch is lost.
    pub is_last: bool,
}

/// Where entries go. It runs on the writing thread and may block.
pub trait Sink<E>: Send + 'static {
    /// Maximum number of entries in a batch.
    const TOGETHER: usize = usize::MAX;

    /// Writes a batch, and returns the pause until the next attempt.
    fn write(&mut self, batch: &mut Batch<E>, watcher: &dyn Watcher) -> Duration;
}

struct State<E> {
    waiting: VecDeque<E>,
    bytes: usize,
    /// Number of entries lost since the last line.
    missing: u64,
    /// Whether the writer waits to be woken.
    sleeps: bool,
    closed: bool,
}

struct Inner<E> {
    state: Mutex<State<E>>,
    ready: Condvar,
    limits: QueueLimits,
}

/// A queue of entries, and the thread that writes them.
pub struct Queue<E: Entry> {
    inner: Arc<Inner<E>>,
    watcher: Arc<dyn Watcher>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl<E: Entry> Queue<E> {
    /// Starts the thread with this name.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn start(
        name: &str,
        limits: QueueLimits,
        sink: impl Sink<E>,
        watcher: Arc<dyn Watcher>,
    ) -> io::Result<Self> {
        let inner = Arc::new(Inner {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                bytes: 0,
                missing: 0,
                sleeps: false,
                closed: false,
            }),
            ready: Condvar::new(),
            limits,
        });
        let (theirs, told) = (inner.clone(), watcher.clone());
        let writer = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&theirs, sink, &*told))?;
        Ok(Self { inner, watcher, writer: Mutex::new(Some(writer)) })
    }

    /// Moves the entries into the queue and leaves `entries` empty, with its capacity.
    pub fn add_all(&self, entries: &mut Vec<E>) {
        if entries.is_empty() {
            return;
        }
        let Inner { state, ready, limits } = &*self.inner;
        let mut lost = 0;
        let mut state = state.lock();
        for entry in entries.drain(..) {
            let bytes = entry.bytes();
            let has_room =
                state.waiting.len() < limits.entries && state.bytes + bytes <= limits.bytes;
            // After a loss, a line that reports it comes first.
            if has_room && !state.closed {
                state.bytes += bytes;
                state.waiting.push_back(entry);
            } else {
                state.missing += 1;
                lost += 1;
            }
        }
        let wakes = std::mem::take(&mut state.sleeps);
        drop(state);
        if wakes {
            ready.notify_one();
        }
        if lost > 0 {
            self.watcher.lost(lost);
        }
    }

    /// Adds one entry.
    pub fn add(&self, entry: E) {
        self.add_all(&mut vec![entry]);
    }

    /// Writes the waiting entries and ends the thread. Later entries are lost.
    pub fn close(&self) {
        let Some(writer) = self.writer.lock().take() else { return };
        self.inner.state.lock().closed = true;
        self.inner.ready.notify_one();
        // A panic of the thread was already printed.
        let _ = writer.join();
    }
}

impl<E: Entry> Drop for Queue<E> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Moves batches from the queue to the sink until the queue is closed and empty.
fn run<E: Entry, S: Sink<E>>(inner: &Inner<E>, mut sink: S, watcher: &dyn Watcher) {
    loop {
        let mut batch = inner.next_batch(S::TOGETHER);
        let is_full = batch.entries.len() == S::TOGETHER;
        let pause = sink.write(&mut batch, watcher);
        let Batch { entries: left, missing, is_last } = batch;
        let mut state = inner.state.lock();
        if is_last && (!left.is_empty() || state.waiting.is_empty()) {
            let lost = left.len() + std::mem::take(&mut state.waiting).len();
            drop(state);
            if lost > 0 {
                watcher.lost(lost as u64);
            }
            return;
        }
        let has_more = is_full && left.is_empty();
        state.missing += missing;
        for entry in left.into_iter().rev() {
            state.bytes += entry.bytes();
            state.waiting.push_front(entry);
        }
        // Only the end of the server wakes it earlier.
        if !has_more && !state.closed {
            inner.ready.wait_for(&mut state, pause);
        }
    }
}

impl<E: Entry> Inner<E> {
    /// Waits for entries or for the end, and takes as many entries from the queue.
    fn next_batch(&self, most: usize) -> Batch<E> {
        let mut state = self.state.lock();
        while state.waiting.is_empty() && state.missing == 0 && !state.closed {
            state.sleeps = true;
            self.ready.wait(&mut state);
        }
        state.sleeps = false;
        let mut entries = std::mem::take(&mut state.waiting);
        if entries.len() > most {
            state.waiting = entries.split_off(most);
            state.bytes -= entries.iter().map(Entry::bytes).sum::<usize>();
        } else {
            state.bytes = 0;
        }
        let missing = std::mem::take(&mut state.missing);
        Batch { entries, missing, is_last: state.closed }
    }
}

/// Writes entries to a file, as lines.
pub struct ToFile<E: Lines> {
    file: RotatingFile,
    context: E::Context,
    lines: String,
    /// Whether the last write failed.
    fails: bool,
}

impl<E: Lines> ToFile<E> {
    /// Writes to this file.
    pub fn new(file: RotatingFile, context: E::Context) -> Self {
        Self { file, context, lines: String::new(), fails: false }
    }

    fn write_lines(&mut self, rendered: &mut u64, watcher: &dyn Watcher) {
        let entries = std::mem::take(rendered);
        if self.lines.is_empty() {
            return;
        }
        let done = self.file.write(self.lines.as_bytes(), now_ms());
        self.lines.clear();
        if self.lines.capacity() > 4 * WRITTEN_TOGETHER {
            self.lines.shrink_to(WRITTEN_TOGETHER);
        }
        if done.is_err() {
            watcher.lost(entries);
        }
        let failure = done.err().or_else(|| self.file.trouble());
        let fails = failure.is_some();
        if let Some(error) = failure.filter(|_| !self.fails) {
            watcher.failed(&error);
        }
        self.fails = fails;
    }
}

impl<E: Lines> Sink<E> for ToFile<E> {
    fn write(&mut self, batch: &mut Batch<E>, watcher: &dyn Watcher) -> Duration {
        let mut rendered = 0;
        for entry in batch.entries.drain(..) {
            entry.render(&self.context, &mut self.lines);
            rendered += 1;
            if self.lines.len() >= WRITTEN_TOGETHER {
                self.write_lines(&mut rendered, watcher);
            }
        }
        let missing = std::mem::take(&mut batch.missing);
        if missing > 0 {
            E::missing(&self.context, missing, now_ms(), &mut self.lines);
        }
        self.write_lines(&mut rendered, watcher);
        PAUSE
    }
}

/// The wall clock, in milliseconds since the Unix epoch.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::rotating::{Period, Rotation};

    /// A number. The first one blocks the writer until the test lets it continue.
    struct Number(u64, Option<Receiver<()>>);

    impl Entry for Number {
        fn bytes(&self) -> usize {
            10
        }
    }

    impl Lines for Number {
        type Context = ();

        fn render(&self, (): &(), out: &mut String) {
            if let Some(held) = &self.1 {
                held.recv().unwrap();
            }
            writeln!(out, "{}", self.0).unwrap();
        }

        fn missing((): &(), count: u64, _: i64, out: &mut String) {
            writeln!(out, "missing {count}").unwrap();
        }
    }

    #[derive(Default)]
    struct Counted {
        lost: AtomicU64,
        failed: AtomicU64,
    }

    impl Watcher for Counted {
        fn lost(&self, count: u64) {
            self.lost.fetch_add(count, Ordering::Relaxed);
        }

        fn failed(&self, _: &io::Error) {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn to_file(file: RotatingFile) -> ToFile<Number> {
        ToFile::new(file, ())
    }

    /// Takes two entries at a time, and only every second time.
    struct Stubborn {
        refuses: bool,
        taken: Arc<Mutex<Vec<u64>>>,
    }

    impl Sink<Number> for Stubborn {
        const TOGETHER: usize = 2;

        fn write(&mut self, batch: &mut Batch<Number>, _: &dyn Watcher) -> Duration {
            assert!(batch.entries.len() <= Self::TOGETHER);
            self.refuses = !self.refuses;
            if !self.refuses {
                self.taken.lock().extend(batch.entries.drain(..).map(|number| number.0));
                batch.missing = 0;
            }
            Duration::ZERO
        }
    }

    /// Entries that a sink leaves are offered again, in their order, before entries that were added
    /// later.
    #[test]
    fn a_sink_gets_again_what_it_has_left() {
        let (taken, counted) = (Arc::default(), Arc::new(Counted::default()));
        let sink = Stubborn { refuses: false, taken: Arc::clone(&taken) };
        let limits = QueueLimits { entries: 100, bytes: 10_000 };
        let queue = Queue::start("test", limits, sink, counted.clone()).unwrap();
        for number in 0..20 {
            queue.add(Number(number, None));
        }
        while taken.lock().len() < 20 {
            std::thread::yield_now();
        }
        queue.close();
        assert_eq!(*taken.lock(), (0..20).collect::<Vec<_>>());
        assert_eq!(counted.lost.load(Ordering::Relaxed), 0);
    }

    /// Takes nothing.
    struct Deaf;

    impl Sink<Number> for Deaf {
        const TOGETHER: usize = 2;

        fn write(&mut self, _: &mut Batch<Number>, _: &dyn Watcher) -> Duration {
            Duration::from_secs(3600)
        }
    }

    #[test]
    fn what_nobody_has_taken_at_the_end_is_counted_as_lost() {
        let counted = Arc::new(Counted::default());
        let limits = QueueLimits { entries: 100, bytes: 10_000 };
        let queue = Queue::start("test", limits, Deaf, counted.clone()).unwrap();
        for number in 0..5 {
            queue.add(Number(number, None));
        }
        queue.close();
        assert_eq!(counted.lost.load(Ordering::Relaxed), 5);
    }

    const ROTATION: Rotation = Rotation { bytes_max: None, files_max: 2, every: Period::Ever };

    #[test]
    fn a_full_queue_tells_how_many_are_missing_and_everything_else_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let file = RotatingFile::open(&path, ROTATION, 0).unwrap();
        let counted = Arc::new(Counted::default());
        let limits = QueueLimits { entries: 3, bytes: 1000 };
        let queue = Queue::start("test", limits, to_file(file), counted.clone()).unwrap();
        let (go, held) = channel();
        queue.add(Number(0, Some(held)));
        // When there is room for three, the writer has taken the first one.
        while !queue.inner.state.lock().waiting.is_empty() {
            std::thread::yield_now();
        }
        let mut more: Vec<_> = (1..=5).map(|number| Number(number, None)).collect();
        queue.add_all(&mut more);
        assert_eq!(counted.lost.load(Ordering::Relaxed), 2);
        go.send(()).unwrap();
        queue.close();
        queue.add(Number(9, None));
        assert_eq!(counted.lost.load(Ordering::Relaxed), 3);
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text, "0\n1\n2\n3\nmissing 2\n");
        assert_eq!(counted.failed.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn bytes_that_wait_are_bounded_too() {
        let dir = tempfile::tempdir().unwrap();
        let file = RotatingFile::open(&dir.path().join("log"), ROTATION, 0).unwrap();
        let counted = Arc::new(Counted::default());
        let limits = QueueLimits { entries: 1000, bytes: 9 };
        let queue = Queue::start("test", limits, to_file(file), counted.clone()).unwrap();
        queue.add(Number(1, None));
        queue.close();
        assert_eq!(counted.lost.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_disk_that_takes_nothing_is_told_of_once_and_what_is_lost_is_counted() {
        let full = std::path::Path::new("/dev/full");
        if !full.exists() {
            return;
        }
        let file = RotatingFile::open(full, ROTATION, 0).unwrap();
        let counted = Arc::new(Counted::default());
        let limits = QueueLimits { entries: 1000, bytes: 1000 };
        let queue = Queue::start("test", limits, to_file(file), counted.clone()).unwrap();
        for number in 0..3 {
            queue.add(Number(number, None));
            while counted.lost.load(Ordering::Relaxed) <= number {
                std::thread::yield_now();
            }
        }
        queue.close();
        assert_eq!(counted.failed.load(Ordering::Relaxed), 1);
    }
}
