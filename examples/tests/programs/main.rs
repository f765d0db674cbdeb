//! The programs of this folder, run as processes, and killed and paused at the awkward moments.

mod embedded {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/client/tests/support/embedded.in"));
}

mod ensembles;
mod master_worker;
mod program;
mod readme;
mod recipes;
