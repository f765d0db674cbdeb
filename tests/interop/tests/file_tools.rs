//! The original's four tools for logs and snapshots, and Zebu's under the same script names: the
//! same output and exit codes for the same files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use zebu_interop::deps::{self, repository};
use zebu_interop::raw::Session;
use zebu_interop::run::{Output, Program};
use zebu_interop::scenario::compare;
use zebu_interop::server::{Kind, Options, PATIENCE, Server, java_with};
use zebu_testkit::wire::{Writer, op, open_acl};

/// A tool: Zebu's script and the original's class.
#[derive(Clone, Copy, Debug)]
enum Tool {
    Log,
    Show,
    Summary,
    Compare,
}

impl Tool {
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Log => ("zkTxnLogToolkit.sh", "persistence.TxnLogToolkit"),
            Self::Show => ("zkSnapShotToolkit.sh", "SnapshotFormatter"),
            Self::Summary => ("zkSnapshotRecursiveSummaryToolkit.sh", "SnapshotRecursiveSummary"),
            Self::Compare => ("zkSnapshotComparer.sh", "SnapshotComparer"),
        }
    }

    fn original(self) -> Command {
        // Debian's package contains the libraries that the original's JSON needs.
        let classpath = format!("{}:/usr/share/java/jackson-core.jar", deps::classpath_395());
        let mut command = java_with(&classpath);
        command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=off");
        command.arg(format!("org.apache.zookeeper.server.{}", self.names().1));
        command
    }

    fn ours(self) -> Command {
        let mut command = Command::new(repository().join("bin").join(self.names().0));
        command.env("ZEBU", deps::zebu());
        command
    }
}

/// Runs a tool in a folder, with answers to its questions.
fn run(mut command: Command, folder: &Path, words: &[&str], answers: &str) -> Result<Output> {
    let mut program = Program::start_apart(command.current_dir(folder).args(words))?;
    for line in answers.lines() {
        program.say(line)?;
    }
    program.finish(PATIENCE)
}

