//! The result of `zebu verify`, as text and as JSON.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use zebu_proto::Zxid;

use super::spool::{Difference, Znode};

/// The exit code when something is damaged or differs.
const WRONG: u8 = 1;
/// The exit code if nothing is wrong, but something could not be checked.
pub(super) const UNKNOWN: u8 = 3;

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file is damaged or missing.
    Damage,
    /// Two places have different content.
    Differs,
    /// Something could not be read or compared.
    Unknown,
    /// Good to know.
    Note,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Damage => "damage",
            Self::Differs => "differs",
            Self::Unknown => "unknown",
            Self::Note => "note",
        }
    }
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Its kind.
    pub(super) kind: Kind,
    /// Its directory or member; empty if it is about several.
    pub(super) place: String,
    /// Its file, if any.
    pub(super) file: Option<PathBuf>,
    /// Its position in the file, in bytes.
    pub(super) offset: Option<u64>,
    /// The transaction before it, or the transaction that it is about.
    pub(super) zxid: Option<Zxid>,
    /// The description.
    pub(super) text: String,
}

impl Finding {
    /// A finding about a place.
    pub(super) fn new(kind: Kind, place: &str, text: impl Into<String>) -> Self {
        let place = place.to_owned();
        Self { kind, place, file: None, offset: None, zxid: None, text: text.into() }
    }

    /// Adds a file.
    pub(super) fn of_file(self, file: impl Into<PathBuf>) -> Self {
        Self { file: Some(file.into()), ..self }
    }

    /// Adds a transaction.
    pub(super) fn at(self, zxid: Zxid) -> Self {
        Self { zxid: Some(zxid), ..self }
    }

    fn line(&self) -> String {
        let mut line = format!("{:<8} ", self.kind.name());
        match &self.file {
            Some(file) => {
                let _ = write!(line, "{}: ", file.display());
            }
            None if self.place.is_empty() => {}
            None => {
                let _ = write!(line, "{}: ", self.place);
            }
        }
        if let Some(offset) = self.offset {
            let _ = write!(line, "offset {offset}: ");
        }
        line.push_str(&self.text);
        line
    }

    fn json(&self) -> Value {
        json!({
            "kind": self.kind.name(), "place": self.place, "text": self.text, "offset": self.offset,
            "file": self.file.as_ref().map(|file| file.display().to_string()),
            "zxid": self.zxid.map(|zxid| zxid.to_string()),
        })
    }
}

/// A directory or a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Its name.
    pub(super) name: String,
    /// Its facts, each with a name.
    pub(super) facts: Vec<(&'static str, String)>,
}

/// The result of a verification.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The places, in the order of the arguments.
    pub(super) places: Vec<Place>,
    /// The findings.
    pub(super) findings: Vec<Finding>,
    /// The places whose trees were compared. The znodes of a difference have the same order.
    pub(super) compared: Vec<String>,
    /// The transaction after which the trees were compared.
    pub(super) compared_at: Option<Zxid>,
    /// The number of differing znodes; `None` if znodes were not compared.
    pub(super) differing: Option<u64>,
    /// The first differing znodes.
    pub(super) znodes: Vec<Difference>,
}

impl Report {
    /// Adds a finding.
    pub(super) fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    fn has(&self, kind: Kind) -> bool {
        self.findings.iter().any(|finding| finding.kind == kind)
    }

    /// The exit code.
    pub(super) fn code(&self) -> u8 {
        if self.has(Kind::Damage) || self.has(Kind::Differs) {
            WRONG
        } else if self.has(Kind::Unknown) {
            UNKNOWN
        } else {
            0
        }
    }

