//! Every command once, with tiny numbers against the echo server, so that no command stops working
//! unnoticed. The tests check that all requests were counted, never their times.

use std::fs;

use clap::Parser;
use serde_json::Value;
use zebu_bench::{BenchArgs, EchoServer};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: BenchArgs,
}

/// Runs a command line and returns its raw numbers.
fn bench(line: &str) -> anyhow::Result<Value> {
    let dir = tempfile::tempdir()?;
    let json = dir.path().join("out.json");
    let words = line.split_whitespace().chain(["--json", json.to_str().expect("UTF-8")]);
    zebu_bench::run(Cli::parse_from(std::iter::once("bench").chain(words)).bench)?;
    Ok(serde_json::from_slice(&fs::read(json)?)?)
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a count: {value}"))
}

fn assert_clean(result: &Value) {
    assert_eq!(result["errors"], Value::Array(vec![]));
    assert_eq!(count(&result["lost"]), 0);
    assert_eq!(count(&result["unanswered"]), 0);
}

#[test]
fn run_counts_reads_and_writes_of_a_closed_loop() {
    let server = EchoServer::start("127.0.0.1:0".parse().unwrap()).unwrap();
    let out = bench(&format!(
        "run --server {0},{0} --op mix --read-ratio 50 --connections 3 --threads 2 --depth 4 \
         --seconds 0.2 --warmup 0.05 --size 10 --keys 20",
        server.address()
    ))
    .unwrap();
    let result = &out["result"];
    assert_clean(result);
    let (reads, writes) =
        (count(&result["reads"]["completed"]), count(&result["writes"]["completed"]));
    assert!(reads > 0 && writes > 0, "{reads} reads, {writes} writes");
    assert_eq!(count(&result["all"]["completed"]), reads + writes);
    assert_eq!(out["parameters"]["keys"], 20);
}

#[test]
fn an_open_loop_sends_what_it_was_told_to() {
    let out =
        bench("echo --rate 500 --connections 2 --depth 8 --seconds 0.4 --warmup 0.1").unwrap();
    let result = &out["result"];
    assert_clean(result);
    // Every request that was due in the window has a latency, even if its reply arrives late.
    let recorded: u64 = result["all"]["histogram_us"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| count(&bucket[1]))
        .sum();
    assert!((199..=201).contains(&recorded), "{recorded} of 200");
}

#[test]
fn large_values_pass_through() {
    let out = bench(
        "echo --op mix --read-ratio 50 --size 500000 --keys 3 --connections 2 --depth 4 \
         --seconds 0.2 --warmup 0",
    )
    .unwrap();
    assert_clean(&out["result"]);
    assert!(count(&out["result"]["all"]["completed"]) > 0);
}

#[test]
fn compare_runs_every_suite() {
    let dir = tempfile::tempdir().unwrap();
    let out = bench(&format!(
        "compare --servers echo,durable --suite all \
         --rates 100,300 --rate-seconds 0.1 --cores 1 \
         --rounds 2 --dir {} --depths 1,3 --connections 1,2 \
         --seconds 0.02 --warmup 0.01 --server-warmup 0.01 --keys 10 --count 1200 \
         --watch-connections 4 --fanout 5 --repeats 2 --sessions 20 --session-timeout 4 --hold 0.1",
        dir.path().display()
    ))
    .unwrap();
    assert_eq!(out["result"]["notes"], Value::Array(vec![]));
    let rows = out["result"]["rows"].as_array().unwrap();
    let value = |group: &str, name: &str| {
        let row = rows.iter().find(|row| row["group"] == group && row["name"] == name);
        let row = row.unwrap_or_else(|| panic!("no row {group}: {name}"));
        row["values"]["durable"].as_array().unwrap().clone()
    };
    for (group, name) in [
        ("requests/s", "get, depth 1, 2 conn"),
        ("latency p99, us", "set, depth 3, 1 conn"),
        ("generator CPU, us/request", "get, depth 3, 2 conn"),
        ("latency p999, us", "one server: open loop, 300 set/s"),
        ("latency max, us", "one server: open loop, 100 get/s"),
        ("one at a time, us", "setData, p50"),
        ("one at a time, us", "without a server: fdatasync of 4 KiB, p50"),
        ("one at a time, us", "without a server: round trip on loopback, p50"),
        ("times fdatasync + round trip", "setData one at a time, p50"),
        ("requests/s", "multi of 5 sets, depth 3, 2 conn"),
        ("requests/s", "three servers: create and delete, depth 3, 2 conn"),
        ("latency p99, us", "three servers: set, 160 times the size, depth 1, 1 conn"),
        ("requests/s", "three servers: 90 % writes, depth 3, 48 conn"),
        ("requests/s", "create"),
        ("requests/s", "exists with watch"),
        ("notifications of one change, ms", "100 znodes x 4 watchers, last"),
        ("notifications of one change, ms", "1 znode x 5 watchers, first"),
        ("time, s", "open sessions"),
        ("time, s", "close sessions"),
    ] {
        assert_eq!(value(group, name).len(), 2, "{group}: {name}");
    }
    assert_eq!(value("sessions", "alive at the end"), [20.0, 20.0]);
    assert_eq!(value("records per sync", "set, depth 1, 1 conn"), [1.0, 1.0]);
    let several = value("records per sync", "set, depth 3, 2 conn");
    assert!(
        several.iter().all(|each| (1.0..=6.0).contains(&each.as_f64().unwrap())),
        "{several:?}"
    );
    let pinned = rows.iter().filter(|row| {
        let name = row["name"].as_str().unwrap();
        row["group"] == "requests/s" && name.starts_with("1 core") && name.ends_with("conn")
    });
    assert_eq!(pinned.count(), 4);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "directories are removed");
}

