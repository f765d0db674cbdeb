//! The answers of the HTTP server, without sockets.

use std::sync::atomic::Ordering;

use zebu_proto::{ServerId, Zxid};
use zebu_zab::Learners;
use zebu_zab::config::{Member, Membership};

use super::*;
use crate::answered::{Answered, runtime};
use crate::fake::{Fake, SESSION, SNAPSHOT};
use crate::four_letter::{LeaderFacts, MemberFacts, ProposalSizes, Watcher};
use crate::served::{EnsembleFacts, ObserverFacts};

struct Asked {
    fake: Arc<Fake>,
    router: Router,
}

fn options() -> Options {
    Options {
        command_url: "/commands".to_owned(),
        snapshot: true,
        restore: true,
        interval: Duration::ZERO,
        idle_timeout: Duration::from_secs(30),
        started: Started {
            configuration: "tickTime=5\n".to_owned(),
            properties: [("zookeeper.a".to_owned(), "b".to_owned())].into(),
        },
        console: None,
    }
}

fn asked(fake: Fake, options: Options) -> Asked {
    let fake = Arc::new(fake);
    let router = admin(fake.clone(), options, Watched::default());
    Asked { fake, router }
}

impl Asked {
    fn send(&self, method: &str, url: &str, auth: Option<&str>) -> Answered {
        let mut request = Request::builder().method(method).uri(url);
        if let Some(auth) = auth {
            request = request.header(AUTHORIZATION, auth);
        }
        let request = request.body(Body::empty()).unwrap();
        Answered::to(request, &self.router, &runtime())
    }

    fn hand_in(&self, url: &str, auth: Option<&str>, body: Body) -> Answered {
        let mut request = Request::builder().method("POST").uri(url);
        if let Some(auth) = auth {
            request = request.header(AUTHORIZATION, auth);
        }
        Answered::to(request.body(body).unwrap(), &self.router, &runtime())
    }

    fn get(&self, name: &str) -> Answered {
        self.send("GET", &format!("/commands/{name}"), None)
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.fake.asked.lock().unwrap())
    }
}

#[track_caller]
fn check(asked: &Asked, name: &str, expected: &str) {
    let answered = asked.get(name);
    assert_eq!((answered.status, answered.text()), (200, expected), "{name}");
}

fn member(id: i64, spec: &str) -> Member {
    Member::parse(ServerId(id), spec, false).unwrap()
}

/// A leader with one observer.
fn leader() -> Fake {
    let members = [
        member(1, "10.0.0.1:2888:3888;0.0.0.0:2181"),
        member(2, "b:2888:3888;2181"),
        member(3, "c:2888:3888:observer"),
    ];
    let proposals = ProposalSizes { last: 7, min: 5, max: 9 };
    let learners = Learners { connected: 2, followers: 1, without_vote: 0, observers: 1 };
    let leads = LeaderFacts { learners, pending_syncs: 0, uptime_ms: 5, proposals };
    Fake {
        serving: Some(Mode::Leader),
        member: Some(MemberFacts {
            me: ServerId(1),
            observes: false,
            init_ticks: 10,
            sync_ticks: 5,
            election_ports: vec![3888],
            learner_ports: vec![2888],
            membership: String::new(),
            voters: 2,
            local_sessions: false,
            leader: Some(leads),
            observers: None,
            master: None,
            lacks: Vec::new(),
        }),
        ensemble: Some(EnsembleFacts {
            me: ServerId(1),
            members: Arc::new(Membership::majority(members, Zxid(0x1_0000_0000))),
            leader: Some(ServerId(1)),
        }),
        observers: vec![ObserverFacts {
            remote: ([10, 0, 0, 3], 4000).into(),
            server: ServerId(3),
            established_ms: 1,
            queued_packets: 2,
            queued_bytes: 3,
            packets_received: 4,
            packets_sent: 5,
            requests: 6,
            last_zxid: Zxid(7),
        }],
        ..Fake::default()
    }
}

