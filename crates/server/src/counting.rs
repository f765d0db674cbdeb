//! What is counted and shown: metrics of requests, of replication and of commits, digests, quotas, and facts for the four-letter words.

pub mod commits;
pub mod digests;
pub mod phases;
pub mod quota_warnings;
pub mod replication;
pub mod requests;
pub mod server_facts;
