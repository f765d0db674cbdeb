//! A script's bytes, read so that every byte means something.

/// Reads an input piece by piece. Behind its end there is nothing.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte, `None` behind the last.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next byte, 0 behind the last.
    pub(crate) fn byte(&mut self) -> u8 {
        self.next().unwrap_or_default()
    }

    /// As many bytes as the next two say, or those there are.
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