#[test]
fn every_command_answers_by_all_its_names() {
    let asked = asked(leader(), options());
    for command in commands::COMMANDS {
        for name in [&[command.name], command.also].concat() {
            let auth = Some("digest root:root");
            let method = if command.name == "restore" { "POST" } else { "GET" };
            let answered = asked.send(method, &format!("/commands/{name}?streaming=false"), auth);
            assert_eq!(answered.json()["command"], command.name, "{name}");
            let own = ["set_trace_mask", "restore"].contains(&command.name);
            assert_eq!(answered.json()["error"].is_null(), !own, "{name}");
        }
    }
    let list = asked.send("GET", "/commands", None);
    assert_eq!(list.text(), asked.send("GET", "/commands/", None).text());
    assert!(list.text().starts_with(
        "<a href=\"/commands/configuration\">configuration</a>\n<br/>\n<a href=\"/commands/connection_stat_reset\">"
    ));
    assert_eq!(list.text().matches("<br/>").count(), commands::COMMANDS.len());
}

#[test]
fn answers_are_those_of_the_original() {
    let asked = asked(Fake::default(), options());
    check(&asked, "ruok", "{\n  \"command\" : \"ruok\",\n  \"error\" : null\n}");
    check(
        &asked,
        "cons",
        r#"{
  "connections" : [ {
    "remote_socket_address" : "127.0.0.1:40632",
    "interest_ops" : 1,
    "outstanding_requests" : 0,
    "packets_received" : 144,
    "packets_sent" : 144,
    "session_id" : 72058047071059968,
    "last_operation" : "EXIS",
    "established" : 1795272835528,
    "session_timeout" : 10000,
    "last_cxid" : 900,
    "last_zxid" : 141,
    "last_response_time" : 6917314,
    "last_latency" : 1,
    "min_latency" : 0,
    "avg_latency" : 1,
    "max_latency" : 27
  }, {
    "remote_socket_address" : "127.0.0.1:40642",
    "interest_ops" : 1,
    "outstanding_requests" : 0,
    "packets_received" : 0,
    "packets_sent" : 0
  }, {
    "remote_socket_address" : "127.0.0.1:40660",
    "interest_ops" : 0,
    "outstanding_requests" : 0,
    "packets_received" : 1,
    "packets_sent" : 0
  } ],
  "secure_connections" : [ ],
  "command" : "connections",
  "error" : null
}"#,
    );
    check(
        &asked,
        "last_snapshot",
        "{\n  \"zxid\" : \"8c\",\n  \"timestamp\" : 1795272835,\n  \"command\" : \"last_snapshot\",\n  \"error\" : null\n}",
    );
    check(
        &asked,
        "leader",
        "{\n  \"error\" : \"server is not initialized\",\n  \"command\" : \"leader\"\n}",
    );
    check(
        &asked,
        "zabstate",
        "{\n  \"voting\" : false,\n  \"zabstate\" : \"\",\n  \"command\" : \"zabstate\",\n  \"error\" : null\n}",
    );
    check(
        &asked,
        "voting_view",
        "{\n  \"current_config\" : { },\n  \"command\" : \"voting_view\",\n  \"error\" : null\n}",
    );
    check(
        &asked,
        "nonsense",
        "{\n  \"command\" : \"nonsense\",\n  \"error\" : \"Unknown command: nonsense\"\n}",
    );
    let monitor = asked.get("monitor").json();
    assert_eq!(monitor["server_state"], "standalone");
    assert_eq!(monitor["znode_count"], 145);
    assert_eq!(monitor["avg_latency"], 1.0);
    assert_eq!(monitor["app_quota_count_limit_per_namespace"], 10);
    assert_eq!(monitor["cnt_readlatency"], 0);
    assert_eq!(asked.get("hash").json()["digests"][0]["zxid"], 0x80);
    assert_eq!(asked.get("icfg").json()["initial_configuration"], "tickTime=5\n");
    assert_eq!(asked.get("sysp").json()["zookeeper.a"], "b");
    assert_eq!(asked.get("conf").json()["client_port"], 22014);
    assert_eq!(asked.get("srvr").json()["server_stats"]["last_processed_zxid"], 0x8d);
}

