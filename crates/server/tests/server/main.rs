//! A whole server, seen from its clients and its operator.

mod access;
mod admin;
mod admin_tls;
mod audit;
mod client;
mod counted;
mod gate;
mod limits;
mod members;
mod order;
mod outside;
mod peer_tls;
mod records;
mod rejoin;
mod running;
mod sasl;
mod sessions;
mod slow;
mod storage;
mod strangers;
mod strict;
mod throttling;
mod tls;
mod turns;
mod words;
mod znodes;
