//! What those share who speak to other servers.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::Notify;
use zebu_transport::PeerPort;
use zebu_zab::config::Membership;

use crate::clients::listening::Listening;
use crate::config::EnsembleConfig;
use crate::ensemble::peers::Learner;

/// What those share who speak to other servers.
pub struct Ensemble {
    /// The certificates of this server as a member, where there are any.
    pub tls_port: OnceLock<Arc<PeerPort>>,
    /// Until when the network between servers has listened to the others.
    pub listening: Listening,
    /// The configuration of the ensemble that is in force.
    pub members: Mutex<Option<Arc<Membership>>>,
    /// Learners that are connected to this server.
    pub learners: Mutex<Vec<Arc<Learner>>>,
    /// A member's replica has had a turn, or its disk has done something: whoever waits for them looks again.
    pub caught_up: Notify,
}

impl Ensemble {
    pub(super) fn new(config: Option<&EnsembleConfig>) -> Self {
        Self {
            tls_port: OnceLock::new(),
            listening: Listening::default(),
            members: Mutex::new(config.map(|ensemble| Arc::new(ensemble.members.clone()))),
            learners: Mutex::default(),
            caught_up: Notify::new(),
        }
    }
}
