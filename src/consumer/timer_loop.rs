//! `rmq-timer`: puts delayed pulls and retries back on their queue, and ends listener calls that take too long.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::core::Core;
use super::events::Event;
use super::offset::Offset;
use super::outside::Outside;
use super::pull_loop::PullEvent;
use super::rates::SAMPLE_EVERY;
use super::rebalance_loop::RebalanceEvent;
use super::send_back::{Back, SendBack};
use super::slot::{Running, Slot};
use super::watch::Watching;
use crate::client::panic_text;
use crate::clock::Waiter;

/// What the timer is asked for.
#[derive(Debug)]
pub(crate) enum TimerEvent<S = Core> {
    /// Post this to `rmq-pull` then.
    At(Instant, Due),
    /// A listener call has begun and nobody looks after it.
    Watch(Arc<S>),
    /// Samples of what this consumer counts are taken from now on, as long as it lives.
    Sample(Weak<S>),
    /// The last consumer of the client is gone.
    Stop,
}

/// What has become due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// The pull of this process queue.
    Pull(u64),
    /// The retry of this send-back.
    Retry(u64),
    /// The pause of a queue that is consumed in order.
    Resume(u64),
    /// A message of this process queue was accepted after its call had expired. By way of the timer, so that it comes after
    /// its send-back, which the timer has begun.
    AcceptedLate(u64, Offset),
    /// A look at all queues.
    Check,
}

/// The loop. Nothing in it waits for anything but its channel and the clock.
pub(super) fn run(waiter: &Waiter, events: &Receiver<TimerEvent>, pull: &Sender<PullEvent>) {
    let mut timer = Timer::default();
    loop {
        let event = match waiter.recv_deadline(events, timer.deadline()) {
            Ok(TimerEvent::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
        };
        // What is done for one consumer is guarded where it is done. This is for the rest, be it the end of a consumer
        // that nobody else knew any more.
        let worked = catch_unwind(AssertUnwindSafe(|| timer.work(event, waiter.clock().instant(), pull)));
        if let Err(panic) = worked {
            log::error!("rmq-timer panicked and goes on: {}", panic_text(&*panic));
        }
    }
}

#[derive(Default)]
struct Timer {
    heap: BinaryHeap<Reverse<(Instant, Due)>>,
    watched: Watching<Arc<Core>>,
    next_look: Option<Instant>,
    sampled: Vec<Weak<Core>>,
    next_sample: Option<Instant>,
}

impl Timer {
    fn deadline(&self) -> Option<Instant> {
        let due = self.heap.peek().map(|Reverse((at, _))| *at);
        [due, self.next_look, self.next_sample].into_iter().flatten().min()
    }

    fn work(&mut self, event: Option<TimerEvent>, now: Instant, pull: &Sender<PullEvent>) {
        match event {
            Some(TimerEvent::At(at, due)) => self.heap.push(Reverse((at, due))),
            Some(TimerEvent::Watch(core)) => self.watch(core, now),
            Some(TimerEvent::Sample(core)) => self.sample_of(core, now),
            Some(TimerEvent::Stop) | None => {}
        }
        while let Some(due) = self.pop(now) {
            // The pull loop ends before this one is told to.
            drop(pull.send(PullEvent::Due(due)));
        }
        self.look(now);
        self.sample(now);
    }

    fn pop(&mut self, now: Instant) -> Option<Due> {
        let Reverse((at, _)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, due))| due)
    }

    fn watch(&mut self, core: Arc<Core>, now: Instant) {
        self.watched.add(core);
        self.next_look.get_or_insert(now + LOOK_EVERY);
    }

    fn sample_of(&mut self, core: Weak<Core>, now: Instant) {
        self.sampled.push(core);
        self.next_sample.get_or_insert(now + SAMPLE_EVERY);
    }

    fn sample(&mut self, now: Instant) {
        let Some(due) = self.next_sample.filter(|due| *due <= now) else { return };
        self.sampled.retain(|core| {
            let Some(core) = core.upgrade() else { return false };
            guarded(&*core, || core.figures.sample(&core, now));
            true
        });
        // In step with the clock, unless that was moved past several.
        let next = if due + SAMPLE_EVERY > now { due } else { now } + SAMPLE_EVERY;
        self.next_sample = (!self.sampled.is_empty()).then_some(next);
    }

    /// Looks at the running calls, once a second while there are any.
    fn look(&mut self, now: Instant) {
        if self.next_look.is_none_or(|at| at > now) {
            return;
        }
        self.watched.look(
            |core| &core.watched,
            |core| {
                let slots = core.slots();
                slots.iter().for_each(|slot| expire_if_late(core, slot, now));
                slots.iter().any(|slot| slot.is_busy())
            },
        );
        self.next_look = (!self.watched.is_empty()).then(|| now + LOOK_EVERY);
    }
}

