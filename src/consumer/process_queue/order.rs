//! A process queue whose messages are consumed one batch after the other, in order, while this member has its lock.
//!
//! ```text
//! idle → queued → running → idle | queued | paused | without its lock
//!          ↑                                  │            │
//!          └──────────────────────────────────┴────────────┘
//! ```
//!
//! The queue is on the ready list if and only if it is queued, so that one consume thread at most works on it. All of
//! it changes under the lock of the runs: whoever puts something in sees that a thread is at it, or the thread sees it.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::{ProcessQueue, Retry, Runs, Settled};
use crate::consumer::lease::{Asked, Lease, Renewal};
use crate::consumer::run::Run;

/// How an ordered queue stands.
#[derive(Debug)]
pub(super) struct Order {
    turn: Turn,
    /// Messages that are to become dead letters and are not confirmed: the queue waits for them.
    pub(super) handing_over: usize,
    /// The broker's lock. `None` when none is needed.
    lease: Option<Lease>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nothing to take.
    Idle,
    /// On the ready list.
    Queued,
    /// In the hands of a consume thread.
    Running,
    /// Until then, and until nothing is being handed over.
    Paused(Instant),
    /// Until the lock is certain again.
    NoLock,
}

/// One message of a batch.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Its run.
    pub run: Arc<Run>,
    /// Its place there.
    pub index: u32,
    /// How often it was consumed, if the broker does not know of it.
    pub times: Option<u32>,
}

/// What a consume thread found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// Messages.
    Batch,
    /// None: the thread is through with the queue.
    Nothing,
    /// The queue may not be consumed now. The thread is through with it; whoever is certain of the lock again says so.
    NoLock,
}

impl Order {
    /// Something came: whether the queue now belongs on the ready list.
    pub(super) fn wake(&mut self) -> bool {
        let wakes = self.turn == Turn::Idle;
        if wakes {
            self.turn = Turn::Queued;
        }
        wakes
    }
}

impl ProcessQueue {
    /// The same, consumed in order; with a lease, only while it is valid.
    pub fn in_order(self, lease: Option<Lease>) -> Self {
        self.runs.lock().order = Some(Order { turn: Turn::Idle, handing_over: 0, lease });
        self
    }

    /// Takes the next messages, up to `most`, from as many runs as it takes. The calling thread has the queue until it
    /// is told that there is nothing, or gives it away by [`end_turn`](Self::end_turn) or [`pause`](Self::pause).
    pub fn take_in_order(&self, most: u32, now: Instant, wall: SystemTime, batch: &mut Vec<Piece>) -> Took {
        batch.clear();
        let mut runs = self.runs.lock();
        let runs = &mut *runs;
        let Some(order) = &mut runs.order else { return Took::Nothing };
        if runs.closed {
            return Took::Nothing;
        }
        if order.lease.as_ref().is_some_and(|lease| !lease.is_valid(now, wall)) {
            order.turn = Turn::NoLock;
            return Took::NoLock;
        }
        order.turn = Turn::Running;
        runs.take_pieces(most as usize, batch);
        if batch.is_empty() {
            if let Some(order) = &mut runs.order {
                order.turn = Turn::Idle;
            }
            return Took::Nothing;
        }
        Took::Batch
    }

    /// The calling thread leaves the queue to another. `Some` if it belongs on the ready list.
    pub fn end_turn(&self) -> Option<Instant> {
        let mut runs = self.runs.lock();
        runs.queue_up()
    }

    /// These messages come again, in this order, before all others, and not before `until`. The calling thread is
    /// through with the queue.
    pub fn pause(&self, again: Vec<Piece>, until: Instant) -> Settled {
        let mut runs = self.runs.lock();
        for Piece { run, index, times } in again.into_iter().rev() {
            runs.held.insert(run.offset_of(index));
            runs.retries.push_front(Retry { run, index, times: times.unwrap_or(0) });
        }
        if let Some(order) = &mut runs.order {
            order.turn = Turn::Paused(until);
        }
        self.settle_locked(&mut runs)
    }

    /// The time of a pause may be over, or what it waited for may have come. `Some` if the queue now belongs on the
    /// ready list.
    pub fn resume(&self, now: Instant) -> Option<Instant> {
        let mut runs = self.runs.lock();
        runs.end_pause(now)
    }

