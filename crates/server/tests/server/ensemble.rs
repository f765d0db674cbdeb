//! What is not built yet is refused, not run without.

use zebu_server::Server;
use zebu_server::cli::StartError;

use crate::running::config;

#[test]
fn an_ensemble_with_what_is_missing_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("myid"), "1").unwrap();
    let settings = [
        "server.1=localhost:1:2",
        "server.2=localhost:3:4",
        "initLimit=5",
        "syncLimit=5",
        "reconfigEnabled=true",
    ];
    let Err(fault) = Server::start(config(dir.path(), &settings), Vec::new()) else {
        panic!("it runs")
    };
    let fault = fault.downcast::<StartError>().expect("a fault of the configuration");
    assert_eq!(fault.exit_code(), 2);
    assert!(fault.to_string().contains("reconfigEnabled"), "{fault}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "myid only");
}
