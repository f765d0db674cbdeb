//! The id of the ensemble of a server.

use std::path::Path;
use std::sync::Arc;

use zebu_proto::{EnsembleId, Identity};
use zebu_store::{EnsembleFile, OsVfs};

use crate::admin::get;
use crate::members::{client_of, initialized};
use crate::running::{Running, wait};

fn file(files: &Path) -> EnsembleFile {
    EnsembleFile::new(Arc::new(OsVfs), files.parent().unwrap())
}

fn identity(running: &Running) -> Identity {
    file(&running.files()).read().unwrap().unwrap_or_default()
}

/// PAI-43.
#[test]
fn members_agree_on_an_id_and_refuse_one_of_another_ensemble() {
    let (start, mut members) = initialized(&["admin.enableServer=true", "admin.serverPort=0"]);
    wait("all know the id", || members.iter().all(|it| identity(it).settled().is_some()));
    let own = identity(&members[0]);
    assert!(members.iter().all(|member| identity(member) == own));
    let id = own.settled().unwrap().to_string();
    let page = |member: &Running| get(member.admin_port(), "/ensemble", "").text();
    for member in &members {
        let page = page(member);
        assert!(page.contains(&id) && page.contains("\"settled\""), "{page}");
    }
    let follows = |member: &Running| member.word("srvr").contains("Mode: follower");
    let place = members.iter().position(follows).expect("two of three follow");
    let stopped = members.remove(place);
    let path = stopped.files();
    drop(stopped);
    let other = EnsembleId(!own.settled().unwrap().0);
    file(&path).write(Identity::Settled(other)).unwrap();
    let stray = start(place + 1);
    let why = format!("belongs to ensemble {id}, and this server's data to ensemble {other}");
    wait("it is refused", || page(&stray).contains(&why));
    assert_eq!(identity(&stray), Identity::Settled(other));
    for member in &members {
        client_of(member).close();
        assert_eq!(identity(member), own);
    }
    drop(stray);
    std::fs::remove_file(file(&path).path()).unwrap();
    let again = start(place + 1);
    client_of(&again).close();
    wait("it knows the id again", || identity(&again) == own);
}

#[test]
fn a_server_that_runs_alone_makes_an_id_and_keeps_it() {
    let prometheus = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    let settings = [prometheus, "metricsProvider.httpPort=0"];
    let running = Running::new(&settings);
    let own = identity(&running);
    let id = own.settled().expect("it decides alone").to_string();
    let page = get(running.server().metrics_port().unwrap(), "/metrics", "").text();
    assert!(page.contains(&format!("zebu_ensemble_info{{key=\"{id}\"}} 1.0\n")), "{page}");
    let running = running.restart(&settings);
    assert_eq!(identity(&running), own);
    // A damaged file counts as missing.
    let path = file(&running.files()).path();
    let dir = running.stop();
    std::fs::write(&path, "x").unwrap();
    let again = Running::on(dir.path(), &settings);
    assert!(identity(&again).contradicts(own));
}
