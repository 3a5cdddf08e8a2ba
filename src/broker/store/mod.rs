//! Stored messages: one log of encoded records (positions are physical offsets, as clients see them), and an index
//! into it for each queue. Knows neither topics' settings nor groups nor time.

mod file;
mod index;
mod log;
mod lookup;

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

pub(crate) use file::{Disk, Memory};
pub(crate) use index::Entry;
pub(crate) use lookup::{Found, Status};

use index::Index;
use log::Log;

/// A segment of the log is closed once it holds this much.
const LOG_SEGMENT: u64 = 4 * 1024 * 1024;

/// Where a message was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) position: u64,
    pub(crate) size: u32,
    pub(crate) queue_offset: i64,
}

#[derive(Debug)]
pub(crate) struct Store {
    disk: Arc<dyn Disk>,
    log: Log,
    queues: HashMap<String, BTreeMap<i32, Index>>,
    /// The record being encoded; kept for its capacity.
    scratch: Vec<u8>,
}

impl Store {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        let log = Log::new(disk.clone(), "commitlog", LOG_SEGMENT);
        Self { disk, log, queues: HashMap::new(), scratch: Vec::new() }
    }

    /// Appends one message to a queue. `encode` is told the queue offset and the position it gets, and writes the
    /// record.
    pub(crate) fn append<E: From<io::Error>>(
        &mut self,
        topic: &str,
        queue_id: i32,
        tag: i64,
        encode: impl FnOnce(i64, u64, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Placed, E> {
        let position = self.log.end();
        let queue_offset = self.range(topic, queue_id).1;
        self.scratch.clear();
        encode(queue_offset, position, &mut self.scratch)?;
        let size =
            u32::try_from(self.scratch.len()).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        self.log.append(&self.scratch)?;
        self.index(topic, queue_id).push(Entry { position, size, tag })?;
        Ok(Placed { position, size, queue_offset })
    }

    /// Up to `most` bytes of the log from `from` on, in which the first record may begin and the last one break off.
    pub(crate) fn copy(&self, from: u64, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if from < self.log.end() {
            self.log.read_some(from, most, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Appends a record of another store that was the same up to here, and enters it in its queue at its offset.
    pub(crate) fn append_copy(
        &mut self,
        record: &[u8],
        topic: &str,
        queue_id: i32,
        offset: i64,
        tag: i64,
    ) -> io::Result<()> {
        let size = u32::try_from(record.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let position = self.log.append(record)?;
        let index = self.index(topic, queue_id);
        // Queues that the other one has cut, or begun anew, go on at a lower offset.
        index.truncate(index.min(), offset)?;
        index.push(Entry { position, size, tag }).map(drop)
    }

    /// Appends a record that is in no queue any more.
    pub(crate) fn append_lost(&mut self, record: &[u8]) -> io::Result<()> {
        self.log.append(record).map(drop)
    }

    /// The first offset of a queue and the one after its last; `(0, 0)` of a queue never written to.
    pub(crate) fn range(&self, topic: &str, queue_id: i32) -> (i64, i64) {
        self.queue(topic, queue_id).map_or((0, 0), |index| (index.min(), index.max()))
    }

    /// The position of the next message.
    pub(crate) fn end(&self) -> u64 {
        self.log.end()
    }

    /// The ids and ranges of the queues of a topic that were ever written to.
    pub(crate) fn ranges(&self, topic: &str) -> impl Iterator<Item = (i32, i64, i64)> + '_ {
        self.queues.get(topic).into_iter().flatten().map(|(id, index)| (*id, index.min(), index.max()))
    }

    /// Where the message of one offset lies.
    pub(crate) fn entry(&self, topic: &str, queue_id: i32, offset: i64) -> Option<Entry> {
        self.queue(topic, queue_id)?.get(offset)
    }

    /// Appends the record of an entry to `out`.
    pub(crate) fn read(&self, entry: Entry, out: &mut Vec<u8>) -> io::Result<()> {
        self.log.read(entry.position, entry.size as usize, out)
    }

    /// The record that begins at a position, if one does: what lies there must look like a record of this position.
    pub(crate) fn record_at(&self, position: u64) -> Option<Vec<u8>> {
        let mut head = Vec::new();
        self.log.read(position, HEAD, &mut head).ok()?;
        let size = u32::from_be_bytes(head.get(..4)?.try_into().ok()?);
        let magic = u32::from_be_bytes(head.get(4..8)?.try_into().ok()?);
        let own_position = u64::from_be_bytes(head.get(28..36)?.try_into().ok()?);
        if !MAGICS.contains(&magic) || own_position != position || u64::from(size) > self.log.end() - position
        {
            return None;
        }
        let mut record = Vec::new();
        self.log.read(position, size as usize, &mut record).ok()?;
        Some(record)
    }

    /// When the message of an entry was stored, in ms.
    pub(crate) fn store_time(&self, entry: Entry) -> Option<i64> {
        let mut head = Vec::new();
        self.log.read(entry.position, HEAD, &mut head).ok()?;
        // An IPv6 host of the producer is 12 bytes longer.
        let at = if head.get(39)? & BORN_HOST_V6 == 0 { 56 } else { 68 };
        Some(i64::from_be_bytes(head.get(at..at + 8)?.try_into().ok()?))
    }

    /// The first offset whose message was stored at `millis` or later; one past the last if there is none.
    pub(crate) fn offset_at_or_after(&self, topic: &str, queue_id: i32, millis: i64) -> i64 {
        let (mut low, mut high) = self.range(topic, queue_id);
        while low < high {
            let middle = low + (high - low) / 2;
            let stored = self.entry(topic, queue_id, middle).and_then(|entry| self.store_time(entry));
            if stored.is_some_and(|stored| stored < millis) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Forgets what a queue holds outside `min..max`.
    pub(crate) fn truncate(&mut self, topic: &str, queue_id: i32, min: i64, max: i64) -> io::Result<()> {
        match self.queues.get_mut(topic).and_then(|queues| queues.get_mut(&queue_id)) {
            Some(index) => index.truncate(min, max),
            None => Ok(()),
        }
    }

    /// Forgets the queues of a topic. A topic of the same name begins at offset 0 again.
    pub(crate) fn delete_topic(&mut self, topic: &str) {
        self.queues.remove(topic);
    }

    fn queue(&self, topic: &str, queue_id: i32) -> Option<&Index> {
        self.queues.get(topic)?.get(&queue_id)
    }

    fn index(&mut self, topic: &str, queue_id: i32) -> &mut Index {
        let disk = &self.disk;
        let queues = self.queues.entry(topic.to_owned()).or_default();
        queues.entry(queue_id).or_insert_with(|| Index::new(disk.clone(), format!("{topic}-{queue_id}")))
    }
}

/// The fixed part of the shortest record, up to the length of its body.
const HEAD: usize = 88;
const MAGICS: [u32; 2] = [0xDAA3_20A7, 0xDAA3_20AB];
const BORN_HOST_V6: u8 = 0x10;

#[cfg(test)]
mod tests;
