//! TLS and SASL without sockets: what the server, the network between servers and the clients share.
//!
//! Owns key and trust stores ([`store`]), what a certificate says ([`certificate`]), JAAS files ([`jaas`]), SASL's
//! DIGEST-MD5 ([`digest_md5`]) and GSSAPI ([`gssapi`]), what every mechanism of SASL is to a server ([`sasl`]), the configurations of TLS
//! ([`tls`]), Kerberos names ([`kerberos`]) and secrets that cannot be printed ([`Secret`]). It opens no socket and starts no thread. Only [`store`] and [`jaas`] read files, each once
//! and whole; their callers decide when a file is read again.

mod der;
mod pbe;

pub mod certificate;
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
