//! Tests of the session: scripts, and a small correct server in memory behind an unreliable
//! network.

mod peer;
mod promises;
mod scripts;
mod wire;