    /// A broker has the message now, or somebody else sees to it that it comes again: the queue waits for one less.
    pub fn handed_over(&self, now: Instant) -> Option<Instant> {
        let mut runs = self.runs.lock();
        if let Some(order) = &mut runs.order {
            order.handing_over = order.handing_over.saturating_sub(1);
        }
        runs.end_pause(now)
    }

    /// No broker takes a message that its listener has given up: the listener is to see it again, before all others.
    pub fn retry_in_order(&self, retry: Retry, now: Instant) -> Option<Instant> {
        let mut runs = self.runs.lock();
        if runs.closed {
            return None;
        }
        let at = retry.run.offset_of(retry.index);
        let place = runs.retries.iter().take_while(|one| one.run.offset_of(one.index) < at).count();
        runs.retries.insert(place, retry);
        drop(runs);
        self.handed_over(now)
    }

    /// The thread that has the queue, and nobody else, has lost sight of what it took: nobody has that now, and it is
    /// not finished. For a queue that is about to be rebuilt; where several threads work, they may still have theirs.
    pub fn let_go(&self) {
        let mut runs = self.runs.lock();
        if runs.order.is_some() {
            let running = runs.left().running;
            runs.held.extend(running);
        }
    }

    /// What is believed of the broker's lock, if one is needed.
    pub fn lease(&self) -> Option<Lease> {
        self.runs.lock().order.as_ref().and_then(|order| order.lease.clone())
    }

    /// Somebody else has the lock.
    pub fn lose_lease(&self) {
        if let Some(lease) = self.runs.lock().order.as_mut().and_then(|order| order.lease.as_mut()) {
            lease.lose();
        }
    }

    /// The broker has granted a renewal that was asked for then.
    /// With its birth, if the queue now belongs on the ready list: a consume thread that looked at the clock a moment
    /// after `now` may have left it for want of a lock.
    pub fn renew_lease(&self, asked: Asked, now: Instant) -> Option<(Renewal, Option<Instant>)> {
        let mut runs = self.runs.lock();
        let lease = runs.order.as_mut()?.lease.as_mut()?;
        let renewal = lease.renewed(asked, now);
        Some((renewal, (renewal == Renewal::Extended).then(|| runs.go_on()).flatten()))
    }

    /// Consumption goes on with the lock that was asked for then. `Some` if the queue now belongs on the ready list.
    pub fn extend_lease(&self, asked: Asked) -> Option<Instant> {
        let mut runs = self.runs.lock();
        runs.order.as_mut()?.lease.as_mut()?.extend(asked);
        runs.go_on()
    }
}

impl Runs {
    /// What comes again first, then what nobody has had.
    fn take_pieces(&mut self, most: usize, batch: &mut Vec<Piece>) {
        while batch.len() < most
            && let Some(Retry { run, index, times }) = self.retries.pop_front()
        {
            self.held.remove(&run.offset_of(index));
            batch.push(Piece { run, index, times: Some(times) });
        }
        while batch.len() < most
            && let Some(run) = self.claimable.front()
        {
            let wanted = u32::try_from(most - batch.len()).unwrap_or(u32::MAX);
            for index in run.claims.claim(wanted).unwrap_or_default() {
                batch.push(Piece { run: run.clone(), index, times: None });
            }
            if run.claims.unclaimed() == 0 {
                self.claimable.pop_front();
            }
        }
    }

    /// On the ready list, if there is anything to take.
    fn queue_up(&mut self) -> Option<Instant> {
        let oldest = self.oldest_claimable().filter(|_| !self.closed);
        if let Some(order) = &mut self.order {
            order.turn = if oldest.is_some() { Turn::Queued } else { Turn::Idle };
        }
        oldest
    }

    /// The lock is certain again.
    fn go_on(&mut self) -> Option<Instant> {
        let waits = self.order.as_ref().is_some_and(|order| order.turn == Turn::NoLock);
        waits.then(|| self.queue_up()).flatten()
    }

    fn end_pause(&mut self, now: Instant) -> Option<Instant> {
        let order = self.order.as_ref()?;
        let Turn::Paused(until) = order.turn else { return None };
        (until <= now && order.handing_over == 0).then(|| self.queue_up()).flatten()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
