//! Reads DER: tag, length and content. Every length is checked against the remaining bytes.
//!
//! OpenSSL's older PKCS12 files and some hardware vendors use BER's indefinite lengths. They are
//! refused with an error of their own; no program that ZooKeeper's documentation names writes them.

/// Bytes that are not the expected DER.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DerError {
    /// A length exceeds the remaining bytes.
    #[error("it ends too early")]
    Short,
    /// A length has more bytes than any file needs, or is of indefinite form.
    #[error("it has a length that DER does not allow")]
    Length,
    /// Another element was expected.
    #[error("it has another element than expected (tag 0x{got:02x} instead of 0x{want:02x})")]
    Tag {
        /// The expected tag.
        want: u8,
        /// The actual tag.
        got: u8,
    },
    /// A value outside the supported range.
    #[error("it has a value out of range")]
    Value,
}

type Result<T> = std::result::Result<T, DerError>;

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// The context-specific, constructed tag with this number.
pub(crate) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// One element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) content: &'a [u8],
    /// The element including its tag and its length.
    pub(crate) whole: &'a [u8],
}

/// Consecutive elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next element, whatever its tag is.
    pub(crate) fn any(&mut self) -> Result<Element<'a>> {
        let [tag, first, ..] = *self.rest else { return Err(DerError::Short) };
        if tag & 0x1f == 0x1f {
            return Err(DerError::Value); // Tags of several bytes: none of our formats has one.
        }
        let (length, head) = match first {
            ..=0x7f => (usize::from(first), 2),
            0x81..=0x84 => {
                let bytes = usize::from(first & 0x7f);
                let digits = self.rest.get(2..2 + bytes).ok_or(DerError::Short)?;
                let length = digits.iter().fold(0u32, |sum, digit| sum << 8 | u32::from(*digit));
                (usize::try_from(length).map_err(|_| DerError::Length)?, 2 + bytes)
            }
            _ => return Err(DerError::Length),
        };
        let end = head.checked_add(length).ok_or(DerError::Length)?;
        let whole = self.rest.get(..end).ok_or(DerError::Short)?;
        self.rest = &self.rest[end..];
        Ok(Element { tag, content: &whole[head..], whole })
    }

    /// The next element's content. It must have this tag.
    pub(crate) fn expect(&mut self, want: u8) -> Result<&'a [u8]> {
        match self.peek() {
            None => Err(DerError::Short),
            Some(got) if got != want => Err(DerError::Tag { want, got }),
            Some(_) => Ok(self.any()?.content),
        }
    }

    /// The next element's content, if it has this tag.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>> {
        if self.peek() == Some(tag) { Ok(Some(self.any()?.content)) } else { Ok(None) }
    }

    /// The elements inside the next element, which must have this tag.
    pub(crate) fn inside(&mut self, tag: u8) -> Result<Reader<'a>> {
        Ok(Reader::new(self.expect(tag)?))
    }

    /// A small non-negative number.
    pub(crate) fn number(&mut self) -> Result<u32> {
        let digits = self.expect(INTEGER)?;
        let digits = digits.strip_prefix(&[0]).unwrap_or(digits);
        if digits.len() > 4 {
            return Err(DerError::Value);
        }
        Ok(digits.iter().fold(0, |sum, digit| sum << 8 | u32::from(*digit)))
    }
}

/// The dotted form of an object identifier's bytes; `None` if they are invalid.
pub(crate) fn oid_text(content: &[u8]) -> Option<String> {
    let mut text = String::new();
    let mut value = 0u64;
    let mut is_first = true;
    let mut is_open = false;
    for byte in content {
        value = value.checked_mul(128)? | u64::from(byte & 0x7f);
        is_open = byte & 0x80 != 0;
        if is_open {
            continue;
        }
        if is_first {
            let top = (value / 40).min(2);
            text = format!("{top}.{}", value - 40 * top);
            is_first = false;
        } else {
            text.push_str(&format!(".{value}"));
        }
        value = 0;
    }
    (!is_first && !is_open).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_held_against_the_bytes_that_are_there() {
        let mut good = Reader::new(&[0x30, 0x81, 0x01, 0xff, 0x04]);
        assert_eq!(good.any().unwrap().content, [0xff]);
        assert_eq!(good.any().unwrap_err(), DerError::Short);
        assert_eq!(Reader::new(&[0x30, 2, 0]).any().unwrap_err(), DerError::Short);
        assert_eq!(Reader::new(&[0x30, 0x80, 0, 0]).any().unwrap_err(), DerError::Length);
        assert_eq!(
            Reader::new(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]).any().unwrap_err(),
            DerError::Short
        );
    }

    #[test]
    fn object_identifiers_are_written_as_openssl_writes_them() {
        assert_eq!(oid_text(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d]).unwrap(), "1.2.840.113549");
        assert_eq!(oid_text(&[0x55, 0x04, 0x03]).unwrap(), "2.5.4.3");
        assert_eq!(oid_text(&[0x55, 0x84]), None);
        assert_eq!(oid_text(&[]), None);
    }
}
