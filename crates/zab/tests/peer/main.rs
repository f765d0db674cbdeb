//! Scripts: each line after `> ` is an input of a server, and the lines below it are the server's
//! outputs.
//!
//! Its disk is fast unless a script says otherwise, and its election network is reliable. The
//! output leaves out its election messages unless the script shows them. `UPDATE_EXPECT=1` rewrites
//! the scripts; read the difference before you keep it.

mod run;

use std::path::Path;

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer/scripts");
    zebu_testkit::scripts::check(&folder, run::script);
}
