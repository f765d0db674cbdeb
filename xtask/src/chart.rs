//! `cargo xtask chart`: the Helm chart in `deploy/helm`, rendered by helm and held against
//! Kubernetes' own schemas, and the plain manifests that are made of it.
//!
//! helm and kubectl-validate are built by `go`, which takes minutes, so this is no part of
//! `cargo xtask test`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::deps;
use crate::steps::{root, run};

/// Values with which the chart must be valid, as helm takes them.
const VALID: [&[&str]; 6] = [
    &[],
    &["replicas=1", "persistence.enabled=false", "metrics.enabled=false"],
    &["replicas=5", "persistence.logSize=4Gi", "persistence.storageClass=fast"],
    &["tls.client.secret=a", "tls.quorum.secret=b", "tls.client.clientAuth=need", "image.tag=v1"],
    &["replicas=5", "superUser.secret=s"],
    &[
        "spread.host=DoNotSchedule",
        "priorityClassName=high",
        "nodeSelector.disk=ssd",
        "podLabels.a=b",
    ],
];

/// Renders a release named `zebu`. A helm that `go` has built assumes an old version of Kubernetes.
const TEMPLATE: [&str; 5] = ["template", "zebu", "zebu", "--kube-version", "1.30.0"];

/// Values that the chart's schema refuses.
const REFUSED: [&str; 7] = [
    "replicas=0",
    "replicas=10",
    "replica=3",
    "config.dataDir=/elsewhere",
    "config.snapCount=1 2",
    "tls.client.clientAuth=maybe",
    "ports.client=70000",
];

/// Renders and validates the chart. Writes the plain manifests if `write` is true, and compares
/// them otherwise.
pub(crate) fn check(write: bool) -> Result<()> {
    let programs = deps::install_chart()?;
    let helm = |words: &[&str]| {
        let mut helm = Command::new(programs.join("helm"));
        helm.args(words).current_dir(root().join("deploy/helm"));
        helm
    };
    run(helm(&["lint", "--strict", "zebu"]))?;
    for values in REFUSED {
        let output = helm(&[&TEMPLATE[..], &["--set", values]].concat()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let is_schema = said.contains("specifications of the schema");
        ensure!(!output.status.success() && is_schema, "{values} is not refused: {said}");
    }
    for values in VALID {
        let text = render(helm(&TEMPLATE), values)?;
        validate(&programs, &text).with_context(|| format!("{values:?}"))?;
        println!("valid: {values:?}");
    }
    let text = render(helm(&TEMPLATE), &["image.repository=zebu"])?;
    let path = root().join("deploy/kubernetes/zebu.yaml");
    let plain = format!("{PLAIN}{}", without_helm(&text));
    validate(&programs, &plain)?;
    let slip = plain.replace("maxUnavailable:", "maxUnavailabel:");
    ensure!(validate(&programs, &slip).is_err(), "a slip in the manifests is not noticed");
    if write {
        fs::write(&path, plain)?;
    } else {
        let found = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        ensure!(
            found == plain,
            "{} is not what the chart gives\nhint: cargo xtask chart --write",
            path.display()
        );
    }
    Ok(())
}

/// The header of the plain manifests.
const PLAIN: &str = "\
# An ensemble of three, for those without Helm: kubectl apply -f zebu.yaml
# Made by `cargo xtask chart --write` from deploy/helm/zebu, for the namespace `default`: a change of the namespace also
# changes the names in ZOO_SERVERS.
";

/// Removes the parts that only Helm needs.
fn without_helm(text: &str) -> String {
    let is_helms = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("helm.sh/chart:")
            || line.starts_with("app.kubernetes.io/managed-by:")
            || line.starts_with("# Source:")
    };
    text.lines().filter(|line| !is_helms(line)).map(|line| format!("{line}\n")).collect()
}

fn render(mut helm: Command, values: &[&str]) -> Result<String> {
    for value in values {
        helm.args(["--set", value]);
    }
    let output = helm.output().context("helm")?;
    ensure!(output.status.success(), "{values:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn validate(programs: &Path, text: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path: PathBuf = folder.path().join("manifest.yaml");
    fs::write(&path, text)?;
    let output = Command::new(programs.join("kubectl-validate")).arg(&path).output()?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&said));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_manifests_do_not_speak_of_helm() {
        let text = "---\n# Source: zebu/a.yaml\n# why\na:\n    helm.sh/chart: zebu\n    b: c\n";
        assert_eq!(without_helm(text), "---\n# why\na:\n    b: c\n");
    }
}
