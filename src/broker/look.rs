//! Looking at brokers from outside: snapshots, waiting for a condition, moving the clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::offsets::Key;
use super::runtime::{Core, Shared};
use super::snapshot::{Part, Reader, Snapshot};
use super::state::State;
use crate::Result;
use crate::clock::{Clock, from_now};
use crate::error::{Error, Mistake};
use crate::message::{MessageQueue, MessageView, Source};
use crate::protocol::{Compression, MAX_INFLATED, inflate, records};

/// How long clients have to react before a standing clock is moved on: a message that was just delivered should be
/// consumed before the next one is.
const SETTLE: Duration = Duration::from_millis(1);
/// A client that never rests must not keep the clock standing.
const RESTLESS: Duration = Duration::from_millis(50);
/// How many messages share the bytes they are read from.
const READ: i64 = 256;

/// One moment of all these brokers.
pub(crate) fn snapshot(brokers: &[Arc<Shared>]) -> Snapshot {
    let cores: Vec<_> = brokers.iter().map(|shared| shared.present()).collect();
    let parts = cores.iter().zip(brokers).map(|(core, shared)| part(core, shared.clone())).collect();
    drop(cores);
    Snapshot::new(parts)
}

/// Waits until the condition is true of a snapshot.
pub(crate) fn wait(
    brokers: &[Arc<Shared>],
    timeout: Duration,
    mut condition: impl FnMut(&Snapshot) -> bool,
) -> Result<()> {
    let Some(pulse) = brokers.first().map(|shared| &shared.pulse) else { return Ok(()) };
    let deadline = from_now(timeout);
    loop {
        let (seen, begun) = (pulse.changes(), Instant::now());
        let snapshot = snapshot(brokers);
        if condition(&snapshot) {
            return Ok(());
        }
        // A busy broker changes all the time: looking may cost half of the time, not all of it.
        let rest = begun.elapsed().min(deadline.saturating_duration_since(Instant::now()));
        thread::sleep(rest);
        if !pulse.wait(seen, deadline) {
            return Err(timed_out(timeout, &snapshot));
        }
    }
}

/// As [`wait`], moving a manual clock to the next due delivery whenever nothing happens. `slaves` are not looked at.
pub(crate) fn fast_forward(
    brokers: &[Arc<Shared>],
    slaves: &[Arc<Shared>],
    clock: &Clock,
    timeout: Duration,
    mut condition: impl FnMut(&Snapshot) -> bool,
) -> Result<()> {
    if !clock.is_manual() {
        return Err(Error::config(vec![Mistake::new("clock", "only Clock::manual() can be moved")]));
    }
    let Some(pulse) = brokers.first().map(|shared| &shared.pulse) else { return Ok(()) };
    let deadline = from_now(timeout);
    let mut moved = Instant::now();
    loop {
        let seen = pulse.changes();
        let snapshot = snapshot(brokers);
        if condition(&snapshot) {
            return Ok(());
        }
        let due = brokers.iter().filter_map(|shared| shared.lock().state.delays.next_due()).min();
        let until = if due.is_some() { deadline.min(Instant::now() + SETTLE) } else { deadline };
        let changed = pulse.wait(seen, until);
        match due {
            _ if Instant::now() >= deadline => return Err(timed_out(timeout, &snapshot)),
            Some(due) if !changed || moved.elapsed() > RESTLESS => {
                move_to(brokers.iter().chain(slaves), clock, due);
                moved = Instant::now();
            }
            _ => {}
        }
    }
}

/// Moves the clock; who is connected has sent heartbeats and renewed locks meanwhile, as it were.
fn move_to<'a>(brokers: impl Iterator<Item = &'a Arc<Shared>>, clock: &Clock, millis: i64) {
    let mut cores: Vec<_> = brokers.map(|shared| shared.lock()).collect();
    let from = clock.millis();
    let by = millis.saturating_sub(from);
    if by > 0 {
        for core in &mut cores {
            let State { members, locks, .. } = &mut core.state;
            members.renew(millis);
            locks.renew(from, millis, |client| members.has_client(client));
        }
        // What this wakes waits for the locks held here.
        clock.advance(Duration::from_millis(by.unsigned_abs()));
    }
}

fn timed_out(timeout: Duration, last: &Snapshot) -> Error {
    Error::timeout(format!("the condition was not met within {timeout:?}; last seen: {last}"))
}

fn part(core: &Core, reader: Arc<Shared>) -> Part {
    let state = &core.state;
    let ranges = |topic: &String| state.store.ranges(topic).map(|(id, min, max)| (id, (min, max))).collect();
    let mut waiting: BTreeMap<String, usize> = BTreeMap::new();
    for (_, _, held) in state.holds.iter() {
        *waiting.entry(held.group.clone()).or_default() += 1;
    }
    let members = state.members.groups().map(|(group, members)| {
        (group.clone(), members.channels.values().map(|channel| channel.client_id.clone()).collect())
    });
    let locks = state.locks.held(state.now.millis);
    let committed = state.offsets.iter().map(|(key, queues): (&Key, _)| (key.clone(), queues.clone()));
    Part {
        broker: state.settings.name.clone(),
        queues: state.topics.keys().map(|topic| (topic.clone(), ranges(topic))).collect(),
        queue_counts: state
            .topics
            .iter()
            .map(|(topic, config)| (topic.clone(), config.read_queue_nums))
            .collect(),
        delayed: state.delays.waiting(),
        members: members.collect(),
        waiting,
        connections: state.connections.len(),
        committed: committed.collect(),
        locks: locks
            .map(|(group, queue, client)| ((group.to_owned(), queue.clone()), client.to_owned()))
            .collect(),
        requests: state.requests.counts().clone(),
        reader,
    }
}

impl Reader for Shared {
    fn read(&self, topic: &str, queue_id: i32, (min, max): (i64, i64)) -> Vec<MessageView> {
        let core = self.lock();
        let broker = &core.state.settings.name;
        let queue = MessageQueue::new(topic, broker.as_str(), queue_id);
        let mut views = Vec::new();
        let mut from = min;
        while from < max {
            let to = max.min(from + READ);
            let entries: Vec<_> =
                (from..to).filter_map(|at| core.state.store.entry(topic, queue_id, at)).collect();
            let mut bytes = Vec::new();
            match core.state.store.read_all(&entries, &mut bytes) {
                Ok(()) => views.extend(decode(bytes, &queue)),
                Err(error) => log::error!("messages {from} to {to} of {queue} cannot be read: {error}"),
            }
            from = to;
        }
        views
    }
}

/// The messages in these bytes, with their bodies as they were sent.
pub(crate) fn decode(bytes: Vec<u8>, queue: &MessageQueue) -> Vec<MessageView> {
    let source = Arc::new(Source { bytes, queue: queue.clone(), namespace: None });
    let records = records(&source.bytes, 0..source.bytes.len());
    let view = |record| {
        let mut view = MessageView::new(source.clone(), record);
        if view.is_compressed() {
            let inflated =
                Compression::of(view.sys_flag()).and_then(|kind| inflate(kind, view.body(), MAX_INFLATED));
            match inflated {
                Ok(body) => view.set_body(body.into()),
                Err(error) => log::warn!("a body in {queue} cannot be inflated: {error}"),
            }
        }
        view
    };
    records.filter_map(|record| record.ok()).map(view).collect()
}
