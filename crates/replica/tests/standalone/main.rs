//! A standalone server.

mod ends;
mod limits;
mod world;
