#![no_main]
//! The target of this name, for libFuzzer.

zebu_fuzz::program!("ocsp");
