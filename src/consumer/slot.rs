//! What one consume thread is doing, for those who look at it from outside: the consume timeout, `stats()`, and the
//! batch that asks whether its results still count.
//!
//! A verdict has one owner, decided by one compare-and-swap: the thread, when its listener returns in time, or the
//! timer, when it does not. The number of the call is part of what is compared, so that the timer can read the other
//! fields first and be sure that they belong to that call.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::figures::{ByTopic, Consumed};
use super::process_queue::ProcessQueue;
use super::run::Run;
use crate::client::TimeRecorder;
use crate::message::MessageQueue;

/// The state of one consume thread.
#[derive(Debug)]
pub struct Slot {
    name: String,
    /// The number of the call and its phase, in one word.
    call: AtomicU64,
    /// First and one past the last index of the claimed messages.
    range: AtomicU64,
    /// Nanoseconds since `base`, by the clock of the client.
    started: AtomicU64,
    /// The same by the machine's.
    begun: AtomicU64,
    base: Instant,
    /// Changes when the thread goes to another run, not for each call.
    work: Mutex<Option<Work>>,
    /// Of the queue, the call and the consumer: the results may come to nothing.
    cancelled: AtomicBool,
    /// The thread has ended.
    over: AtomicBool,
    /// What this thread has counted.
    pub counts: Counts,
}

/// What a thread is working on.
#[derive(Debug, Clone)]
pub struct Work {
    /// The queue.
    pub queue: Arc<ProcessQueue>,
    /// The run.
    pub run: Arc<Run>,
    /// Of a local retry: its reconsume count.
    pub retried: Option<u32>,
}

/// A call that is running.
#[derive(Debug, Clone)]
pub struct Running {
    /// What it works on.
    pub work: Work,
    /// The messages it was given.
    pub range: Range<u32>,
    /// For how long.
    pub since: Duration,
    number: u64,
}

/// Written by one thread only: nothing here is fought over.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) by_topic: ByTopic<Consumed>,
    /// How long listener calls took.
    pub(crate) listener_time: TimeRecorder,
    /// How long messages waited for this thread.
    pub(crate) wait_time: TimeRecorder,
}

impl Counts {
    /// Messages accepted and not accepted.
    pub fn messages(&self) -> (u64, u64) {
        let all = self.by_topic.all();
        let each = all.iter().map(|(_, consumed)| consumed.messages());
        each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

impl Slot {
    /// For the consume thread of this name.
    pub fn new(name: String, now: Instant) -> Self {
        Self {
            name,
            call: AtomicU64::new(0),
            range: AtomicU64::new(0),
            started: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            base: now,
            work: Mutex::new(None),
            cancelled: AtomicBool::new(false),
            over: AtomicBool::new(false),
            counts: Counts::default(),
        }
    }

    /// The name of the thread.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The thread turns to this.
    pub fn take_up(&self, work: Work) {
        *self.work.lock() = Some(work);
    }

    /// The thread has nothing any more.
    pub fn put_down(&self) {
        *self.work.lock() = None;
    }

    /// Nanoseconds since this slot was made: times are taken once per message, and counting in one word is cheaper.
    pub fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.base).as_nanos()).unwrap_or(u64::MAX)
    }

    /// When the present call began, or the last one, by the machine's clock.
    pub fn begun(&self) -> Instant {
        self.base + Duration::from_nanos(self.begun.load(Ordering::Relaxed))
    }

    /// A listener call begins, at this moment by the machine's clock and by that of the client.
    pub fn begin(&self, range: &Range<u32>, begun: u64, started: u64) {
        self.range.store(u64::from(range.start) << 32 | u64::from(range.end), Ordering::Relaxed);
        self.begun.store(begun, Ordering::Relaxed);
        self.started.store(started, Ordering::Relaxed);
        self.cancelled.store(false, Ordering::Relaxed);
        let number = self.call.load(Ordering::Relaxed) >> PHASE_BITS;
        self.call.store((number + 1) << PHASE_BITS | RUNNING, Ordering::Release);
    }

    /// The listener has returned. Whether its verdict counts: not if the call has expired.
    pub fn end(&self) -> bool {
        let running = self.call.load(Ordering::Relaxed) & !PHASE | RUNNING;
        let done = running & !PHASE | IDLE;
        if self.call.compare_exchange(running, done, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return true;
        }
        self.call.store(done, Ordering::Release);
        false
    }

    /// The call that is running.
    pub fn running(&self, now: Instant) -> Option<Running> {
        let call = self.call.load(Ordering::Acquire);
        if call & PHASE != RUNNING {
            return None;
        }
        let range = self.range.load(Ordering::Relaxed);
        let started = self.base + Duration::from_nanos(self.started.load(Ordering::Relaxed));
        let work = self.work.lock().clone()?;
        // Read while the call was the same from beginning to end, or not worth reading.
        (self.call.load(Ordering::Acquire) == call).then(|| Running {
            work,
            range: (range >> 32) as u32..range as u32,
            since: now.saturating_duration_since(started),
            number: call,
        })
    }

    /// The thread ends; what it has counted stays.
    pub fn leave(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Another thread goes on with it, if its thread has ended: it sees all that the other one has counted.
    pub fn take_over(&self) -> bool {
        self.over.swap(false, Ordering::Acquire)
    }

    /// Whether the thread has ended.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether a call is running.
    pub fn is_busy(&self) -> bool {
        self.call.load(Ordering::Relaxed) & PHASE != IDLE
    }

    /// Whether the thread is at work on this queue.
    pub fn is_working_on(&self, queue: &MessageQueue) -> bool {
        self.work.lock().as_ref().is_some_and(|work| work.queue.queue() == queue)
    }

    /// Takes the verdict away from this call. `false` if its listener has returned meanwhile.
    pub fn expire(&self, running: &Running) -> bool {
        let expired = running.number & !PHASE | EXPIRED;
        let taken =
            self.call.compare_exchange(running.number, expired, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if taken {
            self.cancel();
        }
        taken
    }

    /// Tells the call that is running, if any, that its results may come to nothing.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the results of the call may come to nothing.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
            || self.work.lock().as_ref().is_some_and(|work| work.queue.is_closed())
    }
}

