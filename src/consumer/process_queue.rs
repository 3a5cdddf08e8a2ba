//! What was pulled from one queue and is not finished yet, and the offset up to which everything is.
//!
//! A list of runs in the order of the queue. Finished offsets cost nothing: a run covers its whole range, and the
//! watermark is the first clear bit of the first run that has one. A process queue is one generation of an
//! assignment: once closed it accepts nothing, and a new assignment of the same queue has a new one.

mod order;
mod polled;

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use self::order::Order;
use super::budget::Budget;
use super::facts::Facts;
use super::offset::Offset;
use super::run::Run;
use crate::message::MessageQueue;
use crate::sync::Mutex;
pub use polled::HandedOut;
use polled::Polled;

pub use self::order::{Piece, Took};

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

/// What a queue holds at one moment, derived from its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Unfinished messages.
    pub messages: usize,
    /// Bytes of the frames they came in.
    pub bytes: usize,
    /// Messages from the oldest unfinished one on, finished or not.
    pub span: usize,
}

impl Load {
    /// Whether another pull would go over a limit.
    pub fn exceeds(&self, limits: &Limits) -> bool {
        self.messages >= limits.messages || self.bytes >= limits.bytes || self.span >= limits.span
    }

    /// Whether a queue that stopped may go on: not at the first message below the limit, or it would stop and go for
    /// each message.
    fn is_relieved(&self, limits: &Limits) -> bool {
        let below = |load: usize, limit: usize| load <= limit / 4 * 3;
        below(self.messages, limits.messages)
            && below(self.bytes, limits.bytes)
            && below(self.span, limits.span)
    }
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

#[derive(Debug)]
struct Runs {
    slots: VecDeque<Slot>,
    claimable: VecDeque<Arc<Run>>,
    /// Messages whose send-back failed, to be given to the listener again, and how often they were consumed.
    retries: VecDeque<Retry>,
    /// The end of what was popped: the watermark while no slot is left.
    floor: Offset,
    closed: bool,
    /// On the ready list, or in the hands of a worker that will put it back there.
    queued: bool,
    /// Stopped for its limits; whoever settles below them says so.
    parked: bool,
    /// Stopped for the budget of the client while something of its own is cached; once nothing is, it may hold a frame
    /// again, whatever the budget says, and whoever settles that says so.
    unfed: bool,
    /// Messages that no listener has and that are not finished: their verdict was posted and is not confirmed, or they
    /// wait for their local retry.
    held: BTreeSet<Offset>,
    /// Those of them whose confirmation is still to come.
    sending: usize,
    /// Of a queue that is consumed in order.
    order: Option<Order>,
    /// Only if threads of the program take the messages.
    polled: Option<Polled>,
}

#[derive(Debug)]
enum Slot {
    Open(Arc<Run>),
    /// Finished behind an unfinished one; neighbours merge.
    Passed {
        next: Offset,
        messages: usize,
    },
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
            runs: Mutex::new(Runs {
                slots: VecDeque::new(),
                claimable: VecDeque::new(),
                retries: VecDeque::new(),
                floor: start,
                closed: false,
                queued: false,
                parked: false,
                unfed: false,
                held: BTreeSet::new(),
                sending: 0,
                order: None,
                polled: None,
            }),
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
        runs.held.remove(&run.offset_of(index));
        runs.sending = runs.sending.saturating_sub(1);
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

/// What a closed queue leaves unfinished.
#[derive(Debug, Default)]
pub struct Left {
    /// Offsets of messages that a listener has not given back.
    pub running: Vec<Offset>,
    /// Messages that no listener has: not begun, or to be tried again.
    pub untouched: u64,
    /// Finished messages behind one that is not: the next owner repeats them.
    pub repeated: u64,
}

impl Runs {
    fn take(&mut self, batch: u32) -> Option<Taken> {
        if self.closed {
            return None;
        }
        if let Some(Retry { run, index, times }) = self.retries.pop_front() {
            self.held.remove(&run.offset_of(index));
            return Some(Taken { run, range: index..index + 1, retried: Some(times), more: None });
        }
        while let Some(run) = self.claimable.front() {
            let range = run.claims.claim(batch);
            let run = if run.claims.unclaimed() == 0 { self.claimable.pop_front()? } else { run.clone() };
            if let Some(range) = range {
                return Some(Taken { run, range, retried: None, more: None });
            }
        }
        None
    }

    fn oldest_claimable(&self) -> Option<Instant> {
        let retry = self.retries.front().map(|retry| retry.run.born());
        retry.or_else(|| self.claimable.front().map(|run| run.born()))
    }

    fn pass(&mut self, next: Offset, messages: usize) {
        self.slots.push_back(Slot::Passed { next, messages });
        self.merge();
    }

    /// Joins finished neighbours and takes finished slots off the front.
    fn merge(&mut self) {
        while let Some(Slot::Passed { next, .. }) = self.slots.front() {
            self.floor = *next;
            self.slots.pop_front();
        }
        let passed = |slot: &Slot| matches!(slot, Slot::Passed { .. });
        if self.slots.iter().zip(self.slots.iter().skip(1)).all(|(a, b)| !(passed(a) && passed(b))) {
            return;
        }
        let mut merged: VecDeque<Slot> = VecDeque::with_capacity(self.slots.len());
        for slot in self.slots.drain(..) {
            match (merged.back_mut(), slot) {
                (Some(Slot::Passed { next, messages }), Slot::Passed { next: later, messages: more }) => {
                    *next = later;
                    *messages += more;
                }
                (_, slot) => merged.push_back(slot),
            }
        }
        self.slots = merged;
    }

    fn watermark(&self) -> Offset {
        match self.slots.front() {
            Some(Slot::Open(run)) => match run.claims.first_open() {
                Some(index) => run.offset_of(index),
                None => run.next(),
            },
            _ => self.floor,
        }
    }

    fn open(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.slots.iter().filter_map(|slot| if let Slot::Open(run) = slot { Some(run) } else { None })
    }

    fn load(&self) -> Load {
        let mut load = Load::default();
        for slot in &self.slots {
            match slot {
                Slot::Passed { messages, .. } => load.span += messages,
                Slot::Open(run) => {
                    let len = run.len() as usize;
                    load.messages += len.saturating_sub(run.claims.finished() as usize);
                    load.bytes += run.bytes();
                    // The finished messages before the oldest unfinished one do not count.
                    let before =
                        if load.span == 0 { run.claims.first_open().unwrap_or(0) as usize } else { 0 };
                    load.span += len - before;
                }
            }
        }
        load
    }

    /// Messages in the hands of a listener.
    fn running(&self) -> usize {
        let begun: usize = self.open().map(|run| unfinished(run)).sum();
        begun.saturating_sub(self.held.len())
    }

    fn left(&self) -> Left {
        let load = self.load();
        let repeated = load.span.saturating_sub(load.messages) as u64;
        let mut left = Left { repeated, ..Left::default() };
        for run in self.open() {
            let claimed = run.claims.claimed();
            left.untouched += u64::from(run.len() - claimed);
            for index in (0..claimed).filter(|index| !run.claims.is_finished(*index)) {
                let offset = run.offset_of(index);
                if self.held.contains(&offset) {
                    left.untouched += 1;
                } else {
                    left.running.push(offset);
                }
            }
        }
        left
    }
}

/// Claimed and not finished.
fn unfinished(run: &Run) -> usize {
    run.claims.claimed().saturating_sub(run.claims.finished()) as usize
}

static GENERATION: AtomicU64 = AtomicU64::new(1);

#[cfg(all(test, not(loom)))]
mod tests;
