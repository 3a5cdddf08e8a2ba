//! Promise 4 and 5, at every step; and the end of a run: everything has moved.

use super::core::RETRY_TOPIC;
use super::member::{Doing, ForRebalance, Member, Worker};
use super::world::{Happening, World};
use crate::client::Role;
use crate::consumer::fetch::{Pause, State};
use crate::consumer::outside::Outside;
use crate::consumer::process_queue::{Load, ProcessQueue};
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::consumer::timer_loop::Due;
use crate::message::Subscription;
use std::sync::Arc;
use std::time::Duration;

impl World {
    /// The pull loop of a member has nothing more to do: every queue that it owns is pulling, or has a reason.
    pub(super) fn check_pulls(&mut self, number: usize) {
        let Some(member) = &self.members[number] else { return };
        let batch = self.plan.settings.pull_batch_size as usize;
        let mut problem = None;
        for (id, queue) in member.owned.iter().filter(|(_, queue)| !queue.is_closed()) {
            let wrong = match member.fetching.pulls.state(*id) {
                Some(state) => self.groundless(member, *id, queue, state),
                None if is_being_rebuilt(member, *id) => None,
                // It is given up, or subscribed again, which is told.
                None if member.core.subscription(queue.queue().topic()).is_none() => None,
                None => Some("is fetched by nobody".to_owned()),
            };
            if let Some(wrong) = wrong {
                let name = queue.queue();
                problem =
                    Some((4, format!("{number} owns {name} as {}, which {wrong}", self.ledger.short(*id))));
            }
            let (load, limits) = (queue.load(), queue.limits());
            if load.messages >= limits.messages + batch || load.span >= limits.span.saturating_add(batch) {
                problem =
                    Some((5, format!("{number} has {load:?} of {}, allowed are {limits:?}", queue.queue())));
            }
        }
        let most = self.plan.cache + member.owned.len() * batch * LONGEST_MESSAGE;
        let used = member.core.budget().used();
        if used > most {
            problem = Some((5, format!("{number} has cached {used} bytes, and may {most} at most")));
        }
        if let Some((promise, problem)) = problem {
            self.ledger.break_promise(promise, || problem);
        }
    }

    /// What is wrong with a state, if its reason does not hold.
    fn groundless(&self, member: &Member, id: u64, queue: &ProcessQueue, state: &State) -> Option<String> {
        let core = &member.core;
        let topic = queue.queue().topic();
        let told = || {
            let address = core.broker_address(queue.queue().broker_name(), Role::Master);
            let told = |subscription: Arc<Subscription>| {
                address.is_some_and(|(address, _)| core.is_told(&address, topic, subscription.version))
            };
            core.subscription(topic).is_some_and(told)
        };
        let holds = match state {
            State::InFlight { .. } => {
                member.fetching.pulls.tag(id).is_some_and(|tag| self.ledger.is_pulling(tag))
            }
            State::Ready => false,
            State::Waiting { until, .. } => member.timers.contains(&(*until, Due::Pull(id))),
            State::Parked { why } => match why {
                // In order, whoever finishes the last message of a run says so, and nothing is consumed before.
                Pause::FlowControl if self.is_in_order() => queue.load().messages > 0,
                Pause::FlowControl => is_high(&queue.load(), queue) || self.will_move(member, queue),
                Pause::CacheLimit => core.budget().is_exhausted() && queue.load().bytes > 0,
                Pause::Suspended => core.is_suspended() || core.is_paused(queue.queue()),
                Pause::NoRoute => core.broker_address(queue.queue().broker_name(), Role::Master).is_none(),
                // News of a heartbeat come by way of the rebalance loop.
                Pause::NoHeartbeat => !told() || !member.rebalance.items.is_empty(),
                _ => false,
            },
        };
        (!holds).then(|| format!("is {} without reason, with {:?}", self.state(member, id), queue.load()))
    }

    /// Whether something other than long listener calls will look at the runs of a queue.
    fn will_move(&self, member: &Member, queue: &ProcessQueue) -> bool {
        let stuck = |worker: &Worker| match &worker.state {
            Doing::Busy(call) if call.queue.id() == queue.id() && self.now > call.since + SHORT => {
                call.indices.iter().filter(|index| !call.run.claims.is_finished(**index)).count()
            }
            _ => 0,
        };
        queue.load().messages > member.workers.iter().map(stuck).sum()
    }

    /// How the fetching of a generation stands, with times relative to now.
    pub(super) fn state(&self, member: &Member, id: u64) -> String {
        match member.fetching.pulls.state(id) {
            None => "not fetched".to_owned(),
            Some(State::InFlight { since }) => format!("in flight for {:?}", self.now.duration_since(*since)),
            Some(State::Waiting { until, why }) => {
                format!("waiting for another {:?}: {why:?}", until.saturating_duration_since(self.now))
            }
            Some(state) => format!("{state:?}"),
        }
    }

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
        if self.live().is_empty() && self.has_room() {
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
        for broker in 0..self.brokers.len() {
            for queue in 0..self.brokers[broker].queues.len() {
                let one = &self.brokers[broker].queues[queue];
                let (max, committed, place) = (one.max(), self.stored(broker, queue), one.ledger);
                let topic = one.queue.topic().to_owned();
                let owners: Vec<u64> = self
                    .members
                    .iter()
                    .flatten()
                    .flat_map(|member| member.owned.values())
                    .filter(|owned| *owned.queue() == one.queue && !owned.is_closed())
                    .map(|owned| owned.id())
                    .collect();
                let [owner] = owners[..] else { return false };
                if self.ledger.low(place) < max {
                    return false;
                }
                if self.last_words && committed != Some(max) && topic != RETRY_TOPIC {
                    // A member that did not know that it had lost the queue may have taken back what its owner had
                    // committed, who commits again with the next message. And one that had finished messages which
                    // the broker lost with its end may have left an offset that the queue has to grow up to. And a
                    // program that commits has nothing to commit where nothing was ever stored and it began at the end.
                    let began_at_end = self.plan.polled == Some(false)
                        && committed.is_none()
                        && self.ledger.start_of(owner) == max;
                    if committed > Some(max) || began_at_end || self.ledger.may_mend(place, self.now) {
                        self.send_message(broker, queue, "a");
                    }
                    return false;
                }
            }
        }
        true
    }
}

/// Whether the group is about to make this generation anew, or to go on elsewhere.
fn is_being_rebuilt(member: &Member, id: u64) -> bool {
    member.rebalance.items.iter().any(|item| match item {
        ForRebalance::Event(RebalanceEvent::Rebuild(other)) => *other == id,
        ForRebalance::Event(RebalanceEvent::Corrected { id: other, .. }) => *other == id,
        _ => false,
    })
}

/// Whether it holds more than what lets a queue go on that had stopped for its limits.
fn is_high(load: &Load, queue: &ProcessQueue) -> bool {
    let above = |load: usize, limit: usize| load > limit / 4 * 3;
    let limits = queue.limits();
    above(load.messages, limits.messages) || above(load.bytes, limits.bytes) || above(load.span, limits.span)
}

/// A call that has lasted longer may last for hours.
const SHORT: Duration = Duration::from_millis(250);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longer than every back-off, timeout and delay together.
const PATIENCE: Duration = Duration::from_secs(300);
const LONGEST_MESSAGE: usize = 250;
