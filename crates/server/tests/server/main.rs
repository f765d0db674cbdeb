//! A whole server, seen from its clients and its operator.

mod access;
#[allow(dead_code)]
mod client;
mod ensemble;
mod gate;
mod order;
#[allow(dead_code)]
mod running;
mod sessions;
mod throttling;
mod znodes;
