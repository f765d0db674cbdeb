//! The bill of materials: which packages are in the program, in which versions, under which
//! licenses, from where, and with which checksums; as CycloneDX 1.5.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{Parts, run_tool};
use crate::steps::{cargo, root};

/// What cargo has resolved for the program's machine: packages, and which needs which.
pub(super) fn resolved(triple: Option<&str>) -> Result<Value> {
    let mut cargo = cargo(&["metadata", "--format-version", "1", "--locked", "--filter-platform"]);
    let of_this_machine = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    cargo.arg(triple.unwrap_or(&of_this_machine));
    Ok(serde_json::from_str(&run_tool(&mut cargo, "cargo")?)?)
}

/// The bill of materials of the program `zebu`.
pub(super) fn bill(parts: &Parts) -> Result<Vec<u8>> {
    let metadata = resolved(parts.triple)?;
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("Cargo.lock")?;
    bill_of(&metadata, &checksums(&lock), parts)
}

/// The SHA-256 checksums of packages from a registry, by package URL: those that cargo compares
/// before it builds.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let of = |package: &str| {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key));
            line.map(|value| value.trim_matches('"').to_owned())
        };
        let (name, version) = (value("name = ")?, value("version = ")?);
        Some((url(&name, &version), value("checksum = ")?))
    };
    lock.split("[[package]]").filter_map(of).collect()
}

fn bill_of(
    metadata: &Value,
    checksums: &BTreeMap<String, String>,
    parts: &Parts,
) -> Result<Vec<u8>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .map(|package| (text(&package["id"]), package))
        .collect();
    let nodes: BTreeMap<String, Value> = list(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|node| (text(&node["id"]), node))
        .collect();
    let program = packages.iter().find(|(_, package)| package["name"] == "zebu");
    let (program, _) = program.context("cargo metadata knows no package zebu")?;

    let mut found = BTreeSet::new();
    let mut waiting = vec![program.clone()];
    let mut edges = Vec::new();
    while let Some(id) = waiting.pop() {
        if !found.insert(id.clone()) {
            continue;
        }
        // Dependencies of tests are not in the program. Build dependencies are listed, because they
        // decide its content.
        let is_in = |dependency: &&Value| {
            list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev")
        };
        let dependencies = list(&nodes[&id]["deps"]);
        let dependencies: BTreeSet<String> =
            dependencies.iter().filter(is_in).map(|dependency| text(&dependency["pkg"])).collect();
        let names: Vec<String> = dependencies.iter().map(|id| reference(&packages[id])).collect();
        edges.push((reference(&packages[&id]), names));
        waiting.extend(dependencies);
    }
    edges.sort();
    let mut components: Vec<Value> = found
        .iter()
        .filter(|id| *id != program)
        .map(|id| {
            let package = &packages[id];
            let mut component = json!({
                "type": "library",
                "bom-ref": reference(package),
                "name": package["name"],
                "version": package["version"],
                "purl": reference(package),
                "licenses": [{ "expression": text(&package["license"]).replace('/', " OR ") }],
            });
            if let Some(checksum) = checksums.get(&reference(package)) {
                component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
            }
            // A package of this repository has no source.
            let source = package["source"].as_str().unwrap_or("this repository");
            component["properties"] = json!([{ "name": "cargo:source", "value": source }]);
            if let Some(repository) = package["repository"].as_str() {
                component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
            }
            component
        })
        .collect();
    components.sort_by_key(|component| text(&component["purl"]));
    let time = jiff::Timestamp::from_second(i64::try_from(parts.time)?)?.to_string();
    let edges: Vec<Value> =
        edges.into_iter().map(|(name, on)| json!({ "ref": name, "dependsOn": on })).collect();
    Ok(serde_json::to_vec_pretty(&json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {
                "type": "application",
                "bom-ref": reference(&packages[program]),
                "name": "zebu",
                "version": parts.version,
                "licenses": [{ "expression": "Apache-2.0" }],
            },
        },
        "components": components,
        "dependencies": edges,
    }))?)
}

/// The package URL.
fn reference(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    url(text("name"), text("version"))
}

fn url(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_program_is_listed_and_what_only_tests_need_is_not() {
        let package = |name: &str| {
            let source = (name == "a").then_some("registry+x");
            json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source })
        };
        let on = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let packages = ["zebu", "a", "b", "t"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                { "id": "zebu", "deps": [on("a", Value::Null), on("t", json!("dev"))] },
                { "id": "a", "deps": [on("b", json!("build"))] },
                { "id": "b", "deps": [] },
                { "id": "t", "deps": [] },
            ] },
        });
        let parts = Parts { version: "9".to_owned(), time: 0, ..Parts::default() };
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\n\
                    checksum = \"0a1b\"\n\n[[package]]\nname = \"b\"\nversion = \"1.0.0\"\n";
        let bill = bill_of(&metadata, &checksums(lock), &parts).unwrap();
        let bill: Value = serde_json::from_slice(&bill).unwrap();
        let names = bill["components"].as_array().unwrap().iter();
        let names: Vec<_> = names.map(|component| component["purl"].as_str().unwrap()).collect();
        assert_eq!(names, ["pkg:cargo/a@1.0.0", "pkg:cargo/b@1.0.0"]);
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        let [a, b] = [0, 1].map(|at| &bill["components"][at]);
        assert_eq!(a["hashes"], json!([{ "alg": "SHA-256", "content": "0a1b" }]));
        assert_eq!(a["properties"][0]["value"], "registry+x");
        assert_eq!(
            (&b["hashes"], &b["properties"][0]["value"]),
            (&Value::Null, &json!("this repository"))
        );
        let on = &bill["dependencies"][0];
        assert_eq!(
            (on["ref"].as_str(), &on["dependsOn"]),
            (Some("pkg:cargo/a@1.0.0"), &json!(["pkg:cargo/b@1.0.0"]))
        );
        assert_eq!(bill["metadata"]["timestamp"], "1970-01-01T00:00:00Z");
    }
}
