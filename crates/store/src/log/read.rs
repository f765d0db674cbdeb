//! Reads a log record by record, and classifies its end.
//!
//! Works on any byte stream. For a log without a sidecar, [`LogReader::tail`] interprets the end.
//! It follows the original's rules, but never ignores data after the end.

use std::io::{self, Read};

use simd_adler32::adler32;
use zebu_proto::Zxid;

use super::{BODY_BYTES_MIN, HEADER_BYTES, MAGIC, OVERHEAD_BYTES, PREFIX_BYTES, TERMINATOR};
use crate::window::Window;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord<'a> {
    /// Offset of its start.
    pub offset: u64,
    /// Offset of the next record.
    pub end: u64,
    /// Its transaction's zxid.
    pub zxid: Zxid,
    /// Header, transaction and digest.
    pub body: &'a [u8],
}

/// The end of the records of a log, and its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The end of the last record.
    pub offset: u64,
    /// The content in place of the next record.
    pub kind: EndKind,
}

/// The content in place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndKind {
    /// The end of the file.
    File,
    /// Zeros in place of checksum and length.
    Padding,
    /// Length 0, but a non-zero checksum.
    NoLength,
    /// The file ends within checksum and length.
    PrefixCut,
    /// The file ends within the body.
    BodyCut,
    /// The terminator is zero: the record is incomplete.
    NoTerminator,
    /// The terminator has another value.
    WrongTerminator,
    /// A complete record with a wrong checksum.
    Checksum,
    /// An impossible length.
    Length(i32),
    /// The file is empty.
    Empty,
    /// The file has no log header.
    NoHeader,
    /// The disk cannot read what follows.
    Unreadable,
}

/// The content after the records of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing, or only zeros.
    Clean,
    /// A record that was being written at a crash.
    Torn,
    /// Complete records or other data.
    MoreFollows {
        /// Their offset.
        offset: u64,
    },
    /// Data that no crash can leave.
    Damaged,
}

/// Reads a log from front to back.
pub struct LogReader<R> {
    window: Window<R>,
    record_bytes_max: usize,
    started: bool,
    ended: Option<LogEnd>,
    /// Bytes of the record returned last, to be consumed with the next call.
    current: usize,
}

impl<R: Read> LogReader<R> {
    /// Reads from the start of `source`. Records longer than `record_bytes_max` are refused.
    pub fn new(source: R, record_bytes_max: usize) -> Self {
        Self {
            window: Window::new(source),
            record_bytes_max,
            started: false,
            ended: None,
            current: 0,
        }
    }