#[test]
fn long_answers_come_in_pages_without_a_seam() {
    let mut fake = Fake::default();
    fake.watchers.push(Watcher { path: "/nope".to_owned(), session: zebu_proto::SessionId(5) });
    let asked = asked(fake, options());
    let session = SESSION.0;
    check(
        &asked,
        "watches_by_path",
        &format!(
            "{{\n  \"path_to_session_ids\" : {{\n    \"/n0\" : [ {session} ],\n    \"/n1\" : [ {session} ],\n    \
             \"/nope\" : [ {session}, 5 ]\n  }},\n  \"command\" : \"watches_by_path\",\n  \"error\" : null\n}}"
        ),
    );
    check(
        &asked,
        "watches",
        &format!(
            "{{\n  \"session_id_to_watched_paths\" : {{\n    \"{session}\" : [ \"/n0\", \"/n1\", \"/nope\" ],\n    \
             \"5\" : [ \"/nope\" ]\n  }},\n  \"command\" : \"watches\",\n  \"error\" : null\n}}"
        ),
    );
    let dump = asked.get("dump");
    let ephemerals = &dump.json()["session_id_to_ephemeral_paths"];
    assert_eq!(ephemerals[session.to_string()], serde_json::json!(["/n0", "/n1"]));
    assert_eq!(dump.json()["expiry_time_to_session_ids"]["1795272846000"][0], session);
    assert_eq!(asked.asked(), ["renew_sessions"]);
    let follower = Fake { serving: Some(Mode::Follower), ..Fake::default() };
    let dump = self::asked(follower, options()).get("dump").json();
    let times = dump["expiry_time_to_session_ids"].as_object().unwrap();
    assert_eq!(times.keys().collect::<Vec<_>>(), ["1795272844000"], "local ones only");
}

#[test]
fn nothing_is_watched_where_nobody_watches() {
    let asked = asked(Fake { watchers: Vec::new(), ..Fake::default() }, options());
    let text = "{\n  \"path_to_session_ids\" : { },\n  \"command\" : \"watches_by_path\",\n  \"error\" : null\n}";
    check(&asked, "watches_by_path", text);
}

#[test]
fn a_member_tells_of_its_ensemble() {
    let asked = asked(leader(), options());
    let lead = asked.get("lead").json();
    assert_eq!((&lead["is_leader"], &lead["leader_id"]), (&true.into(), &1.into()));
    assert_eq!(lead["leader_ip"], "10.0.0.1");
    let observers = asked.get("observers").json();
    assert_eq!(observers["synced_observers"], 1);
    assert_eq!(observers["observers"][0]["remote_socket_address"], "/10.0.0.3:4000");
    assert_eq!(observers["observers"][0]["requests"], 6);
    let view = asked.get("voting_view").json();
    let view = view["current_config"].as_object().unwrap();
    assert_eq!(view.keys().collect::<Vec<_>>(), ["1", "2"], "an observer has no vote");
    assert_eq!(view["2"]["server_addresses"], serde_json::json!(["b:2888"]));
    assert_eq!(view["2"]["client_address"], "0.0.0.0:2181");
    let state = asked.get("zabstate").json();
    assert_eq!((&state["myid"], &state["voting"]), (&1.into(), &true.into()));
    assert_eq!((&state["zab_epoch"], &state["zab_counter"]), (&0.into(), &0x8d.into()));
    assert_eq!(state["quorum_address"]["all_ports"], serde_json::json!([2888]));
    assert_eq!(state["zabstate"], "broadcast");
    assert_eq!(asked.get("conf").json()["server_id"], 1);
    assert_eq!(asked.get("srvr").json()["proposal_stats"]["max_buffer_size"], 9);
    assert_eq!(asked.get("mntr").json()["peer_state"], "leading - broadcast");
}

#[test]
fn a_member_without_a_leader_answers_what_needs_none() {
    let mut fake = leader();
    fake.serving = None;
    fake.ensemble.as_mut().unwrap().leader = None;
    let asked = asked(fake, options());
    let not_serving = "This ZooKeeper instance is not currently serving requests";
    for command in commands::COMMANDS {
        let auth = Some("digest root:root");
        let error = asked.send("GET", &format!("/commands/{}", command.name), auth).json();
        let is_refused = error["error"] == not_serving;
        assert_eq!(is_refused, command.needs_serving, "{}: {error}", command.name);
    }
    assert_eq!(asked.get("zabstate").json()["zabstate"], "election");
    assert_eq!(asked.get("monitor").json()["server_state"], "leaderelection");
    assert_eq!(asked.get("monitor").json().get("peer_state"), None);
}

