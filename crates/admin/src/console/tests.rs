//! The console's answers, over a session that the tests implement.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use serde_json::{Value, json};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::config::{Member, Membership};

use super::*;
use crate::answered::{Answered, runtime};
use crate::fake::{Fake, SESSION};
use crate::served::EnsembleFacts;

struct Asked {
    fake: Arc<Fake>,
    router: Router,
    runtime: tokio::runtime::Runtime,
}

fn asked(fake: Fake) -> Asked {
    let fake = Arc::new(fake);
    let options =
        ConsoleOptions { hosts: vec!["zk1.example".to_owned()], idle: Duration::from_secs(60) };
    let router = console(fake.clone(), options, "/commands".to_owned());
    Asked { fake, router, runtime: runtime() }
}

impl Asked {
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answered {
        let mut request = Request::builder().method(method).uri(format!("/console{path}"));
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header(HOST, "127.0.0.1:8080");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        Answered::to(request, &self.router, &self.runtime)
    }

    fn post(&self, path: &str, token: &str, body: &Value) -> Answered {
        let headers = [("content-type", "application/json"), ("x-zebu-token", token)];
        self.send("POST", path, &headers, &body.to_string())
    }

    fn sign_in(&self, credentials: &str) -> String {
        let body = json!({ "scheme": "digest", "credentials": credentials });
        let answer = self.post("/api/sign-in", "", &body);
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()["token"].as_str().unwrap().to_owned()
    }
}

/// Requests that change something.
const CHANGES: [&str; 7] = [
    "/api/create",
    "/api/set",
    "/api/delete",
    "/api/acl",
    "/api/end",
    "/api/reconfig",
    "/api/sign-out",
];

/// Requests that change nothing.
const LOOKS: [&str; 7] = [
    "/api/me",
    "/api/znode",
    "/api/children",
    "/api/count",
    "/api/quotas",
    "/api/watches",
    "/api/history",
];

#[test]
fn the_page_is_whole_and_asks_nobody_else() {
    let asked = asked(Fake::default());
    for (name, kind, text) in FILES {
        let answer = asked.send("GET", &format!("/{name}"), &[], "");
        assert_eq!((answer.status, &*answer.body), (200, text.as_bytes()), "{name}");
        assert_eq!(answer.headers[CONTENT_TYPE], *kind);
        // The name space of SVG is not a request to another site.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http://", "https://", "//cdn", "@import", "url("] {
            assert!(!text.contains(outside), "{name}: {outside}");
        }
        // The page shows a server's text as text, never as markup.
        for markup in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!text.contains(markup), "{name}: {markup}");
        }
        let quoted =
            text.split(['"', '\'']).filter(|it| it.ends_with(".js") || it.ends_with(".css"));
        for file in quoted {
            let file = file.trim_start_matches("./");
            assert!(FILES.iter().any(|(known, ..)| *known == file), "{name} needs {file}");
        }
    }
    assert_eq!(asked.send("GET", "/no.js", &[], "").status, 404);
    assert_eq!(asked.send("GET", "", &[], "").headers[LOCATION], "console/");
}

#[test]
fn every_answer_says_what_a_browser_may_do_with_it() {
    let asked = asked(Fake::default());
    for path in ["/", "/app.js", "/api/me", "/api/nothing"] {
        let answer = asked.send("GET", path, &[], "");
        let policy = answer.headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{path}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(answer.headers[CACHE_CONTROL], "no-store");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
        assert!(!answer.headers.contains_key("set-cookie"));
    }
}

#[test]
fn a_name_of_somebody_else_is_refused() {
    let asked = asked(Fake::default());
    for (host, status) in [
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("localhost", 200),
        ("ZK1.example:8080", 200),
        ("evil.example", 421),
        ("zk1.example.evil.example", 421),
        ("", 421),
    ] {
        assert_eq!(asked.send("GET", "/", &[("host", host)], "").status, status, "{host}");
    }
}

#[test]
fn nothing_is_answered_and_nothing_done_without_a_token() {
    let asked = asked(Fake::default());
    let token = asked.sign_in("root:root");
    for path in LOOKS {
        for headers in [&[][..], &[("x-zebu-token", "0")], &[("cookie", &*token)]] {
            assert_eq!(asked.send("GET", path, headers, "").status, 401, "{path}");
        }
    }
    for path in CHANGES {
        assert_eq!(asked.post(path, "", &json!({})).status, 401, "{path}");
        assert_eq!(asked.send("GET", path, &[("x-zebu-token", &token)], "").status, 405, "{path}");
    }
    assert!(asked.fake.asked.lock().unwrap().iter().all(|it| it.starts_with("AUTH")));
}

#[test]
fn a_change_is_json() {
    let asked = asked(Fake::default());
    let token = asked.sign_in("root:root");
    let send = |kind: &str, body: &str| {
        let headers = [("content-type", kind), ("x-zebu-token", &*token)];
        asked.send("POST", "/api/delete", &headers, body).status
    };
    assert_eq!(send("text/plain", "{\"path\":\"/a\",\"version\":1}"), 415);
    assert_eq!(send("application/x-www-form-urlencoded", "path=/a"), 415);
    assert_eq!(send("application/json", "{"), 400);
    assert_eq!(send("application/json", "{\"path\":\"/a\"}"), 400, "no change without a version");
    assert_eq!(send("application/json", "{\"path\":\"/a\",\"version\":4294967296}"), 400);
    assert_eq!(send("application/json", "{\"path\":\"/a\",\"version\":1}"), 200);
}

