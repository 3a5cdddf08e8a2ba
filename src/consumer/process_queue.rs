//! What was pulled from one queue and is not finished yet, and the offset up to which everything is.
//!
//! A list of runs in the order of the queue. Finished offsets cost nothing: a run covers its whole range, and the
//! watermark is the first clear bit of the first run that has one. A process queue is one generation of an
//! assignment: once closed it accepts nothing, and a new assignment of the same queue has a new one.

mod order;
mod polled;
mod runs;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use self::runs::{Runs, Slot};
use super::budget::Budget;
use super::facts::Facts;
use super::offset::Offset;
use super::run::Run;
use crate::message::MessageQueue;
use crate::sync::Mutex;

pub use self::order::{Piece, Took};
pub use self::polled::HandedOut;
pub use self::runs::{Left, Load};

/// When a queue stops pulling.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Unfinished messages.
    pub messages: usize,
    /// Bytes of the frames they came in.
    pub bytes: usize,
    /// Messages from the oldest unfinished one on, finished or not: what a crash would repeat.
    pub span: usize,
}

/// One generation of one assigned queue.
#[derive(Debug)]
pub struct ProcessQueue {
    id: u64,
    queue: MessageQueue,
    limits: Limits,
    budget: Arc<Budget>,
    runs: Mutex<Runs>,
    watermark: AtomicI64,
    /// What `stats()` and running info tell of it.
    pub facts: Facts,
}

/// A message that a consume thread is to take again.
#[derive(Debug, Clone)]
pub struct Retry {
    /// Its run.
    pub run: Arc<Run>,
    /// Its place in the run.
    pub index: u32,
    /// Its reconsume count, which the broker does not know of.
    pub times: u32,
}

/// What a consume thread takes.
#[derive(Debug)]
pub struct Taken {
    /// The run, to claim more from without a lock.
    pub run: Arc<Run>,
    /// The claimed messages.
    pub range: Range<u32>,
    /// Of a local retry: its reconsume count.
    pub retried: Option<u32>,
    /// The queue has more to take and belongs back on the ready list, with the birth of the oldest.
    pub more: Option<Instant>,
}

/// What a look at the runs found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Closed, and nothing runs or waits for a confirmation any more.
    pub drained: bool,
    /// It had stopped for its limits and may go on.
    pub relieved: bool,
    /// No message is left.
    pub idle: bool,
}

/// The process queue is closed: the run was not taken.
#[derive(Debug)]
pub struct Closed;

impl ProcessQueue {
    /// Begins at `start`, with nothing cached.
    pub fn new(queue: MessageQueue, start: Offset, limits: Limits, budget: Arc<Budget>) -> Self {
        Self {
            id: GENERATION.fetch_add(1, Ordering::Relaxed),
            queue,
            limits,
            budget,
            runs: Mutex::new(Runs::new(start)),
            watermark: AtomicI64::new(start.wire()),
            facts: Facts::new(start),
        }
    }

    /// The generation: unlike that of every other process queue of this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The queue it caches.
    pub fn queue(&self) -> &MessageQueue {
        &self.queue
    }

    /// When it stops pulling.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Adds what a pull brought. `Some` with its birth if the queue now belongs on the ready list.
    ///
    /// # Errors
    /// When it is closed: nothing is taken.
    pub fn push(&self, run: Run) -> Result<Option<Instant>, Closed> {
        let mut runs = self.runs.lock();
        if runs.closed {
            return Err(Closed);
        }
        if run.is_empty() {
            runs.pass(run.next(), 0);
            self.publish(&mut runs);
            return Ok(None);
        }
        self.budget.charge(run.bytes());
        let run = Arc::new(run);
        runs.slots.push_back(Slot::Open(run.clone()));
        self.publish(&mut runs);
        let born = run.born();
        runs.claimable.push_back(run);
        let wakes = match &mut runs.order {
            None => !std::mem::replace(&mut runs.queued, true),
            Some(order) => order.wake(),
        };
        Ok(wakes.then_some(born))
    }

    /// Takes the next messages for a consume thread, up to `batch` of one run. `None` when there is nothing: then the
    /// queue is off the ready list.
    pub fn take(&self, batch: u32) -> Option<Taken> {
        let mut runs = self.runs.lock();
        let taken = runs.take(batch);
        let more = runs.oldest_claimable();
        runs.queued = taken.is_some() && more.is_some();
        taken.map(|taken| Taken { more, ..taken })
    }

    /// Looks at the runs after a worker was told to: drops what is finished, moves the watermark.
    pub fn settle(&self) -> Settled {
        let mut runs = self.runs.lock();
        self.settle_locked(&mut runs)
    }

    /// As [`settle`](Self::settle), if the queue has stopped pulling for what it holds. For a consume thread that has
    /// used up a run: the last message of it may stay with another thread for hours, so that nobody would see that all
    /// others are done.
    pub fn settle_if_stopped(&self) -> Settled {
        let mut runs = self.runs.lock();
        if runs.parked || runs.unfed { self.settle_locked(&mut runs) } else { Settled::default() }
    }

    /// Everything below it is finished. Looks at the runs first, so that it is exact; what else follows from the look
    /// is left to [`settle`](Self::settle), which tells it once.
    pub fn exact_watermark(&self) -> Offset {
        let mut runs = self.runs.lock();
        self.sweep(&mut runs);
        runs.watermark()
    }

    /// Everything below it is finished; may lag behind by what was not settled.
    pub fn watermark(&self) -> Offset {
        Offset::new(self.watermark.load(Ordering::Acquire)).unwrap_or_default()
    }

    /// What it holds.
    pub fn load(&self) -> Load {
        self.runs.lock().load()
    }

