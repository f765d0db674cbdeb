//! The other servers of an ensemble, and the network between them.

pub mod evidence;
pub mod identity;
pub mod member;
pub mod membership;
pub mod peers;
