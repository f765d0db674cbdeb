//! What the tests of several crates share. No shipped crate depends on this one.
//!
//! - [`random`]: random numbers that a seed decides.
//! - [`wire`]: the client protocol's encodings, written without `zebu-proto`.
//! - [`connection`]: a connection to a server, and the frames on it.
//! - [`lines`]: connections in memory between members, with ways that a test blocks.
//! - [`ports`]: ports for servers that a test configures before it starts them.
//! - `gssapi`: simulated contexts of Kerberos.
//! - [`program`]: a server program that a test runs, and processes that a test pauses.
//! - [`scripts`]: files with inputs and the outputs that they must give.
//! - `told`: a recovery's listener that keeps everything it is told.
//! - `fixtures`: the golden files of the original.
//! - `alone`: a server that runs alone, driven by the engine that ships.
//! - `client`: a client's connection to a server that the engine drives, without a socket.

#[cfg(feature = "engine")]
pub mod alone;
#[cfg(feature = "engine")]
pub mod client;
pub mod connection;
#[cfg(feature = "store")]
pub mod fixtures;
#[cfg(feature = "gssapi")]
pub mod gssapi;
pub mod lines;
pub mod ports;
pub mod program;
pub mod random;
pub mod scripts;
#[cfg(feature = "store")]
pub mod told;
pub mod wire;

pub use random::Random;
