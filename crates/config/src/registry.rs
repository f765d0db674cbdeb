//! The description of each setting, and the search for a setting by the name that a source uses.
//!
//! The table itself is in `table`. The typed configuration, `--check`, warnings and the page in
//! `docs/` are derived from it. So no key is documented but ignored, or read but undocumented.

use std::fmt;

use super::table::SETTINGS;

/// The prefix that the original gives to keys of `zoo.cfg` that it does not parse itself.
pub const PREFIX: &str = "zookeeper.";

/// Families whose keys are known, and keys of them without a row of their own. Any other name is a
/// typing error.
///
/// Source: `X509Util`, `LearnerHandler`, `CommitProcessor`, `QuorumAuth`, `ZKClientConfig`,
/// `KerberosName`.
const FAMILIES: &[(&str, &[&str])] = &[
    ("leader.*", &["closeSocketAsync"]),
    ("learner.*", &["asyncSending", "closeSocketAsync"]),
    ("commitProcessor.*", &["maxCommitBatchSize", "maxReadBatchSize", "shutdownTimeout"]),
    ("sasl.*", &["client", "client.canonicalize.hostname", "client.username", "clientconfig"]),
    ("kerberos.*", &["canonicalizeHostNames", "minReLoginTimeMs"]),
    (
        "pathStats.*",
        &[
            "delay",
            "enabled",
            "initialDelay",
            "maxDepth",
            "sampleRate",
            "slotCapacity",
            "slotDuration",
            "topPathMax",
        ],
    ),
];

/// A key of `zoo.cfg` and the property with the same meaning.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The name in `zoo.cfg`. A name that ends with `.*` matches every key with that prefix.
    pub key: &'static str,
    /// The form of the property for `-D`.
    pub property: Property,
    /// A second property with the same meaning.
    pub also: Option<&'static str>,
    /// The accepted values.
    pub kind: Kind,
    /// The value if it is not set.
    pub default: Default,
    /// The support in this version.
    pub fate: Fate,
    /// The chapter of the documentation.
    pub group: Group,
    /// The meaning in a few words.
    pub help: &'static str,
}

/// The form of a setting as a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Property {
    /// Read from the file only; `-D` has no effect, as in the original.
    None,
    /// `zookeeper.` followed by the key.
    Prefixed,
    /// The key itself. The original reads it from `-D` only, this server also from the file.
    Full,
}

/// The accepted values of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A path, relative ones to the working directory.
    Path,
    /// `true` or `false` in any case. Other values are errors.
    StrictBool,
    /// `true` in any case is true, anything else false, as Java reads a boolean property.
    JavaBool,
    /// Exactly `word` means `means`, any other value the opposite.
    Flag {
        /// The word with a meaning.
        word: &'static str,
        /// Its meaning.
        means: bool,
    },
    /// A whole number.
    Int {
        /// The minimum.
        min: i64,
        /// The maximum.
        max: i64,
        /// The unit, for messages.
        unit: &'static str,
    },
    /// A number with an optional fraction.
    Decimal,
    /// Hours, or a number with `ms`, `s`, `m`, `h` or `d`.
    Interval,
    /// Words separated by commas.
    List,
    /// One of these words, in any case.
    Choice(&'static [&'static str]),
    /// Text that is never shown.
    Secret,
}

/// The value of a setting that is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// Nothing.
    None,
    /// This text, read like a given value.
    Value(&'static str),
    /// Computed from other settings; the text describes how.
    Computed(&'static str),
}

/// The support of a setting in this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It works.
    Supported,
    /// Accepted without effect, because it tunes a part that this server does not have. The text
    /// names that part.
    Harmless(&'static str),
    /// Belongs to an unsupported part: refused if it enables that part.
    NotBuilt(Part, Switch),
}

/// Parts of ZooKeeper that this version does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Java classes loaded by name.
    Plugins,
    /// Path statistics written to the log.
    Tracing,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Plugins, Self::Tracing];

    /// Name in `zebu.runWithout`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plugins => "plugins",
            Self::Tracing => "tracing",
        }
    }

    /// The missing part, as the start of a sentence.
    pub const fn missing(self) -> &'static str {
        match self {
            Self::Plugins => {
                "this server cannot load Java classes, and has no built-in class of this name"
            }
            Self::Tracing => "this server has no path statistics",
        }
    }
}

/// The values of a setting that enable its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// None: another setting enables it.
    Never,
    /// `true`.
    True,
    /// Every authentication scheme that is neither built in nor asked over a socket.
    OtherProvider,
    /// Every class of an audit log that is not the original's own.
    OtherAuditLog,
}

