//! The path of entries to the writing thread. The queue is bounded: a slow disk costs entries, but
//! neither memory nor the time of a client. Lost entries are reported in the file, so that no
//! reader believes that it is complete.
//!
//! A caller takes one lock for all the entries it adds. The writer is woken only while it waits.
//! After each write it pauses for a fixed time, so entries added during the pause cost no system
//! call.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};

use crate::rotating::RotatingFile;

/// The writer's pause after each write.
const PAUSE: Duration = Duration::from_millis(10);

/// Maximum number of bytes written at once.
const WRITTEN_TOGETHER: usize = 1 << 18;

/// An entry, which becomes one or more lines.
pub trait Entry: Send + 'static {
    /// The data that all entries share.
    type Context: Send + 'static;

    /// Number of bytes that the entry occupies while it waits.
    fn bytes(&self) -> usize;

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
    /// Entries were lost, because the queue was full or the file could not be written.
    fn lost(&self, count: u64);

    /// The file cannot be written or replaced. Only the first failure of a series is reported.
    fn failed(&self, error: &io::Error);
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

/// A queue of entries for a file, and the thread that writes them.
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
        file: RotatingFile,
        limits: QueueLimits,
        context: E::Context,
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
            .spawn(move || Writer { file, watcher: &*told, fails: false }.run(&theirs, &context))?;
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

/// The state of the thread.
struct Writer<'w> {
    file: RotatingFile,
    watcher: &'w dyn Watcher,
    /// Whether the last write failed.
    fails: bool,
}

impl Writer<'_> {
    fn run<E: Entry>(mut self, inner: &Inner<E>, context: &E::Context) {
        let mut lines = String::new();
        loop {
            let (entries, missing, closed) = {
                let mut state = inner.state.lock();
                while state.waiting.is_empty() && state.missing == 0 && !state.closed {
                    state.sleeps = true;
                    inner.ready.wait(&mut state);
                }
                state.sleeps = false;
                state.bytes = 0;
                let missing = std::mem::take(&mut state.missing);
                (std::mem::take(&mut state.waiting), missing, state.closed)
            };
            let mut rendered = 0;
            for entry in entries {
                entry.render(context, &mut lines);
                rendered += 1;
                if lines.len() >= WRITTEN_TOGETHER {
                    self.write(&mut lines, &mut rendered);
                }
            }
            if missing > 0 {
                E::missing(context, missing, now_ms(), &mut lines);
            }
            self.write(&mut lines, &mut rendered);
            if closed {
                return;
            }
            // Only the end of the server wakes it earlier.
            let mut state = inner.state.lock();
            if !state.closed {
                inner.ready.wait_for(&mut state, PAUSE);
            }
        }
    }

    fn write(&mut self, lines: &mut String, rendered: &mut u64) {
        let entries = std::mem::take(rendered);
        if lines.is_empty() {
            return;
        }
        let done = self.file.write(lines.as_bytes(), now_ms());
        lines.clear();
        if lines.capacity() > 4 * WRITTEN_TOGETHER {
            lines.shrink_to(WRITTEN_TOGETHER);
        }
        if done.is_err() {
            self.watcher.lost(entries);
        }
        let failure = done.err().or_else(|| self.file.trouble());
        let fails = failure.is_some();
        if let Some(error) = failure.filter(|_| !self.fails) {
            self.watcher.failed(&error);
        }
        self.fails = fails;
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
        type Context = ();

        fn bytes(&self) -> usize {
            10
        }

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

    const ROTATION: Rotation = Rotation { bytes_max: None, files_max: 2, every: Period::Ever };

    #[test]
    fn a_full_queue_tells_how_many_are_missing_and_everything_else_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let file = RotatingFile::open(&path, ROTATION, 0).unwrap();
        let counted = Arc::new(Counted::default());
        let limits = QueueLimits { entries: 3, bytes: 1000 };
        let queue = Queue::start("test", file, limits, (), counted.clone()).unwrap();
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
        let queue = Queue::start("test", file, limits, (), counted.clone()).unwrap();
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
        let queue = Queue::start("test", file, limits, (), counted.clone()).unwrap();
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
