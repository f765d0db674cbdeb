//! State that the threads for other servers share.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::Notify;
use zebu_transport::PeerPort;
use zebu_zab::config::Membership;

use crate::clients::listening::Listening;
use crate::config::EnsembleConfig;
use crate::ensemble::peers::Learner;

/// State that the threads for other servers share.
pub struct Ensemble {
    /// The certificates of this server as a member, if there are any.
    pub tls_port: OnceLock<Arc<PeerPort>>,
    /// The time up to which the network between servers has read its sockets.
    pub listening: Listening,
    /// The committed configuration of the ensemble.
    pub members: Mutex<Option<Arc<Membership>>>,
    /// Learners that are connected to this server.
    pub learners: Mutex<Vec<Arc<Learner>>>,
    /// Notifies waiting tasks that the replica has finished a turn, or that the disk has finished a
    /// job.
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
