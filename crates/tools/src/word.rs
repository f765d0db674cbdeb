//! `zebu word`: asks a server a four-letter word, for scripts on machines without `nc`.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use zebu_credentials::CredentialArgs;
use zebu_proto::ConnectString;

use crate::ask;
use crate::configuration::Access;
use crate::failure::Failure;

/// Arguments of `zebu word`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Ask a server a four-letter word, such as srvr, ruok or mntr",
    after_long_help = "\
Examples:
  zebu word localhost:2181 srvr
  zebu word --timeout 1000 zk1 ruok
  zebu word --client-configuration client.properties zk1:2281 srvr    over TLS

Exit codes: 0 the server has answered, 1 it has not."
)]
pub struct WordArgs {
    /// Host and client port of the server
    #[arg(value_name = "HOST[:PORT]")]
    pub server: String,

    /// The word
    pub word: String,

    /// How long to wait, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,

    /// The connection's protocol and identity.
    #[command(flatten)]
    pub credentials: CredentialArgs,
}

/// Sends the word, and prints the answer.
pub fn run(args: &WordArgs) -> ExitCode {
    let asked = ask(args).and_then(|answer| Ok(io::stdout().write_all(&answer)?));
    match asked {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn ask(args: &WordArgs) -> Result<Vec<u8>, Failure> {
    let wrong = |what: &dyn Display| Failure::new(format_args!("error: {}: {what}", args.server));
    if args.word.len() != 4 {
        return Err(wrong(&format_args!("{} does not have four letters", args.word)));
    }
    let servers: ConnectString = args.server.parse().map_err(|error| wrong(&error))?;
    let [server] = &servers.servers[..] else { return Err(wrong(&"more than one server")) };
    let access = Access::of(&args.credentials)?;
    let timeout = Duration::from_millis(args.timeout);
    ask::exchange(&access.dialer, server, &args.word, timeout).map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_word_is_asked_and_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut word = [0; 4];
            stream.read_exact(&mut word).unwrap();
            stream.write_all(b"imok").unwrap();
            word
        });
        let args = WordArgs {
            server,
            word: "ruok".to_owned(),
            timeout: 60_000,
            credentials: CredentialArgs::default(),
        };
        assert_eq!(ask(&args).unwrap(), b"imok");
        assert_eq!(served.join().unwrap(), *b"ruok");
        // The server does not listen any more.
        assert!(ask(&args).is_err());
        let args = WordArgs { word: "srv".to_owned(), ..args };
        assert!(ask(&args).unwrap_err().to_string().contains("four letters"));
    }
}
