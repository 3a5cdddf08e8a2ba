//! Broadcasting: one member at a time on each machine, and the disks that their offsets are on, which outlive them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::member::{Doing, ForRebalance};
use super::mutants::Mutant;
use super::plan::Plan;
use super::world::{Happening, World};
use crate::consumer::local::LocalStore;
use crate::consumer::local::played::Write;
use crate::consumer::offset::Offset;
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::consumer::settings::{MessageModel, Settings};
use crate::message::MessageQueue;

/// What the file says.
pub(super) type Disk = BTreeMap<MessageQueue, Offset>;

impl Plan {
    /// The same, broadcasting.
    pub(super) fn broadcasting(self) -> Self {
        let settings = Settings { message_model: MessageModel::Broadcasting, ..self.settings };
        Self { members: 1, most_members: 1, settings, ..self }
    }

    /// The same on several machines.
    pub(super) fn on_machines(self, machines: usize, members: usize) -> Self {
        Self { machines, members, most_members: machines, ..self }
    }
}

impl World {
    pub(super) fn is_broadcasting(&self) -> bool {
        self.plan.settings.is_broadcasting()
    }

    /// Whether nobody stands in the way of one more member. One that keeps its offsets itself holds the file of them.
    pub(super) fn has_room(&self) -> bool {
        !self.is_broadcasting() || !self.free_machines().is_empty()
    }

    /// Machines on which no member runs.
    fn free_machines(&self) -> Vec<usize> {
        let present = || self.members.iter().enumerate().filter(|(_, member)| member.is_some());
        let is_free = |machine: &usize| present().all(|(number, _)| self.ledger.home(number) != *machine);
        (0..self.plan.machines).filter(is_free).collect()
    }

    /// Machines on which a member has run, and runs no more.
    fn forsaken_machines(&self) -> Vec<usize> {
        self.free_machines().into_iter().filter(|machine| self.ledger.is_home(*machine)).collect()
    }

    /// Where the next member runs.
    pub(super) fn free_machine(&mut self) -> usize {
        if self.plan.machines == 1 {
            return 0;
        }
        let forsaken = self.forsaken_machines();
        let choice = if self.quiet.is_some() { forsaken } else { self.free_machines() };
        choice.get(self.rng.below(choice.len())).copied().unwrap_or_default()
    }

    /// Whether one more member is needed for everything to be consumed that has to be.
    pub(super) fn lacks_a_member(&self) -> bool {
        match self.is_broadcasting() {
            true => !self.forsaken_machines().is_empty(),
            false => self.live().is_empty(),
        }
    }

    /// What a member that begins now finds.
    pub(super) fn open_disk(&self, machine: usize) -> Option<Arc<LocalStore>> {
        let of_another = self.is(Mutant::FileOfAnother);
        let machine = if of_another { (machine + 1) % self.plan.machines } else { machine };
        self.is_broadcasting().then(|| LocalStore::played(self.disks[machine].clone()))
    }

    /// Begins to write what a member wants written, unless a write is under way.
    pub(super) fn look_at_disk(&mut self, number: usize) {
        let Some(member) = &mut self.members[number] else { return };
        if member.writing.is_some() {
            return;
        }
        let Some(store) = &member.core.local else { return };
        let Some(mut write) = store.begin_write() else { return };
        if self.is(Mutant::WrittenBeforeListener) {
            self.write_what_was_fetched(number, &mut write);
        }
        self.check_write(number, &write);
        let takes = match self.rng.below(10) {
            _ if self.quiet.is_some() => self.rng.micros(50, 2000),
            0 => self.rng.millis(20, 1500),
            _ => self.rng.micros(50, 5000),
        };
        if self.is(Mutant::WriteNotAwaited) {
            self.confirm(number, std::mem::take(&mut write.tags), &Ok(()));
        }
        if let Some(member) = &mut self.members[number] {
            member.writing = Some(write);
            self.later(takes, Happening::Written(number));
        }
    }

