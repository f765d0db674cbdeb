//! The schemes `key` and `ensemble`, which an operator switches on by their classes: the same answers from both servers.

use std::fmt::Write as _;

use anyhow::Result;
use zebu_interop::raw::{Incoming, NoAnswer, Reply, Session};
use zebu_interop::scenario::same;
use zebu_interop::server::{Options, Server};
use zebu_interop::wire::{Acl, Reader, Writer, op};

const KEY: &str = "org.apache.zookeeper.server.auth.KeyAuthenticationProvider";
const ENSEMBLE: &str = "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";

/// A connection whose every answer is written down.
struct Told {
    session: Session,
    story: String,
}

impl Told {
    fn new(server: &Server, what: &str) -> Result<Self> {
        let session = Session::open(server.address(), 10_000)?;
        Ok(Self { session, story: format!("== {what}\n") })
    }

    fn call(&mut self, what: &str, op: i32, body: Writer) -> Result<Option<Reply>> {
        match self.session.call(op, body) {
            Ok(reply) => {
                writeln!(self.story, "{what}: err {}", reply.err)?;
                Ok(Some(reply))
            }
            // A connection that was closed may be seen when it is written to, or when it is read from.
            Err(error) if error.is::<NoAnswer>() || error.is::<std::io::Error>() => {
                writeln!(self.story, "{what}: no answer")?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn auth(&mut self, scheme: &str, data: Option<&[u8]>) -> Result<()> {
        let body = Writer::new().int(0).string(scheme).buffer(data);
        self.session.connection.send(&Writer::request(-4, op::AUTH).raw(&body.done()).done())?;
        let shown = data.map(String::from_utf8_lossy);
        match self.session.connection.receive() {
            Ok(Incoming::Frame(frame)) => {
                let err = Reply::parse(&frame)?.err;
                writeln!(self.story, "auth {scheme} {shown:?}: err {err}")?;
            }
            _ => writeln!(self.story, "auth {scheme} {shown:?}: closed")?,
        }
        Ok(())
    }

    fn create(&mut self, path: &str, data: &str, acl: (i32, &str, &str)) -> Result<()> {
        let list: Vec<Acl> = vec![(acl.0, Some(acl.1.into()), Some(acl.2.into()))];
        let body = Writer::new().string(path).buffer(Some(data.as_bytes())).acl(&list).int(0);
        self.call(&format!("create {path} {acl:?}"), op::CREATE, body).map(|_| ())
    }

    fn set(&mut self, path: &str, data: Option<&str>) -> Result<()> {
        let body = Writer::new().string(path).buffer(data.map(str::as_bytes)).int(-1);
        self.call(&format!("set {path} {data:?}"), op::SET_DATA, body).map(|_| ())
    }

    fn get(&mut self, path: &str) -> Result<()> {
        let body = Writer::new().string(path).bool(false);
        self.call(&format!("get {path}"), op::GET_DATA, body).map(|_| ())
    }

    fn who_am_i(&mut self) -> Result<()> {
        if let Some(reply) = self.call("whoami", op::WHO_AM_I, Writer::new())? {
            // The original's ids have no order.
            let mut reader = Reader::new(&reply.body);
            let mut ids = Vec::new();
            for _ in 0..reader.int()? {
                ids.push((reader.string()?, reader.string()?));
            }
            ids.sort();
            writeln!(self.story, "{ids:?}")?;
        }
        Ok(())
    }

    /// Whether the server has closed the connection, or goes on.
    fn end(mut self) -> Result<String> {
        self.session.connection.send(&Writer::request(-2, op::PING).done()).ok();
        let end = match self.session.connection.receive() {
            Ok(Incoming::Frame(_)) => "goes on",
            _ => "closed",
        };
        writeln!(self.story, "{end}")?;
        Ok(self.story)
    }
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_key() {
    let options = Options::default().config("authProvider.1", KEY);
    same("scheme-key", &options, |server| {
        let mut story = String::new();
        let mut first = Told::new(server, "before there is a key")?;
        first.auth("key", Some(b"any text"))?;
        first.who_am_i()?;
        first.create("/auth", "x", (31, "auth", ""))?;
        first.create("/empty", "x", (31, "key", ""))?;
        first.create("/other", "x", (31, "key", "of somebody else"))?;
        for path in ["/auth", "/empty", "/other"] {
            first.get(path)?;
        }
        first.create("/key", "7", (31, "world", "anyone"))?;
        story.push_str(&first.end()?);
        for (key, claims) in [
            ("7", &["21", "0", "-14", "+7", "22", "", "x", " 7", "2147483648"][..]),
            ("+7", &["21", "22"]),
            ("-1", &["-2147483648", "5"]),
            ("0", &["5", "x"]),
            ("", &["7"]),
            ("seven", &["7"]),
        ] {
            let mut owner = Told::new(server, &format!("the key {key:?}"))?;
            owner.set("/key", Some(key))?;
            story.push_str(&owner.end()?);
            for claim in claims {
                let mut other = Told::new(server, "a claim")?;
                other.auth("key", Some(claim.as_bytes()))?;
                other.get("/auth").ok();
                story.push_str(&other.end()?);
            }
        }
        let mut none = Told::new(server, "no claim")?;
        none.get("/auth")?;
        none.set("/key", None)?;
        none.auth("key", None)?;
        story.push_str(&none.end()?);
        let mut null = Told::new(server, "a null as the key")?;
        null.auth("key", Some(b"any text"))?;
        null.get("/auth")?;
        story.push_str(&null.end()?);
        Ok(story)
    });
}

fn metric(server: &Server, name: &str) -> Result<String> {
    let text = server.four_letter_word("mntr")?;
    let line = text.lines().find(|line| line.starts_with(&format!("zk_{name}\t")));
    Ok(line.unwrap_or("no such metric").to_owned())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_name_of_an_ensemble() {
    for names in [None, Some("one, two,,"), Some("")] {
        let mut options = Options::default().config("authProvider.ens", ENSEMBLE);
        if let Some(names) = names {
            // In the file: a property with a blank would be two.
            options = options.config("ensembleAuthName", names);
        }
        same(&format!("scheme-ensemble-{}", names.map_or(9, str::len)), &options, |server| {
            let mut story = String::new();
            for claim in [
                Some("one"),
                Some("two"),
                Some(" two"),
                Some("three"),
                Some("one, two"),
                Some(""),
                None,
            ] {
                let mut told = Told::new(server, "a client")?;
                told.auth("ensemble", claim.map(str::as_bytes))?;
                told.who_am_i().ok();
                story.push_str(&told.end()?);
            }
            let mut told = Told::new(server, "ACLs")?;
            told.auth("ensemble", None)?;
            told.create("/ensemble", "x", (31, "ensemble", "one"))?;
            told.create("/auth", "x", (31, "auth", ""))?;
            story.push_str(&told.end()?);
            for name in ["ensemble_auth_success", "ensemble_auth_fail", "ensemble_auth_skip"] {
                writeln!(story, "{}", metric(server, name)?)?;
            }
            Ok(story)
        });
    }
}
