//! Zebu's `libzookeeper_mt` and `libzookeeper_st` in place of the original's: symbols, constants,
//! programs, and invalid use.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use zebu_interop::deps::{self, our_libraries};
use zebu_interop::raw::Session;
use zebu_interop::run::{Program, succeed};
use zebu_interop::server::{Kind, Options, PATIENCE, Server, free_port};

/// Symbols of the original's libraries that Zebu lacks. This list may only shrink.
const MISSING: [&str; 0] = [];

/// The folder of Debian's libraries.
fn theirs() -> PathBuf {
    let folder = Path::new("/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    assert!(folder.join("libzookeeper_mt.so.2").exists(), "hint: cargo xtask deps");
    folder
}

/// Compiles a test program with Debian's headers and library.
fn compile(folder: &Path, name: &str, words: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let mut cc = Command::new("gcc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&program);
    cc.arg(deps::client(&format!("c/{name}.c"))).args(words);
    succeed(&mut cc, PATIENCE).expect("it compiles");
    program
}

const MT: [&str; 3] = ["-DTHREADED", "-lzookeeper_mt", "-lpthread"];

/// Compiles a test program with Zebu's headers and library, as the pkg-config file says.
fn compile_with_ours(folder: &Path, name: &str) -> PathBuf {
    compile_with(folder, name, &["-DTHREADED"], &["-lzookeeper_mt", "-lpthread"])
}

/// As above, with these flags and libraries.
fn compile_with(folder: &Path, name: &str, flags: &[&str], libraries: &[&str]) -> PathBuf {
    let program = folder.join(format!("{name}-ours"));
    let mut cc = Command::new("gcc");
    cc.args(["-Wall", "-Wextra", "-Werror"]).args(flags).arg("-o").arg(&program);
    cc.arg("-I")
        .arg(our_libraries().join("include"))
        .arg("-I")
        .arg(our_libraries().join("include/zookeeper"));
    cc.arg(deps::client(&format!("c/{name}.c")));
    cc.arg("-L").arg(our_libraries().join("lib")).args(libraries);
    succeed(&mut cc, PATIENCE).expect("it compiles");
    program
}

/// A program that finds Zebu's libraries in place of the original's.
fn with_ours(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env("LD_LIBRARY_PATH", our_libraries().join("lib"));
    command
}

fn symbols(library: &Path) -> BTreeSet<String> {
    let mut nm = Command::new("nm");
    nm.args(["--dynamic", "--defined-only", "--format=posix"]).arg(library);
    let text = succeed(&mut nm, PATIENCE).expect("nm reads a library");
    text.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

fn server() -> Server {
    let options = Options::default().config("extendedTypesEnabled", true);
    Server::start(Kind::Zebu, &options).expect("a server")
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn no_symbol_of_the_original_is_missing() {
    for name in ["libzookeeper_mt.so.2", "libzookeeper_st.so.2"] {
        let ours = symbols(&our_libraries().join("lib").join(name));
        let missing = symbols(&theirs().join(name)).difference(&ours).cloned().collect::<Vec<_>>();
        assert_eq!(missing, MISSING, "{name}");
        // Functions that wait for an answer need threads.
        assert_eq!(ours.contains("zoo_get"), name.contains("_mt"));
        // No symbol of Rust is exported.
        let foreign =
            ours.iter().filter(|symbol| symbol.starts_with("_R") || symbol.contains("rust"));
        assert_eq!(foreign.count(), 0, "{name}");
    }
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn constants_and_texts_are_those_of_the_original() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "constants", &MT);
    let expected = succeed(&mut Command::new(&program), PATIENCE).expect("it runs");
    assert_eq!(succeed(&mut with_ours(&program), PATIENCE).expect("it runs"), expected);
    // With Zebu's headers and library alone.
    let ours = compile_with_ours(folder.path(), "constants");
    assert_eq!(succeed(&mut with_ours(&ours), PATIENCE).expect("it runs"), expected);
}

/// What pkg-config says of Zebu's library.
fn flags(words: &[&str]) -> Vec<String> {
    let mut ask = Command::new("pkg-config");
    ask.env("PKG_CONFIG_PATH", our_libraries().join("lib/pkgconfig")).args(words);
    let text = succeed(&mut ask, PATIENCE).expect("pkg-config knows the library");
    text.split_whitespace().map(str::to_owned).collect()
}

/// A program is compiled as pkg-config says, and runs: with the shared library, with the static
/// one, and without any shared library.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn pkg_config_links_programs_shared_and_static() {
    let folder = tempfile::tempdir().expect("a folder");
    let build = |name: &str, words: &[String]| {
        let program = folder.path().join(name);
        let mut cc = Command::new("gcc");
        cc.arg("-o").arg(&program).arg(deps::client("c/scenario.c")).args(words);
        succeed(&mut cc, PATIENCE).expect("it compiles");
        program
    };
    let shared = build("shared", &flags(&["--cflags", "--libs", "zookeeper_mt"]));
    let mut all = flags(&["--static", "--cflags", "--libs", "zookeeper_mt"]);
    all.push("-static".to_owned());
    let whole = build("whole", &all);
    // The library alone is static.
    let library = our_libraries().join("lib/libzookeeper_mt.a");
    let mut own = flags(&["--cflags", "zookeeper_mt"]);
    own.push(library.display().to_string());
    own.extend(
        flags(&["--static", "--libs", "zookeeper_mt"])
            .into_iter()
            .filter(|word| word != "-lzookeeper_mt" && !word.starts_with("-L")),
    );
    let own = build("own", &own);
    let story = |mut command: Command| {
        let server = server();
        succeed(command.arg(server.connect_string()), 3 * PATIENCE).expect("it runs")
    };
    let expected = story(with_ours(&shared));
    assert!(expected.lines().count() > 100, "{expected}");
    for program in [whole, own] {
        assert_eq!(story(Command::new(&program)), expected, "{}", program.display());
    }
    // A program without threads, too.
    let mut words = flags(&["--static", "--cflags", "--libs", "zookeeper_st"]);
    words.push("-static".to_owned());
    let program = folder.path().join("loop");
    let mut cc = Command::new("gcc");
    cc.arg("-o").arg(&program).arg(deps::client("c/loop.c")).args(words);
    succeed(&mut cc, PATIENCE).expect("it compiles");
    let server = server();
    let text = succeed(Command::new(&program).arg(server.connect_string()), PATIENCE);
    assert!(text.expect("it runs").contains("create: 0 /loop"));
}

/// The scenario prints the same with Zebu's library as with the original's.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_scenario_with_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "scenario", &MT);
    let story = |mut command: Command| {
        let server = server();
        let text = succeed(command.arg(server.connect_string()), 3 * PATIENCE).expect("it runs");
        // The original leaves a removed watch at the server, and finds it once more.
        let lines = text.lines().filter(|line| !line.starts_with("remove all: rc="));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = story(Command::new(&program));
    assert!(expected.len() > 100, "{expected:#?}");
    assert_eq!(story(with_ours(&program)), expected);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_loop_without_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let st = theirs().join("libzookeeper_st.so.2");
    let program = compile(folder.path(), "loop", &[st.to_str().expect("a path")]);
    let server = server();
    let text =
        succeed(with_ours(&program).arg(server.connect_string()), PATIENCE).expect("it runs");
    let expected = "acreate: 0
session: 3
create: 0 /loop
create2: 0 /loop/child version 0
event: data type=3 state=3 path=/loop
set: 0 version 1
event: data type=3 state=3 path=/loop
set: 0 version 2
event: data type=3 state=3 path=/loop
set: 0 version 3
get: 0 new version 3
children: 0 1 child children 1
acl: 0 1 world version 3
amulti: 0
multi: 0 0 0 0 /loop/m-0000000001
delete of nothing: -101
delete with a wrong version: -103
delete behind the close: -103
close: 0
";
    assert_eq!(text, expected);
}

/// Invalid arguments, short buffers, calls and a close within a watcher, 10,000 requests, and a
/// fork.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn careless_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "rough", &MT);
    let server = server();
    let text =
        succeed(with_ours(&program).arg(server.connect_string()), PATIENCE).expect("it runs");
    let expected = std::fs::read_to_string(deps::client("c/rough.txt")).expect("what it prints");
    assert_eq!(text, expected);
}

/// Debian's own programs, with Zebu's library.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn programs_of_the_original() {
    let server = server();
    let folder = "/usr/lib/zookeeper/bin";
    let mut cli =
        Program::start(with_ours(format!("{folder}/cli_mt")).arg(server.connect_string()))
            .expect("cli_mt starts");
    let begun = |text: &str| text.contains("Got a new session id");
    cli.wait_for(PATIENCE, begun).expect("a session");
    // The program buffers its output if stdout is no terminal, so the output is read after its end.
    for line in ["create /cli", "get /cli", "set /cli hello", "get /cli", "ls /", "quit"] {
        cli.say(line).expect("it takes a line");
    }
    let ended = cli.finish(PATIENCE).expect("it ends");
    assert!(ended.status.success(), "{}", ended.text);
    let event = "CHANGED_EVENT state = CONNECTED_STATE for path /cli";
    for part in ["[/cli]: rc = 0", event, "hello", "\tcli\n"] {
        assert!(ended.text.contains(part), "no {part:?} in: {}", ended.text);
    }

    // The program repeatedly creates, writes, reads and deletes its znodes.
    let mut load = with_ours(format!("{folder}/load_gen"));
    let load = Program::start(load.arg(server.connect_string()).args(["/load", "40"]))
        .expect("load_gen starts");
    let rounds = |text: &str| text.matches("Starting the delete cycle").count();
    load.wait_for(PATIENCE, |text| rounds(text) > 1).expect("two rounds");
    let text = load.text().expect("what it says");
    assert!(!text.contains("Failed") && !text.contains("Invalid read"), "{text}");
}

