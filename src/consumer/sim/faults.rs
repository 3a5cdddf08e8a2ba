//! What happens to a run: members that come and go, connections and brokers that fail, operators that interfere.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;

use super::broker::FIRST_PORT;
use super::broker::Message;
use super::core::{BROKERS, RETRY_TOPIC, Seen, SimCore};
use super::member::{ForControl, ForPull, ForRebalance, Leaving, Member};
use super::mutants::Mutant;
use super::net::Wire;
use super::rng::Rng;
use super::world::{Happening, Loop, World};
use crate::consumer::offset::Offset;
use crate::consumer::outside::{Outside, Request, Subscriptions};
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::message::{Filter, MessageQueue, Subscription};
use crate::protocol::headers::UpdateConsumerOffset;

/// The tags of messages. `Aa` and `BB` have the same hash, so that a broker takes one for the other.
pub(super) const TAGS: [&str; 5] = ["a", "b", "c", "Aa", "BB"];
const FILTERS: [&str; 3] = ["*", "a || b", "a || BB"];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Cut,
    Join,
    Leave,
    Kill,
    Suspend,
    Resume,
    ResetByMembers,
    ResetByBroker,
    Restart,
    Crash,
    Save,
    Truncate,
    Resubscribe,
    Flicker,
    Rebuild,
    Stall,
    Spurious,
    Locks,
    Move,
}

const KINDS: [(u64, Kind); 18] = [
    (8, Kind::Cut),
    (6, Kind::Join),
    (4, Kind::Leave),
    (3, Kind::Kill),
    (3, Kind::Suspend),
    (6, Kind::Resume),
    (2, Kind::ResetByMembers),
    (2, Kind::ResetByBroker),
    (1, Kind::Restart),
    (2, Kind::Crash),
    (4, Kind::Save),
    (1, Kind::Truncate),
    (2, Kind::Resubscribe),
    (1, Kind::Flicker),
    (2, Kind::Rebuild),
    (4, Kind::Stall),
    (2, Kind::Spurious),
    (4, Kind::Locks),
];

impl World {
    /// A member joins the group.
    pub(super) fn join(&mut self) {
        let number = self.members.len();
        let machine = self.free_machine();
        self.ledger.settles(machine);
        self.version += 1;
        let known = self.rng.chance(900);
        let mut subscriptions = Subscriptions::new();
        for (topic, filter) in &self.filters {
            subscriptions.insert(topic.as_str().into(), subscription(topic, filter, self.version));
        }
        if self.plan.has_retries() {
            subscriptions.insert(RETRY_TOPIC.into(), subscription(RETRY_TOPIC, "*", self.version));
        }
        let choice = self.first_choice();
        if let Some((_, chosen)) = &choice {
            subscriptions.clone_from(chosen);
        }
        let credulous = self.is(Mutant::PullBeforeHeartbeat).then(|| vec![None; self.brokers.len()]);
        let seen = Seen {
            base: self.base,
            now: self.now,
            subscriptions: Arc::new(subscriptions),
            suspended: false,
            routes: Default::default(),
            ports: vec![FIRST_PORT; self.brokers.len()],
            credulous,
        };
        let rng = Rng::new(self.rng.next());
        let mut core = SimCore::new(number, self.plan.settings.clone(), self.plan.cache, seen, rng);
        core.local = self.open_disk(machine);
        core.auto = self.plan.polled;
        core.assigned = RefCell::new(choice.map(|(choice, _)| choice));
        core.own_offsets = self.plan.own_offsets;
        core.fragile.set(if self.quiet.is_some() { 0 } else { 3 });
        let member = Member::new(core, self.brokers.len(), self.now);
        self.note(|| format!("{number} joins"));
        self.members.push(Some(member));
        let Some(core) = self.core(number) else { return };
        let (ready, _) = bounded(1);
        self.for_rebalance(number, ForRebalance::Event(RebalanceEvent::Start { core, ready }));
        if self.is_in_order() {
            self.rouse(number, Loop::Lock);
        }
        if known {
            let topics: Vec<String> = self.filters.keys().cloned().collect();
            topics.into_iter().for_each(|topic| self.name_server_answers(number, topic));
        }
        self.later(Duration::from_secs(10), Happening::RoutePoll(number));
        self.begin_program(number);
    }