/// The output without times of day and durations.
fn shown(output: &Output) -> String {
    let lines = output.text.split('\n').map(|line| {
        let timed =
            line.starts_with("Deserialized snapshot ") || line.starts_with("Processed data tree ");
        let (told, rest) = match (timed.then(|| line.rsplit_once(" in ")).flatten(), line) {
            (Some((told, _)), _) => (told, ""),
            (None, line) => match line.split_once("\"timestamp\":") {
                Some((told, rest)) => (told, rest.trim_start_matches(|c: char| c.is_ascii_digit())),
                None => (line, ""),
            },
        };
        format!("{told}{rest}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The content of a folder, except for files that existed before.
fn written(folder: &Path, before: &[PathBuf]) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = PathBuf::from(path.file_name().context("a name")?);
        if !before.contains(&name) {
            files.push((name, fs::read(&path)?));
        }
    }
    files.sort();
    Ok(files)
}

/// Two copies of the input files, because the files that a tool writes beside them are compared,
/// too.
struct Files {
    originals: TempDir,
    ours: TempDir,
    names: Vec<PathBuf>,
}

impl Files {
    fn new() -> Self {
        let folder = || tempfile::tempdir().expect("a folder");
        Self { originals: folder(), ours: folder(), names: Vec::new() }
    }

    fn add(&mut self, name: &str, content: &[u8]) {
        for folder in [&self.originals, &self.ours] {
            fs::write(folder.path().join(name), content).expect("a file");
        }
        self.names.push(name.into());
    }

    fn fixture(&mut self, name: &str, path: &str) {
        let path = repository().join("tests/fixtures").join(path);
        self.add(name, &fs::read(path).expect("a fixture"));
    }

    /// Runs both tools with the same arguments and answers. `codes`: the exit codes of the original
    /// and Zebu.
    #[track_caller]
    fn same_but(&self, tool: Tool, words: &[&str], answers: &str, codes: (i32, i32)) {
        let what = format!("{tool:?} {words:?}");
        let run = |command, folder: &TempDir| {
            run(command, folder.path(), words, answers)
                .unwrap_or_else(|error| panic!("{what}: {error:#}"))
        };
        let original = run(tool.original(), &self.originals);
        let ours = run(tool.ours(), &self.ours);
        compare(&what.replace(['/', ' ', '"'], ""), &shown(&original), &shown(&ours));
        let ended = (original.status.code(), ours.status.code());
        assert_eq!(
            ended,
            (Some(codes.0), Some(codes.1)),
            "{what}: {}\n{}",
            original.errors,
            ours.errors
        );
    }

    #[track_caller]
    fn same(&self, tool: Tool, words: &[&str], code: i32) {
        self.same_but(tool, words, "", (code, code));
    }

    /// Files written by the tools are equal, byte for byte.
    #[track_caller]
    fn assert_written(&self, names: &[&str]) {
        let theirs = written(self.originals.path(), &self.names).expect("a folder");
        let ours = written(self.ours.path(), &self.names).expect("a folder");
        let of = |files: &[(PathBuf, Vec<u8>)]| {
            files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of(&ours), names.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(of(&theirs), of(&ours));
        for ((name, theirs), (_, ours)) in theirs.iter().zip(&ours) {
            assert!(theirs == ours, "{} has other bytes", name.display());
        }
    }
}

/// A log with transactions that clients cannot or can no longer request.
fn rare_log() -> Vec<u8> {
    let mut log = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
    let mut zxid = 0x5_0000_0000;
    let mut push = |op: i32, body: Writer| {
        zxid += 1;
        let head = Writer::new().long(-7).int(-3).long(zxid).long(1_700_000_000_123).int(op);
        let body = head.raw(&body.done()).done();
        let sum = adler32(&body);
        log.extend(Writer::new().long(i64::from(sum)).buffer(&body).done());
        log.push(b'B');
    };
    // The end of a session in the old format without a list of ephemerals.
    push(op::CLOSE_SESSION, Writer::new());
    push(
        16,
        Writer::new()
            .string("/zookeeper/config")
            .string("server.1=a:1:2\nversion=100000001")
            .int(-1),
    );
    push(20, Writer::new().string("/a,b}%"));
    let acl = [(31, Some("x,y".to_owned()), Some("a}b%\r\n".to_owned()))];
    push(1, Writer::new().string("/acl").optional_buffer(None).acl(&acl).bool(false).int(-1));
    push(7, Writer::new().string("/acl").acl(&acl).int(3));
    push(7, Writer::new().string("/none").int(0).int(3));
    log
}

fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (b + a) % 65521)
    });
    b << 16 | a
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn logs_are_shown_alike() {
    let mut files = Files::new();
    files.fixture("log.1", "zookeeper-3.8.0/basic/version-2/log.1");
    files.fixture("log.49", "zookeeper-3.9.5/basic/version-2/log.49");
    files.fixture("log.nodigest", "zookeeper-3.8.0/digest-disabled/version-2/log.49");
    files.add("log.rare", &rare_log());
    files.add("log.other", b"this is something else, long enough");
    files.add("log.short", b"ZKLG");
    for name in ["log.1", "log.49", "log.nodigest", "log.rare"] {
        files.same(Tool::Log, &[name], 0);
    }
    files.same(Tool::Log, &["--dump", "log.49"], 0);
    files.same(Tool::Log, &["log.other"], 2);
    files.same(Tool::Log, &["log.short"], 1);
    files.same(Tool::Log, &["log.none"], 1);
    files.assert_written(&[]);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn damaged_logs_are_shown_alike() {
    let cases = [
        ("crc-corrupt-last", 0),
        ("crc-corrupt-middle", 0),
        ("missing-middle-gap", 0),
        ("partial-middle-then-more", 1),
        ("torn-crc-only", 0),
        ("torn-mid-record-nopad", 0),
        ("torn-mid-record-zeropad", 1),
        ("torn-no-eor", 1),
        ("torn-no-eor-zeropad", 1),
    ];
    let mut files = Files::new();
    for (name, code) in cases {
        files.fixture(name, &format!("zookeeper-3.8.0/torn/{name}/log.3d"));
        files.same(Tool::Log, &[name], code);
    }
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn logs_are_repaired_alike() {
    let mut files = Files::new();
    for name in ["crc-corrupt-last", "crc-corrupt-middle"] {
        files.fixture(name, &format!("zookeeper-3.8.0/torn/{name}/log.3d"));
    }
    files.same(Tool::Log, &["-r", "-y", "crc-corrupt-last"], 0);
    files.same(Tool::Log, &["-r", "-y", "crc-corrupt-last"], 1);
    files.same_but(Tool::Log, &["-rv", "crc-corrupt-middle"], "what\nyes\n", (0, 0));
    files.assert_written(&["crc-corrupt-last.fixed", "crc-corrupt-middle.fixed"]);

    let mut files = Files::new();
    files.fixture("no", "zookeeper-3.8.0/torn/crc-corrupt-last/log.3d");
    files.fixture("abort", "zookeeper-3.8.0/torn/crc-corrupt-last/log.3d");
    files.same_but(Tool::Log, &["--recover", "no"], "No\n", (0, 0));
    files.assert_written(&["no.fixed"]);
    files.same_but(Tool::Log, &["abort", "-r"], "a\n", (0, 0));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn logs_are_cut_alike() {
    let mut files = Files::new();
    files.fixture("log.3d", "zookeeper-3.8.0/basic/version-2/log.3d");
    files.same(Tool::Log, &["-c", "-z", "0x40", "log.3d"], 0);
    files.same(Tool::Log, &["--chop", "log.3d", "--zxid=65"], 0);
    files.assert_written(&["log.3d.chopped64", "log.3d.chopped65"]);
    // A log that cannot be truncated: Zebu reports a failure and leaves nothing behind; the
    // original reports success.
    files.fixture("corrupt", "zookeeper-3.8.0/torn/crc-corrupt-middle/log.3d");
    files.add("other", b"this is something else, long enough");
    for (zxid, name) in
        [("0x48", "log.3d"), ("0x3c", "log.3d"), ("0x47", "corrupt"), ("1", "other")]
    {
        files.same_but(Tool::Log, &["-c", "-z", zxid, name], "", (0, 2));
    }
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn snapshots_are_shown_alike() {
    let mut files = Files::new();
    files.fixture("snapshot.0", "zookeeper-3.8.0/basic/version-2/snapshot.0");
    files.fixture("snapshot.3c", "zookeeper-3.8.0/basic/version-2/snapshot.3c");
    files.fixture("snapshot.48.gz", "zookeeper-3.8.0/compressed-gz/version-2/snapshot.48.gz");
    files.fixture(
        "snapshot.48.snappy",
        "zookeeper-3.8.0/compressed-snappy/version-2/snapshot.48.snappy",
    );
    files.fixture("other-name", "zookeeper-3.9.5/basic/version-2/snapshot.48");
    for name in ["snapshot.0", "snapshot.3c", "snapshot.48.gz", "snapshot.48.snappy", "other-name"]
    {
        files.same(Tool::Show, &[name], 0);
        files.same(Tool::Show, &["-d", name], 0);
        files.same(Tool::Show, &["-json", name], 0);
        files.same(Tool::Summary, &[name, "/", "0"], 0);
    }
    files.same(Tool::Summary, &["snapshot.3c", "/fx", "1"], 0);
    files.same(Tool::Summary, &["snapshot.3c", "/none", "1"], 1);
    files.add("snapshot.1", b"this is something else, long enough");
    files.same(Tool::Show, &["snapshot.1"], 1);
    files.same(Tool::Show, &["snapshot.2"], 2);
    files.same(Tool::Show, &["-d", "-json", "snapshot.3c"], 2);
    // Of a damaged snapshot, both show the readable part. Only Zebu reports the damage.
    for name in ["snap-bitflip.snapshot.3c", "snap-truncated.snapshot.3c"] {
        files.fixture(name, &format!("zookeeper-3.8.0/bad-snapshots/{name}"));
        files.same_but(Tool::Show, &[name], "", (0, 1));
    }
    files.assert_written(&[]);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn snapshots_are_compared_alike() {
    let mut files = Files::new();
    files.fixture("snapshot.3c", "zookeeper-3.8.0/basic/version-2/snapshot.3c");
    files.fixture("snapshot.48", "zookeeper-3.9.5/basic/version-2/snapshot.48");
    let words =
        |more: &[&'static str]| [&["-l", "snapshot.3c", "-r", "snapshot.48"], more].concat();
    files.same(Tool::Compare, &words(&["-b", "0", "-n", "0"]), 0);
    files.same(Tool::Compare, &words(&["--bytes", "2", "--nodes=1", "--debug"]), 0);
    let answers = "/eph\n1\n99\n-1\nabc\n/none\n/\n2\n\n\n\n\n\n";
    files.same_but(Tool::Compare, &words(&["-b", "2", "-n", "1", "-i"]), answers, (0, 0));
    // No more answers.
    files.same_but(Tool::Compare, &words(&["-b", "2", "-n", "1", "-i", "-d"]), "3\n", (1, 1));
    files.same(Tool::Compare, &["-l", "none", "-r", "snapshot.48", "-b", "0", "-n", "0"], 1);
}

/// Files of either server, with more children than fit into the smallest hash table.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn what_servers_write_is_shown_alike() {
    for kind in [Kind::Java395, Kind::Zebu] {
        let options = Options::default().config("extendedTypesEnabled", true);
        let mut server = Server::start(kind, &options).expect("a server");
        fill(&server).expect("it is filled");
        server.restart().expect("it restarts");
        server.stop().expect("it stops");
        let mut files = Files::new();
        let mut shown = 0;
        for entry in fs::read_dir(server.data().join("version-2")).expect("a data directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_str().expect("text");
            let tools: &[Tool] = match name.split('.').next() {
                Some("log") => &[Tool::Log],
                Some("snapshot") => &[Tool::Show, Tool::Summary],
                _ => continue,
            };
            files.add(name, &fs::read(&path).expect("a file"));
            for tool in tools {
                let words: &[&str] =
                    if matches!(tool, Tool::Summary) { &[name, "/", "0"] } else { &[name] };
                files.same(*tool, words, 0);
                shown += 1;
            }
        }
        assert!(shown >= 3, "{kind:?} wrote a log and a snapshot");
    }
}

fn fill(server: &Server) -> Result<()> {
    let mut session = Session::open(server.address(), 30_000)?;
    session.create("/many", b"", 0)?;
    for i in 0..200 {
        session.create(
            &format!("/many/child-{}", i * 7919 % 1000),
            format!("{i}").as_bytes(),
            0,
        )?;
        session.create("/many/in-a-row-", b"", 2)?;
    }
    for (i, name) in ["ключ", "漢字", "A\"b\\c", "with blank"].into_iter().enumerate() {
        session.create(&format!("/{name}"), name.as_bytes(), i32::from(i == 0))?;
    }
    let quota = "/zookeeper/quota/many";
    session.create(quota, b"", 0)?;
    session.create(&format!("{quota}/zookeeper_limits"), b"count=1000,bytes=100000", 0)?;
    session.create(&format!("{quota}/zookeeper_stats"), b"count=0,bytes=0", 0)?;
    let body = |path: &str, flags: i32| {
        Writer::new().string(path).optional_buffer(None).acl(&open_acl()).int(flags)
    };
    session.expect(op::CREATE_CONTAINER, body("/container", 4))?;
    session.expect(op::CREATE_TTL, body("/ttl", 5).long(1 << 39))?;
    session.close()
}
