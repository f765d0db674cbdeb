//! `zhandle_t`: a driver behind a lock, its pending calls, and two threads in the multi-threaded
//! library.
//!
//! One thread drives the connection, and the other calls the program's functions. Without threads,
//! the program does both with `zookeeper_interest` and `zookeeper_process`.
//!
//! **Rule:** no lock is held while a function of the program runs. So it may call every
//! function of the library, including `zookeeper_close`. Each call into the library keeps the
//! handle alive until it returns.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_char, c_int};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use zebu_session::Chroot;

use crate::callback::{Call, Waiter};
use crate::descriptors;
use crate::driver::{Driver, Interest};
use crate::errors;
use crate::hosts;
use crate::log::{self, Line};
use crate::queue::Queue;
use crate::request::Refused;

/// How long `zookeeper_close` waits for the server's answer, as in the C client.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(3);

thread_local! {
    /// Whether this thread drives a connection, and therefore must not wait for an answer.
    static IS_DRIVING: Cell<bool> = const { Cell::new(false) };
}

/// `clientid_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId {
    pub(crate) id: i64,
    pub(crate) password: [u8; 16],
}

/// Values that C reads through pointers. They keep their addresses as long as the handle lives.
struct Shown {
    id: ClientId,
    server: [u8; 64],
}

/// `zhandle_t`.
pub struct Handle {
    driver: Mutex<Driver>,
    /// Until when the driving thread sleeps; `None` if it is awake. Written under the driver's
    /// lock.
    sleeps: Mutex<Option<Duration>>,
    queue: Queue,
    chroot: Chroot,
    callback: Mutex<log::Callback>,
    threads: Option<Threads>,
    /// The process that created the handle. After a fork the child has the handle, but not its
    /// threads.
    process: u32,
    is_closing: AtomicBool,
    shown: UnsafeCell<Shown>,
    auth: parking_lot::RawMutex,
}

struct Threads {
    wake: OwnedFd,
    both: Mutex<Option<[JoinHandle<()>; 2]>>,
}

