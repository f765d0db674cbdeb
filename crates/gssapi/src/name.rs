//! Names of principals and of services.

use std::ptr;

use crate::buffer::{Owned, lent};
use crate::error::{Error, c_string, check};
use crate::sys::{Api, KRB5, NamePointer, Oid, PRINCIPAL, SERVICE};

/// A name in the library's representation.
pub(crate) struct Name {
    api: &'static Api,
    pointer: NamePointer,
}

// SAFETY: a name is not changed after it was made, and the library allows its use from any thread.
unsafe impl Send for Name {}

impl Name {
    /// A principal: `NAME`, `NAME@REALM` or `NAME/HOST@REALM`, used unchanged.
    pub(crate) fn principal(api: &'static Api, text: &str) -> Result<Self, Error> {
        Self::import(api, text, &PRINCIPAL)
    }

    /// The service of a host. `krb5.conf` determines its realm, and whether the host's name is
    /// looked up.
    pub(crate) fn service(api: &'static Api, service: &str, host: &str) -> Result<Self, Error> {
        Self::import(api, &format!("{service}@{host}"), &SERVICE)
    }

    fn import(api: &'static Api, text: &str, kind: &'static Oid) -> Result<Self, Error> {
        c_string(text)?;
        let (mut minor, mut pointer) = (0, ptr::null_mut());
        let bytes = lent(text.as_bytes());
        // SAFETY: the bytes outlive the call, the kind is a static, and the name is written into a
        // local.
        let major =
            unsafe { api.gss_import_name(&mut minor, &bytes, kind.pointer(), &mut pointer) };
        let name = Self { api, pointer };
        check(api, major, minor)?;
        Ok(name)
    }

    /// A name that the library has created. `pointer` is null, or a name that no other code frees.
    pub(crate) fn of(api: &'static Api, pointer: NamePointer) -> Self {
        Self { api, pointer }
    }

    /// The name in Kerberos' form, with a realm.
    pub(crate) fn canonical(&self) -> Result<Self, Error> {
        let (mut minor, mut pointer) = (0, ptr::null_mut());
        // SAFETY: `self.pointer` is a live name, the mechanism is a static, and the name is written
        // into a local.
        let major = unsafe {
            self.api.gss_canonicalize_name(&mut minor, self.pointer, KRB5.pointer(), &mut pointer)
        };
        let name = Self { api: self.api, pointer };
        check(self.api, major, minor)?;
        Ok(name)
    }

    /// The name as text.
    pub(crate) fn text(&self) -> Result<String, Error> {
        let (mut minor, mut text) = (0, Owned::new(self.api));
        // SAFETY: `self.pointer` is a live name, and the text is written into a buffer that is
        // given back.
        let major = unsafe {
            self.api.gss_display_name(&mut minor, self.pointer, text.slot(), ptr::null_mut())
        };
        check(self.api, major, minor)?;
        String::from_utf8(text.to_vec())
            .map_err(|_| Error::Refused { message: "a name that is not UTF-8".to_owned() })
    }

    /// The pointer for the library.
    pub(crate) fn pointer(&self) -> NamePointer {
        self.pointer
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the name is null or live, and not used again.
        unsafe { self.api.gss_release_name(&mut minor, &mut self.pointer) };
    }
}
