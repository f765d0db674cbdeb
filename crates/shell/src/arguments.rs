//! The shell's own command line, and the client settings from files and environment variables.

use std::path::PathBuf;
use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;
use zebu_credentials::{Properties, VARIABLES, defines, read};

use crate::failure::{Failure, Result};
use crate::output::Colour;
use crate::session::{Identity, Settings};

/// Environment variable with the user's credentials, one identity a line. Other users cannot read
/// it.
const IDENTITIES_VARIABLE: &str = "ZEBU_AUTH";

/// The options and the command that the shell was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) server: String,
    pub(crate) timeout: Duration,
    pub(crate) read_only: bool,
    pub(crate) wait_for_connection: bool,
    pub(crate) client_configuration: Option<PathBuf>,
    /// Credentials given on the command line.
    pub(crate) identities: Vec<Identity>,
    /// Files with credentials.
    pub(crate) identity_files: Vec<PathBuf>,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) colour: Colour,
    /// The level of the client's log on stderr.
    pub(crate) log: Option<LevelFilter>,
    /// A single command to run instead of those from stdin.
    pub(crate) command: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            server: "localhost:2181".to_owned(),
            timeout: Duration::from_secs(30),
            read_only: false,
            wait_for_connection: false,
            client_configuration: None,
            identities: Vec::new(),
            identity_files: Vec::new(),
            json: false,
            quiet: false,
            colour: Colour::Auto,
            log: None,
            command: Vec::new(),
        }
    }
}

impl Options {
    /// Parses the words: options, then a command.
    ///
    /// # Errors
    /// An unknown option, or an option without its value.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let Some(name) = word.strip_prefix('-') else {
                options.command = [word].into_iter().chain(rest).cloned().collect();
                break;
            };
            // An option that the original writes with one dash may have two here.
            let name = name.strip_prefix('-').unwrap_or(name);
            let (name, mut attached) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            let missing = || {
                Failure::new(format!("no argument found for option {word}"))
                    .hint("see zebu shell --help")
            };
            let mut value = || attached.take().or_else(|| rest.next().cloned()).ok_or_else(missing);
            match name {
                "server" => options.server = value()?,
                "timeout" => options.timeout = milliseconds(&value()?)?,
                "client-configuration" => options.client_configuration = Some(value()?.into()),
                "auth" => options.identities.push(Identity::read(&value()?, "-auth")?),
                "auth-file" => options.identity_files.push(value()?.into()),
                "r" | "readonly" => options.read_only = true,
                "waitforconnection" => options.wait_for_connection = true,
                "json" => options.json = true,
                "q" | "quiet" => options.quiet = true,
                "no-color" => options.colour = Colour::Never,
                "color" => options.colour = colour(&value()?)?,
                "log" => options.log = Some(level(&value()?)?),
                _ => {
                    return Err(Failure::new(format!("no such option: {word}"))
                        .hint("see zebu shell --help; options of a command follow the command"));
                }
            }
            if let Some(value) = attached {
                return Err(Failure::new(format!("-{name} takes no value: {value}")));
            }
        }
        Ok(options)
    }

    /// The settings for sessions, and remarks about settings without effect.
    ///
    /// # Errors
    /// An unreadable file, an invalid value, or a setting that is not supported.
    pub(crate) fn settings(&self) -> Result<(Settings, Vec<String>)> {
        let mut settings = Settings {
            timeout: self.timeout,
            read_only: self.read_only,
            forget_watches: false,
            bytes_max: None,
            request_timeout: None,
            identities: self.identities()?,
            tls: None,
            sasl: None,
        };
        let (mut credentials, mut remarks) = (Properties::default(), Vec::new());
        for name in VARIABLES {
            for (key, value) in defines(&std::env::var(name).unwrap_or_default()) {
                // Most properties belong to other programs.
                if !credentials.take(key, value, name)? {
                    apply(&mut settings, key, value, name)?;
                }
            }
        }
        if let Some(file) = &self.client_configuration {
            for (key, value) in read(file)? {
                let place = file.display().to_string();
                let is_taken = credentials.take(&key, &value, &place)?;
                if !is_taken && !apply(&mut settings, &key, &value, &place)? {
                    remarks.push(format!("{place}: {key} has no effect in this shell"));
                }
            }
        }
        let credentials = credentials.settle(&mut remarks)?;
        (settings.tls, settings.sasl) = (credentials.tls, credentials.sasl);
        Ok((settings, remarks))
    }
}

