//! The functions of `zookeeper.h`.

mod asynchronous;
mod extensions;
mod handle_properties;
mod opening;
mod secure;
#[path = "exports/loop.rs"]
mod stepping;
mod synchronous;
mod unwatching;
