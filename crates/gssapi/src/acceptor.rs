//! The service's side of a context, with keys from a key table.

use std::ffi::{CString, c_int};
use std::fmt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use crate::Gss;
use crate::context::{Context, Side};
use crate::error::{Error, c_string, check};
use crate::name::Name;
use crate::sys::{ACCEPT, Api, CredPointer, INDEFINITE, KRB5, KeyValue, KeyValues, OidSet};

/// Credentials in the library's representation.
pub(crate) struct Credentials {
    api: &'static Api,
    pointer: CredPointer,
}

// SAFETY: the library guards credentials with a lock of their own, and allows their use from any
// thread.
unsafe impl Send for Credentials {}
// SAFETY: as above.
unsafe impl Sync for Credentials {}

impl Credentials {
    /// Credentials for one context. `places`: their sources, under the library's names such as
    /// `keytab`; the library's defaults apply to the others.
    pub(crate) fn acquire(
        api: &'static Api,
        name: Option<&Name>,
        usage: c_int,
        places: &[(&str, &str)],
    ) -> Result<Self, Error> {
        let mut texts: Vec<[CString; 2]> = Vec::new();
        for (key, value) in places {
            texts.push([c_string(key)?, c_string(value)?]);
        }
        let elements: Vec<KeyValue> = texts
            .iter()
            .map(|[key, value]| KeyValue { key: key.as_ptr(), value: value.as_ptr() })
            .collect();
        let store = KeyValues { count: elements.len() as u32, elements: elements.as_ptr() };
        let store = if elements.is_empty() { ptr::null() } else { &raw const store };
        let mechanisms = OidSet { count: 1, elements: KRB5.pointer() };
        let name = name.map_or(ptr::null_mut(), Name::pointer);
        let (mut minor, mut pointer) = (0, ptr::null_mut());
        // SAFETY: the name, the set and the store with its texts outlive the call; the credentials
        // are written into a local; the last two results are not wanted, which null says.
        let major = unsafe {
            api.gss_acquire_cred_from(
                &mut minor,
                name,
                INDEFINITE,
                &mechanisms,
                usage,
                store,
                &mut pointer,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        let credentials = Self { api, pointer };
        check(api, major, minor)?;
        Ok(credentials)
    }

    /// The same, if the credentials have not expired. Those from a key table are first renewed,
    /// over the network.
    pub(crate) fn current(self) -> Result<Self, Error> {
        let mut minor = 0;
        // SAFETY: the credentials are live, and null says that no result is wanted but the status.
        let major = unsafe {
            self.api.gss_inquire_cred(
                &mut minor,
                self.pointer,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        check(self.api, major, minor)?;
        Ok(self)
    }

    /// The pointer for the library.
    pub(crate) fn pointer(&self) -> CredPointer {
        self.pointer
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the credentials are null or live, and not used again.
        unsafe { self.api.gss_release_cred(&mut minor, &mut self.pointer) };
    }
}

/// A service to which clients prove their identity.
///
/// It reads its key table for each client, so an operator can replace keys while the service runs.
/// It never contacts a key distribution centre.
#[derive(Clone)]
pub struct Acceptor {
    gss: Gss,
    name: String,
    credentials: Arc<Credentials>,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Acceptor").field(&self.name).finish()
    }
}

impl Gss {
    /// The service `principal`, with its keys in `key_tab` or in the system's key table.
    ///
    /// # Errors
    /// The file cannot be read, or has no key of this principal.
    pub fn acceptor(self, principal: &str, key_tab: Option<&Path>) -> Result<Acceptor, Error> {
        let api = self.api;
        let name = Name::principal(api, principal)?;
        let file = key_tab.map(|path| format!("FILE:{}", path.display()));
        let places: Vec<(&str, &str)> = file.iter().map(|file| ("keytab", &**file)).collect();
        let credentials = Credentials::acquire(api, Some(&name), ACCEPT, &places)?;
        let name = name.canonical()?.text()?;
        Ok(Acceptor { gss: self, name, credentials: Arc::new(credentials) })
    }
}

impl Acceptor {
    /// The full name of the service.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A context with a client that has not sent a token yet.
    pub fn begin(&self) -> Context {
        Context::new(self.gss.api, Side::Acceptor(self.credentials.clone()))
    }
}