    /// The next record, or the end.
    ///
    /// # Errors
    /// Only errors of reading `source`.
    #[expect(clippy::should_implement_trait, reason = "a record borrows from the reader")]
    pub fn next(&mut self) -> io::Result<Result<LogRecord<'_>, LogEnd>> {
        if let Some(end) = self.ended {
            return Ok(Err(end));
        }
        if !self.started {
            self.started = true;
            let header = self.window.peek(HEADER_BYTES)?;
            if header.len() < HEADER_BYTES || header[..4] != MAGIC {
                let kind = if header.is_empty() { EndKind::Empty } else { EndKind::NoHeader };
                return Ok(Err(self.end(kind)));
            }
            self.window.consume(HEADER_BYTES);
        }
        self.window.consume(std::mem::take(&mut self.current));
        match self.measure()? {
            Err(kind) => Ok(Err(self.end(kind))),
            Ok(length) => {
                self.current = length + OVERHEAD_BYTES;
                let offset = self.window.position();
                let bytes = self.window.peek(length + OVERHEAD_BYTES)?;
                assert_eq!(bytes.len(), length + OVERHEAD_BYTES, "it was measured");
                let body = &bytes[PREFIX_BYTES..PREFIX_BYTES + length];
                let end = offset + bytes.len() as u64;
                Ok(Ok(LogRecord { offset, end, zxid: zxid_of(body), body }))
            }
        }
    }

    fn end(&mut self, kind: EndKind) -> LogEnd {
        let end = LogEnd { offset: self.window.position(), kind };
        self.ended = Some(end);
        end
    }

    /// Checks the next record. Returns the body's length if the record is complete and valid.
    fn measure(&mut self) -> io::Result<Result<usize, EndKind>> {
        let prefix = self.window.peek(PREFIX_BYTES)?;
        let Ok(prefix) = <[u8; PREFIX_BYTES]>::try_from(prefix) else {
            let kind = if prefix.is_empty() { EndKind::File } else { EndKind::PrefixCut };
            return Ok(Err(kind));
        };
        let (sum, length) = split_prefix(prefix);
        if length == 0 {
            return Ok(Err(if sum == 0 { EndKind::Padding } else { EndKind::NoLength }));
        }
        let Some(length) = usize::try_from(length).ok().filter(|n| *n <= self.record_bytes_max)
        else {
            return Ok(Err(EndKind::Length(length)));
        };
        let bytes = self.window.peek(length + OVERHEAD_BYTES)?;
        if bytes.len() < length + OVERHEAD_BYTES {
            return Ok(Err(EndKind::BodyCut));
        }
        let body = &bytes[PREFIX_BYTES..PREFIX_BYTES + length];
        Ok(match bytes[PREFIX_BYTES + length] {
            TERMINATOR if u64::from(adler32(&body)) != sum => Err(EndKind::Checksum),
            TERMINATOR if length < BODY_BYTES_MIN => Err(EndKind::Length(length as i32)),
            TERMINATOR => Ok(length),
            0 => Err(EndKind::NoTerminator),
            _ => Err(EndKind::WrongTerminator),
        })
    }

    /// Whether a file without a log header consists of zeros only.
    ///
    /// # Errors
    /// Only errors of reading `source`.
    pub fn is_blank(&mut self) -> io::Result<bool> {
        let is_start = matches!(self.ended, Some(LogEnd { kind: EndKind::NoHeader, .. }));
        Ok(is_start && self.next_non_zero()?.is_none())
    }

    /// Continues to read after the end, and classifies the content there.
    ///
    /// # Panics
    /// If [`LogReader::next`] has not returned the end.
    ///
    /// # Errors
    /// Only errors of reading `source`.
    pub fn tail(&mut self) -> io::Result<Tail> {
        let end = self.ended.expect("the end has been reached");
        let skip = match end.kind {
            EndKind::File | EndKind::Empty => return Ok(Tail::Clean),
            EndKind::PrefixCut => return Ok(Tail::Torn),
            EndKind::WrongTerminator
            | EndKind::Checksum
            | EndKind::Length(_)
            | EndKind::Unreadable
            | EndKind::NoHeader => return Ok(Tail::Damaged),
            // If a complete record follows, this one is not torn, whatever its length.
            EndKind::BodyCut => {
                let after = self.next_whole_record()?;
                return Ok(after.map_or(Tail::Torn, |offset| Tail::MoreFollows { offset }));
            }
            EndKind::Padding | EndKind::NoLength => PREFIX_BYTES,
            EndKind::NoTerminator => {
                let prefix = self.window.peek(PREFIX_BYTES)?;
                let prefix = prefix.try_into().expect("the record was looked at before");
                split_prefix(prefix).1 as usize + OVERHEAD_BYTES
            }
        };
        self.window.consume(skip);
        if let Some(offset) = self.next_non_zero()? {
            return Ok(Tail::MoreFollows { offset });
        }
        Ok(if end.kind == EndKind::Padding { Tail::Clean } else { Tail::Torn })
    }

    /// Offset of the next byte that is not zero.
    fn next_non_zero(&mut self) -> io::Result<Option<u64>> {
        loop {
            if self.window.peek(1)?.is_empty() {
                return Ok(None);
            }
            let position = self.window.position();
            let bytes = self.window.buffered();
            // It reads in blocks, because padding is long.
            let zero_blocks = bytes.chunks(4096).take_while(|block| is_zero(block)).count();
            let skipped = bytes.len().min(zero_blocks * 4096);
            if let Some(at) = bytes[skipped..].iter().position(|byte| *byte != 0) {
                return Ok(Some(position + (skipped + at) as u64));
            }
            let all = bytes.len();
            self.window.consume(all);
        }
    }

    /// Ends the log before what the disk could not read.
    pub fn give_up(&mut self) -> LogEnd {
        self.window.consume(std::mem::take(&mut self.current));
        self.end(EndKind::Unreadable)
    }

    /// Refuses the record returned last, because it is not genuine.
    pub fn refuse(&mut self) {
        self.current = 0;
        let kind = EndKind::Checksum;
        self.ended = Some(LogEnd { offset: self.window.position(), kind });
    }

    /// Looks for a complete record after the end, to continue from there. False if there is none.
    ///
    /// # Panics
    /// If [`LogReader::next`] has not returned the end.
    ///
    /// # Errors
    /// Only errors of reading `source`.
    pub fn resume(&mut self) -> io::Result<bool> {
        assert!(self.ended.is_some(), "the end has been reached");
        let is_there = self.next_whole_record()?.is_some();
        if is_there {
            self.ended = None;
        }
        Ok(is_there)
    }

    /// Offset of the next complete record after the current position.
    fn next_whole_record(&mut self) -> io::Result<Option<u64>> {
        while !self.window.peek(1)?.is_empty() {
            self.window.consume(1);
            // Padding is long. The first bytes of a record may be zeros, too.
            let zeros = self.window.buffered().chunks(4096);
            let zeros = zeros.take_while(|block| block.len() == 4096 && is_zero(block)).count();
            self.window.consume((zeros * 4096).saturating_sub(PREFIX_BYTES));
            // The four zeros of a checksum rule out most positions.
            if self.window.peek(4)? == [0; 4] && self.measure()?.is_ok() {
                return Ok(Some(self.window.position()));
            }
        }
        Ok(None)
    }
}

