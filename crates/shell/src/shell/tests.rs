//! Whole commands against a server in this process.

use serde_json::Value;
use zebu_client::WatcherType;
use zebu_server::Server;
use zebu_server::cli::ServerArgs;

use super::*;
use crate::output::tests::Paper;

/// A server, a shell, and the shell's output.
struct Stage {
    shell: Shell,
    out: Paper,
    err: Paper,
    address: String,
    folder: tempfile::TempDir,
    server: Option<Server>,
}

impl Stage {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lines =
            ["clientPort=0", "clientPortAddress=127.0.0.1", "preAllocSize=64", "forceSync=no"];
        let mut set: Vec<String> = lines.map(str::to_owned).to_vec();
        set.push(format!("dataDir={}", folder.path().display()));
        let args = ServerArgs { set, ..ServerArgs::default() };
        let config = args.load_from(Vec::new(), &|path| std::fs::read(path)).unwrap().config;
        let server = Server::start(config, Vec::new()).unwrap();
        let address = format!("127.0.0.1:{}", server.port().unwrap());
        let (out, err) = (Paper::default(), Paper::default());
        let output = Output::to(Box::new(out.clone()), Box::new(err.clone()));
        let options = Options { server: address.clone(), quiet: true, ..Options::default() };
        let shell = Shell::start(&options, output).await.unwrap();
        Self { shell, out, err, address, folder, server: Some(server) }
    }

    /// Runs lines. Returns their output on stdout and on stderr.
    async fn run(&mut self, lines: &str) -> (String, String) {
        let (out, err) = (self.out.text().len(), self.err.text().len());
        for line in lines.lines() {
            self.shell.run_line(line).await.unwrap();
        }
        (self.out.text()[out..].to_owned(), self.err.text()[err..].to_owned())
    }

    /// Runs lines that must succeed without output, except about created znodes.
    async fn prepare(&mut self, lines: &str) {
        for line in lines.lines() {
            let (_, err) = self.run(line).await;
            assert_eq!(self.shell.exit_code, 0, "{line}: {err}");
        }
    }

    /// Runs a line. Returns its output as JSON.
    async fn json(&mut self, line: &str) -> Vec<Value> {
        let (out, err) = self.run(line).await;
        let parsed = out.lines().map(serde_json::from_str).collect::<Result<_, _>>();
        parsed.unwrap_or_else(|error| panic!("{line}: {error}\n{out}{err}"))
    }

    async fn end(mut self) {
        self.shell.finish().await;
        let server = self.server.take().unwrap();
        tokio::task::spawn_blocking(move || {
            server.stopper()();
            server.wait().unwrap();
        })
        .await
        .unwrap();
    }
}

const TREE: &str = "create /a root\ncreate /a/b \"two words\"\ncreate /a/b/c\ncreate -e /a/e mine\n\
                    create /a/z \"error: one\"";

#[tokio::test]
async fn subtrees_are_drawn_measured_and_searched() {
    let mut stage = Stage::new().await;
    stage.prepare(TREE).await;
    let (out, _) = stage.run("tree /a").await;
    assert_eq!(out, "/a\n├── b\n│   └── c\n├── e (ephemeral)\n└── z\n\n5 znodes, 27 B\n");
    let (out, _) = stage.run("tree -s -d 1 /a").await;
    assert_eq!(
        out,
        "/a [4 B]\n├── b [9 B]\n├── e (ephemeral) [4 B]\n└── z [10 B]\n\n4 znodes, 27 B\n"
    );
    let (out, _) = stage.run("du /a").await;
    assert_eq!(out, "27\t5\t/a\n10\t1\t/a/z\n9\t2\t/a/b\n4\t1\t/a/e\n");
    assert_eq!(stage.run("du -s /a").await.0, "27\t5\t/a\n");
    assert_eq!(stage.run("du -d 9 -n 2 /a").await.0, "27\t5\t/a\n10\t1\t/a/z\n");
    assert_eq!(stage.run("find /a -name [a-z]").await.0, "");
    assert_eq!(stage.run("find /a -name ?").await.0, "/a\n/a/b\n/a/b/c\n/a/e\n/a/z\n");
    assert_eq!(stage.run("find -type e").await.0, "/a/e\n");
    assert_eq!(stage.run("find -empty -regex ^/a /a").await.0, "/a/b/c\n");
    assert_eq!(stage.run("find /a -minsize 9").await.0, "/a/b\n/a/z\n");
    let owner = stage.shell.session.client.session_id();
    assert_eq!(stage.run(&format!("find -owner {owner}")).await.0, "/a/e\n");
    assert_eq!(stage.run("grep word").await.0, "/a/b:two words\n");
    assert_eq!(stage.run("grep -il ERROR|ROOT /a").await.0, "/a\n/a/z\n");
    assert_eq!(stage.run("grep -F error. /a").await, (String::new(), String::new()));
    assert_eq!(stage.shell.exit_code, 1);
    assert!(stage.run("grep ( /a").await.1.contains("hint: grep -F searches"));
    stage.end().await;
}

