//! `cargo xtask book` runs this program to build the book in the given folder.

use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).context("name the folder of the book")?;
    zebu_book::build(&PathBuf::from(folder))
}
