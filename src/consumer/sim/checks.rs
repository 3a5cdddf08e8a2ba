//! Promise 4 and 5, at every step.

use super::member::{Doing, ForRebalance, Member, Worker};
use super::world::World;
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
const LONGEST_MESSAGE: usize = 250;