impl Options {
    /// The credentials from all sources.
    fn identities(&self) -> Result<Vec<Identity>> {
        let mut found = Vec::new();
        if let Some(text) = std::env::var_os(IDENTITIES_VARIABLE) {
            let text = text
                .into_string()
                .map_err(|_| Failure::new(format!("{IDENTITIES_VARIABLE} is not UTF-8")))?;
            Identity::read_all(&text, IDENTITIES_VARIABLE, &mut found)?;
        }
        for file in &self.identity_files {
            let place = file.display().to_string();
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::new(format!("{place}: {error}")))?;
            Identity::read_all(&text, &place, &mut found)?;
        }
        found.extend_from_slice(&self.identities);
        Ok(found)
    }
}

fn milliseconds(text: &str) -> Result<Duration> {
    let ms: u32 = text
        .parse()
        .map_err(|_| Failure::new(format!("-timeout is not a number of milliseconds: {text}")))?;
    if ms == 0 {
        return Err(Failure::new("-timeout must be more than 0"));
    }
    Ok(Duration::from_millis(ms.into()))
}

fn colour(text: &str) -> Result<Colour> {
    match text {
        "auto" => Ok(Colour::Auto),
        "always" => Ok(Colour::Always),
        "never" => Ok(Colour::Never),
        other => Err(Failure::new(format!("-color must be auto, always or never, not {other}"))),
    }
}

fn level(text: &str) -> Result<LevelFilter> {
    let wrong =
        |_| Failure::new(format!("-log must be error, warn, info, debug or trace, not {text}"));
    text.parse().map_err(wrong)
}

