//! Locks, semaphores and elections, and the objects that represent a held lock, lease or
//! leadership.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tokio::sync::{oneshot, watch};
use zebu_client::SessionThread;
use zebu_recipes::{Error, News, Token};

use crate::call::Call;
use crate::session::{Data, Entry, Session, acls};

/// The reason why another layout is refused.
pub(crate) const LAYOUTS: &str = "layout is 'zebu' or 'kazoo'";

/// The state of a lock or a leadership.
#[derive(Clone, Copy)]
struct Standing {
    /// Whether it is certainly held.
    is_certain: bool,
    /// Whether another program asks for it.
    is_wanted: bool,
    /// Whether it was released or lost.
    is_over: bool,
}

/// A request to release, and the receiver of its result.
type Release = oneshot::Sender<Result<(), Error>>;

/// A lock or a leadership: held until it is released, lost, or dropped.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Held {
    /// The fencing token.
    #[pyo3(get)]
    token: i64,
    /// The holder's znode.
    #[pyo3(get)]
    path: String,
    standing: watch::Receiver<Standing>,
    /// If it is dropped, the release happens in the background.
    release: Mutex<Option<oneshot::Sender<Release>>>,
    thread: SessionThread,
}

/// The guards that a program may hold.
pub(crate) trait Holding: Send + 'static {
    fn news(&mut self) -> impl Future<Output = News> + Send;
    fn release(self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// The guards of the recipes have the same methods.
macro_rules! holding {
    ($($guard:ty),*) => {$(
        impl Holding for $guard {
            fn news(&mut self) -> impl Future<Output = News> + Send {
                <$guard>::news(self)
            }

            fn release(self) -> impl Future<Output = Result<(), Error>> + Send {
                <$guard>::release(self)
            }
        }
    )*};
}

holding!(zebu_recipes::Held, zebu_recipes::Lease, zebu_recipes::Part);

impl Held {
    pub(crate) fn new(
        held: impl Holding,
        token: Option<Token>,
        path: String,
        thread: &SessionThread,
    ) -> Self {
        let standing = Standing { is_certain: true, is_wanted: false, is_over: false };
        let (tell, standing) = watch::channel(standing);
        let (release, asked) = oneshot::channel();
        let token = token.map_or(0, |token| token.0.0);
        thread.spawn(look_after(held, tell, asked));
        let release = Mutex::new(Some(release));
        Self { token, path, standing, release, thread: thread.clone() }
    }

    fn lock(held: zebu_recipes::Held, thread: &SessionThread) -> Self {
        let (token, path) = (held.token(), held.path().to_owned());
        Self::new(held, Some(token), path, thread)
    }

    fn lease(lease: zebu_recipes::Lease, thread: &SessionThread) -> Self {
        let (token, path) = (lease.token(), lease.path().to_owned());
        Self::new(lease, Some(token), path, thread)
    }

    /// Waits until the state satisfies the condition.
    fn until(&self, is_so: fn(&Standing) -> bool) -> Call {
        let mut standing = self.standing.clone();
        Call::new(&self.thread, async move {
            // The task that reports the state ends only when the ownership has ended.
            let _ = standing.wait_for(is_so).await;
            Ok::<_, Error>(())
        })
    }
}

/// Receives news of the ownership until it has ended.
async fn look_after(
    mut held: impl Holding,
    tell: watch::Sender<Standing>,
    mut asked: oneshot::Receiver<Release>,
) {
    let over = |standing: &mut Standing| (standing.is_certain, standing.is_over) = (false, true);
    loop {
        let news = tokio::select! {
            biased;
            release = &mut asked => {
                if let Ok(answer) = release {
                    let released = held.release().await;
                    tell.send_modify(over);
                    // The caller may have gone.
                    let _ = answer.send(released);
                }
                return;
            }
            news = held.news() => news,
        };
        tell.send_modify(|standing| match news {
            News::Suspended => standing.is_certain = false,
            News::Resumed => standing.is_certain = true,
            News::Wanted => standing.is_wanted = true,
            News::Lost => over(standing),
        });
        if news == News::Lost {
            return;
        }
    }
}

#[pymethods]
impl Held {
    #[getter]
    fn is_certain(&self) -> bool {
        self.standing.borrow().is_certain
    }

    #[getter]
    fn is_wanted(&self) -> bool {
        self.standing.borrow().is_wanted
    }

    #[getter]
    fn is_over(&self) -> bool {
        self.standing.borrow().is_over
    }

    /// Waits until the ownership has ended.
    fn over(&self) -> Call {
        self.until(|standing| standing.is_over)
    }

    /// Waits until the ownership is not certain.
    fn doubt(&self) -> Call {
        self.until(|standing| !standing.is_certain)
    }

    /// Waits until another program asks for it, or the ownership has ended.
    fn wanted(&self) -> Call {
        self.until(|standing| standing.is_wanted || standing.is_over)
    }

    /// Releases it. A second call waits until that is done.
    fn release(&self) -> Call {
        let asking = self.release.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut standing = self.standing.clone();
        let (answer, released) = oneshot::channel();
        let is_asked = asking.is_some_and(|asking| asking.send(answer).is_ok());
        Call::new(&self.thread, async move {
            if is_asked && let Ok(released) = released.await {
                return released;
            }
            let _ = standing.wait_for(|standing| standing.is_over).await;
            Ok(())
        })
    }
}

/// The place of a contender: its name, its token, and whether it is shared.
type Contender = (Data, i64, bool);

fn contenders(line: Vec<zebu_recipes::Contender>) -> Vec<Contender> {
    let contender = |one: zebu_recipes::Contender| (one.data.into(), one.token.0.0, one.is_shared);
    line.into_iter().map(contender).collect()
}

/// A lock, exclusive or shared.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Lock {
    lock: zebu_recipes::Lock,
    thread: SessionThread,
}