// SAFETY: `shown` is written only under the driver's lock. The C client's contract lets C read it
// without a lock.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// Creates a handle. `None` if the system has no thread or no descriptor left; `errno` gives
    /// the reason.
    pub(crate) fn open(
        driver: Driver,
        callback: log::Callback,
        is_threaded: bool,
    ) -> std::io::Result<Arc<Self>> {
        let threads = match is_threaded {
            true => {
                let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
                let wake = descriptors::apart(wake)?;
                Some(Threads { wake, both: Mutex::new(None) })
            }
            false => None,
        };
        let nobody = ClientId { id: 0, password: [0; 16] };
        let handle = Arc::new(Self {
            chroot: driver.chroot.clone(),
            driver: Mutex::new(driver),
            sleeps: Mutex::new(None),
            queue: Queue::default(),
            callback: Mutex::new(callback),
            threads,
            process: std::process::id(),
            is_closing: AtomicBool::new(false),
            shown: UnsafeCell::new(Shown { id: nobody, server: [0; 64] }),
            auth: <parking_lot::RawMutex as parking_lot::lock_api::RawMutex>::INIT,
        });
        handle.show(&handle.driver.lock());
        if let Some(threads) = &handle.threads {
            // The threads start to work when both exist.
            let mut both = threads.both.lock();
            let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
            let (mine, other) = (handle.clone(), handle.clone());
            let teller = named("zk-completion").spawn(move || mine.tell())?;
            match named("zk-io").spawn(move || other.drive()) {
                Ok(driving) => *both = Some([driving, teller]),
                Err(error) => {
                    handle.queue.finish();
                    return Err(error);
                }
            }
        }
        Ok(handle)
    }

    /// A reference to the handle behind a C pointer.
    ///
    /// # Safety
    /// The pointer is null, or a handle that is not closed.
    pub(crate) unsafe fn of(handle: *const Self) -> Option<Arc<Self>> {
        if handle.is_null() {
            return None;
        }
        // SAFETY: the pointer came from `Arc::into_raw`, and only `close` drops the program's
        // reference.
        Some(unsafe {
            Arc::increment_strong_count(handle);
            Arc::from_raw(handle)
        })
    }

    /// As [`Handle::of`], for a call into the library. Returns an error code without a usable
    /// handle.
    ///
    /// # Safety
    /// As for [`Handle::of`].
    pub(crate) unsafe fn usable(handle: *const Self) -> Result<Arc<Self>, c_int> {
        // SAFETY: guaranteed by the caller.
        let handle = unsafe { Self::of(handle) }.ok_or(errors::BAD_ARGUMENTS)?;
        if handle.is_elsewhere() { Err(errors::INVALID_STATE) } else { Ok(handle) }
    }

    pub(crate) fn chroot(&self) -> &Chroot {
        &self.chroot
    }

    pub(crate) fn log_callback(&self) -> log::Callback {
        *self.callback.lock()
    }

    pub(crate) fn set_log_callback(&self, callback: log::Callback) {
        *self.callback.lock() = callback;
    }

    pub(crate) fn auth_lock(&self) -> &parking_lot::RawMutex {
        &self.auth
    }

    /// Logs why a call is refused. Returns its code.
    pub(crate) fn refuse(&self, from: &'static str, refused: Refused) -> c_int {
        let Refused(code, text) = refused;
        // The C client writes nothing when it refuses the arguments of a call. Programs compare
        // their output.
        let level = match code {
            errors::SYSTEM_ERROR => log::Level::Error,
            _ => log::Level::Debug,
        };
        if log::is_on(level) {
            let line = Line { level, from, number: line!(), text };
            line.write(self.log_callback());
        }
        code
    }

    /// Locks the driver for a query or a small change that causes no call of the program's
    /// functions.
    pub(crate) fn driver(&self) -> MutexGuard<'_, Driver> {
        self.driver.lock()
    }

    /// Whether this process is a child of the one that created the handle. The threads stayed in
    /// the parent, perhaps while they held a lock.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.threads.is_some() && self.process != std::process::id()
    }

    /// Changes the session, unless it has ended. `is_urgent`: sends on this thread, at once.
    pub(crate) fn act(&self, is_urgent: bool, act: impl FnOnce(&mut Driver)) -> c_int {
        let mut driver = self.driver.lock();
        if driver.is_unrecoverable() {
            return errors::INVALID_STATE;
        }
        // A watcher may ask while another thread closes the handle.
        if driver.is_closed() {
            return errors::CLOSING;
        }
        act(&mut driver);
        // A single request gains nothing from waiting for others.
        if self.threads.is_none() || is_urgent || driver.unanswered() <= 1 {
            driver.flush();
        }
        self.wake(&driver);
        self.pass_on(driver);
        errors::OK
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn call(&self, act: impl FnOnce(&mut Driver, Waiter)) -> (c_int, Bytes) {
        if IS_DRIVING.get() || self.threads.is_none() {
            return (errors::INVALID_STATE, Bytes::new());
        }
        let call = Arc::new(Call::default());
        let waiter = Waiter::Call(call.clone());
        match self.act(true, |driver| act(driver, waiter)) {
            errors::OK => call.wait(),
            code => (code, Bytes::new()),
        }
    }

    /// Answers a request that the client has carried out without a server.
    pub(crate) fn answer_here(&self, waiter: Waiter) -> c_int {
        let mut ready = Vec::new();
        waiter.answer(errors::OK, Bytes::new(), &mut ready);
        self.queue.push(ready);
        errors::OK
    }

    /// Wakes the driving thread if something is due before the end of its sleep.
    fn wake(&self, driver: &Driver) {
        let Some(threads) = &self.threads else { return };
        let mut sleeps = self.sleeps.lock();
        if let Some(until) = *sleeps
            && (driver.has_output()
                || driver.is_closed()
                || driver.deadline().is_some_and(|deadline| deadline < until))
        {
            *sleeps = None;
            // Any number wakes the thread. If the write fails, the counter is full, so a wake-up is
            // already pending.
            let _ = rustix::io::write(&threads.wake, &[1; 8]);
        }
    }

    /// Passes on the driver's pending calls, after releasing its lock.
    fn pass_on(&self, mut driver: MutexGuard<'_, Driver>) {
        if !driver.has_told() {
            return;
        }
        self.show(&driver);
        let (ready, lines) = driver.take_told();
        // Enqueued under the lock, so that the order is kept.
        if !ready.is_empty() {
            self.queue.push(ready);
        }
        drop(driver);
        if !lines.is_empty() {
            let callback = self.log_callback();
            lines.iter().for_each(|line| line.write(callback));
        }
    }

    // Values that C reads through pointers.

    fn show(&self, driver: &Driver) {
        let ticket = driver.session().ticket();
        let id = ticket.map_or(ClientId { id: 0, password: [0; 16] }, |ticket| ClientId {
            id: ticket.id.0,
            password: ticket.password,
        });
        let mut server = [0; 64];
        let text =
            driver.hosts.current().map_or_else(|| ":0".to_owned(), |server| server.to_string());
        let length = text.len().min(server.len() - 1);
        server[..length].copy_from_slice(&text.as_bytes()[..length]);
        // SAFETY: only this function writes it, under the driver's lock.
        let shown = unsafe { &mut *self.shown.get() };
        // An unchanged value is not written again, because C may be reading it.
        if shown.id != id {
            shown.id = id;
        }
        if shown.server != server {
            shown.server = server;
        }
    }

    /// The address of the session's id.
    pub(crate) fn shown_id(&self) -> *const ClientId {
        self.show(&self.driver.lock());
        // SAFETY: the handle lives; nothing is read.
        unsafe { &raw const (*self.shown.get()).id }
    }

    /// The address of the server.
    pub(crate) fn shown_server(&self) -> *const c_char {
        self.show(&self.driver.lock());
        // SAFETY: the handle lives; nothing is read.
        unsafe { (&raw const (*self.shown.get()).server).cast() }
    }

    // The event loop.

    /// The events to wait for. Resolves host names and takes steps of SASL if necessary.
    pub(crate) fn interest(&self) -> Interest {
        loop {
            let mut driver = self.driver.lock();
            let interest = driver.interest();
            if let Some((attempt, challenge, mut exchange)) = driver.take_challenge() {
                let server = driver.hosts.current();
                self.pass_on(driver);
                let outcome = exchange.answer(&challenge, server);
                let mut driver = self.driver.lock();
                driver.proved(attempt, exchange, outcome);
                self.pass_on(driver);
                continue;
            }
            let names = driver.take_names();
            *self.sleeps.lock() = names.is_none().then(|| driver.now() + interest.wait);
            self.pass_on(driver);
            let Some(names) = names else { return interest };
            // Resolving may take long, so it happens without the lock.
            let found = hosts::resolve(&names);
            let mut driver = self.driver.lock();
            driver.named(found);
            self.pass_on(driver);
        }
    }

    /// Handles a readable or writable socket. Returns the code of a lost connection.
    pub(crate) fn process(&self, can_read: bool, can_write: bool) -> Option<c_int> {
        let mut driver = self.driver.lock();
        *self.sleeps.lock() = None;
        driver.process(can_read, can_write);
        let lost = driver.take_lost();
        self.pass_on(driver);
        lost
    }

    /// Waits for the events of `interest`, for at most `most`.
    fn sleep(&self, interest: Interest, most: Duration) -> (bool, bool) {
        let wait = interest.wait.min(most);
        // Rounded up, so that the timer has expired after the wait.
        let wait = Timespec {
            tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        // SAFETY: the descriptor belongs to the driver, and only this thread closes it.
        let socket = interest.fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
        let mut fds = Vec::with_capacity(2);
        if let Some(socket) = &socket {
            let writing = if interest.is_writing { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(socket, PollFlags::IN | writing));
        }
        if let Some(threads) = &self.threads {
            fds.push(PollFd::from_borrowed_fd(threads.wake.as_fd(), PollFlags::IN));
        }
        // An interrupted wait is an ordinary wake-up.
        let _ = poll(&mut fds, Some(&wait));
        let mut came = PollFlags::empty();
        for (at, fd) in fds.iter().enumerate() {
            if at == 0 && socket.is_some() {
                came = fd.revents();
            } else if !fd.revents().is_empty()
                && let Some(threads) = &self.threads
            {
                let _ = rustix::io::read(&threads.wake, &mut [0; 8]);
            }
        }
        let ended = came.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        (ended || came.contains(PollFlags::IN), ended || came.contains(PollFlags::OUT))
    }

    /// The main function of the driving thread.
    fn drive(&self) {
        IS_DRIVING.set(true);
        while !self.driver.lock().is_closed() {
            let interest = self.interest();
            let (can_read, can_write) = self.sleep(interest, interest.wait);
            self.process(can_read, can_write);
        }
    }

    /// The main function of the thread that calls the program's functions.
    fn tell(&self) {
        while let Some(callback) = self.queue.wait() {
            callback.run(self);
        }
    }

    /// Makes all pending calls, on this thread.
    pub(crate) fn tell_now(&self) {
        while let Some(callback) = self.queue.pop() {
            callback.run(self);
        }
    }

    /// Whether calls are pending.
    pub(crate) fn has_to_tell(&self) -> bool {
        !self.queue.is_empty()
    }

    // Closing.

    /// Closes the session and ends the threads. All open requests are answered before it returns.
    ///
    /// A function that this handle calls may call it, too.
    pub(crate) fn close(&self) -> c_int {
        if self.is_closing.swap(true, Ordering::AcqRel) {
            return errors::INVALID_STATE;
        }
        if self.is_elsewhere() {
            // The session belongs to the parent, and no thread in this process drives it.
            return errors::OK;
        }
        let mut driver = self.driver.lock();
        driver.close(CLOSE_TIME_MAX);
        self.wake(&driver);
        self.pass_on(driver);
        match &self.threads {
            Some(threads) => {
                // The threads are taken out first, because they must not be joined under the lock.
                let both = threads.both.lock().take();
                if let Some([driving, teller]) = both {
                    let myself = std::thread::current().id();
                    if driving.thread().id() != myself {
                        let _ = driving.join();
                    }
                    self.give_up_rest();
                    self.queue.finish();
                    match teller.thread().id() == myself {
                        true => self.tell_now(),
                        false => drop(teller.join()),
                    }
                }
            }
            None => {
                let until = Instant::now() + CLOSE_TIME_MAX;
                while !self.driver.lock().is_closed() {
                    let interest = self.interest();
                    let most = until.saturating_duration_since(Instant::now());
                    let (can_read, can_write) = self.sleep(interest, most);
                    self.process(can_read, can_write);
                }
                self.give_up_rest();
                self.tell_now();
            }
        }
        errors::OK
    }

    /// Answers all open requests.
    fn give_up_rest(&self) {
        let mut driver = self.driver.lock();
        driver.abandon();
        self.pass_on(driver);
    }
}
