//! Clients: listeners, network workers, connections, and log lines about refused clients.

pub mod access;
pub mod authentication;
pub mod balance;
pub mod conn;
pub mod connection;
pub mod cpu_time;
pub mod descriptors;
pub mod four_letter_words;
pub mod inside;
pub mod listening;
pub mod long_turns;
pub mod outside;
pub mod refused;
pub mod secure;
pub mod too_long;
pub mod wakes;
pub mod worker_turns;
pub mod workers;
