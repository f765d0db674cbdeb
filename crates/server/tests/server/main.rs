//! A whole server, seen from its clients and its operator.

#[allow(dead_code)]
mod client;
mod ensemble;
mod gate;
mod order;
#[allow(dead_code)]
mod running;
mod throttling;
