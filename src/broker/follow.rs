//! How a slave follows its master: messages, offsets, topics and groups, copied whenever something has changed.
//!
//! Both are in this process, so nothing goes over the wire. A slave that was away catches up when it is back; one whose
//! master is away keeps what it has.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::offsets::Key;
use super::runtime::Shared;
use super::state::State;
use super::store::{Memory, Store};
use crate::protocol::StoredMessage;
use crate::protocol::body::{SubscriptionGroupConfig, TopicConfig};

/// As much of the log is copied at a time; more than the longest record.
const CHUNK: usize = 8 * 1024 * 1024;
/// How long a change may go unnoticed whose beat was missed.
const LOOK: Duration = Duration::from_secs(1);

/// The thread of one slave, `rmq-slave`. Ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Follower {
    stop: Arc<AtomicBool>,
    slave: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    pub(crate) fn start(master: Arc<Shared>, slave: Arc<Shared>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, follower) = (stop.clone(), slave.clone());
        let thread = std::thread::Builder::new().name("rmq-slave".to_owned()).spawn(move || {
            let mut seen = Seen::default();
            while !stopped.load(Ordering::SeqCst) {
                let changes = follower.pulse.changes();
                while seen.follow(&master, &follower) {}
                follower.pulse.wait(changes, Instant::now() + LOOK);
            }
        })?;
        Ok(Self { stop, slave, thread: Some(thread) })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.slave.pulse.beat();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread of a slave panicked");
        }
    }
}

/// What of the master has been copied.
#[derive(Debug, Default)]
struct Seen {
    store_number: u64,
    /// The bounds that queues were last cut to, where that did not make them equal.
    cut: BTreeMap<Queue, Range>,
}

/// Topic and number.
type Queue = (String, i32);
/// First offset, and the one after the last.
type Range = (i64, i64);

/// What the slave lacks.
#[derive(Default)]
struct Lacking {
    /// The slave's own messages are none of its master's.
    anew: bool,
    records: Vec<Record>,
    ranges: Vec<(Queue, Range)>,
    offsets: Option<BTreeMap<Key, BTreeMap<i32, i64>>>,
    topics: Option<BTreeMap<String, TopicConfig>>,
    groups: Option<BTreeMap<String, SubscriptionGroupConfig>>,
}

/// One record, and its place in its queue if it still has one.
struct Record {
    bytes: Vec<u8>,
    queue: Queue,
    /// Offset and tag.
    place: Option<(i64, i64)>,
}

impl Seen {
    /// Copies what is new, up to a chunk of it; whether there was anything.
    fn follow(&mut self, master: &Shared, slave: &Shared) -> bool {
        // Always in this order.
        let (leading, following) = (master.lock(), slave.lock());
        if !leading.is_working() || !following.is_working() {
            return false;
        }
        let lacking = self.lacking(&leading.state, &following.state);
        drop((leading, following));
        match lacking {
            Ok(lacking) if lacking.is_anything() => {
                slave.step_outside(|state| lacking.give_to(state));
                true
            }
            Ok(_) => false,
            Err(error) => {
                log::error!("a slave cannot read what its master has: {error}");
                false
            }
        }
    }

    fn lacking(&mut self, master: &State, slave: &State) -> io::Result<Lacking> {
        let has = slave.store.end();
        let anew = self.store_number != master.store_number || has > master.store.end();
        self.store_number = master.store_number;
        let records = split(&master.store.copy(if anew { 0 } else { has }, CHUNK)?, master);
        // While records are on their way, the slave's queues are shorter for that alone.
        let ranges = if records.is_empty() { self.cuts(master, slave) } else { Vec::new() };
        let (ours, theirs) = (slave.offsets.table(), master.offsets.table());
        Ok(Lacking {
            anew,
            records,
            ranges,
            offsets: (ours != theirs).then(|| theirs.clone()),
            topics: (slave.topics != master.topics).then(|| master.topics.clone()),
            groups: (slave.groups != master.groups).then(|| master.groups.clone()),
        })
    }

    /// Queues that the master has cut, and the slave has not yet.
    fn cuts(&mut self, master: &State, slave: &State) -> Vec<(Queue, Range)> {
        let mut cuts = Vec::new();
        for topic in master.topics.keys() {
            for (id, min, max) in master.store.ranges(topic) {
                let (queue, range) = ((topic.clone(), id), (min, max));
                if slave.store.range(topic, id) == range {
                    self.cut.remove(&queue);
                } else if self.cut.insert(queue.clone(), range) != Some(range) {
                    cuts.push((queue, range));
                }
            }
        }
        cuts
    }
}

impl Lacking {
    fn is_anything(&self) -> bool {
        self.anew
            || !(self.records.is_empty() && self.ranges.is_empty())
            || self.offsets.is_some()
            || self.topics.is_some()
            || self.groups.is_some()
    }

    fn give_to(self, slave: &mut State) {
        if self.anew {
            slave.store = Store::new(Arc::new(Memory));
        }
        if let Some(topics) = self.topics {
            for topic in slave.topics.keys().filter(|topic| !topics.contains_key(*topic)) {
                slave.store.delete_topic(topic);
            }
            slave.topics = topics;
        }
        if let Some(groups) = self.groups {
            slave.groups = groups;
        }
        if let Some(offsets) = self.offsets {
            slave.offsets.replace(offsets);
        }
        let arrived: Vec<Queue> = self.records.iter().map(|record| record.queue.clone()).collect();
        if let Err(error) = self.records.into_iter().try_for_each(|record| record.give_to(slave)) {
            log::error!("a slave cannot store what its master has: {error}");
        }
        for ((topic, queue_id), (min, max)) in self.ranges {
            if let Err(error) = slave.store.truncate(&topic, queue_id, min, max) {
                log::error!("queue {queue_id} of {topic} cannot be cut: {error}");
            }
        }
        for queue in arrived {
            slave.arrivals.entry(queue).or_default();
        }
        slave.wake_holds();
    }
}

impl Record {
    fn give_to(self, slave: &mut State) -> io::Result<()> {
        let (topic, queue_id) = self.queue;
        match self.place {
            Some((offset, tag)) => slave.store.append_copy(&self.bytes, &topic, queue_id, offset, tag),
            None => slave.store.append_lost(&self.bytes),
        }
    }
}

/// The whole records at the beginning of these bytes.
fn split(mut bytes: &[u8], master: &State) -> Vec<Record> {
    let mut records = Vec::new();
    while let Some((length, _)) = bytes.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let Some((record, rest)) = bytes.split_at_checked(length).filter(|_| length > 0) else { break };
        let Ok(message) = StoredMessage::decode(record) else { break };
        let (topic, queue_id) = (message.topic.clone().into_owned(), message.queue_id);
        let position = u64::try_from(message.physical_offset).unwrap_or(0);
        let entry = master.store.entry(&topic, queue_id, message.queue_offset);
        // Another message may have its offset by now.
        let place = entry.filter(|entry| entry.position == position);
        let place = place.map(|entry| (message.queue_offset, entry.tag));
        records.push(Record { bytes: record.to_vec(), queue: (topic, queue_id), place });
        bytes = rest;
    }
    records
}
