//! `zebu hand-over`: asks the leader of an ensemble to let another member lead.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use zebu_credentials::CredentialArgs;
use zebu_proto::{ConnectString, HostPort};

use crate::ask;
use crate::configuration::Access;
use crate::failure::Failure;

/// The port of the admin server, where none is given.
const PORT: u16 = 8080;

/// Arguments of `zebu hand-over`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Let another member of an ensemble lead",
    long_about = "Let another member of an ensemble lead.\n\n\
        Asks the leader over HTTP, at its admin port. The leader finishes what is in progress and becomes a follower; clients \
        connect again and keep their sessions. Without --to the leader chooses the follower that has the most transactions.",
    after_long_help = "\
Examples:
  zebu hand-over --auth-file secret zk1
  zebu hand-over --auth-file secret --to 2 zk1:8080
  zebu hand-over --auth-file secret --client-configuration client.properties zk1:8443    over TLS

Exit codes: 0 the leader has handed over, 1 it has not."
)]
pub struct HandOverArgs {
    /// Host and admin port of the leader; default port: 8080
    #[arg(value_name = "HOST[:PORT]")]
    pub server: String,

    /// The number of the member that is to lead
    #[arg(long, value_name = "N")]
    pub to: Option<i64>,

    /// A file with the identity that has every permission on /, one line: a scheme and a
    /// credential, as in `digest root:secret`
    #[arg(long, value_name = "FILE")]
    pub auth_file: Option<PathBuf>,

    /// How long to wait, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 15_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,

    /// The connection's protocol and identity.
    #[command(flatten)]
    pub credentials: CredentialArgs,
}

/// Sends the request, and prints the next leader.
pub fn run(args: &HandOverArgs) -> ExitCode {
    match ask(args) {
        Ok(heir) => {
            println!("server.{heir} leads next");
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(),
    }
}

/// The member that leads next.
fn ask(args: &HandOverArgs) -> Result<i64, Failure> {
    let wrong = |what: &dyn Display| Failure::new(format_args!("error: {}: {what}", args.server));
    let at = address(&args.server).map_err(|what| wrong(&what))?;
    let authorization = match &args.auth_file {
        Some(path) => {
            let value = zebu_backup::backup::read_authorization(path)?;
            format!("Authorization: {}\r\n", value.to_str()?)
        }
        None => String::new(),
    };
    let access = Access::of(&args.credentials)?;
    let to = args.to.map(|to| format!("?to={to}")).unwrap_or_default();
    let path = format!("/ensemble/hand_over{to}");
    let timeout = Duration::from_millis(args.timeout);
    let page = ask::post(&access.dialer, &at, &path, &authorization, timeout);
    let page = page.map_err(|error| wrong(&error))?;
    let json: serde_json::Value = serde_json::from_str(&page.body).unwrap_or_default();
    if page.status == 200
        && let Some(heir) = json["to"].as_i64()
    {
        return Ok(heir);
    }
    let said = json["error"].as_str().map_or_else(|| page.body.trim().to_owned(), str::to_owned);
    let hint = match page.status {
        401 | 403 => {
            "\nhint: --auth-file names a file with an identity that has every permission on /, as in: digest root:secret"
        }
        404 | 405 => "\nhint: servers of ZooKeeper hand over only when they are stopped",
        409 if said.contains("only the leader") => "\nhint: name the admin port of the leader",
        _ => "",
    };
    Err(wrong(&format_args!("{said} (status {}){hint}", page.status)))
}

/// Reads `host`, `host:port` or `[address]:port`.
fn address(text: &str) -> Result<HostPort, String> {
    let has_port = text.rsplit_once(':').is_some_and(|(host, _)| {
        !host.contains(':') || (host.starts_with('[') && host.ends_with(']'))
    });
    let text = if has_port { text.to_owned() } else { format!("{text}:{PORT}") };
    let servers: ConnectString = text.parse().map_err(|error| format!("{error}"))?;
    match <[HostPort; 1]>::try_from(servers.servers) {
        Ok([server]) => Ok(server),
        Err(_) => Err("more than one server".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::tests::serve;

    fn args(server: &HostPort, to: Option<i64>, auth_file: Option<PathBuf>) -> HandOverArgs {
        HandOverArgs {
            server: format!("{}:{}", server.host, server.port),
            to,
            auth_file,
            timeout: 60_000,
            credentials: CredentialArgs::default(),
        }
    }

    #[test]
    fn a_leader_is_asked_to_hand_over_and_its_answer_is_told() {
        let server = serve(|asked| {
            let (status, body) = match asked.lines().next().unwrap() {
                line if !line.starts_with("POST /ensemble/hand_over") => (404, "{}"),
                _ if !asked.contains("\r\nAuthorization: digest root:secret\r\n") => {
                    (401, r#"{"error":"Auth info is missing for the command"}"#)
                }
                "POST /ensemble/hand_over?to=2 HTTP/1.0" => (200, r#"{"to":2}"#),
                "POST /ensemble/hand_over HTTP/1.0" => (200, r#"{"to":3}"#),
                _ => (409, r#"{"error":"only the leader hands over: server.3 leads"}"#),
            };
            format!("HTTP/1.1 {status} x\r\n\r\n{body}")
        });
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "digest root:secret\n").unwrap();
        let with = |to| ask(&args(&server, to, Some(secret.path().to_owned())));
        assert_eq!(with(Some(2)).unwrap(), 2);
        assert_eq!(with(None).unwrap(), 3);
        let refused = with(Some(9)).unwrap_err().to_string();
        assert!(refused.contains("server.3 leads"), "{refused}");
        assert!(refused.contains("hint: name the admin port of the leader"), "{refused}");
        let unknown = ask(&args(&server, None, None)).unwrap_err().to_string();
        assert!(unknown.contains("hint: --auth-file"), "{unknown}");
    }

    #[test]
    fn an_address_without_a_port_is_that_of_the_admin_server() {
        for (text, host, port) in [
            ("zk1", "zk1", 8080),
            ("zk1:9000", "zk1", 9000),
            ("[::1]:9000", "::1", 9000),
            ("[::1]", "::1", 8080),
        ] {
            assert_eq!(address(text).unwrap(), HostPort::new(host, port), "{text}");
        }
        assert!(address("zk1:8080,zk2:8080").is_err());
        assert!(address("zk1:port").is_err());
    }
}
