//! Members of an ensemble, as their clients see them.

mod local_sessions;
mod world;