impl Switch {
    /// Whether `value` enables the part.
    pub fn is_on(self, value: &str) -> bool {
        let value = value.trim();
        match self {
            Self::Never => false,
            Self::True => value.eq_ignore_ascii_case("true"),
            Self::OtherAuditLog => !value.is_empty() && !super::AUDIT_LOGS.contains(&value),
            Self::OtherProvider => !value.is_empty() && !super::providers::is_known(value),
        }
    }
}

/// The chapters of the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Directories, ports, ticks.
    Basics,
    /// Log and snapshots.
    Storage,
    /// Sessions, connections, limits.
    Limits,
    /// Load shedding.
    Throttling,
    /// ACLs and authentication.
    Access,
    /// Container, TTL, quota, read-only and reconfiguration switches.
    Features,
    /// Purge, metrics, four-letter words, logging, JVM.
    Operations,
    /// Servers that are not alone.
    Ensemble,
    /// TLS.
    Tls,
    /// SASL and Kerberos.
    Sasl,
    /// The HTTP admin server.
    Admin,
}

impl Group {
    /// All chapters in order.
    pub const ALL: [Self; 11] = [
        Self::Basics,
        Self::Storage,
        Self::Limits,
        Self::Throttling,
        Self::Access,
        Self::Features,
        Self::Operations,
        Self::Ensemble,
        Self::Tls,
        Self::Sasl,
        Self::Admin,
    ];

    /// Heading.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Basics => "Basics",
            Self::Storage => "Log and snapshots",
            Self::Limits => "Sessions, connections, limits",
            Self::Throttling => "Throttling",
            Self::Access => "Access",
            Self::Features => "Features",
            Self::Operations => "Operations",
            Self::Ensemble => "Ensemble",
            Self::Tls => "TLS",
            Self::Sasl => "SASL",
            Self::Admin => "Admin server",
        }
    }
}

impl Setting {
    /// The name for `-D`, if it has one.
    pub fn property_name(&self) -> Option<String> {
        match self.property {
            Property::None => None,
            Property::Prefixed => Some(format!("{PREFIX}{}", self.key)),
            Property::Full => Some(self.key.to_owned()),
        }
    }

    /// Whether `name`, written as in `zoo.cfg`, is this setting.
    fn is_named(&self, name: &str) -> bool {
        let Some(family) = self.key.strip_suffix('*') else { return self.key == name };
        let Some(rest) = name.strip_prefix(family) else { return false };
        match self.members() {
            Some(members) => members.contains(&rest),
            None => !rest.is_empty(),
        }
    }

    /// The keys of a family with fixed keys; `None` if operators choose the names.
    fn members(&self) -> Option<&'static [&'static str]> {
        FAMILIES.iter().find(|(family, _)| *family == self.key).map(|(_, members)| *members)
    }

    /// Whether a value must not be shown: it is a secret, or looks like one.
    pub fn is_secret(&self, key: &str) -> bool {
        self.kind == Kind::Secret || looks_secret(key)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("text"),
            Self::Path => f.write_str("path"),
            Self::StrictBool => f.write_str("`true` or `false`"),
            Self::JavaBool => f.write_str("`true`, else false"),
            Self::Flag { word, means } => write!(f, "`{word}` is {means}, else {}", !means),
            Self::Int { unit: "", .. } => f.write_str("number"),
            Self::Int { unit, .. } => f.write_str(unit),
            Self::Decimal => f.write_str("decimal number"),
            Self::Interval => f.write_str("hours, or `ms` `s` `m` `h` `d`"),
            Self::List => f.write_str("comma list"),
            Self::Choice(words) => {
                for (i, word) in words.iter().filter(|word| !word.is_empty()).enumerate() {
                    write!(f, "{}`{word}`", if i > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
            Self::Secret => f.write_str("secret"),
        }
    }
}

impl fmt::Display for Default {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None | Self::Value("") => f.write_str("none"),
            Self::Value(text) | Self::Computed(text) => f.write_str(text),
        }
    }
}

/// Whether a name suggests that its value is a secret.
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_location = name.ends_with("path") || name.ends_with("location");
    !is_location
        && ["password", "superdigest", "secret", "token.key"].iter().any(|word| name.contains(word))
}

/// The setting with a key of `zoo.cfg` (or of `--set`). Exact names come before families.
pub fn by_key(key: &str) -> Option<&'static Setting> {
    let exact = SETTINGS.iter().find(|setting| setting.key == key);
    exact.or_else(|| SETTINGS.iter().find(|setting| setting.is_named(key)))
}

/// The setting of a property, with the equivalent key of `zoo.cfg`.
pub fn by_property(name: &str) -> Option<(&'static Setting, &str)> {
    if let Some(setting) = SETTINGS.iter().find(|setting| setting.also == Some(name)) {
        return Some((setting, setting.key));
    }
    let full = by_key(name).filter(|setting| setting.property == Property::Full);
    if let Some(setting) = full {
        return Some((setting, name));
    }
    let key = name.strip_prefix(PREFIX)?;
    let setting = by_key(key).filter(|setting| setting.property == Property::Prefixed)?;
    Some((setting, key))
}

