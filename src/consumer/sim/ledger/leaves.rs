//! Members that leave cleanly: nothing that they had finished comes again.

use std::time::Instant;

use super::{Fence, Generation, Ledger};
use crate::message::MessageQueue;

impl Ledger {
    /// A member has left, and its report is clean. `owned` are the generations that it had when it began to leave.
    /// `stored` is what the broker of a queue holds.
    pub(in crate::consumer::sim) fn left_cleanly(
        &mut self,
        member: usize,
        owned: &[u64],
        stored: impl Fn(&MessageQueue) -> Option<i64>,
        now: Instant,
    ) {
        for id in owned {
            let Some(one) = self.generations.get_mut(id) else { continue };
            if one.sent_elsewhere {
                continue;
            }
            let kept = one.handed.kept().unwrap_or_else(|| one.accepted.clone());
            // What it has committed is beyond all of that, or it says that it has not.
            let Some(past) = kept.iter().max().map(|last| last + 1) else { continue };
            let queue = one.queue;
            let stored = stored(&self.queues[queue].queue);
            let arrived = self.arrived.get(&(member, queue)).is_some_and(|(_, word)| *word >= Some(past));
            if arrived && stored.is_none_or(|stored| stored < past) {
                // The last word of a former owner has come later than that of this one, or an earlier one of this one
                // that was long under way, be it over a connection that was lost or with a pull.
                continue;
            }
            let one = &self.generations[id];
            // Whoever took it over before the end had no last word to wait for.
            let others = |other: &Generation| other.queue == queue && other.member != member;
            let shared = self
                .generations
                .values()
                .any(|other| others(other) && (other.open || other.since >= one.since));
            // One that was told where to go on, and still waits for a listener, goes on there whoever owned it since.
            let awaited = self.targets.keys().any(|(other, of)| *of == queue && *other != member);
            if !shared && !awaited && self.latest(member, queue) == Some(*id) {
                let accepted = kept.into_iter().collect();
                self.fences.insert(queue, Fence { since: now, accepted, member });
            }
        }
    }
}
