//! Reads the bytes of a script. Every byte has a meaning.

/// Reads an input piece by piece. After its end there are no bytes.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte; `None` after the last one.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next byte; 0 after the last one.
    pub(crate) fn byte(&mut self) -> u8 {
        self.next().unwrap_or_default()
    }

    /// The number of bytes that the next two bytes announce, or fewer at the end.
    pub(crate) fn run(&mut self) -> &'a [u8] {
        let length = usize::from(u16::from_be_bytes([self.byte(), self.byte()]));
        let (run, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        run
    }

    /// The next four bytes as a number.
    pub(crate) fn int(&mut self) -> i32 {
        i32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }
}
