//! kazoo: the client, its recipes, and lost connections.

use std::process::Command;

use zebu_interop::deps;
use zebu_interop::normalise::text;
use zebu_interop::run::succeed;
use zebu_interop::scenario::same;
use zebu_interop::server::{Options, PATIENCE};

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn kazoo_client_and_recipes() {
    same("kazoo", &Options::default(), |server| {
        let mut python = Command::new(deps::python());
        python.arg(deps::client("kazoo/scenario.py")).arg(server.connect_string());
        python.env("PYTHONDONTWRITEBYTECODE", "1");
        Ok(text(&succeed(&mut python, 3 * PATIENCE)?))
    });
}