#[test]
fn a_durable_echo_answers_everything_and_logs_writes() {
    for (op, depth) in [("get", 3), ("set", 1), ("mix", 100)] {
        let dir = tempfile::tempdir().unwrap();
        let out = bench(&format!(
            "echo --op {op} --read-ratio 50 --connections 3 --depth {depth} --seconds 0.2 --warmup 0 --keys 20 \
             --durable {}",
            dir.path().display()
        ))
        .unwrap();
        assert_clean(&out["result"]);
        assert!(count(&out["result"]["all"]["completed"]) > 0);
        let log = fs::read(dir.path().join("log")).unwrap();
        let has = |words: &[u8]| log.windows(words.len()).any(|part| part == words);
        assert!(has(b"/zebu-bench/k"), "znodes that were written are in the log");
        assert_eq!(log.len(), 4 << 20);
    }
}

#[test]
fn three_durable_echoes_answer_everything_and_all_log_writes() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = [1, 2, 3].map(|number| dir.path().join(number.to_string()));
    let servers = EchoServer::ensemble("127.0.0.1:0".parse().unwrap(), &dirs).unwrap();
    let addresses: Vec<String> = servers.iter().map(|it| it.address().to_string()).collect();
    for op in ["mix", "create", "create-delete", "multi"] {
        let out = bench(&format!(
            "run --server {} --op {op} --connections 5 --depth 7 --seconds 0.2 --warmup 0 --keys 20 --keep \
             --root /znodes-of-{op}",
            addresses.join(",")
        ))
        .unwrap();
        assert_clean(&out["result"]);
        assert!(count(&out["result"]["all"]["completed"]) > 0);
        for dir in &dirs {
            let log = fs::read(dir.join("log")).unwrap();
            let what = format!("/znodes-of-{op}/");
            let has = |words: &[u8]| log.windows(words.len()).any(|part| part == words);
            assert!(has(what.as_bytes()), "{op}: {}", dir.display());
        }
    }
}

#[test]
fn a_missing_java_server_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display();
    let error = bench(&format!("compare --servers java --java-classpath {path} --dir {path}"));
    assert!(error.unwrap_err().to_string().contains("cargo xtask deps"));
}

#[test]
fn a_missing_java_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display();
    fs::write(dir.path().join("server.jar"), "").unwrap();
    let error = bench(&format!(
        "compare --servers java --java {path}/java --java-classpath {path} --dir {path}"
    ));
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.contains("--java names one"), "{error}");
}

#[test]
fn nothing_begins_after_the_time_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display();
    let error = bench(&format!("compare --servers echo --quick --minutes 0 --dir {path}"));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("not measured: pipeline, round 1, echo; znodes"), "{error}");
    assert!(!error.contains("round 2"), "{error}");
}

#[test]
fn every_way_to_write_durably_is_measured_in_every_round() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display();
    let out = bench(&format!("disk --dir {path} --sizes 100,5000 --records 3 --rounds 2")).unwrap();
    let sizes = out["sizes"].as_array().unwrap();
    assert_eq!(sizes.iter().map(|of| count(&of["size"])).collect::<Vec<_>>(), [100, 5000]);
    for way in sizes.iter().flat_map(|of| of["ways"].as_array().unwrap()) {
        let name = way["way"].as_str().unwrap();
        let rounds = way["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), 2, "{name}");
        // Not every file system allocates blocks, or has O_DIRECT.
        if name.contains("allocated") || name.contains("O_DIRECT") {
            continue;
        }
        assert!(rounds.iter().all(|of| of["mean_us"].as_f64().unwrap() > 0.0), "{name}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the files are removed");
}

#[test]
fn impossible_parameters_are_refused() {
    for line in [
        "echo --connections 0",
        "echo --depth 0",
        "echo --seconds 0",
        "echo --rate 0",
        "echo --keys 10000001",
        "run --root /a/ --server 127.0.0.1:1",
        "compare --servers echo --session-timeout 1",
        "compare --servers echo --rounds 0",
        "compare --servers echo --cores 0",
        "compare --servers echo --faults 0",
        "disk --rounds 0",
        "disk --records 0",
        "disk --sizes 0",
        "disk --seconds 0",
        "disk --records 1000000",
    ] {
        assert!(bench(line).is_err(), "{line}");
    }
}
