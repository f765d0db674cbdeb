//! The format of every message: directives with values, separated by commas.

use std::borrow::Cow;

use super::{Failure, MESSAGE_BYTES_MAX};

/// Names and values, in the order of the message.
pub(super) struct Directives<'a>(Vec<(String, Cow<'a, [u8]>)>);

impl<'a> Directives<'a> {
    pub(super) fn parse(message: &'a [u8]) -> Result<Self, Failure> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(Failure::Message("it is longer than 4096 bytes"));
        }
        let mut directives = Vec::new();
        let mut rest = message;
        loop {
            rest = skip(rest, |byte| is_space(byte) || byte == b',');
            if rest.is_empty() {
                return Ok(Self(directives));
            }
            let end = rest
                .iter()
                .position(|byte| *byte == b'=')
                .ok_or(Failure::Message("a directive has no value"))?;
            let name = rest[..end].trim_ascii();
            if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
                return Err(Failure::Message("a directive has no name"));
            }
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            rest = skip(&rest[end + 1..], is_space);
            let value;
            (value, rest) = if rest.first() == Some(&b'"') { quoted(rest)? } else { bare(rest) };
            directives.push((name, value));
            rest = skip(rest, is_space);
            if !matches!(rest.first(), None | Some(b',')) {
                return Err(Failure::Message("a comma is missing after a value"));
            }
        }
    }

    /// All values of this directive.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| &**value)
    }

    /// The value of this directive, which may occur once.
    pub(super) fn one(&self, name: &'static str) -> Result<Option<&[u8]>, Failure> {
        let mut values = self.all(name);
        let first = values.next();
        match values.next() {
            None => Ok(first),
            Some(_) => Err(Failure::Message("a directive is there twice")),
        }
    }

    /// The value of this directive, which must occur once.
    pub(super) fn required(&self, name: &'static str) -> Result<&[u8], Failure> {
        self.one(name)?.ok_or(Failure::Message("a directive is missing"))
    }

    /// Whether the message declares that its text is UTF-8.
    pub(super) fn is_utf8(&self) -> Result<bool, Failure> {
        match self.one("charset")? {
            None => Ok(false),
            Some(charset) if charset.eq_ignore_ascii_case(b"utf-8") => Ok(true),
            Some(_) => Err(Failure::Mismatch("charset")),
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn skip(bytes: &[u8], is_skipped: impl Fn(u8) -> bool) -> &[u8] {
    let at = bytes.iter().position(|byte| !is_skipped(*byte)).unwrap_or(bytes.len());
    &bytes[at..]
}

fn bare(bytes: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b',' || is_space(*byte)).unwrap_or(bytes.len());
    (Cow::Borrowed(&bytes[..end]), &bytes[end..])
}

fn quoted(bytes: &[u8]) -> Result<(Cow<'_, [u8]>, &[u8]), Failure> {
    let mut value = Vec::new();
    let mut rest = bytes[1..].iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return Ok((Cow::Owned(value), rest.as_slice())),
            b'\\' => value.push(*rest.next().ok_or(Failure::Message("a quoted text has no end"))?),
            _ => value.push(*byte),
        }
    }
    Err(Failure::Message("a quoted text has no end"))
}
