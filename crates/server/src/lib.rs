//! Not written yet.

pub mod cli;
pub mod config;
pub mod four_letter;
pub mod metrics;
pub mod properties;