/// The original's extension for Perl, compiled for the original's library, runs its own tests with
/// Zebu's library.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_extension_for_perl() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = "source/zookeeper-contrib/zookeeper-contrib-zkperl/.";
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(deps::installed("c-suite").join(source)).arg(folder.path());
    succeed(&mut copy, PATIENCE).expect("a copy of the source");
    for words in
        [&["perl", "Makefile.PL", "--zookeeper-include=/usr/include/zookeeper"][..], &["make"]]
    {
        let mut build = Command::new(words[0]);
        build.args(&words[1..]).current_dir(folder.path());
        succeed(&mut build, PATIENCE).expect("it compiles");
    }
    let server = server();
    // The tests expect the znode that they work below.
    let session = Session::open(server.address(), 10_000);
    session.and_then(|mut session| session.create("/perl", b"", 0)).expect("it is created");
    let mut tests = with_ours("perl");
    tests.args(["-Mblib", "-MTest::Harness", "-e", "runtests(glob('t/*.t'))"]);
    tests.env("ZK_TEST_HOSTS", server.connect_string()).env("ZK_TEST_PATH", "/perl");
    let told = succeed(tests.current_dir(folder.path()), 3 * PATIENCE).expect("its tests pass");
    assert!(told.contains("All tests successful"), "{told}");
    assert!(told.contains("Result: PASS"), "{told}");
}

