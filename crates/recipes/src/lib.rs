//! Recipes built from znodes: locks, elections, queues, barriers, groups, caches, counters,
//! services, configuration.
//!
//! Each recipe lives below a znode of its own. If it is missing, the recipe creates it with the
//! given ACL. All recipes follow the same rules:
//! - No herd effect: a waiting client watches only its predecessor, never the whole line.
//! - A lost connection leaves neither doubt nor remains: creates are protected, and deletes are
//!   repeated until they succeed. If a future is dropped half-way, its znodes are cleaned up in the
//!   background, on the session's own thread, with or without the program's runtime.
//! - A lock, a lease or a leadership belongs to a session. [`Held::news`] tells the holder when the
//!   ownership is no longer certain. The holder presents a [`Token`] to resources outside the
//!   ensemble.
//! - Attempts are bounded: an unreachable ensemble is an error, not an endless wait.
//!
//! ```
//! # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
//! # embedded::with_server(async |server| {
//! # let address = server.address().to_string();
//! use zebu_client::{Acls, Connector};
//! use zebu_recipes::Lock;
//!
//! // `Acls::creator` grants rights to the client's own identity, so it needs credentials.
//! let connector = Connector::new().authenticate("digest", "amy:secret");
//! let client = connector.connect(&address).await?;
//! let held = Lock::new(&client, "/locks/printer", &Acls::creator()).exclusive().await?;
//! println!("ours, with fencing token {}", held.token());
//! held.release().await?;
//! # Ok(()) });
//! ```

mod agreement;
mod announcements;
mod atomic;
mod barrier;
mod cache;
mod children;
mod cleanup;
mod counts;
mod curator_queues;
mod current;
mod discovery;
mod election;
mod error;
mod faults;
mod group;
mod ids;
mod kazoo_barrier;
mod kazoo_queues;
mod layout;
mod line;
mod lock;
mod models;
mod multi_lock;
mod mutex;
mod node;
mod once;
mod order;
mod partitions;
mod party;
mod path;
mod place;
mod queue;
mod read_write;
mod semaphore;
mod settings;
mod sharded_queue;
mod single_barrier;
mod ttl_node;
mod value;
mod vigil;
mod watched;

pub use agreement::{Agreement, Decision, Proposal};
pub use announcements::{Announced, Announcement, Announcements};
pub use atomic::{AtomicInteger, AtomicLong, AtomicNumber, Changed, Number};
pub use barrier::{DoubleBarrier, Inside};
pub use cache::{Cache, CacheBuilder, Change, Changes, Znode};
pub use children::Children;
pub use counts::{CountChanges, SharedCount, SharedValue, ValueChanges, Versioned};
pub use curator_queues::{DelayQueue, IdQueue, PlainQueue, PriorityQueue};
pub use discovery::{
    Discovery, DownPolicy, Provider, Random, Registration, RoundRobin, ServiceInstance,
    ServiceType, Sticky, Strategy, UriSpec,
};
pub use election::{Candidate, Election};
pub use error::{Error, Result};
pub use group::{Group, Member};
pub use ids::Ids;
pub use kazoo_queues::{KazooLockingQueue, KazooQueue};
pub use lock::{Contender, Held, Lock, Token};
pub use models::{Codec, Json, Model, ModelFault, Models, Record};
pub use multi_lock::{AllHeld, MultiLock};
pub use mutex::{Guard, Mutex};
pub use node::PersistentNode;
pub use partitions::{Part, Participant, Partitions};
pub use party::{Party, PartyMember};
pub use queue::{Item, Queue};
pub use read_write::ReadWriteLock;
pub use semaphore::{Lease, Semaphore};
pub use settings::{Settings, Snapshot};
pub use sharded_queue::ShardedQueue;
pub use single_barrier::Barrier;
pub use ttl_node::TtlNode;
pub use value::Value;
pub use vigil::News;
