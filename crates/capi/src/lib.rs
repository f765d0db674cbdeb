//! The C client's ABI: `libzookeeper_mt.so.2` and `libzookeeper_st.so.2` over the pure client session.
//!
//! [`zebu_session`] decides everything: what is sent and when, which watches move along, what becomes of a request. Here
//! are one driver for its one socket, the two ways to run the driver (the program's own loop, or two threads), and the
//! structures and functions of `zookeeper.h`, `zookeeper_log.h`, `recordio.h` and `zookeeper.jute.h`.
//!
//! `cargo xtask capi` links the two libraries and lays out headers and pkg-config files. `include/` is the documentation
//! for programs in C.
//!
//! **Invariant:** no exported function is called from within the library, since a program may define one of the same
//! name.
//!
//! **Invariant:** what C hands over is checked before it is used as far as C lets us: null pointers, lengths below zero,
//! text that is not UTF-8 and buffers that are too small are errors with a code, never undefined.

mod archive;
mod callback;
mod constants;
mod driver;
mod errors;
mod exports;
mod handle;
mod hosts;
mod log;
mod memory;
mod multi;
mod probe;
mod queue;
mod records;
mod request;
mod watchers;
mod wire;
