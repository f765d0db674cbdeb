//! What each line of the log says of the process: which server it is, and in which role.

use parking_lot::Mutex;

static FACTS: Mutex<Facts> = Mutex::new(Facts { server: None, role: None });

/// What is known of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `myid`, of a member of an ensemble.
    pub server: Option<i64>,
    /// What it is to its ensemble or its clients.
    pub role: Option<&'static str>,
}

/// The facts now.
pub fn facts() -> Facts {
    *FACTS.lock()
}

/// This process is that server.
pub fn is_server(id: i64) {
    FACTS.lock().server = Some(id);
}

/// The server has another role.
pub fn has_role(role: &'static str) {
    FACTS.lock().role = Some(role);
}
