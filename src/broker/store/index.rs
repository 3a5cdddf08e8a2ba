//! The index of one queue: where in the log the message of each offset lies.

use std::io;
use std::sync::Arc;

use byteorder::{BigEndian, ByteOrder};

use super::file::Disk;
use super::log::Log;

const ENTRY: usize = 20;
const SEGMENT: u64 = 6_000 * ENTRY as u64;

/// Where one message lies, and what its queue is filtered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) position: u64,
    pub(crate) size: u32,
    /// The hash of its tag; of a delayed message the time in ms when it is due.
    pub(crate) tag: i64,
}

/// The offsets `min..max` of one queue.
#[derive(Debug)]
pub(crate) struct Index {
    log: Log,
    min: i64,
    max: i64,
}

impl Index {
    pub(crate) fn new(disk: Arc<dyn Disk>, name: String) -> Self {
        Self { log: Log::new(disk, name, SEGMENT), min: 0, max: 0 }
    }

    /// The first offset that can be read.
    pub(crate) fn min(&self) -> i64 {
        self.min
    }

    /// The offset of the next message.
    pub(crate) fn max(&self) -> i64 {
        self.max
    }

    pub(crate) fn push(&mut self, entry: Entry) -> io::Result<i64> {
        let mut bytes = [0; ENTRY];
        BigEndian::write_u64(&mut bytes[..8], entry.position);
        BigEndian::write_u32(&mut bytes[8..12], entry.size);
        BigEndian::write_i64(&mut bytes[12..], entry.tag);
        self.log.append(&bytes)?;
        self.max += 1;
        Ok(self.max - 1)
    }

    pub(crate) fn get(&self, offset: i64) -> Option<Entry> {
        self.scan(offset, 1).ok()?.next()
    }

    /// The entries of up to `count` offsets from `offset` on, fewer at the end of the queue.
    pub(crate) fn scan(&self, offset: i64, count: usize) -> io::Result<impl Iterator<Item = Entry> + use<>> {
        let mut bytes = Vec::new();
        if (self.min..self.max).contains(&offset) {
            let left = usize::try_from(self.max - offset).unwrap_or(usize::MAX);
            self.log.read(offset.unsigned_abs() * ENTRY as u64, count.min(left) * ENTRY, &mut bytes)?;
        }
        let mut at = 0;
        Ok(std::iter::from_fn(move || {
            let entry = bytes.get(at..at + ENTRY)?;
            at += ENTRY;
            Some(Entry {
                position: BigEndian::read_u64(&entry[..8]),
                size: BigEndian::read_u32(&entry[8..12]),
                tag: BigEndian::read_i64(&entry[12..]),
            })
        }))
    }

    /// Forgets everything outside `min..max`, as retention and a lost disk do. Both are brought within what is there.
    pub(crate) fn truncate(&mut self, min: i64, max: i64) -> io::Result<()> {
        self.max = max.clamp(0, self.max);
        self.min = min.clamp(0, self.max);
        self.log.truncate(self.max.unsigned_abs() * ENTRY as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::Memory;
    use super::*;

    fn index(n: u64) -> Index {
        let mut index = Index::new(Arc::new(Memory), "t-0".into());
        for i in 0..n {
            index.push(Entry { position: i * 100, size: 100, tag: -(i as i64) }).unwrap();
        }
        index
    }

    #[test]
    fn entries_come_back_over_segments() {
        let index = index(13_000);
        assert_eq!(index.get(12_345), Some(Entry { position: 1_234_500, size: 100, tag: -12_345 }));
        let scanned: Vec<_> = index.scan(5_990, 20).unwrap().map(|entry| entry.position).collect();
        assert_eq!(scanned, (5_990..6_010).map(|i| i * 100).collect::<Vec<_>>());
        assert_eq!(index.scan(12_990, 100).unwrap().count(), 10);
    }

    #[test]
    fn nothing_outside_the_range_is_read() {
        let mut index = index(10);
        index.truncate(3, 7).unwrap();
        assert_eq!((index.min(), index.max()), (3, 7));
        assert_eq!((index.get(2), index.get(7), index.get(-1)), (None, None, None));
        assert_eq!(index.push(Entry { position: 1, size: 2, tag: 3 }).unwrap(), 7);
        assert_eq!(index.get(7), Some(Entry { position: 1, size: 2, tag: 3 }));
        index.truncate(-5, 100).unwrap();
        assert_eq!((index.min(), index.max()), (0, 8));
    }
}
