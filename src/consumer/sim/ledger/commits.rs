//! What members commit, and where they are told to go on instead.

use std::time::{Duration, Instant};

use super::{Ledger, advance};
use crate::message::MessageQueue;

impl Ledger {
    /// A member was told where to go on instead: nothing else may be committed until it does.
    pub(in crate::consumer::sim) fn target(&mut self, member: usize, queue: usize, to: i64) {
        self.targets.insert((member, queue), to);
        if let Some(one) = self.latest(member, queue).and_then(|id| self.generations.get_mut(&id)) {
            one.sent_elsewhere = true;
        }
        self.excuse(queue, 0..to);
    }

    pub(in crate::consumer::sim) fn clear_target(&mut self, member: usize, queue: usize) {
        self.targets.remove(&(member, queue));
    }

    pub(in crate::consumer::sim) fn target_of(&self, member: usize, queue: usize) -> Option<i64> {
        self.targets.get(&(member, queue)).copied()
    }

    /// Promise 1, where a commit is sent: by itself (`generation` is `None`) or with a pull.
    pub(in crate::consumer::sim) fn commit_sent(
        &mut self,
        member: usize,
        queue: usize,
        generation: Option<u64>,
        to: i64,
    ) {
        let name = self.name(queue).clone();
        if let Some(target) = self.target_of(member, queue) {
            if to != target {
                self.break_promise(1, || {
                    format!("{name} was to go on at {target}, and {member} commits {to}")
                });
            }
            return;
        }
        let Some(id) = generation.or_else(|| self.latest(member, queue)) else {
            return self.break_promise(2, || format!("{member} commits {to} for {name} without owning it"));
        };
        let Some(generation) = self.generations.get_mut(&id) else { return };
        let (start, finished) = (generation.start, &generation.finished);
        let low = advance(finished, &mut generation.low, start);
        if to < start || to > low {
            self.break_promise(1, || {
                format!(
                    "{member} commits {to} for {name}, having started at {start} and finished up to {low}"
                )
            });
        }
    }

    /// Promise 1, where a commit of a member arrives.
    pub(in crate::consumer::sim) fn committed(
        &mut self,
        member: usize,
        queue: usize,
        call: u64,
        to: i64,
        before: Option<i64>,
        now: Instant,
    ) {
        let word = self.arrived.entry((member, queue)).or_default();
        if call > word.0 {
            *word = (call, Some(to));
        }
        self.order.reached(member, queue, to);
        let low = self.low(queue);
        if to > low {
            let name = self.name(queue).clone();
            self.break_promise(1, || format!("{to} is committed for {name}, where {low} is not finished"));
        }
        if before.is_some_and(|before| to < before) {
            self.fences.remove(&queue);
            self.taken_back.insert(queue, (MENDING, now));
        }
    }

    /// A member that owns this queue hears that the connection to its broker is lost: what was confirmed may be gone.
    pub(in crate::consumer::sim) fn confirmation_is_doubtful(&mut self, member: usize, queue: &MessageQueue) {
        let queue = self.place(member, queue);
        if let Some((_, word)) = self.arrived.get_mut(&(member, queue)) {
            *word = None;
        }
    }

    /// Whether a late commit has taken back what another member had committed, so that one more message has to show
    /// that its owner commits again. Who does not know of it commits from there on, be it some messages later.
    pub(in crate::consumer::sim) fn may_mend(&mut self, queue: usize, now: Instant) -> bool {
        match self.taken_back.get_mut(&queue) {
            Some((left, next)) if *left > 0 && now >= *next => {
                *left -= 1;
                *next = now + MENDING_PAUSE;
                true
            }
            _ => false,
        }
    }

    /// The offset of a queue went back for a reason outside of its members.
    pub(in crate::consumer::sim) fn went_back(&mut self, queue: usize) {
        self.fences.remove(&queue);
    }

    /// The same on all machines.
    pub(in crate::consumer::sim) fn went_back_everywhere(&mut self, queue: usize) {
        (queue..queue + self.machines).for_each(|queue| self.went_back(queue));
    }

    /// A member asks for the stored offset.
    pub(in crate::consumer::sim) fn asks(&mut self, member: usize, queue: usize, now: Instant) {
        self.asked.insert((member, queue), now);
    }

    /// A broker has told a member what it holds: whatever was in doubt, and whoever has stored it, so much is confirmed.
    pub(in crate::consumer::sim) fn confirmed(&mut self, member: usize, queue: usize, held: i64) {
        let (_, word) = self.arrived.entry((member, queue)).or_default();
        *word = (*word).max(Some(held));
    }

    /// A broker has told that no offset is stored.
    pub(in crate::consumer::sim) fn nothing_stored(&mut self, member: usize, queue: usize, epoch: u64) {
        self.unstored.insert((member, queue, epoch));
    }

    pub(in crate::consumer::sim) fn is_unstored(&self, member: usize, queue: usize, epoch: u64) -> bool {
        self.unstored.contains(&(member, queue, epoch))
    }
}

const MENDING: u32 = 5;
/// Longer than every commit interval.
const MENDING_PAUSE: Duration = Duration::from_secs(5);
