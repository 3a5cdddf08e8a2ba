//! The runs of one process queue: what of them is taken, finished, held back, and how much that is.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::order::Order;
use super::polled::Polled;
use super::{Limits, Retry, Taken};
use crate::consumer::offset::Offset;
use crate::consumer::run::Run;

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
    pub(super) fn is_relieved(&self, limits: &Limits) -> bool {
        let below = |load: usize, limit: usize| load <= limit / 4 * 3;
        below(self.messages, limits.messages)
            && below(self.bytes, limits.bytes)
            && below(self.span, limits.span)
    }
}

#[derive(Debug)]
pub(super) struct Runs {
    pub(super) slots: VecDeque<Slot>,
    pub(super) claimable: VecDeque<Arc<Run>>,
    /// Messages whose send-back failed, to be given to the listener again, and how often they were consumed.
    pub(super) retries: VecDeque<Retry>,
    /// The end of what was popped: the watermark while no slot is left.
    pub(super) floor: Offset,
    pub(super) closed: bool,
    /// On the ready list, or in the hands of a worker that will put it back there.
    pub(super) queued: bool,
    /// Stopped for its limits; whoever settles below them says so.
    pub(super) parked: bool,
    /// Stopped for the budget of the client while something of its own is cached; once nothing is, it may hold a frame
    /// again, whatever the budget says, and whoever settles that says so.
    pub(super) unfed: bool,
    /// Messages that no listener has and that are not finished: their verdict was posted and is not confirmed, or they
    /// wait for their local retry.
    pub(super) held: BTreeSet<Offset>,
    /// Those of them whose confirmation is still to come.
    pub(super) sending: usize,
    /// Those of them that their listener has accepted, when its time was over.
    pub(super) accepted_late: BTreeSet<Offset>,
    /// Of a queue that is consumed in order.
    pub(super) order: Option<Order>,
    /// Only if threads of the program take the messages.
    pub(super) polled: Option<Polled>,
}

#[derive(Debug)]
pub(super) enum Slot {
    Open(Arc<Run>),
    /// Finished behind an unfinished one; neighbours merge.
    Passed {
        next: Offset,
        messages: usize,
    },
}

/// What a closed queue leaves unfinished.
#[derive(Debug, Default)]
pub struct Left {
    /// Offsets of messages that a listener has not given back.
    pub running: Vec<Offset>,
    /// Messages that no listener has: not begun, or to be tried again.
    pub untouched: u64,
    /// Accepted messages that are not finished, and finished ones behind one that is not: the next owner repeats them.
    pub repeated: u64,
}

impl Runs {
    pub(super) fn new(start: Offset) -> Self {
        Self {
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
            accepted_late: BTreeSet::new(),
            order: None,
            polled: None,
        }
    }

    #[inline]
    pub(super) fn take(&mut self, batch: u32) -> Option<Taken> {
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

    #[inline]
    pub(super) fn oldest_claimable(&self) -> Option<Instant> {
        let retry = self.retries.front().map(|retry| retry.run.born());
        retry.or_else(|| self.claimable.front().map(|run| run.born()))
    }

    #[inline]
    pub(super) fn pass(&mut self, next: Offset, messages: usize) {
        self.slots.push_back(Slot::Passed { next, messages });
        self.merge();
    }

    /// Joins finished neighbours and takes finished slots off the front.
    pub(super) fn merge(&mut self) {
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

    #[inline]
    pub(super) fn watermark(&self) -> Offset {
        match self.slots.front() {
            Some(Slot::Open(run)) => match run.claims.first_open() {
                Some(index) => run.offset_of(index),
                None => run.next(),
            },
            _ => self.floor,
        }
    }

    #[inline]
    pub(super) fn open(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.slots.iter().filter_map(|slot| if let Slot::Open(run) = slot { Some(run) } else { None })
    }

    #[inline]
    pub(super) fn load(&self) -> Load {
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

    /// A message that was held is finished.
    pub(super) fn forget_held(&mut self, offset: Offset) {
        self.held.remove(&offset);
        self.accepted_late.remove(&offset);
    }

    /// Messages in the hands of a listener.
    #[inline]
    pub(super) fn running(&self) -> usize {
        let begun: usize = self.open().map(|run| unfinished(run)).sum();
        begun.saturating_sub(self.held.len())
    }

    pub(super) fn left(&self) -> Left {
        let load = self.load();
        let repeated = load.span.saturating_sub(load.messages) as u64;
        let mut left = Left { repeated, ..Left::default() };
        for run in self.open() {
            let claimed = run.claims.claimed();
            left.untouched += u64::from(run.len() - claimed);
            for index in (0..claimed).filter(|index| !run.claims.is_finished(*index)) {
                let offset = run.offset_of(index);
                if self.accepted_late.contains(&offset) {
                    left.repeated += 1;
                } else if self.held.contains(&offset) {
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