    /// A message is sent to some queue.
    pub(super) fn produce(&mut self) {
        let broker = self.rng.below(self.brokers.len());
        let queues: Vec<usize> = (0..self.brokers[broker].queues.len())
            .filter(|queue| self.brokers[broker].queues[*queue].queue.topic() != RETRY_TOPIC)
            .collect();
        let queue = queues[self.rng.below(queues.len())];
        let tag = TAGS[self.rng.below(TAGS.len())];
        self.send_message(broker, queue, tag);
    }

    pub(super) fn send_message(&mut self, broker: usize, queue: usize, tag: &'static str) {
        self.next_message += 1;
        let mut message = Message::new(self.next_message, tag);
        message.damaged = self.quiet.is_none() && self.rng.chance(10);
        self.append(broker, queue, message);
    }

    /// Something goes wrong, or somebody does something.
    pub(super) fn trouble(&mut self) {
        if self.quiet.is_some() {
            return;
        }
        let moves = self.plan.moves && self.rng.chance(80);
        let kind = if moves { Kind::Move } else { self.rng.weighted(&KINDS) };
        let live: Vec<usize> = self.live();
        let member = live.get(self.rng.below(live.len())).copied();
        let broker = self.rng.below(self.brokers.len());
        match (kind, member) {
            (Kind::Join, _) => {
                if live.len() < self.plan.most_members && self.has_room() {
                    self.join();
                }
            }
            (Kind::Move, _) => self.move_broker(broker),
            (Kind::Restart, _) => self.restart(broker, false),
            (Kind::Crash, _) => self.restart(broker, true),
            (Kind::Save, _) => {
                self.brokers[broker].queues.iter_mut().for_each(|queue| queue.saved = queue.committed);
            }
            (Kind::Truncate, _) => self.truncate(broker),
            (Kind::ResetByBroker, _) => self.reset_by_broker(broker),
            (Kind::ResetByMembers, _) => self.reset_by_members(broker),
            (Kind::Resubscribe, _) => self.resubscribe(),
            (_, None) => {}
            (Kind::Cut, Some(member)) => self.cut(member, broker),
            (Kind::Leave, Some(member)) => self.leave(member),
            (Kind::Kill, Some(member)) => {
                self.note(|| format!("{member} is killed"));
                self.remove(member);
            }
            (Kind::Suspend, Some(member)) => self.suspend(member, true),
            (Kind::Resume, Some(member)) => self.suspend(member, false),
            (Kind::Flicker, Some(member)) => self.flicker(member),
            (Kind::Rebuild, Some(member)) => self.rebuild(member),
            (Kind::Stall, Some(member)) => self.stall(member),
            (Kind::Locks, Some(member)) => self.trouble_with_locks(member, broker),
            (Kind::Spurious, Some(member)) => {
                self.for_control(member, ForControl::Tell(crate::client::Notice::ConsumerIdsChanged));
            }
        }
        self.maybe_begin_anew();
        let pause = self.plan.pause.mul_f64(0.2 + 1.6 * self.rng.fraction());
        self.later(pause, Happening::Trouble);
    }

    /// Members that are not on their way out.
    pub(super) fn live(&self) -> Vec<usize> {
        let stays = |member: &Option<Member>| member.as_ref().is_some_and(|member| member.leaving.is_none());
        (0..self.members.len()).filter(|number| stays(&self.members[*number])).collect()
    }

    /// A member shuts down, in some time.
    fn leave(&mut self, number: usize) {
        let grace = self.rng.millis(100, 6000);
        let Some(core) = self.core(number) else { return };
        self.note(|| format!("{number} leaves within {grace:?}"));
        let reserve = (grace / 3).min(Duration::from_secs(2));
        let (done, report) = bounded(1);
        let (listeners, end) = (self.now + grace - reserve, self.now + grace);
        let owned = self.ledger.open_ones(number);
        if let Some(member) = &mut self.members[number] {
            member.leaving = Some(Leaving { report, owned, said_goodbye: false });
            if let Some(program) = &mut member.program {
                program.stopped = true;
            }
        }
        let event = RebalanceEvent::Shutdown { core, listeners, end, done };
        self.for_rebalance(number, ForRebalance::Event(event));
        self.at(end, Happening::LeaveEnd(number));
    }

    /// A member is no more.
    pub(super) fn remove(&mut self, number: usize) {
        let Some(mut member) = self.members[number].take() else { return };
        if let Some(write) = member.writing.take() {
            self.write_breaks_off(number, write);
        }
        self.ledger.gone(number);
        for (broker, link) in member.links.iter().enumerate().filter(|(_, link)| link.up) {
            self.lose_calls(number, broker);
            let noticed = self.rng.millis(0, 300);
            self.later(noticed, Happening::Closed(broker, number, link.number));
        }
    }