#[test]
fn commands_that_change_something_do_that_and_no_more() {
    let asked = asked(Fake::default(), options());
    for (command, what) in [
        ("crst", "reset_connections"),
        ("srst", "reset_stats"),
        ("orst", "reset_observers"),
        ("stmk?traceMask=12", "mask 12"),
    ] {
        assert!(asked.get(command).json()["error"].is_null());
        assert_eq!(asked.asked(), [what]);
    }
    let error = "setTraceMask requires long traceMask argument";
    for command in ["stmk", "stmk?traceMask=x"] {
        assert_eq!(asked.get(command).error(), (200, error.to_owned()));
    }
    assert_eq!(asked.asked(), [""; 0]);
}

/// LGG-05.
#[test]
fn levels_are_changed_by_whoever_has_every_permission_on_the_root() {
    let asked = asked(Fake::default(), options());
    let status = |auth| asked.send("POST", "/loggers?logger=ROOT&level=loud", auth).status;
    assert_eq!(status(None), 401);
    assert_eq!(status(Some("digest nobody:x")), 403);
    // There is no such level, or the log does not belong to this process's server.
    assert_eq!(status(Some("digest root:root")), 400);
    assert_eq!(asked.send("DELETE", "/loggers", None).status, 405);
    let elsewhere = Options { command_url: "/loggers".to_owned(), ..options() };
    let asked = super::tests::asked(Fake::default(), elsewhere);
    assert!(asked.send("GET", "/loggers", None).text().contains("<a href="));
}

#[test]
fn methods() {
    let asked = asked(Fake::default(), options());
    let status = |method: &str, url: &str| asked.send(method, url, None).status;
    assert_eq!(status("HEAD", "/commands/ruok"), 200);
    assert_eq!(status("TRACE", "/commands/ruok"), 403);
    assert_eq!(status("POST", "/commands/srst"), 405);
    assert_eq!(status("DELETE", "/commands/ruok"), 405);
    assert_eq!(status("GET", "/nothing"), 404);
    assert_eq!(asked.asked(), [""; 0]);
}

#[test]
fn the_path_of_the_commands_can_be_another_one() {
    for (url, at) in [("/admin/cmd", "/admin/cmd/ruok"), ("", "/ruok")] {
        let asked = asked(Fake::default(), Options { command_url: url.to_owned(), ..options() });
        assert_eq!(asked.send("GET", at, None).status, 200);
        assert_eq!(asked.send("GET", "/health/live", None).status, 200);
        let list = asked.send("GET", &format!("{url}/"), None);
        assert!(list.text().contains(&format!("<a href=\"{at}\">ruok</a>")));
        assert_ne!(
            asked.send("GET", "/commands/ruok", None).text(),
            asked.send("GET", at, None).text()
        );
    }
}

#[test]
fn a_snapshot_is_for_those_who_may_do_everything() {
    let asked = asked(Fake::default(), options());
    let snap = |auth| asked.send("GET", "/commands/snapshot", auth);
    let missing = "Auth info is missing for the command".to_owned();
    assert_eq!(snap(None).error(), (401, missing));
    for auth in ["digest", "nope root:root", ""] {
        assert_eq!(snap(Some(auth)).error(), (401, "Not authenticated".to_owned()), "{auth}");
    }
    assert_eq!(snap(Some("digest u:p")).error(), (403, "Not authorized".to_owned()));
    assert_eq!(asked.asked(), [""; 0]);
    let taken = snap(Some("digest root:root"));
    assert_eq!((taken.status, taken.header("content-type")), (200, "application/octet-stream"));
    assert_eq!((taken.header("last_zxid"), taken.header("snapshot_size")), ("0x8d", "100000"));
    assert_eq!(taken.body, SNAPSHOT);
    let taken = asked.send("GET", "/commands/snapshot?streaming=false", Some("digest root:root"));
    assert_eq!(taken.text(), "{\n  \"command\" : \"snapshot\",\n  \"error\" : null\n}");
    assert_eq!(taken.header("last_zxid"), "0x8d");
}

#[test]
fn snapshots_are_limited_and_can_be_switched_off() {
    let limited = Options { interval: Duration::from_secs(3600), ..options() };
    let limited = asked(Fake::default(), limited);
    let snap = |asked: &Asked| asked.send("GET", "/commands/snap", Some("digest root:root"));
    assert_eq!([snap(&limited).status, snap(&limited).status], [200, 429]);
    assert_eq!(limited.fake.metrics.snapshot_rate_limited_count.value(), 1);
    assert_eq!(limited.asked(), ["snapshot"]);
    let off = asked(Fake::default(), Options { snapshot: false, ..options() });
    assert_eq!(snap(&off).error(), (503, "Snapshot command is disabled".to_owned()));
    assert_eq!(off.asked(), [""; 0]);
}

