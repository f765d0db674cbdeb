//! The example programs as processes, which the tests kill and pause at critical moments.

mod embedded {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/client/tests/support/embedded.in"));
}

mod ensembles;
mod master_worker;
mod program;
mod readme;
mod recipes;
