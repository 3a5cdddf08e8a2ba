//! What brokers and name servers do with what arrives.

use super::broker::{Held, Message, Reply, Returned};
use super::core::{BROKERS, RETRY_TOPIC};
use super::faults::TAGS;
use super::member::{ForControl, Route};
use super::mutants::Mutant;
use super::net::Wire;
use super::plan::DELAY_STEP;
use super::world::{Happening, World};
use crate::consumer::outside::Request;
use crate::message::MessageQueue;
use crate::protocol::ResponseCode;
use crate::protocol::headers::PullMessage;

impl World {
    /// A broker processes a request. `None`: it answers later, or not at all.
    pub(super) fn process(
        &mut self,
        call: u64,
        broker: usize,
        member: usize,
        link: u64,
        awaited: bool,
        wire: Wire,
    ) -> Option<Reply> {
        match wire {
            // Whoever is on a connection that has ended is no member.
            Wire::Heartbeat(_) | Wire::Goodbye if !awaited => None,
            Wire::Heartbeat(None) => Some(Reply::Done),
            Wire::Heartbeat(Some(subscriptions)) => {
                let (news, is_new) = self.brokers[broker].heartbeat(member, link, &subscriptions);
                if is_new {
                    self.add_queue(broker, RETRY_TOPIC, 0);
                }
                if news {
                    self.tell_members(broker);
                }
                Some(Reply::Done)
            }
            Wire::Goodbye => {
                if self.brokers[broker].members.remove(&member).is_some() {
                    self.tell_members(broker);
                }
                Some(Reply::Done)
            }
            Wire::Consumer(request) => self.consumer_asks(call, broker, member, awaited, request),
        }
    }

    fn consumer_asks(
        &mut self,
        call: u64,
        broker: usize,
        member: usize,
        awaited: bool,
        request: Request,
    ) -> Option<Reply> {
        let find = |world: &Self, topic: &str, id| {
            world.brokers[broker].find(topic, id).expect("only queues of the model are named")
        };
        Some(match request {
            Request::Pull(_, header) => return self.pulled(call, broker, member, awaited, *header),
            Request::SendBack(header) => match self.brokers[broker].send_back(&header) {
                Some(returned) => self.take_back(broker, member, returned),
                None => Reply::Refused(ResponseCode::SYSTEM_ERROR),
            },
            Request::Send(header, _) => match self.brokers[broker].send(&header, &TAGS) {
                Some(returned) => self.take_back(broker, member, returned),
                None => Reply::Refused(ResponseCode::SYSTEM_ERROR),
            },
            Request::Members(_) => self.members_of(broker),
            Request::Stored(header) => {
                let queue = find(self, &header.topic, header.queue_id);
                Reply::Stored(self.brokers[broker].queues[queue].committed)
            }
            Request::Max(header) => {
                let queue = find(self, &header.topic, header.queue_id);
                Reply::Offset(self.brokers[broker].queues[queue].max())
            }
            Request::Min(header) => {
                let queue = find(self, &header.topic, header.queue_id);
                Reply::Offset(self.brokers[broker].queues[queue].min)
            }
            Request::Lock(body) => self.lock(call, broker, member, &body),
            Request::Unlock(body) => self.unlock(broker, member, &body),
            Request::Time(_) | Request::Connections(_) | Request::RunningInfo(_) => {
                Reply::Refused(ResponseCode::REQUEST_CODE_NOT_SUPPORTED)
            }
            Request::Commit(header) => {
                let queue = find(self, &header.topic, header.queue_id);
                self.commit(broker, member, queue, call, header.commit_offset);
                Reply::Done
            }
        })
    }

    fn commit(&mut self, broker: usize, member: usize, queue: usize, call: u64, to: i64) {
        let queue = &mut self.brokers[broker].queues[queue];
        let before = queue.committed.replace(to);
        let place = queue.ledger;
        self.ledger.committed(member, place, call, to, before, self.now);
    }

    fn pulled(
        &mut self,
        call: u64,
        broker: usize,
        member: usize,
        awaited: bool,
        header: PullMessage,
    ) -> Option<Reply> {
        let queue = self.brokers[broker].find(&header.topic, header.queue_id)?;
        if header.sys_flag & COMMIT != 0 {
            self.commit(broker, member, queue, call, header.commit_offset);
        }
        let torn = self.quiet.is_none() && self.rng.chance(5);
        let reply = self.brokers[broker].pull(&header, queue, torn);
        if reply.is_none() && awaited {
            let hold = self.rng.millis(1000, 15_000);
            self.later(hold, Happening::HoldEnd(broker, call));
            self.brokers[broker].held.push(Held { call, queue, header });
        }
        reply
    }