#[test]
fn the_files_of_the_data_are_for_those_who_may_do_everything() {
    let asked = asked(Fake::default(), options());
    let get = |path: &str, auth| asked.send("GET", &format!("/backup/files{path}"), auth);
    for path in ["", "/log.1"] {
        assert_eq!(get(path, None).status, 401, "{path}");
        assert_eq!(get(path, Some("digest u:p")).status, 403, "{path}");
    }
    assert_eq!(asked.asked(), [""; 0]);
    let who = Some("digest root:root");
    let listed = get("", who).json();
    assert_eq!(listed, serde_json::json!({ "files": [{ "name": "log.1", "bytes": 5 }] }));
    let file = get("/log.1", who);
    assert_eq!(
        (file.status, file.header("content-length"), &file.body[..]),
        (200, "5", &b"ZKLG,"[..])
    );
    for path in ["/log.2", "/..%2Fmyid"] {
        assert_eq!(get(path, who).status, 404, "{path}");
    }
    assert_eq!(asked.asked(), ["open log.1", "open log.2", "open ../myid"]);
    let off = self::asked(Fake::default(), Options { snapshot: false, ..options() });
    assert_eq!(off.send("GET", "/backup/files", who).status, 503);
}

#[tokio::test(start_paused = true)]
async fn a_file_is_sent_no_quicker_than_the_server_permits() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(3 * READ_BYTES).unwrap();
    let body = FileBody::new(file, 3 * READ_BYTES, Arc::new(Fake::default()));
    let began = tokio::time::Instant::now();
    let sent = axum::body::to_bytes(Body::new(body), usize::MAX).await.unwrap();
    assert_eq!(sent.len() as u64, 3 * READ_BYTES);
    // The fake wants a microsecond for each byte; behind the last piece nobody waits. The clock is
    // the runtime's own.
    assert!(began.elapsed() >= Duration::from_micros(2 * READ_BYTES), "{:?}", began.elapsed());
}

#[test]
fn a_snapshot_is_restored_for_those_who_may_do_everything() {
    let asked = asked(Fake::default(), options());
    let restore = |auth, url: &str, body: &str| {
        asked.hand_in(&format!("/commands/{url}"), auth, Body::from(body.to_owned()))
    };
    assert_eq!(restore(None, "restore", "ZKSN").status, 401);
    assert_eq!(restore(Some("digest u:p"), "restore", "ZKSN").status, 403);
    assert_eq!(asked.asked(), [""; 0]);
    let root = Some("digest root:root");
    assert_eq!(
        restore(root, "rest", "ZKSN").text(),
        "{\n  \"last_zxid\" : 4294967296,\n  \"snapshot_zxid\" : 141,\n  \"znodes\" : 5,\n  \"sessions\" : 1,\n  \
         \"has_digest\" : true,\n  \"command\" : \"restore\",\n  \"error\" : null\n}"
    );
    assert_eq!(asked.asked(), ["restore ZKSN false true"]);
    for (body, status) in
        [("", 400), ("fuzzy", 400), ("busy", 409), ("ensemble", 503), ("failed", 500)]
    {
        let (found, why) = restore(root, "restore", body).error();
        assert!(found == status && why != "none", "{body}: {found} {why}");
    }
    assert_eq!(restore(root, "restore?fuzzy=true", "fuzzy").status, 200);
    assert_eq!(asked.fake.metrics.restore_error_count.value(), 5);
}

/// A corrected request need not wait, but a state is not replaced twice in a row.
#[test]
fn restores_are_limited_and_can_be_switched_off() {
    let limited = Options { interval: Duration::from_secs(3600), ..options() };
    let limited = asked(Fake::default(), limited);
    let restore = |asked: &Asked, body: &'static str| {
        asked.hand_in("/commands/restore", Some("digest root:root"), Body::from(body))
    };
    let statuses = ["fuzzy", "ZKSN", "ZKSN"].map(|body| restore(&limited, body).status);
    assert_eq!(statuses, [400, 200, 429]);
    assert_eq!(limited.fake.metrics.restore_rate_limited_count.value(), 1);
    let off = asked(Fake::default(), Options { restore: false, ..options() });
    assert_eq!(restore(&off, "ZKSN").error(), (503, "Restore command is disabled".to_owned()));
    assert_eq!(off.asked(), [""; 0]);
}