/// Events of a program that watches znodes while its server is killed and restarted, and of one
/// that is paused for too long.
fn moves(program: &Path, ours: bool) -> Vec<String> {
    let mut server =
        Server::start(Kind::Zebu, &Options::default().config("tickTime", 500)).expect("a server");
    let start = |server: &Server, timeout_ms: &str| {
        let mut command = if ours { with_ours(program) } else { Command::new(program) };
        command.arg(server.connect_string()).arg(timeout_ms);
        Program::start(&mut command).expect("it starts")
    };
    let says = |program: &Program, what: &str, times: usize| {
        let enough = |text: &str| text.matches(what).count() >= times;
        program.wait_for(PATIENCE, enough).expect(what);
    };
    let mut first = start(&server, "10000");
    says(&first, "handle: type=-1 state=3", 1);
    for line in ["create", "watch"] {
        first.say(line).expect("it takes a line");
    }
    says(&first, "watch: rc=0", 1);
    server.kill().expect("it ends");
    // The handle, and two watchers of its znodes.
    says(&first, "state=1 ", 3);
    server.launch().expect("it serves again");
    says(&first, "state=3 path=\n", 4);
    for line in ["same", "set", "state", "quit"] {
        first.say(line).expect("it takes a line");
    }
    let mut text = first.finish(PATIENCE).expect("it ends").text;

    let mut second = start(&server, "2000");
    says(&second, "handle: type=-1 state=3", 1);
    second.say("watch").expect("it takes a line");
    says(&second, "watch: rc=", 1);
    second.pause().expect("it sleeps");
    let nobody = |text: &str| text.contains("zk_global_sessions\t0");
    server.wait_until_it_says("mntr", nobody).expect("the session expires");
    second.go_on().expect("it goes on");
    says(&second, "state=-112", 3);
    for line in ["over", "watch", "state", "quit"] {
        second.say(line).expect("it takes a line");
    }
    text += &second.finish(PATIENCE).expect("it ends").text;
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    // The order in which watchers receive session events is not defined.
    lines.sort();
    lines
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_session_that_moves_and_one_that_expires() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "moves", &MT);
    assert_eq!(moves(&program, true), moves(&program, false));
}