/// Takes one step for one consumer; whether it went through. A panic in it is a bug, ours or that of the program's
/// logger. It costs this step: the next look comes in time, and other consumers are not concerned.
fn guarded<S: Outside>(core: &S, step: impl FnOnce()) -> bool {
    let Err(panic) = catch_unwind(AssertUnwindSafe(step)) else { return true };
    let panic = panic_text(&*panic).to_owned();
    log::error!("rmq-timer panicked and goes on: {panic}");
    core.emit(Event::ThreadRestarted { thread: "rmq-timer".into(), panic });
    false
}

/// Sends the messages of a call back that runs longer than the consume timeout. Its listener is told that it is late;
/// what it says later does not count.
pub(super) fn expire_if_late<S: Outside>(core: &Arc<S>, slot: &Slot, now: Instant) {
    let Some(running) = slot.running(now) else { return };
    if running.since < core.settings().consume_timeout || !slot.expire(&running) {
        return;
    }
    // In order, nothing may overtake what the listener has: its answer counts, whenever it comes.
    let goes_back = core.settings().order.is_none();
    // The thread has lost its word; if its messages do not go back either, only a new generation has them again.
    if goes_back && !guarded(&**core, || send_back(core, &running)) {
        core.post_rebalance(RebalanceEvent::Rebuild(running.work.queue.id()));
    }
    guarded(&**core, || tell(&**core, slot, &running, goes_back));
}

fn send_back<S: Outside>(core: &Arc<S>, Running { work, range, .. }: &Running) {
    for index in range.clone() {
        let Some(view) = work.run.view(index) else { continue };
        // One that cannot be read was never given to the listener: it has gone back before the call.
        if !work.queue.send_back(&work.run, index) {
            continue;
        }
        core.post_pull(PullEvent::SendBack(SendBack {
            core: core.clone(),
            queue: work.queue.clone(),
            run: work.run.clone(),
            index,
            back: Back::Level(LATE_LEVEL),
            times: work.retried.unwrap_or(view.reconsume_times()),
        }));
    }
}

fn tell<S: Outside>(core: &S, slot: &Slot, Running { work, range, since, .. }: &Running, goes_back: bool) {
    let Some(message) = work.run.view(range.start) else { return };
    let (thread, running) = (slot.name().to_owned(), *since);
    core.emit(Event::ListenerLate { message: message.detached(), thread, running });
    log::warn!(
        "message {} of {} has been in its listener on {} for {since:.1?}{}",
        message.message_id(),
        work.queue.queue(),
        slot.name(),
        if goes_back { " and is sent back" } else { ", and its queue waits for it" }
    );
}

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// As the Java client: ten seconds with the standard table.
const LATE_LEVEL: i32 = 3;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::consumer::outside::stub::Stub;
    use crate::consumer::slot::Work;

    #[test]
    fn p3_late_messages_that_do_not_get_back_come_again_with_a_new_generation() {
        let now = Instant::now();
        for broken in [false, true] {
            let stub = Stub::new();
            let queue = stub.queue();
            let slot = Slot::new("rmq-consume-0".into(), now);
            slot.take_up(Work { run: Stub::run(&queue, 3), queue: queue.clone(), retried: None });
            slot.begin(&(0..3), 0, 0);
            if broken {
                stub.break_posts();
            }
            expire_if_late(&stub, &slot, now + stub.settings().consume_timeout);
            assert!(!slot.end(), "its word does not count any more");
            assert_eq!(stub.rebuilt(), if broken { vec![queue.id()] } else { vec![] });
        }
    }
}