    /// A broker holds a message again.
    fn take_back(&mut self, broker: usize, member: usize, returned: Returned) -> Reply {
        let (queue, offset) = returned.from;
        let place = self.ledger.number(&queue);
        self.note(|| {
            format!("{} holds {queue} offset {offset} again, level {:?}", BROKERS[broker].0, returned.level)
        });
        self.ledger.hold(member, place, offset);
        if let Some(level) = returned.level {
            if self.brokers[broker].find(RETRY_TOPIC, 0).is_none() {
                self.add_queue(broker, RETRY_TOPIC, 0);
            }
            let retries = self.brokers[broker].find(RETRY_TOPIC, 0).expect("made just now");
            self.delayed += 1;
            let delay = DELAY_STEP * level;
            self.later(delay, Happening::Deliver(broker, retries, returned.message));
        }
        // Stored, if not as safely as it should be.
        match self.rng.below(10) {
            0 => Reply::Refused(ResponseCode::FLUSH_DISK_TIMEOUT),
            _ => Reply::Done,
        }
    }

    fn members_of(&mut self, broker: usize) -> Reply {
        let mut members: Vec<usize> = self.brokers[broker].members.keys().copied().collect();
        if members.is_empty() {
            return Reply::Refused(ResponseCode::SYSTEM_ERROR);
        }
        if self.quiet.is_none() && self.rng.chance(20) {
            let missing = self.rng.below(members.len());
            members.remove(missing);
        }
        Reply::Members(members)
    }

    /// The members of the group, or what they subscribe, have changed.
    pub(super) fn tell_members(&mut self, broker: usize) {
        let members: Vec<usize> = self.brokers[broker].members.keys().copied().collect();
        for member in members {
            let delay = self.rng.micros(50, 3000);
            self.later(delay, Happening::IdsChanged(member));
        }
    }

    pub(super) fn append(&mut self, broker: usize, queue: usize, message: Message) {
        self.brokers[broker].append(queue, message);
        let delay = self.rng.micros(0, 1000);
        self.later(delay, Happening::Recheck(broker, queue));
    }

    /// Held pulls of a queue are looked at again.
    pub(super) fn recheck(&mut self, broker: usize, queue: usize) {
        let held = std::mem::take(&mut self.brokers[broker].held);
        for one in held {
            if one.queue != queue {
                self.brokers[broker].held.push(one);
                continue;
            }
            match self.brokers[broker].pull(&one.header, queue, false) {
                Some(reply) => self.reply(one.call, reply),
                None => self.brokers[broker].held.push(one),
            }
        }
    }

    pub(super) fn hold_ends(&mut self, broker: usize, call: u64) {
        let held = &mut self.brokers[broker].held;
        if let Some(index) = held.iter().position(|one| one.call == call) {
            let one = held.swap_remove(index);
            let reply = self.brokers[broker].nothing(&one);
            self.reply(call, reply);
        }
    }

    pub(super) fn broker_notices(&mut self, broker: usize, member: usize, link: u64) {
        let calls = &self.calls;
        let there = |one: &Held| calls.get(&one.call).is_some_and(|call| call.awaited);
        self.brokers[broker].held.retain(there);
        if self.brokers[broker].members.get(&member) == Some(&link) {
            self.brokers[broker].members.remove(&member);
            self.tell_members(broker);
        }
    }

    /// A member wants a route.
    pub(super) fn ask_route(&mut self, number: usize, topic: String) {
        let Some(member) = &mut self.members[number] else { return };
        if member.asking_routes.insert(topic.clone()) {
            let delay = self.rng.millis(1, 30);
            self.later(delay, Happening::Route(number, topic));
        }
    }

    pub(super) fn name_server_answers(&mut self, number: usize, topic: String) {
        let (machines, home) = (self.plan.machines, self.ledger.home(number));
        let shares = self.is(Mutant::BroadcastIsShared);
        let queues: Vec<MessageQueue> = self
            .brokers
            .iter()
            .flat_map(|broker| &broker.queues)
            .filter(|queue| queue.queue.topic() == topic)
            .filter(|queue| !shares || queue.ledger / machines % machines == home)
            .map(|queue| queue.queue.clone())
            .collect();
        let ports = self.registered_ports();
        let failed = self.quiet.is_none() && self.rng.chance(self.plan.refuse);
        let route = match queues.is_empty() {
            _ if failed => Route::Failed,
            true => Route::Missing,
            false => Route::Found(queues, ports),
        };
        if let Some(member) = &mut self.members[number] {
            member.asking_routes.remove(&topic);
        }
        self.for_control(number, ForControl::Route(topic, route));
    }

    /// The routes of all topics that it subscribes.
    pub(super) fn ask_routes(&mut self, number: usize) {
        let Some(core) = self.core(number) else { return };
        let topics: Vec<String> =
            core.seen.borrow().subscriptions.keys().map(|topic| topic.to_string()).collect();
        topics.into_iter().for_each(|topic| self.ask_route(number, topic));
    }

    pub(super) fn poll_routes(&mut self, number: usize) {
        if self.members[number].is_none() {
            return;
        }
        self.ask_routes(number);
        self.later(ROUTE_POLL, Happening::RoutePoll(number));
    }
}

const COMMIT: i32 = 1;
const ROUTE_POLL: std::time::Duration = std::time::Duration::from_secs(10);