/// Applies one setting. Returns whether the shell knows it.
fn apply(settings: &mut Settings, key: &str, value: &str, place: &str) -> Result<bool> {
    let is_true = value.eq_ignore_ascii_case("true");
    match key {
        "zookeeper.disableAutoWatchReset" => settings.forget_watches = is_true,
        "jute.maxbuffer" => {
            let wrong =
                |_| Failure::new(format!("{place}: {key} is not a number of bytes: {value}"));
            let bytes = value.parse().map_err(wrong)?;
            settings.bytes_max = Some(bytes);
        }
        // 0 means no limit, as in the original.
        "zookeeper.request.timeout" => {
            let wrong = |_| {
                Failure::new(format!("{place}: {key} is not a number of milliseconds: {value}"))
            };
            let ms: u32 = value.parse().map_err(wrong)?;
            settings.request_timeout = (ms > 0).then(|| Duration::from_millis(ms.into()));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words).map_err(|failure| failure.message().to_owned())
    }

    /// CLI-08, SES-28.
    #[test]
    fn options_come_before_the_command() {
        assert_eq!(parse("").unwrap(), Options::default());
        let options =
            parse("-server a:1,b:2/app -timeout 5000 -r -waitforconnection --json get -s /x")
                .unwrap();
        assert_eq!(options.server, "a:1,b:2/app");
        assert_eq!(options.timeout, Duration::from_secs(5));
        assert!(options.read_only && options.wait_for_connection && options.json);
        assert_eq!(options.command, ["get", "-s", "/x"]);
        assert_eq!(parse("--server=a:1 -q --color never ls").unwrap().colour, Colour::Never);
    }

    /// Credentials also come from files, and are never printed.
    #[test]
    fn identities_are_read_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("identities");
        std::fs::write(&file, "# mine\n\n digest:amy:secret \nip:10.0.0.1\n").unwrap();
        let options = parse(&format!("-auth x:y -auth-file {} ls /", file.display())).unwrap();
        let identities = options.identities().unwrap();
        let shown = format!("{options:?} {identities:?}");
        assert!(!shown.contains("secret") && !shown.contains("\"y\""), "{shown}");
        let found: Vec<_> =
            identities.into_iter().map(|identity| (identity.scheme, identity.auth)).collect();
        let pair = |scheme: &str, auth: &str| (scheme.to_owned(), auth.to_owned());
        assert_eq!(found, [pair("digest", "amy:secret"), pair("ip", "10.0.0.1"), pair("x", "y")]);

        for wrong in ["digest", ":x", "digest:"] {
            let refused = parse(&format!("-auth {wrong} ls")).unwrap_err();
            assert_eq!(refused, "-auth: not SCHEME:CREDENTIALS");
        }
        std::fs::write(&file, "digest:a:b\nsecret").unwrap();
        let options = parse(&format!("-auth-file {}", file.display())).unwrap();
        let refused = options.identities().unwrap_err();
        let place = format!("{}, line 2", file.display());
        assert_eq!(refused.message(), format!("{place}: not SCHEME:CREDENTIALS"));
        let options = parse("-auth-file /no/such/file").unwrap();
        assert!(options.identities().unwrap_err().message().starts_with("/no/such/file: "));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(parse("-server").unwrap_err(), "no argument found for option -server");
        assert_eq!(parse("-serve a ls").unwrap_err(), "no such option: -serve");
        assert!(parse("-timeout 0").is_err() && parse("-timeout x").is_err());
        assert_eq!(parse("-r=1").unwrap_err(), "-r takes no value: 1");
        assert_eq!(parse("-log info").unwrap().log, Some(LevelFilter::INFO));
        let refused = parse("-log loud").unwrap_err();
        assert_eq!(refused, "-log must be error, warn, info, debug or trace, not loud");
    }

    #[tokio::test]
    async fn servers_that_make_no_sense_are_named() {
        let (settings, _) = Options::default().settings().unwrap();
        let refused = crate::session::Session::open("host:port", &settings).err().unwrap();
        assert!(refused.message().starts_with("invalid connect string: "), "{refused:?}");
    }

    #[test]
    fn settings_come_from_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let options =
            Options { client_configuration: Some(file.path().into()), ..Options::default() };
        let text = "jute.maxbuffer=4194304\nzookeeper.disableAutoWatchReset=true\nzookeeper.x=x\n";
        std::fs::write(file.path(), text).unwrap();
        let (settings, remarks) = options.settings().unwrap();
        assert_eq!((settings.bytes_max, settings.forget_watches), (Some(4_194_304), true));
        assert_eq!((remarks.len(), settings.request_timeout), (1, None));
        assert!(remarks[0].ends_with("zookeeper.x has no effect in this shell"));
        // ERR-10.
        std::fs::write(file.path(), "zookeeper.request.timeout=1500\n").unwrap();
        let (settings, _) = options.settings().unwrap();
        assert_eq!(settings.request_timeout, Some(Duration::from_millis(1500)));
        std::fs::write(file.path(), "zookeeper.request.timeout=soon\n").unwrap();
        let refused = options.settings().unwrap_err();
        assert!(refused.message().contains("not a number of milliseconds: soon"), "{refused:?}");
        std::fs::write(file.path(), "java.security.auth.login.config=/no/such\n").unwrap();
        assert!(options.settings().unwrap_err().message().starts_with("/no/such: cannot be read"));
    }

    #[test]
    fn variables_hold_settings_as_the_originals_do() {
        let found: Vec<_> = defines("-Xmx256m -Dx=1 -Dzookeeper.a=b=c -Dflag").collect();
        assert_eq!(found, [("x", "1"), ("zookeeper.a", "b=c")]);
    }
}