    /// Records that pulling stops for the limits; `false` when it need not any more.
    pub fn park(&self) -> bool {
        let mut runs = self.runs.lock();
        runs.parked = runs.load().exceeds(&self.limits);
        runs.parked
    }

    /// Records that pulling stops for the budget of the client; `false` when it need not any more.
    pub fn park_for_budget(&self) -> bool {
        let mut runs = self.runs.lock();
        let holds_something = runs.open().next().is_some();
        runs.unfed = holds_something;
        runs.unfed
    }

    /// A message goes back to the broker: it is neither running nor finished until [`sent_back`](Self::sent_back) or
    /// [`wait_for_retry`](Self::wait_for_retry). `false` if it is finished, or on its way back already.
    pub fn send_back(&self, run: &Run, index: u32) -> bool {
        let mut runs = self.runs.lock();
        if run.claims.is_finished(index) || !runs.held.insert(run.offset_of(index)) {
            return false;
        }
        runs.sending += 1;
        if let Some(order) = &mut runs.order {
            order.handing_over += 1;
        }
        true
    }

    /// The broker holds the message now.
    pub fn sent_back(&self, run: &Run, index: u32) -> Settled {
        run.claims.finish(index);
        let mut runs = self.runs.lock();
        runs.forget_held(run.offset_of(index));
        runs.sending = runs.sending.saturating_sub(1);
        self.settle_locked(&mut runs)
    }

    /// Its listener has accepted a message that is on its way back: unless that is settled before the queue ends, its next
    /// owner repeats it.
    pub fn accepted_late(&self, offset: Offset) {
        self.runs.lock().accepted_late.insert(offset);
    }

    /// A message that waited for its next try does not go back.
    pub fn kept_back(&self, run: &Run, index: u32) -> Settled {
        run.claims.finish(index);
        let mut runs = self.runs.lock();
        runs.forget_held(run.offset_of(index));
        self.settle_locked(&mut runs)
    }

    /// The broker does not take it now: it stays here, unfinished, until [`retry`](Self::retry).
    pub fn wait_for_retry(&self) -> Settled {
        let mut runs = self.runs.lock();
        runs.sending = runs.sending.saturating_sub(1);
        self.settle_locked(&mut runs)
    }

    /// A message that waited goes back to the broker once more, without its listener.
    pub fn send_back_again(&self) -> bool {
        let mut runs = self.runs.lock();
        if runs.closed {
            return false;
        }
        runs.sending += 1;
        true
    }

    /// The time of a waiting message has come: a listener is to see it again. `Some` if the queue now belongs on the
    /// ready list. A closed queue starts nothing.
    pub fn retry(&self, retry: Retry) -> Option<Instant> {
        let mut runs = self.runs.lock();
        if runs.closed {
            return None;
        }
        let born = retry.run.born();
        runs.retries.push_back(retry);
        (!std::mem::replace(&mut runs.queued, true)).then_some(born)
    }

    /// Ends it: nothing new starts, what runs may finish. Tells whether something still does, and how many messages
    /// the runs had that are not used up.
    pub fn close(&self) -> (Settled, usize) {
        let mut runs = self.runs.lock();
        runs.closed = true;
        let mut not_used_up = 0;
        runs.claimable.clear();
        runs.retries.clear();
        runs.queued = false;
        for slot in &runs.slots {
            if let Slot::Open(run) = slot {
                not_used_up += if run.claims.close() { run.len() as usize } else { 0 };
            }
        }
        (self.settle_locked(&mut runs), not_used_up)
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.runs.lock().closed
    }

    /// The messages that a listener still has, and how many never began. Of a closed queue.
    pub fn left(&self) -> Left {
        self.runs.lock().left()
    }

    /// The lowest and the highest cached offset.
    pub fn cached_range(&self) -> Option<(Offset, Offset)> {
        let runs = self.runs.lock();
        let open = |slot: &Slot| if let Slot::Open(run) = slot { Some(run.clone()) } else { None };
        let first = runs.slots.iter().find_map(open)?;
        let last = runs.slots.iter().rev().find_map(open)?;
        let low = first.claims.first_open().map_or(first.next(), |index| first.offset_of(index));
        Some((low, last.offset_of(last.len().saturating_sub(1))))
    }

    /// Forgets what is cached, so that its memory is free while something still refers to it. For a closed queue.
    pub fn clear(&self) {
        let mut runs = self.runs.lock();
        for slot in runs.slots.drain(..) {
            if let Slot::Open(run) = slot {
                self.budget.release(run.bytes());
            }
        }
    }

    /// Drops what is finished.
    fn sweep(&self, runs: &mut Runs) {
        for slot in &mut runs.slots {
            if let Slot::Open(run) = slot
                && run.claims.first_open().is_none()
            {
                self.budget.release(run.bytes());
                *slot = Slot::Passed { next: run.next(), messages: run.len() as usize };
            }
        }
        runs.merge();
        self.publish(runs);
    }

    fn settle_locked(&self, runs: &mut Runs) -> Settled {
        self.sweep(runs);
        let relieved = runs.parked && runs.load().is_relieved(&self.limits);
        runs.parked &= !relieved;
        let fed = runs.unfed && runs.open().next().is_none();
        runs.unfed &= !fed;
        Settled {
            drained: runs.closed && runs.sending == 0 && runs.running() == 0,
            relieved: relieved || fed,
            idle: runs.slots.is_empty(),
        }
    }

    fn publish(&self, runs: &mut Runs) {
        self.watermark.store(runs.watermark().wire(), Ordering::Release);
    }
}

impl Drop for ProcessQueue {
    fn drop(&mut self) {
        self.clear();
    }
}

static GENERATION: AtomicU64 = AtomicU64::new(1);

#[cfg(all(test, not(loom)))]
mod tests;
