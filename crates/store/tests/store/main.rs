//! The store as a whole, over the original's files and over disks that fail.

mod crash;
mod damage;
mod fault;
mod fixtures;
mod history;
mod hostile;
mod install;
mod log_repair;
mod member;
mod purge;
mod script;
mod scrub;
mod support;
mod truncate;
mod unreadable;