/// COMPAT c-1 and c-5: a request without a connection, and a multi whose connection is lost.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn requests_wait_for_a_connection_and_a_lost_multi_has_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile_with_ours(folder.path(), "differs");
    let mut server = server();
    let mut program =
        Program::start(with_ours(&program).arg(server.connect_string())).expect("it starts");
    let says = |program: &Program, what: &str| {
        program.wait_for(PATIENCE, |text| text.contains(what)).expect(what);
    };
    says(&program, "state: 3\n");
    // The server does not answer the multi.
    server.pause().expect("it stands still");
    program.say("multi").expect("it takes a line");
    says(&program, "amulti: 0\n");
    server.kill().expect("it ends");
    says(&program, "\nmulti: -4, results -4 -4\n");
    says(&program, "state: 1\n");
    program.say("exists").expect("it takes a line");
    // Two attempts to connect fail.
    let port = TcpListener::bind(server.address()).expect("the server has ended");
    for _ in 0..2 {
        drop(port.accept().expect("the client connects"));
    }
    drop(port);
    server.launch().expect("it serves again");
    says(&program, "\nexists: 0\n");
    program.say("quit").expect("it takes a line");
    program.finish(PATIENCE).expect("it ends");
}

/// COMPAT c-2, c-6, c-13, c-15 and c-24.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn differences_that_a_program_can_notice() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile_with_ours(folder.path(), "differs");
    let server = server();
    let mut program =
        Program::start(with_ours(&program).arg(server.connect_string())).expect("it starts");
    for (line, answer, watches) in [
        ("close", "left behind: 0\n", 0),
        ("watch", "watch: -101\n", 1),
        ("unwatch", "unwatch: 0\n", 0),
        ("flags", "flags: NULL EINVAL\n", 0),
        ("loop", "failed: 0\n", 0),
        ("reopen", "reopened: 2\n", 0),
    ] {
        program.say(line).expect("it takes a line");
        program.wait_for(PATIENCE, |text| text.contains(answer)).expect(answer);
        let wchs = server.four_letter_word("wchs").expect("an answer");
        assert!(wchs.contains(&format!("Total watches:{watches}\n")), "{line}: {wchs}");
    }
    program.say("quit").expect("it takes a line");
    program.finish(PATIENCE).expect("it ends");
}

/// COMPAT c-23: valgrind finds no leak.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn callbacks_for_sasl_are_freed_with_free() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile_with_ours(folder.path(), "differs");
    let server = server();
    let mut valgrind = with_ours("valgrind");
    valgrind.args(["--quiet", "--error-exitcode=9", "--errors-for-leak-kinds=definite"]);
    valgrind.arg("--leak-check=full").arg(&program).arg(server.connect_string());
    let mut program = Program::start(&mut valgrind).expect("it starts");
    program.say("callbacks").expect("it takes a line");
    program.wait_for(PATIENCE, |text| text.contains("callbacks\n")).expect("it frees them");
    program.say("quit").expect("it takes a line");
    let ended = program.finish(PATIENCE).expect("it ends");
    assert!(ended.status.success(), "{}", ended.text);
}