#[tokio::test]
async fn what_cannot_be_read_is_said_and_the_rest_goes_on() {
    let mut stage = Stage::new().await;
    stage.prepare("create /a x\ncreate /a/no x ip:10.0.0.1:r\ncreate /a/yes x").await;
    let (out, err) = stage.run("find /a").await;
    assert_eq!(out, "/a\n/a/yes\n");
    assert!(
        err.contains("Insufficient permission : /a/no")
            && err.contains("1 znodes could not be read")
    );
    assert_eq!(stage.shell.exit_code, 1);
    assert_eq!(stage.run("tree /a").await.0, "/a\n└── yes\n\n2 znodes, 2 B\n");
    stage.end().await;
}

#[tokio::test]
async fn copies_keep_data_and_acls_and_leave_ephemerals_out() {
    let mut stage = Stage::new().await;
    stage.prepare(TREE).await;
    stage.prepare("setAcl /a/z ip:127.0.0.1:cdrwa").await;
    let (_, err) = stage.run("cp -r /a /copy").await;
    assert_eq!(err, "1 ephemeral znodes were left out: they belong to their sessions\n");
    assert_eq!(stage.run("ls -R /copy").await.0, "/copy\n/copy/b\n/copy/z\n/copy/b/c\n");
    let (out, _) = stage.run("get /copy/b\nget /copy/b/c\ngetAcl /copy/z").await;
    assert_eq!(out, "two words\nnull\n'ip,'127.0.0.1\n: cdrwa\n");
    let (_, err) = stage.run("cp /a /copy").await;
    assert!(
        err.starts_with("Node already exists: /copy\nhint: overwrite existing znodes with -f"),
        "{err}"
    );
    stage.prepare("set /a new\ncp -f /a /copy").await;
    assert_eq!(stage.run("get /copy").await.0, "new\n");
    assert!(stage.run("cp -r /a /a/b/x").await.1.contains("is below /a"));
    let elsewhere = format!("cp -r -no-acl /a/z zk://{}/elsewhere", stage.address);
    stage.prepare(&elsewhere).await;
    assert_eq!(stage.run("getAcl /elsewhere").await.0, "'world,'anyone\n: cdrwa\n");
    stage.end().await;
}

#[tokio::test]
async fn an_export_is_imported_elsewhere() {
    let mut stage = Stage::new().await;
    stage.prepare(TREE).await;
    stage.prepare("set -b /a/b/c /wAA").await;
    let file = stage.folder.path().join("export.jsonl").display().to_string();
    stage.prepare(&format!("export /a {file}\nimport -n {file} /x\nimport {file} /x")).await;
    assert_eq!(stage.run("ls -R /x").await.0, "/x\n/x/b\n/x/z\n/x/b/c\n");
    assert_eq!(stage.run("get -b /x/b/c").await.0, "/wAA\n");
    let (_, err) = stage.run(&format!("import {file}")).await;
    assert!(err.contains("Node already exists: /a"), "{err}");
    stage.prepare(&format!("set /a other\nimport -f {file}")).await;
    assert_eq!(stage.run("get /a").await.0, "root\n");
    let lines = stage.json("export /a").await;
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert_eq!(lines[1]["acl"][0], "world:anyone:cdrwa");
    assert_eq!(lines[5]["znodes"], 4);
    // The whole tree without the server's own znodes.
    let paths: Vec<_> = stage.json("export -e /").await;
    assert!(paths.iter().all(|line| !line["path"].to_string().contains("zookeeper")), "{paths:?}");
    stage.end().await;
}