    /// Promise 1, where a file is written.
    fn check_write(&mut self, number: usize, write: &Write) {
        let disk = self.disks[self.ledger.home(number)].clone();
        let news: Vec<_> = write.table.iter().filter(|(queue, to)| disk.get(*queue) != Some(*to)).collect();
        for (queue, to) in news {
            self.note(|| format!("{number} writes {to} for {queue}"));
            let place = self.ledger.place(number, queue);
            let low = self.ledger.low(place);
            if to.wire() > low {
                self.ledger.break_promise(1, || {
                    format!("{number} writes {to} for {queue}, having finished up to {low}")
                });
            }
        }
    }

    /// A write has come to its end.
    pub(super) fn written(&mut self, number: usize) {
        let Some(member) = &mut self.members[number] else { return };
        let Some(write) = member.writing.take() else { return };
        let store = member.core.local.clone();
        let fails = self.quiet.is_none() && self.rng.chance(self.plan.refuse);
        self.note(|| format!("{number}: a write has {}", if fails { "failed" } else { "succeeded" }));
        let result = if fails { Err("the disk is full".to_owned()) } else { Ok(()) };
        if let Some(store) = store.filter(|_| !fails) {
            store.is_written(write.table.clone());
        }
        if !fails || self.rng.chance(300) {
            self.replace_file(number, write.table);
        }
        self.confirm(number, write.tags, &result);
        self.look_at_disk(number);
    }

    fn confirm(&mut self, number: usize, tags: Vec<u64>, result: &Result<(), String>) {
        for tag in tags {
            let event = RebalanceEvent::LocalCommit(tag, result.clone());
            self.for_rebalance(number, ForRebalance::Event(event));
        }
    }

    /// The process is gone in the middle of a write: there is the old content, or the new one.
    pub(super) fn write_breaks_off(&mut self, number: usize, write: Write) {
        if self.rng.chance(500) {
            self.replace_file(number, write.table);
        }
    }

    fn replace_file(&mut self, number: usize, table: Disk) {
        self.note(|| format!("the file of {number} holds {table:?}"));
        let disk = &mut self.disks[self.ledger.home(number)];
        let before = std::mem::replace(disk, table);
        let news: Vec<_> = disk.iter().filter(|(queue, to)| before.get(*queue) != Some(*to)).collect();
        for (queue, to) in news {
            self.next_call += 1;
            let place = self.ledger.place(number, queue);
            let before = before.get(queue).map(|offset| offset.wire());
            self.ledger.committed(number, place, self.next_call, to.wire(), before, self.now);
        }
    }

    /// What is stored for a queue, wherever that is: on a broker, or on this machine.
    pub(super) fn stored(&self, machine: usize, broker: usize, queue: usize) -> Option<i64> {
        let queue = &self.brokers[broker].queues[queue];
        match self.is_broadcasting() {
            true => self.disks[machine].get(&queue.queue).map(|offset| offset.wire()),
            false => queue.committed,
        }
    }

    /// A mutant: what was fetched counts as done.
    fn write_what_was_fetched(&mut self, number: usize, write: &mut Write) {
        let Some(member) = &self.members[number] else { return };
        for (id, owned) in &member.owned {
            if let Some(fetched) = member.expected.get(id).and_then(|wire| Offset::new(*wire)) {
                write.table.insert(owned.queue().clone(), fetched);
            }
        }
    }

    /// What a listener has had too long, another one gets: nobody but this member keeps failed messages.
    pub(super) fn show_late_messages_again(&mut self, number: usize) {
        let Some(member) = &self.members[number] else { return };
        for worker in &member.workers {
            if let Doing::Busy(call) = &worker.state
                && self.now >= call.since + self.plan.settings.consume_timeout
            {
                for index in &call.indices {
                    self.ledger.given_back(call.queue.id(), call.run.offset_of(*index).wire());
                }
            }
        }
    }

    /// Somebody begins anew where the last one has ended.
    pub(super) fn maybe_begin_anew(&mut self) {
        let soon = if self.plan.machines > 1 { 150 } else { 500 };
        if self.is_broadcasting() && self.has_room() && self.rng.chance(soon) {
            self.join();
        }
    }
}
