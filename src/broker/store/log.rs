//! An endless run of bytes, kept in segments and addressed from its first byte on.

use std::io;
use std::sync::Arc;

use super::file::{Disk, File};

/// The address after the last byte is the address of the next. What is appended at once stays in one segment, so
/// that one read brings it back.
#[derive(Debug)]
pub(crate) struct Log {
    disk: Arc<dyn Disk>,
    name: String,
    segment_bytes: u64,
    segments: Vec<Segment>,
    end: u64,
}

#[derive(Debug)]
struct Segment {
    base: u64,
    file: Box<dyn File>,
}

impl Log {
    /// An empty log, whose segments are closed once they hold `segment_bytes`.
    pub(crate) fn new(disk: Arc<dyn Disk>, name: impl Into<String>, segment_bytes: u64) -> Self {
        Self { disk, name: name.into(), segment_bytes, segments: Vec::new(), end: 0 }
    }

    /// The address of the next byte.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Appends `bytes` and returns their address.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let at = self.end;
        if self.segments.last().is_none_or(|segment| segment.file.len() >= self.segment_bytes) {
            self.segments.push(Segment { base: at, file: self.disk.create(&self.name, at)? });
        }
        if let Some(segment) = self.segments.last_mut() {
            segment.file.append(bytes)?;
        }
        self.end += bytes.len() as u64;
        Ok(at)
    }

    /// Appends up to `len` bytes from `at` on to `out`, as far as the segment goes that holds them, and says how
    /// many. Never none: past the end is an error.
    pub(crate) fn read_some(&self, at: u64, len: usize, out: &mut Vec<u8>) -> io::Result<usize> {
        let after = self.segments.partition_point(|segment| segment.base <= at);
        let segment =
            after.checked_sub(1).and_then(|i| self.segments.get(i)).ok_or(io::ErrorKind::UnexpectedEof)?;
        let left = segment.file.len().saturating_sub(at - segment.base);
        let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        segment.file.read(at - segment.base, len, out)?;
        Ok(len)
    }

    /// Appends exactly the `len` bytes from `at` on to `out`.
    pub(crate) fn read(&self, mut at: u64, len: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            let got = self.read_some(at, left, out)?;
            at += got as u64;
            left -= got;
        }
        Ok(())
    }

    /// Cuts everything from the address `end` on off.
    pub(crate) fn truncate(&mut self, end: u64) -> io::Result<()> {
        if end >= self.end {
            return Ok(());
        }
        self.segments.retain(|segment| segment.base < end || segment.base == 0);
        if let Some(segment) = self.segments.last_mut() {
            segment.file.truncate(end - segment.base)?;
        }
        self.end = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::Memory;
    use super::*;

    fn log() -> Log {
        Log::new(Arc::new(Memory), "log", 8)
    }

    #[test]
    fn addresses_go_on_over_segments() {
        let mut log = log();
        assert_eq!(log.append(b"hello").unwrap(), 0);
        assert_eq!(log.append(b"world").unwrap(), 5);
        assert_eq!(log.append(b"again").unwrap(), 10);
        assert_eq!(log.segments.len(), 2);
        let mut out = Vec::new();
        log.read(3, 9, &mut out).unwrap();
        assert_eq!(out, b"loworldag");
    }

    #[test]
    fn one_read_ends_with_its_segment() {
        let mut log = log();
        log.append(b"0123456789").unwrap();
        log.append(b"abc").unwrap();
        let mut out = Vec::new();
        assert_eq!(log.read_some(8, 100, &mut out).unwrap(), 2);
        assert_eq!(out, b"89");
        assert!(log.read_some(13, 1, &mut out).is_err());
        assert!(log.read(12, 2, &mut out).is_err());
    }

    #[test]
    fn an_empty_log_has_nothing_to_read() {
        assert!(log().read_some(0, 1, &mut Vec::new()).is_err());
        assert_eq!(log().end(), 0);
    }

    #[test]
    fn what_is_cut_off_is_written_again() {
        for end in [0, 4, 10, 12] {
            let mut log = log();
            for text in ["0123456789", "abcdefghij", "x"] {
                log.append(text.as_bytes()).unwrap();
            }
            log.truncate(end).unwrap();
            assert_eq!(log.append(b"new").unwrap(), end);
            let mut out = Vec::new();
            log.read(0, end as usize + 3, &mut out).unwrap();
            assert!(out.ends_with(b"new") && out.starts_with(&b"0123456789abcdefghij"[..end as usize]));
        }
    }
}
