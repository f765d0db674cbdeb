//! SASL DIGEST-MD5 between clients and servers: the original's client, and a raw exchange, against
//! both servers.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;
use zebu_auth::digest_md5::{CLIENTS, Client, NONCE_BYTES};
use zebu_client::{Acls, Connector, CreateMode, Perms, Sasl};
use zebu_interop::normalise::text;
use zebu_interop::raw::Session;
use zebu_interop::run::run;
use zebu_interop::scenario::same;
use zebu_interop::server::{Kind, Options, PATIENCE, Server, java};
use zebu_interop::shell::{Shell, lines_in_any_order};
use zebu_interop::told::Told;
use zebu_testkit::wire::{Acl, Reader, Writer, op};

const SERVER: &str = "Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_amy=\"one\"
  user_bob=\"two words\"
  user_super=\"four\"
  user_root=\"five\";
};
";

const PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";

/// Without this setting the original's client has no DIGEST-MD5, and every authentication fails.
const DIGEST_ALLOWED: &str = "-Dzookeeper.fips-mode=false";

fn file(folder: &TempDir, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.path().join(name);
    fs::write(&path, text)?;
    Ok(path)
}

fn options(jaas: &Path) -> Options {
    Options::default()
        .config("authProvider.1", PROVIDER)
        .property("java.security.auth.login.config", jaas.display())
}

/// Runs one command of the original's command line as a user.
fn command(server: &Server, jaas: Option<&Path>, words: &[&str]) -> Result<String> {
    let mut command = java(Kind::Java395);
    command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=off");
    if let Some(jaas) = jaas {
        command.arg(format!("-Djava.security.auth.login.config={}", jaas.display()));
        command.arg(DIGEST_ALLOWED);
    }
    command.args(["org.apache.zookeeper.ZooKeeperMain", "-server", &server.connect_string()]);
    let output = run(command.args(words), PATIENCE)?;
    let output = format!("{}{}", text(&output.text), output.status);
    Ok(format!("{words:?}\n{}\n", lines_in_any_order(&output)))
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_originals_client() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let jaas = file(&folder, "server.conf", SERVER)?;
    let client = |name: &str, user: &str, password: &str| {
        let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
        let text = format!("Client {{ {module} username=\"{user}\" password=\"{password}\"; }};\n");
        file(&folder, name, &text)
    };
    let amy = client("amy.conf", "amy", "one")?;
    let bob = client("bob.conf", "bob", "two words")?;
    let wrong = client("wrong.conf", "amy", "two words")?;
    let unknown = client("unknown.conf", "eve", "one")?;
    same("sasl-cli", &options(&jaas), |server| {
        let mut story = String::new();
        for (user, words) in [
            (Some(&amy), &["create", "/amy", "hers", "sasl:amy:cdrwa"][..]),
            (Some(&amy), &["create", "/auth", "hers", "auth::r"]),
            (Some(&amy), &["whoami"]),
            (Some(&amy), &["get", "/amy"]),
            (Some(&amy), &["getAcl", "/auth"]),
            (Some(&bob), &["get", "/amy"]),
            (None, &["get", "/amy"]),
            (Some(&wrong), &["ls", "/"]),
            (Some(&unknown), &["ls", "/"]),
        ] {
            story.push_str(&command(server, user.map(PathBuf::as_path), words)?);
        }
        // At least one attempt succeeded: amy could read her own write.
        anyhow::ensure!(story.contains("hers") && story.contains("sasl: amy"), "{story}");
        Ok(story)
    });
    Ok(())
}

/// Sends a token, and returns the server's token.
fn token(told: &mut Told, token: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
    let Some(reply) = told.call("sasl", op::SASL, Writer::new().optional_buffer(token))? else {
        return Ok(None);
    };
    if reply.body.is_empty() {
        writeln!(told.story, "no body")?;
        return Ok(None);
    }
    let token = Reader::new(&reply.body).optional_buffer()?.map(<[u8]>::to_vec);
    match &token {
        None => writeln!(told.story, "null")?,
        Some(token) => {
            let text = String::from_utf8_lossy(token);
            let nonce = text.split("nonce=\"").nth(1).and_then(|rest| rest.split('"').next());
            let shown = nonce.map_or(text.to_string(), |nonce| text.replace(nonce, "NONCE"));
            // The last token depends on the nonce.
            let shown = if shown.starts_with("rspauth=") { "rspauth" } else { &shown };
            writeln!(told.story, "{shown}")?;
        }
    }
    Ok(token)
}