/// A known key that is similar to a misspelled one.
pub fn near(key: &str) -> Option<String> {
    let wanted = key.strip_prefix(PREFIX).unwrap_or(key).to_lowercase();
    let distance_max = (wanted.chars().count() / 3).clamp(1, 3);
    let names = SETTINGS.iter().flat_map(|setting| {
        let (family, members) = match setting.key.strip_suffix('*') {
            Some(family) => (family, setting.members().unwrap_or_default()),
            None => (setting.key, [""].as_slice()),
        };
        members.iter().map(move |member| format!("{family}{member}"))
    });
    names
        .map(|name| (edit_distance(&wanted, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
        .or_else(|| ending_in(&wanted).map(str::to_owned))
}

/// The only setting whose last part is `wanted` (in lower case), so that `superDigest` is enough.
fn ending_in(wanted: &str) -> Option<&'static str> {
    let mut found = SETTINGS
        .iter()
        .map(|setting| setting.key)
        .filter(|key| key.rsplit_once('.').is_some_and(|(_, last)| last.to_lowercase() == wanted));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Insertions, deletions and replacements that turn one text into the other. Both are short.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(128).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<String> = Vec::new();
        for setting in SETTINGS {
            names.push(setting.key.to_owned());
            names.extend(setting.property_name().filter(|name| name != setting.key));
            names.extend(setting.also.map(str::to_owned).filter(|name| name != setting.key));
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn exact_names_come_before_families() {
        assert_eq!(by_key("leader.closeSocketAsync").unwrap().key, "leader.*");
        assert_eq!(by_key("ssl.keyStore.location").unwrap().key, "ssl.keyStore.location");
        assert_eq!(by_key("server.12").unwrap().key, "server.*");
        assert!(by_key("server.").is_none());
        assert_eq!(by_key("admin.serverPort").unwrap().key, "admin.serverPort");
    }

    #[test]
    fn a_family_with_known_keys_has_no_others() {
        for wrong in [
            "leader.maxConcurentSnapSyncs",
            "ssl.keystore.locatoin",
            "ssl.quorum.keystore.locatoin",
            "admin.serverprot",
            "commitProcessor.",
        ] {
            assert!(by_key(wrong).is_none(), "{wrong}");
            assert!(by_property(&format!("{PREFIX}{wrong}")).is_none(), "{wrong}");
        }
        assert_eq!(by_key("authProvider.anything").unwrap().key, "authProvider.*");
        assert_eq!(by_key("leader.closeSocketAsync").unwrap().key, "leader.*");
        assert!(FAMILIES.iter().all(|(family, _)| SETTINGS.iter().any(|it| it.key == *family)));
    }

    #[test]
    fn properties_lead_to_keys() {
        assert_eq!(by_property("zookeeper.snapCount").unwrap().1, "snapCount");
        assert_eq!(by_property("jute.maxbuffer").unwrap().1, "jute.maxbuffer");
        assert_eq!(by_property("fsync.warningthresholdms").unwrap().1, "fsync.warningthresholdms");
        assert_eq!(by_property("zookeeper.superUser.3").unwrap().1, "superUser.3");
        assert!(by_property("zookeeper.dataDir").is_none(), "file only");
        assert!(by_property("zookeeper.jute.maxbuffer").is_none());
        assert!(by_property("snapCount").is_none());
    }

    #[test]
    fn misspelled_keys_have_a_neighbour() {
        for (wrong, right) in [
            ("dataDri", "dataDir"),
            ("clientport", "clientPort"),
            ("autopurge.purgeinterval", "autopurge.purgeInterval"),
            ("maxClientConns", "maxClientCnxns"),
            ("zookeeper.jute.maxbuffer", "jute.maxbuffer"),
            ("4lw.command.whitelist", "4lw.commands.whitelist"),
            ("leader.maxConcurentSnapSyncs", "leader.maxConcurrentSnapSyncs"),
            ("ssl.keystore.locatoin", "ssl.keyStore.location"),
            ("ssl.quorum.trustStore.tpye", "ssl.quorum.trustStore.type"),
            ("admin.serverprot", "admin.serverPort"),
            ("admin.comandURL", "admin.commandURL"),
        ] {
            assert_eq!(near(wrong).as_deref(), Some(right));
        }
        assert_eq!(near("completely.different"), None);
    }

    #[test]
    fn secrets_are_known_by_name_too() {
        assert!(looks_secret("ssl.keyStore.password"));
        assert!(looks_secret("zookeeper.DigestAuthenticationProvider.superDigest"));
        assert!(!looks_secret("ssl.keyStore.passwordPath"));
        assert!(!looks_secret("dataDir"));
    }
}
