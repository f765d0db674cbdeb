//! The functions of `zookeeper.h`.

mod asynchronous;
mod lasting;
mod looking;
mod opening;
mod secure;
#[path = "exports/loop.rs"]
mod stepping;
mod synchronous;
mod unwatching;
