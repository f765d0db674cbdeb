//! `node-zookeeper-client`, the pure JavaScript client from npm.

use std::process::Command;

use zebu_interop::deps;
use zebu_interop::normalise::text;
use zebu_interop::run::succeed;
use zebu_interop::scenario::same;
use zebu_interop::server::{Options, PATIENCE};

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn node_client() {
    same("node", &Options::default(), |server| {
        let mut node = Command::new("node");
        node.arg(deps::client("node/scenario.js")).arg(server.connect_string());
        node.env("NODE_PATH", deps::node_modules());
        Ok(text(&succeed(&mut node, 2 * PATIENCE)?))
    });
}