    fn verdict(&self) -> &'static str {
        match self.code() {
            0 => "verified",
            WRONG => "wrong",
            _ => "not verified",
        }
    }

    /// Prints the report as text: the places, the findings, and the verdict.
    pub(super) fn text(&self, out: &mut dyn io::Write) -> io::Result<()> {
        for place in &self.places {
            let facts: Vec<_> =
                place.facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
            writeln!(out, "{}: {}", place.name, facts.join(", "))?;
        }
        for finding in &self.findings {
            writeln!(out, "{}", finding.line())?;
        }
        let names = &self.compared;
        for difference in &self.znodes {
            for (field, values) in fields(difference) {
                let values: Vec<_> = names
                    .iter()
                    .zip(&values)
                    .map(|(name, value)| format!("{value} in {name}"))
                    .collect();
                writeln!(out, "znode    {}: {field}: {}", difference.path, values.join(", "))?;
            }
        }
        let shown = self.znodes.len() as u64;
        if let Some(more) =
            self.differing.and_then(|all| all.checked_sub(shown)).filter(|it| *it > 0)
        {
            writeln!(out, "znode    and {more} more; hint: --limit shows more")?;
        }
        let at = self.compared_at.map(|zxid| format!(" at transaction {zxid}")).unwrap_or_default();
        writeln!(out, "{}{at}", self.verdict())
    }

    /// Prints the report as one JSON object.
    pub(super) fn json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let names = &self.compared;
        let places: Vec<_> = (self.places.iter())
            .map(|place| {
                let facts = place.facts.iter();
                let mut all: Map<_, _> =
                    facts.map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
                all.insert("name".to_owned(), json!(place.name));
                Value::Object(all)
            })
            .collect();
        let znodes: Vec<_> = (self.znodes.iter())
            .map(|difference| {
                let differs: Map<_, _> = fields(difference)
                    .into_iter()
                    .map(|(field, values)| {
                        let of_place = names.iter().zip(values);
                        let values: Map<_, _> =
                            of_place.map(|(name, value)| (name.clone(), json!(value))).collect();
                        (field.to_owned(), Value::Object(values))
                    })
                    .collect();
                json!({ "path": difference.path, "differs": differs })
            })
            .collect();
        let findings: Vec<_> = self.findings.iter().map(Finding::json).collect();
        let value = json!({
            "verdict": self.verdict(), "places": places, "compared": self.compared, "findings": findings, "znodes": znodes,
            "compared_at": self.compared_at.map(|zxid| zxid.to_string()),
            "differing_znodes": self.differing,
        });
        writeln!(out, "{value}")
    }
}

/// The fields in which the znodes at a path differ, each with the value at every place.
fn fields(difference: &Difference) -> Vec<(&'static str, Vec<String>)> {
    type Field = (&'static str, fn(&Znode) -> String);
    const FIELDS: [Field; 11] = [
        ("data", |it| match it.data {
            Some((bytes, hash)) => format!("{bytes} bytes (hash {hash:016x})"),
            None => "null".to_owned(),
        }),
        ("acl", |it| it.acl.clone()),
        ("czxid", |it| it.stat.czxid.to_string()),
        ("mzxid", |it| it.stat.mzxid.to_string()),
        ("pzxid", |it| it.stat.pzxid.to_string()),
        ("ctime", |it| it.stat.ctime.to_string()),
        ("mtime", |it| it.stat.mtime.to_string()),
        ("dataVersion", |it| it.stat.version.to_string()),
        ("cversion", |it| it.stat.cversion.to_string()),
        ("aclVersion", |it| it.stat.aversion.to_string()),
        ("ephemeralOwner", |it| format!("{:#x}", it.stat.ephemeral_owner)),
    ];
    let znodes = &difference.znodes;
    if znodes.iter().any(Option::is_none) {
        let is_there = |znode: &Option<Znode>| match znode {
            Some(znode) => format!("there (czxid {})", znode.stat.czxid),
            None => "missing".to_owned(),
        };
        return vec![("existence", znodes.iter().map(is_there).collect())];
    }
    (FIELDS.iter())
        .map(|(name, value)| (*name, znodes.iter().flatten().map(value).collect::<Vec<_>>()))
        .filter(|(_, values)| values.iter().any(|value| *value != values[0]))
        .collect()
}