    pub(super) fn restart(&mut self, broker: usize, crashed: bool) {
        self.begin_anew(broker, crashed);
        for number in 0..self.members.len() {
            self.cut(number, broker);
        }
    }

    /// A broker ends and begins, without a word to those who are connected to it.
    pub(super) fn begin_anew(&mut self, broker: usize, crashed: bool) {
        let down_for = self.rng.millis(20, 1500);
        self.note(|| format!("{} restarts, crashed: {crashed}", BROKERS[broker].0));
        // A reset that no pull has met is lost.
        let reset = self.brokers[broker].queues.iter().filter(|queue| queue.reset_to.is_some());
        reset.for_each(|queue| self.ledger.went_back_everywhere(queue.ledger));
        self.brokers[broker].restart(crashed, self.now + down_for);
        self.brokers[broker].locks.forget();
        if crashed {
            for queue in 0..self.brokers[broker].queues.len() {
                let place = self.brokers[broker].queues[queue].ledger;
                self.ledger.went_back_everywhere(place);
                self.lose_the_end(broker, queue);
            }
        }
    }

    /// Messages that a crash has taken are nobody's any more, nor are those that take their offsets.
    fn lose_the_end(&mut self, broker: usize, queue: usize) {
        if self.rng.chance(850) {
            return;
        }
        let lost = self.rng.below(4);
        let queue = &mut self.brokers[broker].queues[queue];
        let max = queue.max();
        let kept = (max - lost as i64).max(queue.min);
        queue.messages.truncate(kept as usize);
        self.ledger.excuse_everywhere(queue.ledger, kept..max);
    }

    fn truncate(&mut self, broker: usize) {
        let queue = self.rng.below(self.brokers[broker].queues.len());
        let queue = &mut self.brokers[broker].queues[queue];
        let cut = self.rng.below((queue.max() - queue.min) as usize + 1) as i64;
        queue.min += cut;
        let (name, min, place) = (queue.queue.clone(), queue.min, queue.ledger);
        self.note(|| format!("{name} begins at {min} now"));
        self.ledger.excuse_everywhere(place, 0..min);
    }

    fn some_queue(&mut self, broker: usize) -> (usize, MessageQueue, Offset) {
        let queue = self.rng.below(self.brokers[broker].queues.len());
        let one = &self.brokers[broker].queues[queue];
        let to = one.min + self.rng.below((one.max() - one.min) as usize + 1) as i64;
        (queue, one.queue.clone(), Offset::new(to).expect("between two offsets"))
    }

    fn reset_by_broker(&mut self, broker: usize) {
        let (queue, name, to) = self.some_queue(broker);
        self.note(|| format!("{name} is reset to {to} on the broker"));
        let place = self.brokers[broker].queues[queue].ledger;
        if !self.is_broadcasting() {
            // Of those, who meets it says so.
            self.ledger.excuse(place, 0..to.wire());
        }
        self.ledger.went_back_everywhere(place);
        self.brokers[broker].queues[queue].reset_to = Some(to.wire());
        let held = std::mem::take(&mut self.brokers[broker].held);
        for one in held {
            match self.brokers[broker].pull(&one.header, one.queue, false) {
                Some(reply) => self.reply(one.call, reply),
                None => self.brokers[broker].held.push(one),
            }
        }
    }

    fn reset_by_members(&mut self, broker: usize) {
        let (_, name, to) = self.some_queue(broker);
        for number in 0..self.members.len() {
            if let Some(core) = self.core(number).filter(|core| core.is_member()) {
                let offsets = vec![(name.clone(), to)];
                let event = RebalanceEvent::Reset { core, offsets };
                self.for_rebalance(number, ForRebalance::Event(event));
            }
        }
    }

    /// The text of a subscription changes, at one member after the other.
    fn resubscribe(&mut self) {
        let topics: Vec<String> = self.filters.keys().cloned().collect();
        let topic = &topics[self.rng.below(topics.len())];
        let filter = FILTERS[self.rng.below(FILTERS.len())];
        self.filters.insert(topic.clone(), filter);
        for number in self.live() {
            let delay = self.rng.millis(0, 100);
            self.later(delay, Happening::Subscribe(number, topic.clone()));
        }
    }

