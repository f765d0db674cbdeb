//! The whole check, and configurations for the tests of its parts.

use std::fs;

use zebu_config::ConfigError;
use zebu_testkit::ports::free_port;

use super::*;

fn args(config: &Path) -> DoctorArgs {
    DoctorArgs {
        configuration: ConfigArgs { config: config.to_owned(), ..ConfigArgs::default() },
        credentials: CredentialArgs::default(),
        only: Vec::new(),
        skip: Vec::new(),
        offline: false,
        timeout: 10_000,
        json: false,
        strict: false,
    }
}

/// Loads `zoo.cfg` with this text; a dynamic configuration file `/dynamic` has a line `myid=1`.
fn loaded(text: &str, myid: Option<&str>) -> Result<Loaded, ConfigError> {
    let read = |path: &Path| match (path.to_str().unwrap(), myid) {
        ("zoo.cfg", _) => Ok(text.as_bytes().to_vec()),
        ("/dynamic", _) => Ok(b"myid=1\nserver.1=a:1:2;3\nserver.2=b:1:2;3\n".to_vec()),
        ("/d/myid", Some(id)) => Ok(id.as_bytes().to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    args(Path::new("zoo.cfg")).configuration.load(Vec::new(), &read)
}

/// Loads a valid configuration.
pub(super) fn config(text: &str, myid: Option<&str>) -> Loaded {
    loaded(text, myid).unwrap()
}

/// Loads an invalid configuration.
pub(super) fn refusal(text: &str, myid: Option<&str>) -> ConfigError {
    loaded(text, myid).unwrap_err()
}

#[test]
fn errors_of_the_configuration_end_the_check() {
    let root = tempfile::tempdir().unwrap();
    let report = check(&args(&root.path().join("nowhere.cfg")), &Access::default());
    assert_eq!(report.worst(), Some(Severity::Error));
    assert_eq!(report.checked, [Check::Configuration]);
    assert_eq!(report.skipped.len(), Check::ALL.len() - 1);
}

#[test]
fn what_is_asked_for_is_checked() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    fs::create_dir(&data).unwrap();
    let file = root.path().join("zoo.cfg");
    let text = format!(
        "dataDir={}\nclientPortAddress=127.0.0.1\nclientPort={}\n",
        data.display(),
        free_port()
    );
    fs::write(&file, text).unwrap();
    let mut args = args(&file);
    args.only = vec![Check::Directories, Check::Peers];
    assert_eq!(check(&args, &Access::default()).checked, [Check::Directories, Check::Peers]);
    args.offline = true;
    assert_eq!(check(&args, &Access::default()).skipped, [(Check::Peers, "--offline".to_owned())]);
    args.only.clear();
    args.skip = vec![Check::Disks, Check::Clocks];
    let report = check(&args, &Access::default());
    assert!(!report.checked.contains(&Check::Disks) && report.checked.contains(&Check::Limits));
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn data_of_a_member_are_known() {
    let root = tempfile::tempdir().unwrap();
    let config = Config::embedded(root.path());
    assert!(!was_member(&config));
    fs::create_dir(root.path().join("version-2")).unwrap();
    fs::write(root.path().join("version-2/acceptedEpoch"), b"1").unwrap();
    assert!(was_member(&config));
}