#[pymethods]
impl Lock {
    #[new]
    fn new(
        session: &Session,
        path: &str,
        name: &[u8],
        acl: Vec<Entry>,
        layout: &str,
    ) -> PyResult<Self> {
        let make = match layout {
            "zebu" => zebu_recipes::Lock::new,
            "kazoo" => zebu_recipes::Lock::of_kazoo,
            _ => return Err(PyValueError::new_err(LAYOUTS)),
        };
        let lock = make(&session.client, path, &acls(acl)).named(name);
        Ok(Self { lock, thread: session.client.thread().clone() })
    }

    fn acquire(&self, is_shared: bool) -> Call {
        let (lock, thread) = (self.lock.clone(), self.thread.clone());
        Call::new(&self.thread, async move {
            let held = if is_shared { lock.shared().await } else { lock.exclusive().await };
            held.map(|held| Held::lock(held, &thread))
        })
    }

    fn try_acquire(&self, is_shared: bool) -> Call {
        let (lock, thread) = (self.lock.clone(), self.thread.clone());
        Call::new(&self.thread, async move {
            let held = if is_shared { lock.try_shared().await } else { lock.try_exclusive().await };
            held.map(|held| held.map(|held| Held::lock(held, &thread)))
        })
    }

    fn contenders(&self) -> Call {
        let lock = self.lock.clone();
        Call::new(&self.thread, async move { lock.line().await.map(contenders) })
    }

    fn ask_back(&self) -> Call {
        let lock = self.lock.clone();
        Call::new(&self.thread, async move { lock.ask_back().await })
    }
}

/// A number of leases.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Semaphore {
    semaphore: zebu_recipes::Semaphore,
    thread: SessionThread,
}

#[pymethods]
impl Semaphore {
    #[new]
    fn new(
        session: &Session,
        path: &str,
        leases: usize,
        name: &[u8],
        acl: Vec<Entry>,
        layout: &str,
    ) -> PyResult<Self> {
        let make = match layout {
            "zebu" => zebu_recipes::Semaphore::new,
            "kazoo" => zebu_recipes::Semaphore::of_kazoo,
            _ => return Err(PyValueError::new_err(LAYOUTS)),
        };
        let client = &session.client;
        let semaphore = make(client, path, leases, &acls(acl)).named(name);
        Ok(Self { semaphore, thread: client.thread().clone() })
    }

    fn acquire(&self) -> Call {
        let (semaphore, thread) = (self.semaphore.clone(), self.thread.clone());
        Call::new(&self.thread, async move {
            semaphore.acquire().await.map(|lease| Held::lease(lease, &thread))
        })
    }

    fn try_acquire(&self) -> Call {
        let (semaphore, thread) = (self.semaphore.clone(), self.thread.clone());
        Call::new(&self.thread, async move {
            let lease = semaphore.try_acquire().await;
            lease.map(|lease| lease.map(|lease| Held::lease(lease, &thread)))
        })
    }

    /// The names of the holders of leases.
    fn holders(&self) -> Call {
        let semaphore = self.semaphore.clone();
        Call::new(&self.thread, async move {
            let names = semaphore.participants().await?;
            Ok::<_, Error>(names.into_iter().map(Data::from).collect::<Vec<_>>())
        })
    }
}

/// An election.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Election {
    election: zebu_recipes::Election,
    thread: SessionThread,
}

#[pymethods]
impl Election {
    #[new]
    fn new(session: &Session, path: &str, acl: Vec<Entry>, layout: &str) -> PyResult<Self> {
        let make = match layout {
            "zebu" => zebu_recipes::Election::new,
            "latch" => zebu_recipes::Election::of_latch,
            "selector" => zebu_recipes::Election::of_selector,
            "kazoo" => zebu_recipes::Election::of_kazoo,
            _ => {
                let layouts = "layout is 'zebu', 'latch', 'selector' or 'kazoo'";
                return Err(PyValueError::new_err(layouts));
            }
        };
        let election = make(&session.client, path, &acls(acl));
        Ok(Self { election, thread: session.client.thread().clone() })
    }

    fn lead(&self, name: String) -> Call {
        let (election, thread) = (self.election.clone(), self.thread.clone());
        Call::new(&self.thread, async move {
            election.lead(&name).await.map(|held| Held::lock(held, &thread))
        })
    }

    fn candidates(&self) -> Call {
        let election = self.election.clone();
        Call::new(&self.thread, async move {
            let candidates = election.candidates().await?;
            let candidate = |one: zebu_recipes::Candidate| (one.name, one.token.0.0);
            Ok::<_, Error>(candidates.into_iter().map(candidate).collect::<Vec<_>>())
        })
    }
}