/// Persistent and recursive watches, which only Zebu's library has. The events are the Java
/// client's.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn watches_that_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile_with_ours(folder.path(), "lasting");
    let server = server();
    let text =
        succeed(with_ours(&program).arg(server.connect_string()), PATIENCE).expect("it runs");
    let expected = "wrong: -8 -8 -8
add: 0 0
add again: 0
persistent: 1 /lasting
recursive: 1 /lasting
recursive: 1 /lasting/a
persistent: 4 /lasting
recursive: 3 /lasting/a
recursive: 3 /lasting/a
recursive: 2 /lasting/a
persistent: 4 /lasting
persistent: 3 /lasting
recursive: 3 /lasting
remove: 0
recursive: 3 /lasting
remove all: 0
remove all: -121
";
    assert_eq!(text, expected);
}

/// Several reads in one request, which the original's C client does not have.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn several_reads_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile_with_ours(folder.path(), "reads");
    let server = server();
    let text =
        succeed(with_ours(&program).arg(server.connect_string()), PATIENCE).expect("it runs");
    let expected = "reads: 0
0: more 4, version 1, 0 children
0: - -1, version 0, 1 children null
-101: - -1, version 0, 0 children
0: - -1, version 0, 0 children
reads: 0
0: more 4, version 1, 0 children
0: - -1, version 0, 1 children null
-101: - -1, version 0, 0 children
0: - -1, version 0, 0 children
wrong: -8 -8 -8 -8 -8
none: 0
reads: 0
0: - -1, version 0, 0 children
0: - -1, version 0, 1 children null
-101: - -1, version 0, 0 children
0: more 4, version 1, 0 children
";
    assert_eq!(text, expected);
}

/// The test programs under AddressSanitizer and UndefinedBehaviorSanitizer: memory that crosses the
/// boundary in either direction is neither overrun nor used after it was freed, nor freed twice.
/// Both see the library's allocations, too.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn sanitizers_find_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags =
        ["-DTHREADED", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    for name in ["reads", "lasting", "rough", "scenario"] {
        let program = compile_with(folder.path(), name, &flags, &["-lzookeeper_mt", "-lpthread"]);
        let server = server();
        let mut command = with_ours(&program);
        // Programs end without freeing everything; valgrind looks for leaks.
        command.env("ASAN_OPTIONS", "detect_leaks=0").arg(server.connect_string());
        succeed(&mut command, PATIENCE).expect(name);
    }
}

/// A key or certificate of the tests of `zebu-auth`.
fn certificate(name: &str) -> String {
    deps::repository().join("crates/auth/tests/fixtures").join(name).display().to_string()
}

