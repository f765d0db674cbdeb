//! How servers agree: membership, election, discovery, synchronization and broadcast.
//!
//! Pure state machines over opaque transactions: no sockets, files, clock, threads or randomness.
//! Knows no znode.

pub mod config;