#[tokio::test]
async fn every_command_speaks_json() {
    let mut stage = Stage::new().await;
    stage.prepare(TREE).await;
    let file = stage.folder.path().join("export.jsonl").display().to_string();
    let lines = format!(
        "addWatch /a\naddauth digest a:b\nconfig\ncp /a /copy\ncreate /new x\ndelete /new\n\
         create /all\ndeleteall /all\nsetquota -n 100 /a\nlistquota /a\ndelquota /a\ndu /a\n\
         export /a {file}\nfind /a\nget /a\ngetAcl /a\ngetAllChildrenNumber /a\ngetEphemerals\n\
         grep root /a\nhelp\nhelp ls\nhistory\nimport {file} /again\nls /a\nls -R /a\n\
         printwatches off\nremovewatches /a\nset /a x\nsetAcl /a world:anyone:cdrwa\nstat /a\n\
         sync /a\ntree /a\nversion\nwhoami"
    );
    for line in lines.lines() {
        let found = stage.json(&format!("{line} --json")).await;
        assert!(!found.is_empty(), "{line} says nothing: {}", stage.err.text());
        assert_eq!(stage.shell.exit_code, 0, "{line}: {}", stage.err.text());
    }
    let spoken: Vec<&str> = lines.lines().filter_map(|line| line.split(' ').next()).collect();
    // These commands need a person or other servers, or end the session.
    let silent = ["close", "connect", "edit", "exit", "quit", "reconfig", "redo", "watch"];
    for spec in command::COMMANDS {
        let name = spec.name;
        assert!(spoken.contains(&name) != silent.contains(&name), "{name} is not tested");
    }
    let got = &stage.json("get --json /a/b").await[0];
    assert_eq!((&got["data"], &got["stat"]["dataLength"]), (&"two words".into(), &9.into()));
    let (out, err) = stage.run("get --json /none").await;
    assert_eq!(out, "");
    let error: Value = serde_json::from_str(err.trim()).unwrap();
    assert_eq!(error["error"]["name"], "NO_NODE");
    // After two dashes it is data.
    stage.prepare("set -- /a --json").await;
    assert_eq!(stage.run("get /a").await.0, "--json\n");
    stage.end().await;
}

#[tokio::test]
async fn a_subtree_is_followed() {
    let mut stage = Stage::new().await;
    stage.prepare("create /a x\ncreate /other x").await;
    let other = Session::open(&stage.address, &stage.shell.settings).unwrap().client;
    let writer = async {
        // The watch is set when the server lists it.
        while !other.check_watches("/a", zebu_client::WatcherType::Any).await.unwrap() {
            let acl = zebu_client::Acls::open_to_all();
            let mode = zebu_client::CreateMode::PersistentSequential;
            other.create("/a/n", "new", mode, &acl).await.unwrap();
            tokio::task::yield_now().await;
            if other.exists("/a/n0000000005").await.unwrap().is_some() {
                return;
            }
        }
    };
    let (_, (out, _)) = tokio::join!(writer, async {
        let (out, err) = (stage.out.text().len(), stage.err.text().len());
        stage.shell.run_line("watch -v -n 1 /a --json").await.unwrap();
        (stage.out.text()[out..].to_owned(), stage.err.text()[err..].to_owned())
    });
    let event: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!((&event["type"], &event["data"]), (&"NodeCreated".into(), &"new".into()));
    let (_, err) = stage.run("watch -t 0 /a").await;
    assert!(err.starts_with("following /a"), "{err}");
    assert_eq!(stage.shell.exit_code, 0);
    stage.end().await;
}

#[tokio::test]
async fn history_is_numbered_and_run_again() {
    let mut stage = Stage::new().await;
    stage.prepare("create /a x").await;
    assert_eq!(stage.run("ls /").await.0, "[a, zookeeper]\n");
    assert_eq!(stage.run("redo 1").await.0, "[a, zookeeper]\n");
    let (out, _) = stage.run("history").await;
    assert_eq!(out, "0 - create /a x\n1 - ls /\n2 - ls /\n3 - history\n");
    assert!(stage.run("redo 9").await.1.starts_with("Command index out of range"));
    assert!(stage.run("redo x").await.1.starts_with("not the number of a command: x"));
    stage.end().await;
}

