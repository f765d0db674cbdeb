//! Distinguished names, printed as Java's `X500Principal.getName()` prints them.
//!
//! Access control lists hold these strings, so each quirk counts: attributes outside RFC 2253's
//! table become hex, the bytes of every kind of string are taken as UTF-8, and a zero becomes
//! `\00`. The expected values of the tests are what Java 17 printed.

use std::fmt::Write;

use crate::der::{DerError, OID, Reader, SEQUENCE, SET, oid_text};

/// The attributes that RFC 2253 names.
const KEYWORDS: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

/// The tags of strings: UTF8, Printable, T61, IA5, General, Universal, BMP.
const STRINGS: [u8; 7] = [0x0c, 0x13, 0x14, 0x16, 0x1b, 0x1c, 0x1e];

struct Attribute {
    oid: String,
    tag: u8,
    content: Vec<u8>,
    whole: Vec<u8>,
}

/// A name: relative names in the order of the certificate, each with one or more attributes.
pub(super) struct Name(Vec<Vec<Attribute>>);

impl Name {
    /// Parses the content of a name's sequence.
    pub(super) fn read(content: &[u8]) -> Result<Self, DerError> {
        let mut names = Vec::new();
        let mut reader = Reader::new(content);
        while !reader.is_empty() {
            let mut set = reader.inside(SET)?;
            let mut attributes = Vec::new();
            while !set.is_empty() {
                let mut attribute = set.inside(SEQUENCE)?;
                let oid = oid_text(attribute.expect(OID)?).ok_or(DerError::Value)?;
                let value = attribute.any()?;
                attributes.push(Attribute {
                    oid,
                    tag: value.tag,
                    content: value.content.to_vec(),
                    whole: value.whole.to_vec(),
                });
            }
            names.push(attributes);
        }
        Ok(Self(names))
    }

    /// The form of RFC 2253, most specific first.
    pub(super) fn rfc2253(&self) -> String {
        let relative = |attributes: &Vec<Attribute>| {
            attributes.iter().map(Attribute::rfc2253).collect::<Vec<_>>().join("+")
        };
        self.0.iter().rev().map(relative).collect::<Vec<_>>().join(",")
    }

    /// The most specific common name.
    pub(super) fn common_name(&self) -> Option<String> {
        let mut attributes = self.0.iter().rev().flatten();
        let found = attributes.find(|attribute| attribute.oid == "2.5.4.3")?;
        Some(String::from_utf8_lossy(&found.content).into_owned())
    }
}

impl Attribute {
    fn rfc2253(&self) -> String {
        let keyword = KEYWORDS.iter().find(|(oid, _)| *oid == self.oid);
        match keyword {
            Some((_, keyword)) if STRINGS.contains(&self.tag) => {
                format!("{keyword}={}", escaped(&self.content))
            }
            _ => {
                let label = keyword.map_or(self.oid.as_str(), |(_, keyword)| keyword);
                let mut text = format!("{label}=#");
                for byte in &self.whole {
                    let _ = write!(text, "{byte:02x}");
                }
                text
            }
        }
    }
}

fn escaped(content: &[u8]) -> String {
    let value = String::from_utf8_lossy(content);
    let mut text = String::new();
    for character in value.chars() {
        match character {
            ',' | '=' | '+' | '<' | '>' | '#' | ';' | '"' | '\\' => {
                text.push('\\');
                text.push(character);
            }
            '\0' => text.push_str("\\00"),
            _ => text.push(character),
        }
    }
    let is_space = |character: char| character == ' ' || character == '\r';
    let body = text.trim_matches(is_space);
    if body.len() == text.len() {
        return text;
    }
    let lead = text.len() - text.trim_start_matches(is_space).len();
    // In a name of only spaces, all spaces are leading.
    let trail = if body.is_empty() { text.len() } else { lead + body.len() };
    let mut out = String::new();
    for (at, character) in text.char_indices() {
        if at < lead || at >= trail {
            out.push('\\');
        }
        out.push(character);
    }
    out
}
