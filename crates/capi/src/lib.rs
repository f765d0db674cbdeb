//! The C client's ABI: `libzookeeper_mt.so.2` and `libzookeeper_st.so.2` on top of the pure client
//! session.
//!
//! [`zebu_session`] decides everything: what is sent and when, which watches are restored, and how
//! requests are answered. This crate has the driver of one socket, the two ways to run it (the
//! program's event loop, or two threads), and the structures and functions of `zookeeper.h`,
//! `zookeeper_log.h`, `recordio.h` and `zookeeper.jute.h`.
//!
//! TLS is rustls, and SASL is `zebu_auth`: the libraries need neither OpenSSL nor Cyrus SASL.
//!
//! `cargo xtask capi` links the two libraries and installs headers and pkg-config files. `include/`
//! is the documentation for programs in C.
//!
//! **Rule:** the library never calls its own exported functions, because a program may define
//! a function with the same name.
//!
//! **Invariant:** arguments from C are checked before use as far as possible. Null pointers,
//! negative lengths, text that is not UTF-8 and buffers that are too small cause an error code,
//! never undefined behaviour. Checked by `lengths_that_lie_are_refused`,
//! `unknown_flags_are_refused`, `a_text_is_never_null` and `a_text_is_cut_to_the_buffer`.

mod archive;
mod callback;
mod constants;
mod descriptors;
mod driver;
mod errors;
mod exports;
mod handle;
mod hosts;
mod log;
mod memory;
mod multi;
mod multi_read;
mod probe;
mod queue;
mod records;
mod request;
mod sasl;
mod tls;
mod watchers;
mod wire;
