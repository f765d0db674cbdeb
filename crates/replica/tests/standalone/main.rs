//! A server that stands alone.

mod ends;
mod limits;
mod world;