fn is_zero(block: &[u8]) -> bool {
    block.iter().fold(0, |all, byte| all | byte) == 0
}

fn split_prefix(prefix: [u8; PREFIX_BYTES]) -> (u64, i32) {
    let (sum, length) = prefix.split_at(8);
    (
        u64::from_be_bytes(sum.try_into().expect("eight bytes")),
        i32::from_be_bytes(length.try_into().expect("four bytes")),
    )
}

/// The zxid in a body's header.
pub(crate) fn zxid_of(body: &[u8]) -> Zxid {
    let bytes = body.get(12..20).expect("a body is not smaller than its header");
    Zxid(i64::from_be_bytes(bytes.try_into().expect("eight bytes")))
}

/// Reads a whole log, passes its records to `each` in order, and returns where and how they end.
///
/// # Errors
/// Only errors of reading `source`.
pub fn read_log<R: Read>(
    source: R,
    record_bytes_max: usize,
    each: &mut dyn FnMut(LogRecord<'_>),
) -> io::Result<(LogEnd, Tail)> {
    let mut reader = LogReader::new(source, record_bytes_max);
    let end = loop {
        match reader.next()? {
            Ok(record) => each(record),
            Err(end) => break end,
        }
    };
    Ok((end, reader.tail()?))
}

#[cfg(test)]
mod tests {
    use super::super::{encode_record, header};
    use super::*;

    fn body(zxid: i64, text: &str) -> Vec<u8> {
        let mut body = vec![0; BODY_BYTES_MIN];
        body[12..20].copy_from_slice(&zxid.to_be_bytes());
        body.extend_from_slice(text.as_bytes());
        body
    }

    fn log() -> Vec<u8> {
        let mut log = header().to_vec();
        for zxid in 1..=3 {
            encode_record(&body(zxid, "a txn"), &mut log);
        }
        log
    }

    fn outcome(log: &[u8]) -> (Vec<i64>, LogEnd, Tail) {
        let mut zxids = Vec::new();
        let (end, tail) = read_log(log, 1 << 20, &mut |record| zxids.push(record.zxid.0)).unwrap();
        (zxids, end, tail)
    }

    #[test]
    fn every_cut_is_a_clean_or_torn_end() {
        let log = log();
        for cut in HEADER_BYTES..=log.len() {
            let (zxids, end, tail) = outcome(&log[..cut]);
            let whole = (cut - HEADER_BYTES) / 50;
            assert_eq!(zxids, (1..=whole as i64).collect::<Vec<_>>(), "cut at {cut}");
            assert_eq!(end.offset, (HEADER_BYTES + whole * 50) as u64);
            let clean = (cut - HEADER_BYTES).is_multiple_of(50);
            assert_eq!(tail, if clean { Tail::Clean } else { Tail::Torn }, "cut at {cut}");
        }
    }

    #[test]
    fn a_cut_and_padded_record_is_torn() {
        let log = log();
        for cut in HEADER_BYTES + 100..log.len() {
            let mut padded = log[..cut].to_vec();
            padded.resize(4096, 0);
            let (zxids, _, tail) = outcome(&padded);
            assert_eq!(zxids, [1, 2], "cut at {cut}");
            // The checksum begins with four zeros.
            let clean = cut <= HEADER_BYTES + 104;
            assert_eq!(tail, if clean { Tail::Clean } else { Tail::Torn }, "cut at {cut}");
        }
    }

    #[test]
    fn zeros_in_the_middle_do_not_end_the_log_silently() {
        // ZooKeeper starts with the records before the zeros.
        let mut log = log();
        log[HEADER_BYTES + 50..HEADER_BYTES + 62].fill(0);
        let (zxids, _, tail) = outcome(&log);
        assert_eq!(zxids, [1]);
        assert!(matches!(tail, Tail::MoreFollows { .. }));
    }

    #[test]
    fn no_changed_bit_goes_unnoticed_when_records_follow() {
        let log = log();
        for at in HEADER_BYTES..HEADER_BYTES + 100 {
            for bit in 0..8 {
                let mut changed = log.clone();
                changed[at] ^= 1 << bit;
                let (zxids, _, tail) = outcome(&changed);
                assert!(zxids.len() < 3, "byte {at}, bit {bit}");
                assert!(
                    matches!(tail, Tail::Damaged | Tail::MoreFollows { .. }),
                    "byte {at}, bit {bit}: {tail:?}"
                );
            }
        }
    }

    #[test]
    fn a_promised_length_costs_no_memory() {
        let mut log = header().to_vec();
        log.extend([0, 0, 0, 0, 1, 2, 3, 4, 0x3f, 0xff, 0xff, 0xff, 1, 2, 3]);
        assert_eq!(outcome(&log).1.kind, EndKind::Length(0x3fff_ffff));
        let (end, _) = read_log(&log[..], usize::MAX / 2, &mut |_| ()).unwrap();
        assert_eq!(end.kind, EndKind::BodyCut);
    }

    #[test]
    fn files_that_are_no_logs() {
        assert_eq!(outcome(b"").1.kind, EndKind::Empty);
        for bytes in [&b"ZKLG"[..], &[0; 8208], b"ZKSN000000000000000"] {
            let (zxids, end, tail) = outcome(bytes);
            assert_eq!((zxids.len(), end.kind, tail), (0, EndKind::NoHeader, Tail::Damaged));
        }
        assert_eq!(
            outcome(&header()),
            (vec![], LogEnd { offset: 16, kind: EndKind::File }, Tail::Clean)
        );
    }
}
