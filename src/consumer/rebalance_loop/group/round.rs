//! One round: who the members are, which queues are ours by that, and what changes.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::super::polled::ByHand;
use super::super::requests::Requests;
use super::{Group, Owned, Topic};
use crate::client::panic_text;
use crate::consumer::assignment::{Assignment, Policy, REVOKE_TIME, REVOKE_TIME_LOCKED};
use crate::consumer::events::Event;
use crate::consumer::outside::Outside;
use crate::consumer::pull_consumer::Standing;
use crate::consumer::rebalance::{Members, diff};
use crate::message::{MessageQueue, RETRY_PREFIX};

impl<S: Outside> Group<S> {
    /// Asks for the members of each subscribed topic; what changes, changes when the answers come.
    pub(super) fn round(&mut self, requests: &mut Requests<S>) {
        let now = self.core.now();
        if let Some(assigned) = self.core.assigned() {
            return self.assign(&assigned, requests);
        }
        let subscriptions = self.core.subscriptions();
        self.topics.retain(|topic, _| subscriptions.contains_key(topic));
        let gone: Vec<MessageQueue> =
            self.queues.keys().filter(|queue| !subscriptions.contains_key(queue.topic())).cloned().collect();
        for queue in gone {
            self.unwant(&queue, requests);
        }
        let (mut settled, mut any) = (true, subscriptions.is_empty());
        for (topic, subscription) in subscriptions.iter() {
            let asked = if self.core.settings().is_broadcasting() {
                self.take_all(topic, requests)
            } else {
                self.ask_members(topic, subscription.version, requests)
            };
            any |= asked;
            // A retry topic may appear later: nothing waits for it.
            settled &= asked || topic.starts_with(RETRY_PREFIX);
        }
        if any {
            self.cadence.ran(now, settled, self.core.jitter());
        } else {
            self.cadence.too_early(now, self.core.jitter());
        }
    }

    /// Whether somebody could be asked.
    fn ask_members(&mut self, topic: &Arc<str>, version: i64, requests: &mut Requests<S>) -> bool {
        let since = self.ready.is_none().then(|| self.core.now());
        let state = self.topics.entry(topic.clone()).or_insert_with(|| Topic { since, ..Topic::default() });
        if state.asking {
            return true;
        }
        let core = &self.core;
        let Some(address) = core.queues_of(topic).and_then(|_| core.any_broker_of(topic)) else {
            core.want_route(topic);
            return false;
        };
        // A broker has been told before it is asked; its acknowledgement wakes the next round.
        if !core.is_told(&address, topic, version) {
            core.heartbeat_now(Some(&address));
            return false;
        }
        state.asking = true;
        requests.members(core, topic, &address);
        true
    }

    pub(super) fn members_came(
        &mut self,
        topic: &Arc<str>,
        address: &Arc<str>,
        ids: Result<Vec<String>, String>,
        requests: &mut Requests<S>,
    ) {
        match self.topics.get_mut(topic) {
            Some(state) => state.asking = false,
            None => return,
        }
        if self.ending.is_some() {
            return;
        }
        let me = self.core.client_id().to_owned();
        let members = match ids {
            Ok(ids) => Members::new(ids),
            Err(error) => {
                log::warn!(
                    "{address} could not tell the members of {} for {topic}: {error}",
                    self.core.group()
                );
                self.core.heartbeat_now(Some(address));
                self.unsettled();
                return;
            }
        };
        let listed = members.contains(&me);
        let missing = match self.topics.get_mut(topic) {
            Some(state) => {
                state.missing = if listed { 0 } else { state.missing + 1 };
                state.missing
            }
            None => return,
        };
        if !listed {
            log::warn!("{address} does not list this member of {} (time {missing})", self.core.group());
            self.core.heartbeat_now(Some(address));
            self.unsettled();
            // One lost heartbeat must not stop all consumption of the topic.
            if missing < MISSING_LIMIT {
                return;
            }
        }
        self.allocate(topic, &me, members, requests);
    }

