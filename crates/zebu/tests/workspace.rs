//! The first commands in the documents name no package, so cargo must find their targets.

use std::process::Command;

use serde_json::Value;

/// The names of all targets of one kind in the packages that cargo uses by default.
fn default_targets(kind: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo is there, it runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let default = metadata["workspace_default_members"].as_array().expect("a list");
    let packages = metadata["packages"].as_array().expect("a list").iter();
    let targets = packages
        .filter(|package| default.contains(&package["id"]))
        .flat_map(|package| package["targets"].as_array().expect("a list"))
        .filter(|target| {
            target["kind"].as_array().is_some_and(|kinds| kinds.contains(&kind.into()))
        });
    targets.map(|target| target["name"].as_str().expect("a name").to_owned()).collect()
}

/// `cargo run --release -- server`, the first command of the README.
#[test]
fn cargo_run_means_zebu() {
    assert_eq!(default_targets("bin"), ["zebu"]);
}

/// `cargo run --example lock -- …`, as the examples' own page says.
#[test]
fn cargo_run_finds_the_examples() {
    let examples = default_targets("example");
    let page = include_str!("../../../examples/README.md");
    let named =
        page.split("cargo run --example ").skip(1).map(|rest| rest.split(' ').next().unwrap());
    let mut count = 0;
    for name in named {
        assert!(examples.iter().any(|example| example == name), "{name}");
        count += 1;
    }
    assert!(count > 10, "the page names its programs");
}