    /// As `PushConsumer::subscribe`.
    pub(super) fn subscribe(&mut self, number: usize, topic: &str) {
        let filter = self.filters[topic];
        let Some(core) = self.core(number).filter(|core| core.is_member()) else { return };
        if core.subscription(topic).is_some_and(|known| known.expression == filter) {
            return;
        }
        self.version += 1;
        let version = self.version;
        self.note(|| format!("{number} subscribes {topic} {filter} as {version}"));
        let new = subscription(topic, filter, version);
        Arc::make_mut(&mut core.seen.borrow_mut().subscriptions).insert(topic.into(), new);
        self.subscriptions_changed(number);
    }

    /// A topic is given up and subscribed again.
    fn flicker(&mut self, number: usize) {
        let topics: Vec<String> = self.filters.keys().cloned().collect();
        let topic = topics[self.rng.below(topics.len())].clone();
        let Some(core) = self.core(number).filter(|core| core.is_member()) else { return };
        self.note(|| format!("{number} unsubscribes {topic}"));
        Arc::make_mut(&mut core.seen.borrow_mut().subscriptions).remove(topic.as_str());
        self.subscriptions_changed(number);
        let delay = self.rng.weighted(&[(1, 0), (1, 1), (1, 100), (1, 2000)]);
        let delay = self.rng.millis(0, delay);
        self.later(delay, Happening::Subscribe(number, topic));
    }

    fn subscriptions_changed(&mut self, number: usize) {
        let Some(core) = self.core(number) else { return };
        self.for_control(number, ForControl::Heartbeat(None));
        self.for_rebalance(number, ForRebalance::Event(RebalanceEvent::Subscribed(core)));
        self.for_pull(number, ForPull::Event(PullEvent::NudgeAll));
    }

    pub(super) fn suspend(&mut self, number: usize, suspended: bool) {
        let Some(core) = self.core(number) else { return };
        core.seen.borrow_mut().suspended = suspended;
        self.for_pull(number, ForPull::Event(PullEvent::NudgeAll));
    }

    /// The pull loop has met a bug while working for a queue.
    fn rebuild(&mut self, number: usize) {
        let Some(member) = &mut self.members[number] else { return };
        let ids: Vec<u64> = member.owned.keys().copied().collect();
        if let Some(id) = ids.get(self.rng.below(ids.len())).copied() {
            if let Some(member) = &mut self.members[number] {
                member.fetching.pulls.detach(id);
            }
            let name = self.ledger.short(id);
            self.note(|| format!("{number} rebuilds {name}"));
            self.for_rebalance(number, ForRebalance::Event(RebalanceEvent::Rebuild(id)));
        }
    }

    /// The machine gives a thread no time for a while.
    fn stall(&mut self, number: usize) {
        let until = self.now + self.rng.millis(20, 1500);
        let which = [Loop::Pull, Loop::Rebalance, Loop::Control][self.rng.below(3)];
        let Some(member) = &mut self.members[number] else { return };
        match which {
            Loop::Pull => member.pull.stalled = Some(until),
            Loop::Rebalance => member.rebalance.stalled = Some(until),
            Loop::Control => member.control.stalled = Some(until),
            Loop::Lock => member.lock.stalled = Some(until),
        }
    }

    /// A mutant: the watermark of a queue that was reset is committed all the same.
    pub(super) fn commit_the_watermark(&mut self, number: usize, queue: &MessageQueue, to: i64) {
        let broker = BROKERS.iter().position(|(name, _)| *name == queue.broker_name());
        let mut owned = self.members[number].iter().flat_map(|member| member.owned.values());
        let Some(process) = owned.rfind(|process| process.queue() == queue) else { return };
        let watermark = process.watermark().wire();
        if let Some(broker) = broker
            && watermark != to
        {
            let header = UpdateConsumerOffset {
                consumer_group: super::core::GROUP.to_owned(),
                topic: queue.topic().to_owned(),
                queue_id: queue.queue_id(),
                commit_offset: watermark,
                bname: None,
            };
            let wire = Wire::Consumer(Request::Commit(header));
            self.send(number, broker, wire, super::core::Sink::Rebalance, u64::MAX);
        }
    }
}

pub(super) fn subscription(topic: &str, filter: &str, version: i64) -> Arc<Subscription> {
    Arc::new(Subscription::parse(topic, &Filter::from(filter), version).expect("a plain filter"))
}
