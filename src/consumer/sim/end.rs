//! The end of a run: nothing goes wrong any more, and everything moves.

use std::time::Duration;

use super::core::RETRY_TOPIC;
use super::world::{Happening, World};
use crate::consumer::outside::Outside;

impl World {
    /// Nothing goes wrong from now on.
    pub(super) fn calm_down(&mut self) {
        self.quiet = Some(self.now);
        self.note(|| "from now on nothing goes wrong".to_owned());
        for number in 0..self.members.len() {
            let now = self.now;
            if let Some(member) = &mut self.members[number] {
                member.links.iter_mut().for_each(|link| link.down_until = now);
                member.core.fragile.set(0);
                self.suspend(number, false);
                self.resume(number);
            }
        }
        for broker in &mut self.brokers {
            broker.down_until = broker.down_until.min(self.now);
        }
        self.later(LOOK_EVERY, Happening::Settled);
    }

    /// Whether everything has been consumed and committed, and every queue has one owner.
    pub(super) fn look_whether_settled(&mut self) {
        let Some(since) = self.quiet else { return };
        if self.lacks_a_member() {
            self.join();
        }
        if self.is_consumed() {
            if self.last_words {
                self.over = true;
                return;
            }
            self.last_words = true;
            self.say_last_words();
        }
        if self.now - since > PATIENCE {
            let standing = self.standing();
            self.ledger.break_promise(4, || format!("not everything has moved:\n    {standing}"));
        }
        self.later(LOOK_EVERY, Happening::Settled);
    }

    /// One more message for each queue, to see that each moves.
    fn say_last_words(&mut self) {
        for broker in 0..self.brokers.len() {
            for queue in 0..self.brokers[broker].queues.len() {
                if self.brokers[broker].queues[queue].queue.topic() != RETRY_TOPIC {
                    self.send_message(broker, queue, "a");
                }
            }
        }
    }

    fn is_consumed(&mut self) -> bool {
        if self.delayed > 0 || self.members.iter().flatten().any(|member| member.leaving.is_some()) {
            return false;
        }
        let homes: Vec<usize> = (0..self.plan.machines).filter(|one| self.ledger.is_home(*one)).collect();
        for broker in 0..self.brokers.len() {
            for queue in 0..self.brokers[broker].queues.len() {
                if !homes.iter().all(|machine| self.is_consumed_on(*machine, broker, queue)) {
                    return false;
                }
            }
        }
        true
    }

    fn is_consumed_on(&mut self, machine: usize, broker: usize, queue: usize) -> bool {
        let one = &self.brokers[broker].queues[queue];
        let (max, committed, place) = (one.max(), self.stored(machine, broker, queue), one.ledger + machine);
        let is_retry = one.queue.topic() == RETRY_TOPIC;
        let there = |number: &usize| self.ledger.home(*number) == machine;
        let owners: Vec<u64> = (0..self.members.len())
            .filter(there)
            .filter_map(|number| self.members[number].as_ref())
            .flat_map(|member| member.owned.values())
            .filter(|owned| *owned.queue() == one.queue && !owned.is_closed())
            .map(|owned| owned.id())
            .collect();
        let [owner] = owners[..] else { return false };
        if self.ledger.low(place) < max {
            return false;
        }
        if self.last_words && committed != Some(max) && !is_retry {
            // A member that did not know that it had lost the queue may have taken back what its owner had committed,
            // who commits again with the next message. And one that had finished messages which the broker lost with
            // its end may have left an offset that the queue has to grow up to. And a program that commits has nothing
            // to commit where it began at the end, and nothing was ever stored or its own offset said so.
            let began_at_end = self.plan.polled == Some(false)
                && (committed.is_none() || self.plan.own_offsets)
                && self.ledger.start_of(owner) == max;
            if committed > Some(max) || began_at_end || self.ledger.may_mend(place, self.now) {
                self.send_message(broker, queue, "a");
            }
            return false;
        }
        true
    }

    /// Where everybody stands, for a run that does not come to an end.
    pub(super) fn standing(&mut self) -> String {
        let mut lines = Vec::new();
        for broker in &self.brokers {
            for queue in &broker.queues {
                let places = queue.ledger..queue.ledger + self.plan.machines;
                let low: Vec<i64> = places.map(|place| self.ledger.low(place)).collect();
                lines.push(format!(
                    "{}: {}..{}, committed {:?}, finished up to {low:?}",
                    queue.queue,
                    queue.min,
                    queue.max(),
                    queue.committed
                ));
            }
        }
        for member in self.members.iter().flatten() {
            for (id, queue) in &member.owned {
                let state = self.state(member, *id);
                let name = self.ledger.short(*id);
                lines.push(format!("{} has {} as {name}: {state}", member.core.client_id(), queue.queue()));
            }
        }
        lines.push(format!("{} messages wait for their delay", self.delayed));
        lines.join("\n    ")
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longer than every back-off, timeout and delay together.
const PATIENCE: Duration = Duration::from_secs(300);