#[test]
fn whoever_signs_in_is_who_they_say_until_they_sign_out() {
    let asked = asked(Fake::default());
    let refused =
        asked.post("/api/sign-in", "", &json!({ "scheme": "digest", "credentials": "no" }));
    assert_eq!(refused.status, 401);
    let token = asked.sign_in("me:pw");
    assert_ne!(token, asked.sign_in("me:pw"), "each has a session of its own");
    let me = asked.send("GET", "/api/me", &[("x-zebu-token", &token)], "");
    assert_eq!(me.json()["identities"], json!(["digest:\"me\""]));
    assert_eq!(me.json()["may_do_everything"], false);
    assert!(me.json()["token"].is_null());
    let ended = json!({ "session": format!("{SESSION}"), "operation": "terminate_session" });
    assert_eq!(asked.post("/api/end", &token, &ended).status, 403);
    assert_eq!(asked.post("/api/sign-out", &token, &json!({})).status, 200);
    assert_eq!(asked.send("GET", "/api/me", &[("x-zebu-token", &token)], "").status, 401);
    let root = asked.sign_in("root:root");
    assert_eq!(asked.post("/api/end", &root, &ended).status, 200);
    let asked = asked.fake.asked.lock().unwrap();
    assert!(asked.contains(&format!("end_session {SESSION}")), "{asked:?}");
}

#[test]
fn the_history_of_a_znode_is_for_those_who_may_do_everything() {
    let asked = asked(Fake::default());
    let me = asked.sign_in("me:pw");
    let history = |token: &str, query: &str| {
        asked.send("GET", &format!("/api/history?{query}"), &[("x-zebu-token", token)], "")
    };
    assert_eq!(history(&me, "path=/a").status, 403);
    let root = asked.sign_in("root:root");
    let answer = history(&root, "path=/a&below=true");
    assert_eq!(answer.status, 200);
    let expected = json!({
        "changes": [{ "path": "/a", "change": "created" }],
        "cut": false, "first": "0x8c", "unread_logs": 2, "errors": [],
    });
    assert_eq!(answer.json(), expected);
    let failed = history(&root, "path=/slow");
    assert_eq!(
        (failed.status, failed.json()["error"].as_str()),
        (422, Some("not read to their end"))
    );
    let asked = asked.fake.asked.lock().unwrap();
    let asked: Vec<_> = asked.iter().filter(|it| it.starts_with("history")).collect();
    assert_eq!(asked, ["history /a true", "history /slow false"]);
}

#[test]
fn no_more_sign_in_than_there_is_room_for() {
    let asked = asked(Fake::default());
    for _ in 0..signed::SIGNED_IN_MAX {
        asked.sign_in("me:pw");
    }
    let body = json!({ "scheme": "digest", "credentials": "me:pw" });
    assert_eq!(asked.post("/api/sign-in", "", &body).status, 503);
}

#[test]
fn a_session_that_has_ended_signs_out() {
    let asked = asked(Fake::default());
    let token = asked.sign_in("lost:pw");
    let answer = asked.send("GET", "/api/znode?path=/a", &[("x-zebu-token", &token)], "");
    assert_eq!(answer.status, 401);
    assert!(answer.json()["error"].as_str().unwrap().contains("sign in again"));
}

#[test]
fn a_reconfiguration_is_tried_dry() {
    let member = |id, spec: &str| Member::parse(ServerId(id), spec, false).unwrap();
    let members = Membership::majority(
        [member(1, "a:1:2;3"), member(2, "b:1:2;3"), member(3, "c:1:2;3")],
        Zxid(0),
    );
    let ensemble = EnsembleFacts { me: ServerId(1), members: Arc::new(members), leader: None };
    let asked = asked(Fake { ensemble: Some(ensemble), ..Fake::default() });
    let token = asked.sign_in("root:root");
    let change =
        json!({ "joining": "server.4=d:1:2;3", "leaving": "1", "version": "0x0", "dry_run": true });
    let answer = asked.post("/api/reconfig", &token, &change).json();
    assert_eq!((&answer["voters_before"], &answer["voters_after"]), (&json!(3), &json!(3)));
    let after = answer["after"].as_array().unwrap();
    assert!(after.iter().any(|line| line.as_str().unwrap().starts_with("server.4=d:1:2")));
    assert!(!after.iter().any(|line| line.as_str().unwrap().starts_with("server.1=")));
    for (fault, why) in [
        (json!({ "joining": "server.4=d", "version": "0x0", "dry_run": true }), "server.4"),
        (json!({ "leaving": "1", "version": "0x7", "dry_run": true }), "version"),
        (json!({ "leaving": "1,2", "version": "0x0", "dry_run": true }), "voters"),
    ] {
        let answer = asked.post("/api/reconfig", &token, &fault);
        assert_eq!(answer.status, 422, "{fault}");
        assert!(answer.json()["error"].as_str().unwrap().contains(why), "{}", answer.json());
    }
    let sent = asked.fake.asked.lock().unwrap();
    assert!(sent.iter().all(|it| it.starts_with("AUTH")), "nothing has changed: {sent:?}");
}
