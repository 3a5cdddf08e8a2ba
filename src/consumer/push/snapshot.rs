//! The figures of a consumer at one moment.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::client::TimeStats;
use crate::consumer::core::Core;
use crate::consumer::offset::Offset;
use crate::consumer::process_queue::ProcessQueue;
use crate::consumer::slot::Running;
use crate::consumer::stats::{ConsumerStats, QueueStats, TopicStats, Waiting};
use crate::message::MessageQueue;

pub(in crate::consumer) fn take(core: &Arc<Core>) -> ConsumerStats {
    let now = core.now();
    let slots = core.slots();
    let running: Vec<Running> = slots.iter().filter_map(|slot| slot.running(now)).collect();
    let (succeeded, failed) = slots
        .iter()
        .map(|slot| slot.counts.messages())
        .fold((0, 0), |(all_succeeded, all_failed), (succeeded, failed)| {
            (all_succeeded + succeeded, all_failed + failed)
        });
    let owned = core.owned();
    let mut queues: Vec<QueueStats> =
        owned.iter().map(|process| queue_stats(core, process, &running)).collect();
    queues.extend(core.starting().into_iter().map(|(queue, waiting)| starting(queue, waiting)));
    let namespace = core.instance.namespace();
    queues.iter_mut().for_each(|stats| namespace.strip_from(&mut stats.queue));
    queues.sort_by(|one, other| one.queue.cmp(&other.queue));
    let (threads, _) = core.ready.threads();
    ConsumerStats {
        cached_messages: queues.iter().map(|queue| queue.cached_messages).sum(),
        cached_bytes: queues.iter().map(|queue| queue.cached_bytes).sum(),
        queues,
        threads,
        busy_threads: slots.iter().filter(|slot| slot.is_busy()).count(),
        pulled: core.totals.pulled.load(Ordering::Relaxed),
        succeeded: succeeded + core.totals.polled.load(Ordering::Relaxed),
        failed,
        reconsumed: core.totals.reconsumed.load(Ordering::Relaxed),
        dead_letters: core.totals.dead_letters.load(Ordering::Relaxed),
        given_up: core.totals.given_up.load(Ordering::Relaxed),
        listener_time: TimeStats::sum(slots.iter().map(|slot| slot.counts.listener_time.snapshot())),
        wait_time: TimeStats::sum(slots.iter().map(|slot| slot.counts.wait_time.snapshot())),
        topics: topic_stats(core, now),
    }
}

fn topic_stats(core: &Core, now: Instant) -> Vec<TopicStats> {
    core.figures.each(core, |topic, tally, history| TopicStats {
        topic: core.instance.namespace().strip(topic),
        pulled: tally.pulled,
        succeeded: tally.succeeded,
        failed: tally.failed,
        minute: history.minute(now, tally),
        hour: history.hour(now, tally),
        day: history.day(now, tally),
    })
}

fn queue_stats(core: &Core, process: &ProcessQueue, running: &[Running]) -> QueueStats {
    let load = process.load();
    let mine = || running.iter().filter(|call| call.work.queue.id() == process.id());
    let max = process.facts.max();
    let lag = max.map(|max| u64::try_from(max.wire() - process.watermark().wire()).unwrap_or(0));
    let last_pull = process.facts.last_pull.load(Ordering::Relaxed);
    let age = core.instance.clock().millis().saturating_sub(last_pull);
    let (now, wall) = (core.now(), core.instance.clock().now());
    let lease = process.lease();
    let locked = lease.as_ref().is_some_and(|lease| lease.is_valid(now, wall));
    let waiting = process.facts.waiting().map(|(waiting, _)| waiting);
    let no_lock = lease.is_some() && !locked && !process.is_closed();
    QueueStats {
        queue: process.queue().clone(),
        generation: process.id(),
        position: process.facts.next().wire(),
        committed: process.facts.committed().map(Offset::wire),
        max_offset: max.map(Offset::wire),
        lag,
        cached_messages: load.messages,
        cached_bytes: load.bytes,
        in_flight: mine().map(|call| call.range.len()).sum(),
        oldest_in_flight: mine().map(|call| call.since).max(),
        last_pull: (last_pull > 0).then(|| Duration::from_millis(u64::try_from(age).unwrap_or(0))),
        locked,
        waiting: if no_lock { Some(Waiting::NoLock) } else { waiting },
        last_error: process.facts.last_error(),
    }
}

/// One without a process queue yet: nothing is known of it but why.
fn starting(queue: MessageQueue, waiting: Waiting) -> QueueStats {
    QueueStats {
        queue,
        generation: 0,
        position: 0,
        committed: None,
        max_offset: None,
        lag: None,
        cached_messages: 0,
        cached_bytes: 0,
        in_flight: 0,
        oldest_in_flight: None,
        last_pull: None,
        locked: false,
        waiting: Some(waiting),
        last_error: None,
    }
}
