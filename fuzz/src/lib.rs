//! libFuzzer programs: each runs the target of its name on every input.

pub use {libfuzzer_sys, zebu_fuzz_targets};

/// A program for the target of that name.
#[macro_export]
macro_rules! program {
    ($name:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            const TARGET: $crate::zebu_fuzz_targets::Target =
                $crate::zebu_fuzz_targets::find($name);
            (TARGET.run)(bytes);
        });
    };
}
