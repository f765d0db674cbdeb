//! The server's id and role, which each line of the log contains.

use parking_lot::Mutex;

static FACTS: Mutex<Facts> = Mutex::new(Facts { server: None, role: None });

/// The server's id and role, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `myid`, if this is a member of an ensemble.
    pub server: Option<i64>,
    /// Its role in the ensemble or for its clients.
    pub role: Option<&'static str>,
}

/// The current values.
pub fn facts() -> Facts {
    *FACTS.lock()
}

/// Sets the id.
pub fn is_server(id: i64) {
    FACTS.lock().server = Some(id);
}

/// Sets the role.
pub fn has_role(role: &'static str) {
    FACTS.lock().role = Some(role);
}
