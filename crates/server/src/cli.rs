//! The command line of `zebu server`, up to a configuration or an error with an exit code.
//!
//! This module neither exits, prints nor logs; the binary does that with the result.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::{self, Config, ConfigError, Loaded, Note, Sources, Start, dirs, hardened};

/// Arguments of `zebu server`.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(
    about = "Run a server, alone or as a member of an ensemble",
    long_about = "Run a server: alone, or as a member of an ensemble when the configuration names several.\n\n\
        Without arguments it listens on 127.0.0.1:2181 and keeps its data in ./zebu-data. With one argument it reads that \
        zoo.cfg. With two to four it takes client port, data directory, tick in ms and connections per client address, as \
        ZooKeeperServerMain does.",
    after_long_help = "\
Where settings come from, weakest first: defaults, -D words in SERVER_JVMFLAGS and JVMFLAGS, -D here, zoo.cfg, --set here.

Examples:
  zebu server
      on 127.0.0.1:2181, data in ./zebu-data
  zebu server /etc/zookeeper/conf/zoo.cfg
      with ZooKeeper's own configuration file
  zebu server 2181 /var/lib/zookeeper
      client port and data directory
  zebu server --check zoo.cfg
      validate, and print every setting with its origin
  zebu server zoo.cfg --set clientPort=2182 --set '4lw.commands.whitelist=*'
      override keys of the file
  zebu server zoo.cfg -D jute.maxbuffer=4194304 -D zookeeper.snapCount=10000
      set properties; keys of the file override them

Exit codes: 0 stopped as asked, 1 unexpected fault, 2 bad arguments or configuration, 3 data directory not usable,\n4 the admin server that is configured has no port."
)]
pub struct ServerArgs {
    /// A zoo.cfg, or client port, data directory, tick in ms and connections per client address
    #[arg(value_name = "CFG | PORT DIR [TICK [MAXCNXNS]]", num_args = 0..=4)]
    pub arguments: Vec<String>,

    /// Set a Java system property; the configuration file overrides it
    #[arg(short = 'D', value_name = "NAME=VALUE", num_args = 1, action = clap::ArgAction::Append)]
    pub define: Vec<String>,

    /// Set a key of zoo.cfg; overrides every other source
    #[arg(long, value_name = "KEY=VALUE", num_args = 1, action = clap::ArgAction::Append)]
    pub set: Vec<String>,

    /// Check the configuration, print every setting with its origin, and exit
    #[arg(long)]
    pub check: bool,
}

/// Why no server starts.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The arguments are invalid.
    #[error("{0}")]
    Usage(String),
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// With `--check`: the configuration works, but has unknown keys.
    #[error("{}", .0.iter().map(Note::to_string).collect::<Vec<_>>().join("\n"))]
    UnknownKeys(Vec<Note>),
    /// The data directories cannot be used.
    #[error(transparent)]
    DataDir(#[from] dirs::DataDirError),
}

impl CliError {
    /// The exit code for the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Config(_) | Self::UnknownKeys(_) => ConfigError::EXIT_CODE,
            Self::DataDir(_) => dirs::DataDirError::EXIT_CODE,
        }
    }
}

impl ServerArgs {
    /// Makes a configuration from the arguments, the environment of this process, and the files
    /// that they name.
    ///
    /// # Errors
    /// [`CliError::Usage`] and [`CliError::Config`].
    pub fn load(&self) -> Result<Loaded, CliError> {
        self.load_from(config::variables(), &|path: &Path| std::fs::read(path))
    }