/// A complete exchange.
fn log_in(told: &mut Told, user: &str, password: &str) -> Result<()> {
    let challenge = token(told, Some(Client::INITIAL))?.context("no challenge")?;
    let mut client = Client::new(CLIENTS, user.into(), password.into(), [1; NONCE_BYTES]);
    let proof = client.step(&challenge)?.context("no proof")?;
    if let Some(end) = token(told, Some(&proof))? {
        client.step(&end)?;
    }
    Ok(())
}

/// The permissions of users, and the result of failed authentications.
fn story(server: &Server) -> Result<String> {
    let mut story = String::new();
    let mut amy = Told::new(server, "amy")?;
    log_in(&mut amy, "amy", "one")?;
    amy.who_am_i()?;
    amy.create("/auth", "x", (31, "auth", ""))?;
    amy.create("/amy", "x", (31, "sasl", "amy"))?;
    amy.create("/realm", "x", (31, "sasl", "amy/host@ZOO"))?;
    amy.create("/any", "x", (1, "sasl", "any"))?;
    amy.create("/super", "x", (31, "sasl", "super"))?;
    amy.create("/ip", "x", (31, "ip", "10.1.1.1"))?;
    for bad in ["a@b@c", "a/b/c@R", "a@b/c", "a/b/c", ""] {
        amy.create(&format!("/bad{}", bad.len()), "x", (31, "sasl", bad))?;
    }
    for path in ["/auth", "/amy", "/realm", "/any", "/super", "/ip"] {
        amy.get(path)?;
    }
    story.push_str(&amy.end()?);
    for (user, password) in [("bob", "two words"), ("super", "four"), ("root", "five")] {
        let mut other = Told::new(server, user)?;
        log_in(&mut other, user, password)?;
        other.who_am_i()?;
        for path in ["/auth", "/amy", "/realm", "/any", "/super", "/ip"] {
            other.get(path)?;
        }
        story.push_str(&other.end()?);
    }
    for (user, password) in [("amy", "two"), ("eve", "one"), ("eve", ""), ("super", "new")] {
        let mut failing = Told::new(server, "a wrong password")?;
        log_in(&mut failing, user, password)?;
        failing.get("/any").ok();
        token(&mut failing, Some(b""))?;
        story.push_str(&failing.end()?);
    }
    for (what, first) in [
        // A short initial response is left out: the original ignores it, and Zebu refuses it.
        ("a null", None),
        ("a long token", Some(&[b'x'; 5_000][..])),
    ] {
        let mut strange = Told::new(server, what)?;
        token(&mut strange, first)?;
        story.push_str(&strange.end()?);
    }
    for (what, second) in [("an empty proof", &b""[..]), ("nonsense", b"nonsense")] {
        let mut strange = Told::new(server, what)?;
        token(&mut strange, Some(b""))?;
        token(&mut strange, Some(second))?;
        story.push_str(&strange.end()?);
    }
    let mut again = Told::new(server, "a token behind the end")?;
    log_in(&mut again, "amy", "one")?;
    token(&mut again, Some(b""))?;
    again.get("/amy").ok();
    story.push_str(&again.end()?);
    let mut none = Told::new(server, "nobody")?;
    none.get("/any")?;
    story.push_str(&none.end()?);
    Ok(story)
}