/// Mistakes for which zkCli ends, names a class of Java, or loses the session.
#[tokio::test]
async fn wrong_arguments_are_errors_and_cost_no_session() {
    let mut stage = Stage::new().await;
    stage.prepare("create /a x\ncreate -e /mine x").await;
    for (line, said) in [
        ("whoami -x", "Unrecognized option: -x"),
        ("redo", "redo cmdno"),
        ("redo -x 1", "Unrecognized option: -x"),
        ("setquota /a", "setquota -n|-b|-N|-B val path"),
        ("set -v x /a y", "-v is not a number: x"),
        ("set -b /a !!!", "not base64: "),
        ("addWatch a", "Path must start with / character"),
        ("addauth digest", "no credentials"),
        ("reconfig -file /none", "Error processing /none: No such file or directory"),
        (
            "setquota -n 5 /",
            "Path must not end with / character\nhint: the root cannot have a quota",
        ),
        ("setquota -n 5 -N 3 /a", "setquota -n|-b|-N|-B val path\nhint: set one limit at a time"),
    ] {
        let (out, err) = stage.run(line).await;
        assert!(out.is_empty() && err.starts_with(said), "{line}: {out}{err}");
        assert_eq!(stage.shell.exit_code, 1, "{line}");
    }
    assert_eq!(stage.run("ls /").await.0, "[a, mine, zookeeper]\n");
    // The mode of an earlier command does not become the default.
    stage.prepare("addWatch -m PERSISTENT /a\naddWatch /mine").await;
    let client = stage.shell.session.client.clone();
    assert!(client.check_watches("/mine", WatcherType::PersistentRecursive).await.unwrap());
    stage.prepare("close").await;
    let (out, _) = stage.run("history").await;
    assert!(out.ends_with(" - close\n17 - history\n"), "{out}");
    assert_eq!(stage.run("printwatches").await.0, "printwatches is on\n");
    stage.end().await;
}

/// ERR-17.
#[tokio::test]
async fn a_session_that_is_over_is_replaced_by_connect() {
    let mut stage = Stage::new().await;
    stage.prepare("create -e /mine x\nclose").await;
    assert_eq!(stage.run("ls /").await.0, "Not connected\n");
    assert_eq!(stage.shell.exit_code, 1);
    assert_eq!(stage.shell.prompt(), format!("[zk: {}(CLOSED) 3] ", stage.address));
    stage.prepare("connect").await;
    assert_eq!(stage.run("ls /").await.0, "[zookeeper]\n");
    assert_eq!(stage.shell.prompt(), format!("[zk: {}(CONNECTED) 5] ", stage.address));
    stage.end().await;
}

#[tokio::test]
async fn a_failure_says_what_to_do_and_sets_the_exit_code() {
    let mut stage = Stage::new().await;
    let (_, err) = stage.run("lss /").await;
    // The list that zkCli prints, and the similar command.
    let (list, rest) = err.split_once("Command not found: ").unwrap();
    assert_eq!(rest, "lss\nhint: did you mean ls? help shows all commands\n");
    assert!(list.starts_with("zebu shell -server host:port"), "{list}");
    assert!(list.contains("\n\tls [-s] [-w] [-R] path\n"), "{list}");
    assert_eq!(stage.shell.exit_code, 127);
    let (_, err) = stage.run("delete /none").await;
    assert!(err.starts_with("Node does not exist: /none\nhint: "), "{err}");
    assert_eq!(stage.shell.exit_code, 1);
    stage.prepare("ls /").await;
    stage.end().await;
}

/// One line for each unreadable znode, and the remedy once.
#[tokio::test]
async fn what_cannot_be_read_is_said_in_one_line() {
    let mut stage = Stage::new().await;
    stage.prepare("create /a\ncreate /a/mine x\ncreate /a/yours y\ncreate /a/z z").await;
    stage.prepare("addauth digest amy:secret\nsetAcl /a/mine auth::cdrwa").await;
    stage.prepare("setAcl /a/yours auth::cdrwa\nconnect").await;
    for line in ["find /a", "grep z /a", "tree /a", "du /a"] {
        let (out, err) = stage.run(line).await;
        assert_eq!(
            err,
            "Insufficient permission : /a/mine\nInsufficient permission : /a/yours\n\
             2 znodes could not be read\nhint: authenticate with addauth; getAcl shows the permissions\n",
            "{line}: {out}"
        );
        assert_eq!(stage.shell.exit_code, 1);
    }
    stage.end().await;
}
