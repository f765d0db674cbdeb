//! Tests with real third-party clients and servers.
//!
//! This crate has the harness: it starts servers of either kind, runs third-party programs against
//! them, has its own small protocol client, and compares the results. It shares no code with the
//! crates under test, so a mistake in Zebu's codec cannot hide here: `zebu_testkit` has encodings
//! of its own. The scenarios are in `tests/`.

pub mod damage;
pub mod dashboards;
pub mod dependants;
pub mod deps;
pub mod diff;
pub mod disk;
pub mod dump;
pub mod ensemble;
pub mod faults;
pub mod http;
pub mod kdc;
pub mod linear;
pub mod load;
pub mod members;
pub mod network;
pub mod normalise;
pub mod raw;
pub mod replay;
pub mod run;
pub mod scenario;
pub mod server;
pub mod shell;
pub mod suite;
pub mod tamper;
pub mod told;
pub mod znode;
