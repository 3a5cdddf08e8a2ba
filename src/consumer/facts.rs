//! What `stats()` and running info tell of one queue. Written by whoever knows, read by whoever asks; nothing decides
//! by it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::failure::Failure;
use super::offset::Offset;
use super::stats::Waiting;

/// The last known facts of one queue.
#[derive(Debug)]
pub struct Facts {
    next: AtomicI64,
    committed: AtomicI64,
    max: AtomicI64,
    /// Milliseconds since 1970 of the last pull that was sent; 0 before the first.
    pub last_pull: AtomicI64,
    /// The same of the last listener call that began.
    pub last_consume: AtomicI64,
    /// `rmq-rebalance` was told that nothing is left to do, and has not committed for it yet.
    idle_reported: AtomicBool,
    failing: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Option<(Waiting, Instant)>,
    last_error: Option<String>,
    /// Why the last pull failed; `None` after one that did not.
    failure: Option<Failure>,
}

impl Facts {
    pub(super) fn new(start: Offset) -> Self {
        Self {
            next: AtomicI64::new(start.wire()),
            committed: AtomicI64::new(UNKNOWN),
            max: AtomicI64::new(UNKNOWN),
            last_pull: AtomicI64::new(0),
            last_consume: AtomicI64::new(0),
            idle_reported: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// The offset of the next pull.
    pub fn next(&self) -> Offset {
        Offset::new(self.next.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Notes the offset of the next pull.
    pub fn set_next(&self, next: Offset) {
        self.next.store(next.wire(), Ordering::Relaxed);
    }

    /// What the broker has confirmed.
    pub fn committed(&self) -> Option<Offset> {
        Offset::new(self.committed.load(Ordering::Acquire))
    }

    /// Notes what the broker has confirmed.
    pub fn set_committed(&self, offset: Offset) {
        self.committed.store(offset.wire(), Ordering::Release);
    }

    /// The end of the queue as of the last answer.
    pub fn max(&self) -> Option<Offset> {
        Offset::new(self.max.load(Ordering::Relaxed))
    }

    /// Notes the end of the queue.
    pub fn set_max(&self, max: i64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Nothing is left to do. Whether `rmq-rebalance` is to be told: not while it has yet to commit for the last time.
    pub fn report_idle(&self) -> bool {
        !self.idle_reported.swap(true, Ordering::AcqRel)
    }

    /// `rmq-rebalance` is about to look at the watermark: what is finished from now on is reported again.
    pub fn take_idle_report(&self) {
        self.idle_reported.swap(false, Ordering::AcqRel);
    }

    /// Why it is not pulling, and since when.
    pub fn waiting(&self) -> Option<(Waiting, Instant)> {
        self.state.lock().waiting.clone()
    }

    /// Notes why it is not pulling; the time is that of the first moment of the same reason.
    pub fn set_waiting(&self, reason: Option<Waiting>, now: Instant) {
        let mut state = self.state.lock();
        if state.waiting.as_ref().map(|(known, _)| known) != reason.as_ref() {
            state.waiting = reason.map(|reason| (reason, now));
        }
    }

    /// The last trouble with it.
    pub fn last_error(&self) -> Option<String> {
        self.state.lock().last_error.clone()
    }

    /// Why the last pull failed, if it did.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.state.lock().failure.clone()
    }

    /// Notes how the last pull ended.
    pub(super) fn set_failure(&self, failure: Option<Failure>) {
        self.failing.store(failure.is_some(), Ordering::Relaxed);
        self.state.lock().failure = failure;
    }

    /// As [`set_failure`](Self::set_failure) with none, without a lock where there is none already.
    pub(super) fn forget_failure(&self) {
        if self.failing.load(Ordering::Relaxed) {
            self.set_failure(None);
        }
    }

    /// Notes the last trouble with it.
    pub fn set_last_error(&self, error: String) {
        self.state.lock().last_error = Some(error);
    }
}

/// No offset is negative ([`Offset::new`] refuses it), so this reads as "none".
const UNKNOWN: i64 = i64::MIN;