fn both(name: &str, settings: &[(&str, &str)]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let jaas = file(&folder, "server.conf", SERVER)?;
    let options = settings.iter().fold(options(&jaas), |options, (key, value)| {
        options.property(&format!("zookeeper.{key}"), value)
    });
    same(name, &options, |server| story(server));
    Ok(())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_same_answers_by_default() -> Result<()> {
    both("sasl-default", &[])
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_same_answers_where_failed_clients_may_stay_and_some_may_more() -> Result<()> {
    both(
        "sasl-stay",
        &[
            ("allowSaslFailedClients", "true"),
            ("superUser", "nobody"),
            ("superUser.1", "root"),
            ("letAnySaslUserDoX", "any"),
            ("SASLAuthenticationProvider.superPassword", "new"),
        ],
    )
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_same_answers_where_sasl_is_required() -> Result<()> {
    both("sasl-required", &[("sessionRequireClientSASLAuth", "true")])
}

/// Zebu's client with either server: its identity, and the error for an unknown user.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn our_client() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let jaas = file(&folder, "server.conf", SERVER)?;
    let options = options(&jaas).property("zookeeper.sessionRequireClientSASLAuth", "true");
    same("sasl-zebu-client", &options, |server| {
        tokio::runtime::Runtime::new()?.block_on(our_story(server))
    });
    Ok(())
}

async fn our_story(server: &Server) -> Result<String> {
    let mut story = String::new();
    let open = async |user: &str, password: &str| {
        let connector = Connector::new().sasl(Sasl::digest_md5(user, password));
        let servers = server.connect_string();
        let opened = connector.connect(&servers);
        tokio::time::timeout(PATIENCE, opened).await.context("no session")
    };
    let amy = open("amy", "one").await??;
    let hers = Acls::to(Perms::ALL, "sasl", "amy");
    let created = amy.create("/amy", "hers", CreateMode::Persistent, &hers).await;
    writeln!(story, "create: {:?}", created.map(|created| created.path))?;
    let mut ids: Vec<_> = amy.who_am_i().await?.into_iter().collect();
    ids.sort_by_key(|id| id.scheme.clone());
    writeln!(story, "amy is {ids:?}")?;
    let bob = open("bob", "two words").await??;
    writeln!(story, "bob: {:?}", bob.get_data("/amy").await.map(|(data, _)| data))?;
    // The identity is restored on the next connection.
    bob.create("/bob", "his", CreateMode::Persistent, &Acls::creator()).await?;
    let (acl, _) = bob.get_acl("/bob").await?;
    writeln!(story, "acl of bob: {acl:?}")?;
    let root = open("root", "five").await??;
    writeln!(story, "root: {:?}", root.get_data("/amy").await.map(|(data, _)| data))?;
    for (user, password) in [("amy", "two words"), ("eve", "one")] {
        let refused = open(user, password).await?.expect_err("a wrong password");
        writeln!(story, "{user}: {:?} {:?}", refused.kind(), refused.ending())?;
    }
    amy.close().await?;
    bob.close().await?;
    root.close().await?;
    Ok(story)
}

/// Both shells with the same properties, from a file and from Java options.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn both_shells_take_the_same_properties() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let jaas = file(&folder, "server.conf", SERVER)?;
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let sections = format!(
        "Client {{ {module} username=\"amy\" password=\"one\"; }};\nMine {{ {module} username=\"bob\" password=\"two words\"; }};\n"
    );
    let sections = file(&folder, "client.conf", &sections)?;
    let sections = format!("java.security.auth.login.config={}", sections.display());
    let readers = [("Client", "/amy", "hers"), ("Mine", "/bob", "his")];
    same("sasl-shells", &options(&jaas), |server| {
        let mut setup = Session::open(server.address(), 10_000)?;
        for (_, path, data) in readers {
            let acl: Vec<Acl> = vec![(1, Some("sasl".into()), Some(path[1..].into()))];
            let body = Writer::new().string(path).buffer(data.as_bytes()).acl(&acl).int(0);
            anyhow::ensure!(setup.call(op::CREATE, body)?.err == 0, "{path} is not created");
        }
        let mut story = String::new();
        for (section, path, data) in readers {
            for shell in [Shell::Original, Shell::Ours] {
                // Zebu's shell reads the variable that the original's script passes to Java.
                let variable = match shell {
                    Shell::Original => "JAVA_TOOL_OPTIONS",
                    Shell::Ours => "CLIENT_JVMFLAGS",
                };
                let section_is = format!("-Dzookeeper.sasl.clientconfig={section}");
                let flags = format!("-D{sections} {section_is} {DIGEST_ALLOWED}");
                let mut command = shell.command(&server.connect_string());
                let output = run(command.env(variable, flags).args(["get", path]), PATIENCE)?;
                let shown = text(&output.text);
                anyhow::ensure!(shown.lines().any(|line| line == data), "{shell:?}: {shown}");
                writeln!(story, "{section}: {}", output.status)?;
            }
        }
        Ok(story)
    });
    Ok(())
}