    /// The same with an environment and files from the caller.
    ///
    /// # Errors
    /// [`CliError::Usage`] and [`CliError::Config`].
    pub fn load_from(
        &self,
        variables: Vec<(&'static str, String)>,
        read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Loaded, CliError> {
        let sources = Sources {
            start: self.start()?,
            variables,
            defines: self.define.clone(),
            sets: self.set.clone(),
            read,
        };
        Ok(config::load(&sources)?)
    }

    /// The output of `--check`: notes, every setting, and insecure parts.
    ///
    /// # Errors
    /// The error that a start would report, and unknown keys.
    pub fn check(&self, loaded: &Loaded) -> Result<String, CliError> {
        let unknown: Vec<Note> =
            loaded.notes.iter().filter(|note| note.is_unknown_key).cloned().collect();
        if !unknown.is_empty() {
            return Err(CliError::UnknownKeys(unknown));
        }
        dirs::check(&loaded.config.data)?;
        let mut report = String::new();
        for note in &loaded.notes {
            for line in note.text.lines() {
                report.push_str(&format!("# {line}\n"));
            }
        }
        report.push_str(&loaded.effective.to_string());
        for open in hardened::open(&loaded.config) {
            report.push_str(&format!("\n# open: {}\n", open.to_string().replace('\n', "\n# ")));
        }
        Ok(report)
    }

    fn start(&self) -> Result<Start, CliError> {
        match self.arguments.as_slice() {
            [] => Ok(Start::Defaults),
            [file] => Ok(Start::File(PathBuf::from(file))),
            [port, data_dir, rest @ ..] if rest.len() <= 2 => Ok(Start::Arguments {
                port: port.clone(),
                data_dir: data_dir.clone(),
                tick_time: rest.first().cloned(),
                max_client_cnxns: rest.get(1).cloned(),
            }),
            more => Err(CliError::Usage(format!(
                "{} arguments, expected a zoo.cfg or <port> <datadir> [tickTime] [maxClientCnxns]",
                more.len()
            ))),
        }
    }
}

/// The three lines that a started server prints: its address, its data directory, and a command to
/// try.
pub fn greeting(config: &Config, client_port: Option<u16>) -> Vec<String> {
    let host = config.net.client_address.as_deref();
    let (listens, try_it) = match client_port {
        None => ("listening on no port".to_owned(), "try it: set clientPort first".to_owned()),
        Some(port) => {
            let bracketed =
                |host: &str| if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
            let shown = host.map_or_else(|| "all addresses".to_owned(), bracketed);
            let target = host.map_or_else(|| "127.0.0.1".to_owned(), bracketed);
            let on = match host {
                None => format!("listening on port {port} of {shown}"),
                Some(_) => format!("listening on {shown}:{port}"),
            };
            (on, format!("try it: zebu word {target}:{port} srvr"))
        }
    };
    let data = if config.data.dir == config.data.log_dir {
        format!("data in {}", config.data.dir.display())
    } else {
        format!("data in {}, log in {}", config.data.dir.display(), config.data.log_dir.display())
    };
    vec![listens, data, try_it]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        server: ServerArgs,
    }

    fn parse(words: &[&str]) -> ServerArgs {
        Cli::try_parse_from([&["zebu"], words].concat()).unwrap().server
    }

    fn files<'a>(files: &'a [(&'a str, &'a str)]) -> impl Fn(&Path) -> io::Result<Vec<u8>> + 'a {
        move |path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found
                .map(|(_, text)| text.as_bytes().to_vec())
                .ok_or_else(|| io::ErrorKind::NotFound.into())
        }
    }

    #[test]
    fn all_forms_of_options_are_understood() {
        let args =
            parse(&["zoo.cfg", "-Da=1", "-D", "b=2", "--set", "c=3", "--set=d=4", "--check"]);
        assert_eq!(args.arguments, ["zoo.cfg"]);
        assert_eq!(args.define, ["a=1", "b=2"]);
        assert_eq!(args.set, ["c=3", "d=4"]);
        assert!(args.check);
    }

    #[test]
    fn start_forms() {
        assert_eq!(parse(&[]).start().unwrap(), Start::Defaults);
        assert_eq!(parse(&["zoo.cfg"]).start().unwrap(), Start::File("zoo.cfg".into()));
        let four = parse(&["2181", "/d", "2000", "10"]).start().unwrap();
        assert_eq!(
            four,
            Start::Arguments {
                port: "2181".to_owned(),
                data_dir: "/d".to_owned(),
                tick_time: Some("2000".to_owned()),
                max_client_cnxns: Some("10".to_owned()),
            }
        );
        assert!(Cli::try_parse_from(["zebu", "1", "2", "3", "4", "5"]).is_err());
    }

    #[test]
    fn the_help_shows_examples() {
        use clap::CommandFactory;
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("zebu server --check zoo.cfg"), "{help}");
    }

    #[test]
    fn a_missing_file_is_a_configuration_fault() {
        let fault = parse(&["nowhere.cfg"]).load_from(Vec::new(), &files(&[])).unwrap_err();
        assert_eq!(fault.exit_code(), 2);
        assert!(fault.to_string().starts_with("nowhere.cfg: cannot read"), "{fault}");
    }

    #[test]
    fn check_refuses_unknown_keys_with_their_line() {
        let args = parse(&["zoo.cfg", "--check"]);
        let loaded = args
            .load_from(
                Vec::new(),
                &files(&[("zoo.cfg", "dataDir=/nowhere/at/all\nclientPort=1\n\ntickTme=3\n")]),
            )
            .unwrap();
        let fault = args.check(&loaded).unwrap_err();
        assert_eq!(fault.exit_code(), 2);
        let text = fault.to_string();
        assert!(
            text.contains("zoo.cfg:4: tickTme") && text.contains("did you mean tickTime?"),
            "{text}"
        );
    }

    #[test]
    fn unknown_keys_are_named_beside_other_faults() {
        let text = "dataDir=/d\nclientPrt=2181\ntickTime=x\nleader.maxConcurentSnapSyncs=3\n";
        let fault = parse(&["zoo.cfg"])
            .load_from(Vec::new(), &files(&[("zoo.cfg", text)]))
            .unwrap_err()
            .to_string();
        for part in [
            "zoo.cfg:3: tickTime=x",
            "zoo.cfg:2: clientPrt",
            "did you mean clientPort?",
            "zoo.cfg:4: leader.maxConcurentSnapSyncs",
            "did you mean leader.maxConcurrentSnapSyncs?",
        ] {
            assert!(fault.contains(part), "{part}: {fault}");
        }
    }

    #[test]
    fn properties_of_others_are_named_once_and_without_values() {
        let variables =
            vec![("JVMFLAGS", "-Dcom.sun.management.jmxremote.port=9 -Dlog4j.x=y".to_owned())];
        let args = parse(&["zoo.cfg", "-Djava.io.tmpdir=/secret"]);
        let loaded = args
            .load_from(variables, &files(&[("zoo.cfg", "dataDir=/d\nclientPort=1\n")]))
            .unwrap();
        let named: Vec<&str> = (loaded.notes.iter().map(|note| &*note.text))
            .filter(|text| text.contains("without effect"))
            .collect();
        assert_eq!(
            named,
            [
                "properties without effect in this server: com.sun.management.jmxremote.port (JVMFLAGS), \
              log4j.x (JVMFLAGS), java.io.tmpdir (-D)"
            ]
        );
    }

    #[test]
    fn a_client_port_that_servers_use_is_refused() {
        let refusal = |lines: &str| {
            let text = format!("dataDir=/d\ninitLimit=5\nsyncLimit=2\n{lines}");
            let files = [("zoo.cfg", &*text), ("/d/myid", "1")];
            let loaded = parse(&["zoo.cfg"]).load_from(Vec::new(), &self::files(&files));
            loaded.map(|_| ()).map_err(|fault| fault.to_string())
        };
        let members = "server.1=10.0.0.1:2888:3888\nserver.2=10.0.0.2:2888:3888\n";
        let fault = refusal(&format!("clientPort=2888\n{members}")).unwrap_err();
        assert_eq!(
            fault,
            "zoo.cfg:4: 2888: the client port is also the quorum port of this server"
        );
        let of_all = "clientPort=3888\nclientPortAddress=10.0.0.1\n";
        let fault = refusal(&format!("{of_all}{members}")).unwrap_err();
        assert!(fault.contains("3888: the client port is also the election port"), "{fault}");
        let in_line = members.replacen("3888", "3888;2888", 1);
        let fault = refusal(&in_line).unwrap_err();
        assert!(fault.contains("2888: the client port is also the quorum port"), "{fault}");
        // The same number at another address, and at another server.
        refusal(&format!("clientPort=3888\nclientPortAddress=127.0.0.1\n{members}")).unwrap();
        refusal("clientPort=2889\nserver.1=h1:2888:3888\nserver.2=h2:2889:3889\n").unwrap();
    }

    #[test]
    fn check_prints_settings_and_masks_secrets() {
        let args = parse(&[
            "zoo.cfg",
            "--check",
            "-Dzookeeper.DigestAuthenticationProvider.superDigest=super:hidden=",
        ]);
        let loaded = args
            .load_from(
                Vec::new(),
                &files(&[("zoo.cfg", "dataDir=/nowhere/at/all\nclientPort=2181\n")]),
            )
            .unwrap();
        let report = args.check(&loaded).unwrap();
        assert!(report.contains("# zoo.cfg:2\nclientPort=2181\n"), "{report}");
        assert!(report.contains("superDigest=********"), "{report}");
        let open = "\n# open: port 2181 serves clients without TLS\n# hint: secureClientPort ";
        assert!(report.contains(open), "{report}");
        assert!(!format!("{report}{loaded:?}{:?}", loaded.config).contains("hidden"));
        assert_eq!(
            loaded.config.auth.super_digest.as_ref().map(config::Secret::expose),
            Some("super:hidden=")
        );
    }

    #[test]
    fn the_greeting_has_three_lines() {
        let loaded = parse(&[]).load_from(Vec::new(), &files(&[])).unwrap();
        assert_eq!(
            greeting(&loaded.config, Some(2181)),
            [
                "listening on 127.0.0.1:2181",
                "data in ./zebu-data",
                "try it: zebu word 127.0.0.1:2181 srvr"
            ]
        );
        let loaded = parse(&["2181", "/d"]).load_from(Vec::new(), &files(&[])).unwrap();
        assert_eq!(
            greeting(&loaded.config, Some(2181))[0],
            "listening on port 2181 of all addresses"
        );
    }
}
