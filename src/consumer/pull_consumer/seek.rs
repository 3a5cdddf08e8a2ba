//! Another place in a queue, other queues, and queues that are left alone for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, bounded};

use super::asking;
use super::polling;
use super::polling::Assigned;
use crate::consumer::assignment::Ask;
use crate::consumer::core::{Core, Item};
use crate::consumer::offset::Offset;
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::rebalance_loop::{RebalanceEvent, Wish};
use crate::error::{Error, Result};
use crate::message::{ConsumeFrom, Filter, MessageQueue, Subscription};

pub(super) fn seek(core: &Arc<Core>, queue: &MessageQueue, to: ConsumeFrom) -> Result<()> {
    if !polling(core).holds(queue) {
        return Err(not_ours(core, queue));
    }
    let to = resolve(core, queue, to)?;
    let (done, is_done) = bounded(1);
    let wish = Wish::GoTo { queue: queue.clone(), to, done };
    if answer(core, wish, &is_done)? { Ok(()) } else { Err(not_ours(core, queue)) }
}

/// The offset that is meant, as the broker of the queue knows it.
pub(super) fn resolve(core: &Core, queue: &MessageQueue, at: ConsumeFrom) -> Result<Offset> {
    match at {
        ConsumeFrom::LastOffset => asking::offset(core, queue, Ask::Max),
        ConsumeFrom::FirstOffset => asking::offset(core, queue, Ask::Min),
        ConsumeFrom::Timestamp(time) => asking::offset(core, queue, Ask::Time(time)),
        ConsumeFrom::LastMessages(n) => {
            let (min, max) = range(core, queue)?;
            Ok(max.back(n).max(min))
        }
        ConsumeFrom::Offset(wire) => {
            let plain = core.instance.namespace().strip_queue(queue);
            let offset = Offset::new(wire)
                .ok_or_else(|| Error::invalid_input(format!("{plain}: offset {wire} is negative")))?;
            let (min, max) = range(core, queue)?;
            if (min..=max).contains(&offset) {
                return Ok(offset);
            }
            Err(Error::invalid_input(format!("{plain} has offsets from {min} to {max}, and not {offset}")))
        }
    }
}

fn range(core: &Core, queue: &MessageQueue) -> Result<(Offset, Offset)> {
    Ok((asking::offset(core, queue, Ask::Min)?, asking::offset(core, queue, Ask::Max)?))
}

pub(super) fn pause(core: &Arc<Core>, queues: impl Iterator<Item = MessageQueue>) {
    polling(core).pause(queues);
    // So that `stats()` shows the reason at once.
    core.post_pull(PullEvent::NudgeAll);
}

pub(super) fn resume(core: &Arc<Core>, queues: impl Iterator<Item = MessageQueue>) {
    polling(core).resume(queues);
    put_back(core);
    core.post_pull(PullEvent::NudgeAll);
}

/// Queues that stood aside with what they have are looked at again.
pub(super) fn put_back(core: &Core) {
    for process in core.owned() {
        if let Some(oldest) = process.step_back() {
            core.ready.put(Item::Queue(process), oldest);
        }
    }
    core.ready.rouse();
}

pub(super) fn assign(core: &Arc<Core>, queues: BTreeSet<MessageQueue>) -> Result<()> {
    if core.is_member() {
        let text = "topics are subscribed by this consumer: queues cannot be assigned as well";
        return Err(Error::invalid_input(text));
    }
    let assigned = Assigned { topics: BTreeSet::new(), queues };
    let deadline = Instant::now() + core.instance.config().request_timeout;
    let mut filters = BTreeMap::new();
    for topic in assigned.all_topics() {
        core.instance.route_or_fetch(&topic, deadline)?;
        if core.subscription(&topic).is_none() {
            let everything = Subscription::parse(&*topic, &Filter::all(), core.next_version());
            filters.insert(topic, everything.map_err(Error::invalid_input)?);
        }
    }
    for (topic, filter) in filters {
        core.set_subscription(topic, filter);
    }
    polling(core).assign(assigned.clone());
    core.instance.members_changed();
    let (done, is_done) = bounded(1);
    answer(core, Wish::Assign { done }, &is_done)?;
    let topics = assigned.all_topics();
    for topic in core.subscriptions().keys().filter(|topic| !topics.contains(*topic)) {
        core.remove_subscription(topic);
    }
    Ok(())
}

/// Tells the loop and waits for what it says; it never waits itself.
fn answer<T>(core: &Arc<Core>, wish: Wish, answer: &Receiver<T>) -> Result<T> {
    core.post_rebalance(RebalanceEvent::Polled(core.clone(), wish));
    answer.recv().map_err(|_| Error::closed("the consumer"))
}

pub(super) fn not_ours(core: &Core, queue: &MessageQueue) -> Error {
    let queue = core.instance.namespace().strip_queue(queue);
    Error::invalid_input(format!("this consumer does not have {queue} (any more)"))
}
