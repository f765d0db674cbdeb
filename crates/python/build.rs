//! The arguments that a linker needs for a library whose missing symbols come from the interpreter
//! that loads it.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
