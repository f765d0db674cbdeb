//! The session against scripts, and against a small server in memory that keeps its promises while the
//! network does not.

mod peer;
mod promises;
mod scripts;
mod wire;
