//! A whole server, seen from its clients and its operator.

mod access;
mod client;
mod counted;
mod gate;
mod limits;
mod members;
mod order;
mod running;
mod sessions;
mod storage;
mod strangers;
mod throttling;
mod words;
mod znodes;
