//! TLS and SASL without sockets, shared by servers and clients.
//!
//! Owns key and trust stores ([`store`]), certificates ([`certificate`]), JAAS files ([`jaas`]),
//! the SASL mechanisms DIGEST-MD5 ([`digest_md5`]) and GSSAPI ([`gssapi`]), a server's side of any
//! mechanism ([`sasl`]), TLS configurations ([`tls`]) and their cryptography ([`crypto`]), Kerberos
//! names ([`kerberos`]) and secrets that cannot be printed ([`Secret`]).
//!
//! It opens no socket and starts no thread. Only [`store`] and [`jaas`] read files, each once and
//! whole; the caller decides when to read a file again, and [`tls`] looks whether one has changed.
//! `clippy.toml` checks this.

mod authenticated;
mod der;
mod pbe;

pub mod certificate;
pub mod crypto;
pub mod digest_md5;
pub mod failures;
pub mod gssapi;
pub mod identities;
pub mod jaas;
pub mod kerberos;
pub mod outside;
pub mod random;
pub mod sasl;
pub mod secret;
pub mod store;
pub mod tls;

pub use secret::Secret;
