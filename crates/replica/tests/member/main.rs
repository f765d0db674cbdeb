//! Members of an ensemble, as their clients see them.

mod leader_serves;
mod local_sessions;
mod order;
mod read_only;
mod reconfig;
mod renewals;
mod world;
