//! Metrics of requests, replication and commits; digests; quotas; and the facts that four-letter
//! words show.

pub mod commit_stage;
pub mod digests;
pub mod lacking;
pub mod phases;
pub mod quota_warnings;
pub mod replication;
pub mod requests;
pub mod server_facts;
