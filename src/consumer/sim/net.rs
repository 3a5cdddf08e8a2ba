//! The network: what is sent arrives later, or never, in any order, and connections end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::broker::Reply;
use super::core::{BROKERS, GROUP, Sink, address};
use super::locks::ForLock;
use super::member::{ForControl, ForPull, ForRebalance, Member, Outcome, Question};
use super::world::{Happening, World};
use crate::consumer::outside::{Outside, Request};
use crate::consumer::pulls::generation;
use crate::message::Subscription;
use crate::protocol::ResponseCode;
use crate::protocol::headers::PullMessage;

/// What goes to a broker.
pub(super) enum Wire {
    Consumer(Request),
    /// With what is subscribed, from a member of the group.
    Heartbeat(Option<Vec<Arc<Subscription>>>),
    Goodbye,
}

/// A request that was sent.
pub(super) struct Wired {
    pub(super) member: usize,
    pub(super) broker: usize,
    /// Where that is.
    pub(super) port: usize,
    pub(super) link: u64,
    /// Until it arrives.
    pub(super) wire: Option<Wire>,
    pub(super) sink: Sink,
    pub(super) tag: u64,
    /// Somebody waits for the answer: its connection is still there, and its deadline has not passed.
    pub(super) awaited: bool,
    /// The answer gets lost.
    pub(super) mute: bool,
    pub(super) sent: Instant,
}

impl World {
    /// Sends a request over the present connection, or over a new one.
    pub(super) fn send(&mut self, number: usize, broker: usize, wire: Wire, sink: Sink, tag: u64) {
        if self.is_about_locks(number, broker, &wire, sink, tag) {
            return;
        }
        let Some(link) = self.connection(number, broker) else {
            return self.comes_to_nothing(number, sink, tag, "unreachable");
        };
        if let Wire::Consumer(Request::Pull(on, _)) = &wire
            && *on != link
        {
            return self.comes_to_nothing(number, sink, tag, "not on this connection");
        }
        self.check_sent(number, broker, &wire, tag);
        self.next_call += 1;
        let call = self.next_call;
        let is_pull = matches!(wire, Wire::Consumer(Request::Pull(..)));
        let at_nobody = self.is_left(number, broker);
        let lost = at_nobody || self.quiet.is_none() && self.rng.chance(self.plan.drop);
        let arrives = !lost || !at_nobody && self.rng.chance(500);
        if lost {
            let timeout = if is_pull { PULL_TIMEOUT } else { REQUEST_TIMEOUT };
            self.later(timeout, Happening::Expire(call));
        }
        if arrives {
            let delay = self.transit() + self.lock_delay(&wire);
            self.later(delay, Happening::Arrive(call));
        }
        let wired = Wired {
            member: number,
            broker,
            port: self.brokers[broker].port,
            link,
            wire: Some(wire),
            sink,
            tag,
            awaited: true,
            mute: lost,
            sent: self.now,
        };
        self.calls.insert(call, wired);
    }

    pub(super) fn comes_to_nothing(&mut self, number: usize, sink: Sink, tag: u64, why: &str) {
        if sink == Sink::Pulls {
            self.ledger.pull_refused(tag);
        }
        let delay = self.rng.micros(10, 3000);
        self.later(delay, Happening::Outcome(number, sink, tag, Err(why.to_owned())));
    }

    /// The number of the open connection; opens one if the broker can be reached.
    fn connection(&mut self, number: usize, broker: usize) -> Option<u64> {
        let (now, down_until, port) = (self.now, self.brokers[broker].down_until, self.brokers[broker].port);
        let member = self.members[number].as_mut()?;
        let link = &mut member.links[broker];
        if !link.up {
            if now < link.down_until.max(down_until) || member.core.port(broker) != port {
                return None;
            }
            self.next_link += 1;
            link.number = self.next_link;
            (link.up, link.port) = (true, port);
            let (opened, address) = (link.number, address(broker, port));
            member.core.told.connection_began(&address, opened);
            if let Some(open) = &mut member.core.seen.borrow_mut().credulous {
                open[broker] = Some(opened);
            }
            self.for_control(number, ForControl::Up(broker, address));
            return Some(opened);
        }
        Some(link.number)
    }

