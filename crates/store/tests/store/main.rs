//! The store as a whole, over the original's files and over disks that fail.

mod fixtures;
mod support;
