//! What is built from znodes again and again: locks, elections, queues, barriers, groups, configuration.
//!
//! Each recipe lives below a znode of its own, which it creates when it is missing, with the ACL it was given.
//! All of them keep to the same rules:
//!
//! * Nobody is woken in vain: who waits in line watches the one before it, never the whole line.
//! * A lost connection leaves no doubt and no leftovers: creates are protected, deletes are repeated until
//!   they are done, and what is dropped half-way is cleaned up behind.
//! * What is held is held by a session. Who holds something is told when that is no longer certain
//!   ([`Held::news`]), and has a [`Token`] to show to whatever lies outside of the ensemble.
//! * Attempts are bounded: an ensemble that cannot be reached is an error, not a wait without end.
//!
//! ```
//! # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
//! # embedded::run(async |client| {
//! use zebu_client::Acls;
//! use zebu_recipes::Lock;
//!
//! let held = Lock::new(&client, "/locks/printer", &Acls::creator()).exclusive().await?;
//! println!("ours, with fencing token {}", held.token());
//! held.release().await?;
//! # Ok(()) });
//! ```

mod agreement;
mod announcements;
mod barrier;
mod children;
mod cleanup;
mod election;
mod error;
mod ids;
mod line;
mod lock;
mod path;
mod place;
mod queue;
mod settings;
mod value;

pub use agreement::{Agreement, Decision, Proposal};
pub use announcements::{Announced, Announcement, Announcements};
pub use barrier::{DoubleBarrier, Inside};
pub use children::Children;
pub use election::{Candidate, Election};
pub use error::{Error, Result};
pub use ids::Ids;
pub use lock::{Contender, Held, Lock, News, Token};
pub use queue::{Item, Queue};
pub use settings::{Settings, Snapshot};
pub use value::Value;