    /// Whether the broker is somewhere else than where the open connection leads.
    fn is_left(&self, number: usize, broker: usize) -> bool {
        let member = self.members[number].as_ref();
        member.is_some_and(|member| member.links[broker].port != self.brokers[broker].port)
    }

    fn transit(&mut self) -> Duration {
        if self.quiet.is_none() && self.rng.chance(self.plan.slow) {
            return self.rng.millis(5, 700);
        }
        self.rng.micros(50, 2500)
    }

    /// Promises 1, 2, 3 and 12, where a request goes out.
    fn check_sent(&mut self, number: usize, broker: usize, wire: &Wire, tag: u64) {
        match wire {
            Wire::Consumer(Request::Pull(_, header)) => self.check_pull(number, broker, header, tag),
            Wire::Consumer(Request::Members(_)) => {
                let told =
                    self.members[number].as_ref().is_some_and(|one| one.acknowledged[broker].is_some());
                if !told {
                    self.ledger.break_promise(12, || {
                        format!("{number} asks {} for members before it was told", BROKERS[broker].0)
                    });
                }
            }
            Wire::Consumer(Request::Commit(header)) => {
                let queue = self.place(broker, &header.topic, header.queue_id);
                let to = header.commit_offset;
                self.note(|| format!("{number} commits {to} for {}/{}", header.topic, header.queue_id));
                self.ledger.commit_sent(number, queue, None, to);
            }
            Wire::Consumer(Request::Stored(header)) => {
                let queue = self.place(broker, &header.topic, header.queue_id);
                self.ledger.asks(number, queue, self.now);
            }
            _ => {}
        }
    }

    fn check_pull(&mut self, number: usize, broker: usize, header: &PullMessage, tag: u64) {
        let id = generation(tag);
        let (from, version) = (header.queue_offset, header.sub_version);
        let name = self.ledger.short(id);
        self.note(|| {
            let commit = header.commit_offset;
            format!(
                "{number} pulls {}/{} from {from} as {name}, commit {commit}",
                header.topic, header.queue_id
            )
        });
        self.ledger.pull_sent(tag, from);
        let queue = self.place(broker, &header.topic, header.queue_id);
        let Some(member) = &self.members[number] else { return };
        let told = member.acknowledged[broker].as_ref().and_then(|topics| topics.get(&header.topic));
        // Who brings its filter along need not be known, but has to have a connection that is.
        let is_told = match member.core.is_member() {
            true => told.is_some_and(|told| *told >= version),
            false => member.acknowledged[broker].is_some() && header.subscription.is_some(),
        };
        let expected = member.expected.get(&id).copied();
        if !is_told {
            self.ledger.break_promise(12, || {
                format!("{number} pulls {} with version {version}, which was not told", header.topic)
            });
        }
        if expected != Some(from) {
            self.ledger.break_promise(2, || {
                format!("{name} pulls from {from}, and was told to go on at {expected:?}")
            });
        }
        if header.sys_flag & COMMIT != 0 {
            self.ledger.commit_sent(number, queue, Some(id), header.commit_offset);
        }
    }

    /// The number of a queue in the ledger.
    pub(super) fn place(&self, broker: usize, topic: &str, id: i32) -> usize {
        let queue = self.brokers[broker].find(topic, id).expect("only queues of the model are named");
        self.brokers[broker].queues[queue].ledger
    }