    fn allocate(&mut self, topic: &Arc<str>, me: &str, members: Members, requests: &mut Requests<S>) {
        if self.is_too_new(topic, me, &members) {
            return;
        }
        let members = self.peers.subscribers(topic, me, members);
        let Some(mut all) = self.core.queues_of(topic) else { return };
        all.sort_unstable();
        let Some(mine) = self.share(topic, me, &members, &all) else {
            self.unsettled();
            return;
        };
        let wanted: BTreeSet<MessageQueue> =
            mine.into_iter().filter(|queue| all.binary_search(queue).is_ok()).collect();
        let changes = diff(&self.owned_of(topic), &wanted);
        for queue in &changes.revoke {
            self.unwant(queue, requests);
        }
        for queue in changes.assign {
            let owns = |id: &str, members: &Members| {
                self.share(topic, id, members, &all).is_some_and(|share| share.contains(&queue))
            };
            let settle = self
                .topics
                .get(topic)
                .is_some_and(|state| state.history.is_taken_from_live_member(me, &members, owns));
            self.want(queue, settle, requests);
        }
        if let Some(state) = self.topics.get_mut(topic) {
            state.history.add(members, self.core.now());
            state.wanted = Some(wanted);
        }
    }

    /// The share of one member. `None` if the user's strategy panicked: then queues stay as they are.
    fn share(
        &self,
        topic: &str,
        id: &str,
        members: &Members,
        all: &[MessageQueue],
    ) -> Option<Vec<MessageQueue>> {
        let strategy = &self.core.settings().allocate;
        let share = catch_unwind(AssertUnwindSafe(|| strategy(id, members.ids(), all)));
        // It may name queues as the program knows them.
        let on_wire = |queue: MessageQueue| self.core.namespace().queue(&queue).into_owned();
        share
            .map(|share| share.into_iter().map(on_wire).collect())
            .inspect_err(|panic| {
                let text = panic_text(&**panic).to_owned();
                log::error!("the allocation strategy of {} panicked for {topic}: {text}", self.core.group());
                self.core.emit(Event::ThreadRestarted { thread: "rmq-rebalance".into(), panic: text });
            })
            .ok()
    }

    /// The queues of a topic, without those that are being given up.
    pub(super) fn owned_of(&self, topic: &str) -> BTreeSet<MessageQueue> {
        let queues = self.queues.iter();
        let owned = queues.filter(|(queue, owned)| queue.topic() == topic && !owned.assignment.is_leaving());
        owned.map(|(queue, _)| queue.clone()).collect()
    }

    pub(in super::super) fn want(&mut self, queue: MessageQueue, settle: bool, requests: &mut Requests<S>) {
        let in_order = self.core.settings().order.is_some();
        if self.queues.contains_key(&queue) || in_order && self.core.is_listening_to(&queue) {
            // Its former life has not ended yet; the round after that takes it up.
            self.unsettled();
            return;
        }
        let policy = Policy {
            from: self.start_of(&queue),
            is_retry_topic: queue.topic().starts_with(RETRY_PREFIX),
            asks_program: self.core.has_own_offsets(),
            by_hand: self.core.polled() == Some(false),
        };
        let (assignment, actions) = if self.needs_locks() {
            Assignment::new_locked(policy)
        } else {
            Assignment::new(policy, settle, self.core.now())
        };
        self.tell_waiting(&queue, &assignment);
        self.next_epoch += 1;
        let owned = Owned {
            assignment,
            process: None,
            epoch: self.next_epoch,
            by_hand: ByHand::default(),
            line: 0,
            idle_commit: None,
        };
        self.core.note(&queue, Standing::Wanted);
        self.queues.insert(queue.clone(), owned);
        self.perform(&queue, actions, requests);
    }

    pub(in super::super) fn unwant(&mut self, queue: &MessageQueue, requests: &mut Requests<S>) {
        if let Some(owned) = self.queues.get(queue)
            && !owned.assignment.is_leaving()
        {
            let time = if self.needs_locks() { REVOKE_TIME_LOCKED } else { REVOKE_TIME };
            self.drive(queue, requests, |assignment, now, watermark| {
                assignment.unwant(now + time, watermark)
            });
        }
    }
}

const MISSING_LIMIT: u32 = 3;
