//! The store as a whole, over the original's files and over disks that fail.

mod crash;
mod damage;
mod fault;
mod fixtures;
mod hostile;
mod script;
mod support;