    /// A request has arrived.
    pub(super) fn arrive(&mut self, id: u64) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let Some(wire) = call.wire.take() else { return };
        let (broker, port, member, link, awaited) =
            (call.broker, call.port, call.member, call.link, call.awaited);
        if !awaited {
            self.calls.remove(&id);
        }
        if self.now < self.brokers[broker].down_until || port != self.brokers[broker].port {
            return;
        }
        let refused = self.quiet.is_none() && self.rng.chance(self.plan.refuse);
        let reply = if refused {
            Some(Reply::Refused(REFUSALS[self.rng.below(REFUSALS.len())]))
        } else {
            self.process(id, broker, member, link, awaited, wire)
        };
        if let Some(reply) = reply {
            self.reply(id, reply);
        }
    }

    /// A broker answers.
    pub(super) fn reply(&mut self, id: u64, reply: Reply) {
        if self.calls.get(&id).is_some_and(|call| call.awaited && !call.mute) {
            let delay = self.transit();
            self.later(delay, Happening::Answer(id, reply));
        }
    }

    /// An answer has arrived. A late one finds nobody.
    pub(super) fn answer(&mut self, id: u64, reply: Reply) {
        let Some(call) = self.calls.remove(&id) else { return };
        if call.awaited {
            self.outcome(call.member, call.sink, call.tag, Ok(reply));
        }
    }

    /// The deadline of a request has passed.
    pub(super) fn expire(&mut self, id: u64) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        if std::mem::replace(&mut call.awaited, false) {
            let (member, sink, tag) = (call.member, call.sink, call.tag);
            if call.wire.is_none() {
                self.calls.remove(&id);
            }
            self.outcome(member, sink, tag, Err("timeout".to_owned()));
        }
    }

    /// The one outcome of a request goes to the loop that waits for it.
    pub(super) fn outcome(&mut self, number: usize, sink: Sink, tag: u64, outcome: Outcome) {
        match sink {
            Sink::Pulls => self.for_pull(number, ForPull::Pulled(tag, outcome)),
            Sink::Backs => self.for_pull(number, ForPull::Back(tag, outcome)),
            Sink::Rebalance => self.for_rebalance(number, ForRebalance::Answer(tag, outcome)),
            Sink::Locks => self.for_lock(number, ForLock::Answer(tag, outcome)),
            Sink::Control => {
                if let Some(member) = &mut self.members[number] {
                    member.heartbeat_answered(tag, &outcome);
                }
                self.for_control(number, ForControl::Answer(tag, outcome));
            }
        }
    }

    /// A connection ends.
    pub(super) fn cut(&mut self, number: usize, broker: usize) {
        let down_for = self.rng.millis(0, 600);
        let Some(member) = &mut self.members[number] else { return };
        let link = &mut member.links[broker];
        if !link.up {
            return;
        }
        link.up = false;
        link.down_until = if self.quiet.is_some() { self.now } else { self.now + down_for };
        let old = link.number;
        member.acknowledged[broker] = None;
        let address = address(broker, link.port);
        member.core.told.connection_ended(&address);
        if let Some(open) = &mut member.core.seen.borrow_mut().credulous {
            open[broker] = None;
        }
        self.note(|| format!("{number} loses its connection to {}", BROKERS[broker].0));
        self.for_control(number, ForControl::Down(address));
        self.lose_calls(number, broker);
        let noticed = self.rng.millis(0, 300);
        self.later(noticed, Happening::Closed(broker, number, old));
    }

    /// What was out on a connection that ended has no answer. What was written may have arrived all the same.
    pub(super) fn lose_calls(&mut self, number: usize, broker: usize) {
        let lost: Vec<u64> = self
            .calls
            .iter()
            .filter(|(_, call)| call.member == number && call.broker == broker && call.awaited)
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            let arrives_still = self.rng.chance(500);
            let Some(call) = self.calls.get_mut(&id) else { continue };
            call.awaited = false;
            let (sink, tag) = (call.sink, call.tag);
            if call.wire.is_none() || !arrives_still {
                self.calls.remove(&id);
            }
            self.comes_to_nothing(number, sink, tag, "the connection was lost");
        }
    }
}

impl Member {
    /// What is true from the moment in which the acknowledgement of a heartbeat arrives.
    fn heartbeat_answered(&mut self, tag: u64, outcome: &Outcome) {
        if let Ok(Reply::Done) = outcome
            && let Some(Question::Heartbeat { broker, link, content, .. }) = self.questions.get(&tag)
            && self.links[*broker].up
            && self.links[*broker].number == *link
        {
            let topics = content.consumers.get(GROUP).cloned().unwrap_or_default();
            self.acknowledged[*broker] = Some(topics.into_iter().collect());
        }
    }
}

const REFUSALS: [ResponseCode; 3] =
    [ResponseCode::SYSTEM_BUSY, ResponseCode::SYSTEM_ERROR, ResponseCode::FLOW_CONTROL];
/// As the real ones.
pub(super) const PULL_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
const COMMIT: i32 = 1;