/// A body that never continues.
struct Stuck;

impl hyper::body::Body for Stuck {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Pending
    }
}

#[test]
fn a_snapshot_that_does_not_arrive_is_given_up() {
    let hasty = Options { idle_timeout: Duration::from_millis(1), ..options() };
    let asked = asked(Fake::default(), hasty);
    let body = Body::new(Stuck);
    let answered = asked.hand_in("/commands/restore", Some("digest root:root"), body);
    assert_eq!(answered.status, 400);
    assert_eq!(asked.asked(), ["restore  false false"]);
}

#[test]
fn readiness_is_serving() {
    let status = |serving: Option<Mode>, url: &str| {
        asked(Fake { serving, ..Fake::default() }, options()).send("GET", url, None).status
    };
    let role = |serving, role: &str| status(Some(serving), &format!("/health/ready?role={role}"));
    assert_eq!(status(None, "/health/ready"), 503);
    assert_eq!(status(None, "/health/live"), 200);
    assert_eq!(status(Some(Mode::ReadOnly), "/health/ready"), 503);
    for mode in [Mode::Standalone, Mode::Leader, Mode::Follower, Mode::Observer] {
        assert_eq!(status(Some(mode), "/health/ready"), 200);
        assert_eq!(role(mode, mode.name()), 200);
    }
    assert_eq!([role(Mode::Follower, "leader"), role(Mode::Standalone, "leader")], [503, 200]);
    assert_eq!(role(Mode::Leader, "boss"), 400);
    let asked = asked(Fake { serving: None, ..Fake::default() }, options());
    let answered = asked.send("GET", "/health/ready?role=leader", None).json();
    assert_eq!(
        answered["reasons"],
        serde_json::json!(["no client is served", "the role has changed"])
    );
    assert_eq!((&answered["status"], answered["role"].is_null()), (&"unavailable".into(), true));
}

#[test]
fn a_member_that_is_not_ready_says_what_it_waits_for() {
    let waits = "voters that cannot be reached: 2";
    let mut fake = Fake { serving: None, ..leader() };
    fake.member.as_mut().unwrap().lacks = vec![waits.to_owned()];
    let answered = asked(fake, options()).send("GET", "/health/ready", None).json();
    assert_eq!(answered["reasons"], serde_json::json!(["no client is served", waits]));
}

#[test]
fn a_server_that_does_not_move_neither_lives_nor_is_ready() {
    for (stands, status) in [(true, 503), (false, 200)] {
        let fake = Arc::new(Fake { stands, ..Fake::default() });
        let health = Watched::default();
        let router = admin(fake.clone(), options(), health.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let watching = health.watch(fake.clone());
            let _ = tokio::time::timeout(health::STANDSTILL_MAX * 2, watching).await;
        });
        assert_eq!(fake.turns.load(Ordering::Relaxed) == 1, stands);
        let asked = Asked { fake, router };
        for url in ["/health/live", "/health/ready"] {
            assert_eq!(asked.send("GET", url, None).status, status, "{url}");
        }
        if stands {
            let reasons = &asked.send("GET", "/health/live", None).json()["reasons"];
            assert_eq!(reasons, &serde_json::json!(["the replica takes no turns"]));
            // Damaged files are reported, but they are no reason for a restart.
            let damaged = &asked.send("GET", "/health/live", None).json()["damaged_files"];
            assert_eq!(damaged, &serde_json::json!(["damaged: /data/log.1"]));
        }
    }
}

