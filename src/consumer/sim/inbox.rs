//! What waits for the threads of a member, which wake some time after it has come.

use std::collections::VecDeque;
use std::time::Instant;

use super::core::SimCore;
use super::member::{ForControl, ForPull, ForRebalance};
use super::mutants::Mutant;
use super::world::{Happening, Loop, World};
use crate::client::Notice;
use crate::consumer::losses;
use crate::consumer::outside::Outside;
use crate::consumer::rebalance_loop::RebalanceEvent;

/// What waits for a thread.
pub(super) struct Inbox<T> {
    pub(super) items: VecDeque<T>,
    /// Its thread is about to run.
    pub(super) awake: bool,
    /// The machine gives it no time until then.
    pub(super) stalled: Option<Instant>,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), awake: false, stalled: None }
    }
}

impl World {
    pub(super) fn for_pull(&mut self, number: usize, item: ForPull) {
        if let Some(member) = &mut self.members[number] {
            member.pull.items.push_back(item);
            self.rouse(number, Loop::Pull);
        }
    }

    pub(super) fn for_rebalance(&mut self, number: usize, item: ForRebalance) {
        if let Some(member) = &mut self.members[number] {
            member.rebalance.items.push_back(item);
            self.rouse(number, Loop::Rebalance);
        }
    }

    pub(super) fn for_control(&mut self, number: usize, item: ForControl) {
        if let Some(member) = &mut self.members[number] {
            member.control.items.push_back(item);
            self.rouse(number, Loop::Control);
        }
    }

    pub(super) fn notice(&mut self, number: usize, notice: Notice) {
        if let Some(core) = self.core(number) {
            self.look_for_losses(number, &core, &notice);
            self.for_rebalance(number, ForRebalance::Event(RebalanceEvent::Notice(core, notice)));
        }
    }

    /// Before anything else hears of it: what a broker has granted is not certain any more once its connection is lost, or
    /// it has moved.
    fn look_for_losses(&mut self, number: usize, core: &SimCore, notice: &Notice) {
        let (broker, unnoticed) = match notice {
            Notice::Disconnected { address, .. } => (core.broker_name(address), Mutant::LockLossNotNoticed),
            Notice::BrokerMoved { name } => (Some(name.clone()), Mutant::MoveNotNoticed),
            _ => return,
        };
        if let Some(broker) = broker {
            self.ledger.doubts_locks(number, &broker, self.now);
        }
        if !self.is(unnoticed) {
            losses::look(core, notice);
        }
    }

    /// Something has come for a loop: its thread wakes, some time.
    pub(super) fn rouse(&mut self, number: usize, which: Loop) {
        let Some(member) = &mut self.members[number] else { return };
        let (awake, stalled) = match which {
            Loop::Pull => (&mut member.pull.awake, member.pull.stalled),
            Loop::Rebalance => (&mut member.rebalance.awake, member.rebalance.stalled),
            Loop::Control => (&mut member.control.awake, member.control.stalled),
            Loop::Lock => (&mut member.lock.awake, member.lock.stalled),
        };
        if std::mem::replace(awake, true) {
            return;
        }
        let delay = match self.rng.below(100) {
            0..70 => self.rng.micros(5, 200),
            70..98 => self.rng.micros(200, 4000),
            _ => self.rng.millis(4, 60),
        };
        let at = (self.now + delay).max(stalled.unwrap_or(self.now));
        self.at(at, Happening::Run(number, which));
    }

    /// A thread runs, unless the machine gives it no time.
    pub(super) fn run_loop(&mut self, number: usize, which: Loop) {
        let now = self.now;
        let Some(member) = &mut self.members[number] else { return };
        let (awake, stalled) = match which {
            Loop::Pull => (&mut member.pull.awake, &mut member.pull.stalled),
            Loop::Rebalance => (&mut member.rebalance.awake, &mut member.rebalance.stalled),
            Loop::Control => (&mut member.control.awake, &mut member.control.stalled),
            Loop::Lock => (&mut member.lock.awake, &mut member.lock.stalled),
        };
        if let Some(until) = *stalled
            && now < until
        {
            *awake = true;
            return self.at(until, Happening::Run(number, which));
        }
        *stalled = None;
        *awake = false;
        match which {
            Loop::Pull => self.run_pull(number),
            Loop::Rebalance => self.run_rebalance(number),
            Loop::Control => self.run_control(number),
            Loop::Lock => self.run_lock(number),
        }
    }
}
