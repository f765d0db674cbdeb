//! Backups in an object store: moto, an independent implementation of Amazon's S3.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use zebu_interop::deps;
use zebu_interop::dump;
use zebu_interop::raw::Session;
use zebu_interop::scenario::{compare, subject};
use zebu_interop::server::{Kind, Options, PATIENCE, Server, free_port};
use zebu_testkit::wire::{Writer, op};

/// A text that must not appear in any message.
const SECRET: &str = "wJalrXUtnFEMIK7MDENG";

/// A running store, until this value is dropped.
struct Store {
    process: Child,
    port: u16,
}

impl Store {
    fn start() -> Result<Self> {
        let port = free_port();
        let python = deps::installed("moto").join("bin/python");
        let process = Command::new(python)
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let store = Self { process, port };
        let end = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(Instant::now() < end, "moto does not listen");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(store)
    }

    /// Runs a line of Python with Amazon's own client, as `s3`.
    fn python(&self, line: &str) -> Result<String> {
        let text = format!(
            "import boto3\ns3 = boto3.client('s3', endpoint_url='http://127.0.0.1:{}', region_name='us-east-1')\n{line}",
            self.port
        );
        let mut command = Command::new(deps::installed("moto").join("bin/python"));
        let output = command
            .args(["-c", &text])
            .env("AWS_ACCESS_KEY_ID", "a")
            .env("AWS_SECRET_ACCESS_KEY", "b")
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // If this fails, the store has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn zebu(port: u16, args: &[&str]) -> Result<Output> {
    let output = Command::new(deps::zebu())
        .args(args)
        .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"))
        .output()
        .context("zebu")?;
    for text in [&output.stdout, &output.stderr] {
        assert!(!String::from_utf8_lossy(text).contains(SECRET), "a secret is shown");
    }
    Ok(output)
}

/// The output of a command that succeeds.
fn told(port: u16, args: &[&str]) -> Result<String> {
    let output = zebu(port, args)?;
    ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The message of a command that fails.
fn refusal(port: u16, args: &[&str]) -> Result<String> {
    let output = zebu(port, args)?;
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    Ok(String::from_utf8(output.stderr)?)
}

fn fill(server: &Server, path: &str, large: usize) -> Result<()> {
    let mut session = Session::open(server.address(), 60_000)?;
    session.create(path, b"small", 0)?;
    for turn in 0..large {
        let data = vec![turn as u8; 900_000];
        let body = Writer::new().string(path).buffer(&data).int(-1);
        session.expect(op::SET_DATA, body)?;
    }
    session.close()
}

fn restored(store: &Store, from: &str, into: &Path, more: &[&str]) -> Result<Server> {
    let target = into.display().to_string();
    let args = [&["restore", from, "--into", &target], more].concat();
    told(store.port, &args)?;
    Server::start_with(Kind::Java395, &options(), |data| {
        std::fs::remove_dir_all(data)?;
        Ok(std::fs::rename(into, data)?)
    })
}

fn options() -> Options {
    dump::with_super(Options::default().config("extendedTypesEnabled", true))
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_backup_in_a_bucket_is_made_verified_and_restored() {
    let store = Store::start().unwrap();
    store.python("s3.create_bucket(Bucket='backups')").unwrap();
    let mut server = Server::start(subject(), &options()).unwrap();
    let data = server.data().display().to_string();
    let to = "s3://backups/zk/one";
    let create = ["backup", "create", "--dir", &data, "--to", to];
    fill(&server, "/first", 0).unwrap();
    told(store.port, &create).unwrap();
    // The backup has more than one part.
    fill(&server, "/second", 40).unwrap();
    let before = dump::tree(server.address()).unwrap();
    let made = told(store.port, &create).unwrap();
    assert!(made.contains("backup 2 of directory"), "{made}");
    let again = told(store.port, &create).unwrap();
    assert!(again.contains("backup 3 of directory") && again.contains("copied 0 files"), "{again}");
    server.stop().unwrap();

    let listed = told(store.port, &["backup", "list", to]).unwrap();
    assert_eq!(listed.lines().filter(|line| line.starts_with("backup ")).count(), 3, "{listed}");
    told(store.port, &["backup", "verify", to, "--all"]).unwrap();
    let history = told(store.port, &["history", "/second", "--dir", to]).unwrap();
    assert!(history.contains("create"), "{history}");
    let folder = tempfile::tempdir().unwrap();
    let newest = restored(&store, to, &folder.path().join("newest"), &[]).unwrap();
    compare("restored-from-a-bucket", &before, &dump::tree(newest.address()).unwrap());
    let first = restored(&store, to, &folder.path().join("first"), &["--number", "1"]).unwrap();
    let first = dump::tree(first.address()).unwrap();
    assert!(first.contains("/first") && !first.contains("/second"), "{first}");

    // A byte in the store changes, and then a file disappears.
    let damage = "
keys = [o['Key'] for o in s3.list_objects_v2(Bucket='backups', Prefix='zk/one/files/log')['Contents']]
key = max(keys, key=lambda key: s3.head_object(Bucket='backups', Key=key)['ContentLength'])
body = bytearray(s3.get_object(Bucket='backups', Key=key)['Body'].read())
body[len(body) // 2] ^= 1
s3.put_object(Bucket='backups', Key=key, Body=bytes(body))
print(key)";
    let key = store.python(damage).unwrap();
    let said = refusal(store.port, &["backup", "verify", to]).unwrap();
    assert!(said.contains(key.trim()) && said.contains("not what was backed up"), "{said}");
    store.python(&format!("s3.delete_object(Bucket='backups', Key='{}')", key.trim())).unwrap();
    let said = refusal(store.port, &["backup", "verify", to]).unwrap();
    assert!(said.contains("no such bucket or object"), "{said}");

    // Objects of others in the store stay unchanged.
    store.python("s3.put_object(Bucket='backups', Key='other/mine', Body=b'mine')").unwrap();
    let other = ["backup", "create", "--dir", &data, "--to", "s3://backups/other"];
    let said = refusal(store.port, &other).unwrap();
    assert!(said.contains("s3://backups/other: no backup"), "{said}");
    let said = refusal(store.port, &["backup", "list", "s3://missing/zk"]).unwrap();
    assert!(said.contains("no such bucket"), "{said}");
    let said = refusal(store.port, &["backup", "list", "s3:///zk"]).unwrap();
    assert!(said.contains("s3://BUCKET"), "{said}");
}

#[test]
fn a_store_that_refuses_or_does_not_listen_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let store = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut asked, mut block) = (Vec::new(), [0; 4096]);
        while !asked.ends_with(b"\r\n\r\n") {
            let read = stream.read(&mut block).unwrap();
            asked.extend_from_slice(&block[..read]);
        }
        let body = "<Error><Code>SignatureDoesNotMatch</Code></Error>";
        let head = format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        String::from_utf8(asked).unwrap()
    });
    let said = refusal(port, &["backup", "list", "s3://backups/zk"]).unwrap();
    assert!(said.contains("SignatureDoesNotMatch") && said.contains("AWS_ACCESS_KEY_ID"), "{said}");
    let asked = store.join().unwrap();
    assert!(
        asked.contains("authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/"),
        "{asked}"
    );
    // No store listens there any more.
    let said = refusal(port, &["backup", "list", "s3://backups/zk"]).unwrap();
    assert!(said.contains("s3://backups/zk: ") && said.contains("onnection refused"), "{said}");
}