const PHASE_BITS: u32 = 2;
const PHASE: u64 = 3;
const IDLE: u64 = 0;
const RUNNING: u64 = 1;
const EXPIRED: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::budget::{Budget, OnRelease};
    use crate::consumer::offset::Offset;
    use crate::consumer::process_queue::Limits;
    use crate::message::Source;

    fn slot() -> Slot {
        let now = Instant::now();
        let queue = MessageQueue::new("t", "b", 0);
        let budget = Arc::new(Budget::new(1, Arc::default(), OnRelease(Box::new(|| {}))));
        let limits = Limits { messages: 1, bytes: 1, span: 1 };
        let source = Arc::new(Source { bytes: Vec::new(), queue: queue.clone(), namespace: None });
        let slot = Slot::new("rmq-consume-0".into(), now);
        slot.take_up(Work {
            queue: Arc::new(ProcessQueue::new(queue, Offset::ZERO, limits, budget)),
            run: Arc::new(Run::new(source, Box::new([]), Offset::ZERO, now)),
            retried: None,
        });
        slot
    }

    #[test]
    fn a_call_in_time_keeps_its_verdict() {
        let slot = slot();
        let now = Instant::now();
        slot.begin(&(3..5), slot.nanos(now), slot.nanos(now));
        let running = slot.running(now + Duration::from_secs(2)).unwrap();
        assert_eq!((running.range.clone(), running.since), (3..5, Duration::from_secs(2)));
        assert!(slot.end());
        assert!(!slot.expire(&running), "too late to expire");
        assert!(slot.running(now).is_none() && !slot.is_busy());
    }

    #[test]
    fn an_expired_call_has_lost_its_verdict_and_the_next_one_has_not() {
        let slot = slot();
        let now = Instant::now();
        slot.begin(&(0..1), slot.nanos(now), slot.nanos(now));
        let running = slot.running(now).unwrap();
        assert!(slot.expire(&running) && slot.is_cancelled());
        assert!(!slot.expire(&running), "once");
        assert!(slot.running(now).is_none() && slot.is_busy(), "still inside the listener");
        assert!(!slot.end());
        slot.begin(&(1..2), slot.nanos(now), slot.nanos(now));
        assert!(!slot.is_cancelled());
        assert!(!slot.expire(&running), "another call");
        assert!(slot.end());
    }
}