#[test]
fn the_prometheus_page_has_facts_and_metrics() {
    let fake = Arc::new(Fake::default());
    fake.metrics.response_bytes.add(3);
    for process in [true, false] {
        let asked = Asked {
            fake: fake.clone(),
            router: prometheus(fake.clone(), PageOptions { process, top_clients: 0 }),
        };
        let page = asked.send("GET", "/metrics", None);
        assert_eq!(page.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
        let text = page.text();
        for line in [
            "znode_count 145.0",
            "response_bytes 3.0",
            "avg_latency 1.0",
            "# TYPE quota_bytes_limit_per_namespace gauge",
            "# HELP jvm_pause_time_ms Always 0: there is no JVM and no Netty, and a fault that cannot be handled ends the process.",
            "restore_error_count 0.0",
            "jvm_pause_time_ms{quantile=\"0.99\"} NaN",
            "jvm_pause_time_ms_count 0.0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(text.contains("\nquota_count_limit_per_namespace{key=\"app\"} 10.0\n"));
        assert_eq!(text.contains("process_resident_memory_bytes"), process);
        let mut types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let all = types.len();
        types.sort_unstable();
        types.dedup();
        assert_eq!(types.len(), all, "each family once");
        assert_eq!(asked.send("GET", "/", None).status, 404);
    }
}

/// The page shows a limited number of clients.
#[test]
fn the_busiest_clients_are_told_where_that_is_asked_for() {
    for (top_clients, lines) in [(0, 0), (1, 1), (5, 1)] {
        let fake = Arc::new(Fake::default());
        let options = PageOptions { process: false, top_clients };
        let asked = Asked { fake: fake.clone(), router: prometheus(fake.clone(), options) };
        let text = asked.send("GET", "/metrics", None).text().to_owned();
        let line = "\nzebu_top_client_requests{client=\"127.0.0.1\"} ";
        assert_eq!(text.matches(line).count(), lines, "{text}");
    }
}

#[test]
fn the_attributes_of_jmx_are_one_object() {
    let asked = asked(leader(), options());
    let all = asked.send("GET", "/jmx", None).json();
    assert_eq!(all["server"]["packets_received"], 145);
    assert_eq!(all["server"]["min_session_timeout"], 4000);
    assert_eq!(all["data_tree"]["last_zxid"], "0x8d");
    assert_eq!(all["ensemble"]["replicas"][2]["learner_type"], "observer");
    assert_eq!(all["leader"]["max_proposal_size"], 9);
    assert_eq!(all["learners"][0]["learner_type"], "observer");
    let alone = self::asked(Fake::default(), options()).send("GET", "/jmx", None).json();
    assert_eq!(alone["ensemble"], serde_json::Value::Null);
}

#[test]
fn a_connection_is_shown_with_its_ephemerals() {
    let asked = asked(Fake::default(), options());
    let one = asked.send("GET", &format!("/jmx/connections/{SESSION}"), None).json();
    assert_eq!(one["session_id"], SESSION.0);
    assert_eq!(one["ephemeral_nodes"], serde_json::json!(["/n0", "/n1"]));
    assert_eq!(asked.send("GET", "/jmx/connections/5", None).status, 404);
    assert_eq!(asked.send("GET", "/jmx/connections/x", None).status, 404);
    assert_eq!(
        asked.send("GET", "/jmx/connections", None).json()["connections"][0]["max_latency"],
        27
    );
}

#[test]
fn operations_are_for_who_may_do_everything_and_change_nothing_by_get() {
    let asked = asked(Fake::default(), options());
    let of = |operation: &str| format!("/jmx/connections/{SESSION}/{operation}");
    let root = Some("digest root:root");
    for operation in ["terminate_session", "terminate_connection", "reset_counters"] {
        assert_eq!(asked.send("POST", &of(operation), None).status, 401);
        assert_eq!(asked.send("POST", &of(operation), Some("digest a:b")).status, 403);
        assert_eq!(asked.send("GET", &of(operation), root).status, 405);
        assert!(asked.asked().is_empty());
        assert_eq!(asked.send("POST", &of(operation), root).error(), (200, "none".to_owned()));
        assert_eq!(asked.asked().len(), 1);
    }
    assert_eq!(asked.send("POST", "/jmx/connections/0x7/terminate_session", root).status, 404);
    assert_eq!(asked.send("POST", &of("format_disk"), root).status, 404);
    asked.asked();
    assert_eq!(asked.send("POST", "/jmx/server/reset_statistics", None).status, 401);
    assert_eq!(asked.send("POST", "/jmx/server/reset_statistics", root).status, 200);
    assert_eq!(asked.asked(), ["reset_stats"]);
}

#[test]
fn a_session_of_all_servers_is_ended_at_the_leader() {
    let follower = Fake { serving: Some(Mode::Follower), ..Fake::default() };
    let asked = asked(follower, options());
    let url = format!("/jmx/connections/{SESSION}/terminate_session");
    let (status, why) = asked.send("POST", &url, Some("digest root:root")).error();
    assert_eq!(status, 409);
    assert!(why.starts_with("only the leader ends a session"), "{why}");
}
