//! The side of a client, with credentials from a key table or from the user's ticket cache.

use std::fmt;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Gss;
use crate::acceptor::Credentials;
use crate::context::{Context, Side};
use crate::error::{Error, c_string};
use crate::name::Name;
use crate::sys::{ACCEPT, Api, INITIATE};

/// The sources of a client's tickets. If both are set, the cache is tried first, as in Java.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// The client's name; without one, that of the cache's owner.
    pub principal: Option<String>,
    /// A key table; the inner `None` is the system's.
    pub key_tab: Option<Option<PathBuf>>,
    /// A ticket cache; the inner `None` is the user's.
    pub cache: Option<Option<PathBuf>>,
}

/// The service that a client uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A principal, used unchanged.
    Principal(String),
    /// The service of a host. `krb5.conf` determines the principal.
    Service {
        /// The name of the service, for example `zookeeper`.
        service: String,
        /// The host.
        host: String,
    },
}

/// A client that proves its identity to services. Clones share their tickets.
#[derive(Clone)]
pub struct Initiator {
    gss: Gss,
    login: Arc<Login>,
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Initiator").field(&self.login.source).finish()
    }
}

/// The state that all contexts of one initiator share.
pub(crate) struct Login {
    api: &'static Api,
    source: Source,
    /// The cache for tickets from a key table: in memory, under a unique name.
    memory: String,
    turn: Mutex<()>,
}

impl Gss {
    /// A client with tickets from this source. No ticket is requested before a context begins.
    pub fn initiator(self, source: Source) -> Initiator {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let memory = format!("MEMORY:zebu-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let login = Login { api: self.api, source, memory, turn: Mutex::new(()) };
        Initiator { gss: self, login: Arc::new(login) }
    }
}

impl Initiator {
    /// A context with a service.
    ///
    /// # Errors
    /// The service's name is not a valid Kerberos name.
    pub fn begin(&self, target: &Target) -> Result<Context, Error> {
        let api = self.gss.api;
        let target = match target {
            Target::Principal(name) => Name::principal(api, name)?,
            Target::Service { service, host } => Name::service(api, service, host)?,
        };
        let login = self.login.clone();
        Ok(Context::new(api, Side::Initiator { login, credentials: None, target }))
    }
}

impl Login {
    /// Lets only one context at a time request tickets.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Credentials with valid tickets. Tickets from a key table are cached, and renewed after half
    /// of their lifetime.
    pub(crate) fn credentials(&self) -> Result<Credentials, Error> {
        let Source { principal, key_tab, cache } = &self.source;
        let principal =
            principal.as_ref().map(|name| Name::principal(self.api, name)).transpose()?;
        let acquire = |usage, places: &[(&str, &str)]| {
            Credentials::acquire(self.api, principal.as_ref(), usage, places)
        };
        let file = |path: &PathBuf| format!("FILE:{}", path.display());
        if let Some(cache) = cache {
            let place = cache.as_ref().map(file);
            let places: Vec<(&str, &str)> =
                place.iter().map(|place| ("ccache", &**place)).collect();
            let acquired = acquire(INITIATE, &places).and_then(Credentials::current);
            if acquired.is_ok() || key_tab.is_none() {
                return acquired;
            }
        }
        let place = key_tab.iter().flatten().next().map(file);
        let named = |key| place.iter().map(move |place| (key, &**place));
        let mut places = vec![("ccache", &*self.memory)];
        places.extend(named("client_keytab"));
        acquire(INITIATE, &places).and_then(Credentials::current).or_else(|error| {
            // The library reports a missing key as a missing cache.
            acquire(ACCEPT, &named("keytab").collect::<Vec<_>>())?;
            Err(error)
        })
    }
}

impl Drop for Login {
    /// Destroys the tickets in memory, which the library would otherwise keep until the process
    /// ends.
    fn drop(&mut self) {
        let Ok(name) = c_string(&self.memory) else { return };
        let (mut context, mut cache) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the context is written into a local.
        if unsafe { self.api.krb5_init_context(&mut context) } != 0 {
            return;
        }
        // SAFETY: the context is live, the name outlives the call, and the cache is written into a
        // local.
        if unsafe { self.api.krb5_cc_resolve(context, name.as_ptr(), &mut cache) } == 0 {
            // SAFETY: both are live, and the cache is not used again. It need not have tickets.
            unsafe { self.api.krb5_cc_destroy(context, cache) };
        }
        // SAFETY: the context is live, and not used again.
        unsafe { self.api.krb5_free_context(context) };
    }
}