/// The program `secure` with both libraries, against `servers`. Returns what both print.
fn secure(words: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let mt = compile_with_ours(folder.path(), "secure");
    let run = |program: &Path| {
        let text = succeed(with_ours(program).args(words), PATIENCE).expect("it runs");
        text.replace("process: -15\n", "")
    };
    let told = run(&mt);
    let st = compile_with(folder.path(), "secure", &[], &["-lzookeeper_st"]);
    // Apart from times and lines of the log, both libraries say the same.
    let facts = |text: &str| {
        let lines = text.lines().filter(|line| !line.contains("@"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(facts(&run(&st)), facts(&told));
    told
}

/// A successful session of the program `secure`.
fn secured(scheme: &str, id: &str) -> String {
    let gets = "get: 0 300000 same\n".repeat(50);
    format!("state: 3\ncreate: 0 /secure\n{gets}acl: 0 {scheme} {id}\nexists: 0\nclose: 0\n")
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn sessions_over_tls() {
    let port = free_port();
    let options = Options::default()
        .config("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory")
        .config("secureClientPort", port)
        .config("secureClientPortAddress", "127.0.0.1")
        .config("ssl.keyStore.location", certificate("keytool17.p12"))
        .config("ssl.keyStore.password", "testpass")
        .config("ssl.trustStore.location", certificate("trust17.p12"))
        .config("ssl.trustStore.password", "testpass");
    let ca = certificate("ca.pem");
    let own = |key: &str| format!("{ca},{},{}", certificate("client.pem"), certificate(key));
    let [theirs, ours] = [Kind::Java395, Kind::Zebu].map(|kind| {
        let _server = Server::start(kind, &options).expect("a server");
        let servers = format!("127.0.0.1:{port}");
        secure(&[&servers, "tls", &format!("{},unused", own("client.key"))])
    });
    let subject = theirs.lines().find_map(|line| line.strip_prefix("acl: 0 x509 "));
    assert_eq!(theirs, secured("x509", subject.expect("the subject of the certificate")));
    assert_eq!(ours, theirs);
    let _server = Server::start(Kind::Zebu, &options).expect("a server");
    let servers = format!("127.0.0.1:{port}");
    for (certificates, words) in [
        (certificate("other-ca.pem"), "the server's certificate is not of a trusted authority"),
        (ca.clone(), "the server wants a certificate of this client"),
    ] {
        let text = secure(&[&servers, "tls", &certificates]);
        assert!(text.contains(words), "{words}: {text}");
        assert!(!text.contains("state: 3"), "{text}");
    }
    for (certificates, words) in [
        (certificate("none.pem"), "none.pem: cannot be read"),
        (own("server.key"), "does not belong to the certificate"),
        (format!("{},wrong", own("quick-encrypted.key")), "the password is wrong"),
    ] {
        let text = secure(&[&servers, "tls", &certificates]);
        assert!(text.contains(words) && text.contains("no handle: EINVAL"), "{words}: {text}");
    }
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn sessions_with_sasl() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("it can be written");
        path.display().to_string()
    };
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let jaas = file("jaas.conf", &format!("Server {{ {module} user_amy=\"secret\"; }};\n"));
    let options = Options::default()
        .config("authProvider.1", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
        .property("java.security.auth.login.config", jaas);
    let (plain, turned) = (file("password", "secret\nmore\n"), file("turned", "terces"));
    let wrong = file("wrong", "guess");
    for kind in [Kind::Zebu, Kind::Java395] {
        let server = Server::start(kind, &options).expect("a server");
        let servers = server.connect_string();
        for words in
            [["basic", "amy", &plain], ["password", "amy", &turned], ["own", "amy", "secret"]]
        {
            let text = secure(&[&[servers.as_str()][..], &words].concat());
            assert_eq!(text, secured("sasl", "amy"), "{kind:?} {words:?}");
        }
        for (words, fault) in [
            (["basic", "amy", &wrong], "the server refuses the user or the password"),
            (["basic", "eve", &plain], "the server refuses the user or the password"),
            (["basic", "amy", "/none"], "the program gives no password: code -1"),
        ] {
            let text = secure(&[&[servers.as_str()][..], &words].concat());
            assert!(text.contains(fault), "{kind:?} {words:?}: {text}");
            assert!(text.contains("state: -113\n"), "{kind:?} {words:?}: {text}");
        }
    }
    let text = secure(&["127.0.0.1:1", "plain", "amy", &plain]);
    assert!(text.contains("no supported SASL mechanism in \"PLAIN\""), "{text}");
    assert!(text.contains("no handle: EINVAL"), "{text}");
}

/// Under valgrind: no uninitialized reads, no use after free, and no leaks.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn valgrind_finds_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let st = theirs().join("libzookeeper_st.so.2");
    for (name, words, leaks) in [
        ("loop", &[st.to_str().expect("a path")][..], &["--leak-check=full"][..]),
        // Memory that the child of a fork still holds is not a leak.
        ("rough", &MT, &["--leak-check=no", "--child-silent-after-fork=yes"]),
    ] {
        let program = compile(folder.path(), name, words);
        let server = server();
        let mut valgrind = with_ours("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=9", "--errors-for-leak-kinds=definite"]);
        valgrind.args(leaks).arg(&program).arg(server.connect_string());
        succeed(&mut valgrind, PATIENCE).expect(name);
    }
}
