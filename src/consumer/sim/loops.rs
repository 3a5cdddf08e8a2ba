//! What the threads of a member do when they run: as the real loops, without waiting.

use std::sync::Arc;

use super::broker::{Covered, Queue, Reply};
use super::core::{BROKERS, GROUP, Sink, address, broker_at};
use super::locks::locked;
use super::member::{ForControl, ForPull, ForRebalance, Member, Outcome, Question, Route};
use super::mutants::Mutant;
use super::net::Wire;
use super::world::{Happening, Loop, Said, World};
use crate::client::{Beaten, Content, MemberKind, Notice, ShutdownReport};
use crate::consumer::assignment::Ask;
use crate::consumer::offset::Offset;
use crate::consumer::outside::Outside;
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::pulls::generation;
use crate::consumer::rebalance_loop::{Answer, RebalanceEvent, Request};
use crate::message::{MessageQueue, Subscription};
use crate::protocol::ResponseCode;

impl World {
    pub(super) fn run_pull(&mut self, number: usize) {
        let most = 1 + self.rng.below(16);
        for _ in 0..most {
            let item = self.members[number].as_mut().and_then(|member| member.pull.items.pop_front());
            let Some(item) = item else { break };
            match item {
                ForPull::Event(event) => self.pull_event(number, event),
                ForPull::Pulled(id, outcome) => self.pull_answered(number, id, outcome),
                ForPull::Back(id, outcome) => {
                    let taken = back_answer(&outcome);
                    let taken = if self.is(Mutant::SendBackFailureIgnored) { Ok(()) } else { taken };
                    self.visit(number, |member| member.fetching.backs.answered(id, taken));
                }
            }
        }
        self.visit(number, |member| member.fetching.pulls.wake());
        match &self.members[number] {
            Some(member) if !member.pull.items.is_empty() => self.rouse(number, Loop::Pull),
            Some(_) => self.check_pulls(number),
            None => {}
        }
    }

    fn pull_event(&mut self, number: usize, event: PullEvent<super::core::SimCore>) {
        if self.is(Mutant::SecondPull) && matches!(event, PullEvent::NudgeAll) {
            let owned = |one: &Member| -> Vec<u64> {
                one.owned.keys().filter_map(|id| one.fetching.pulls.tag(*id)).collect()
            };
            let tags = self.members[number].as_ref().map(owned).unwrap_or_default();
            if let Some(tag) = tags.into_iter().find(|tag| self.ledger.is_pulling(*tag)) {
                self.visit(number, |member| member.fetching.pulls.answered(tag, Err("forgotten".into())));
            }
        }
        self.visit(number, |member| member.fetching.handle(event));
    }

    fn pull_answered(&mut self, number: usize, tag: u64, outcome: Outcome) {
        self.ledger.pull_ended(tag);
        let id = generation(tag);
        let Some(member) = &self.members[number] else { return };
        let current = member.open(id).is_some() && member.fetching.pulls.tag(id) == Some(tag);
        let others = if current { Vec::new() } else { self.picture(number) };
        let (mut pulled, covered) = match outcome {
            Ok(Reply::Pulled(pulled, covered)) => (Ok(pulled), Some(covered)),
            Ok(Reply::Refused(code)) => (Ok(refusal(code)), None),
            Ok(other) => (Err(format!("{other:?} is no answer to a pull")), None),
            Err(why) => (Err(why), None),
        };
        let name = self.ledger.short(id);
        self.note(|| {
            let what = match (&pulled, &covered) {
                (Ok(pulled), Some(covered)) => format!("{} {covered:?}", pulled.code),
                (Ok(pulled), None) => pulled.code.to_string(),
                (Err(why), _) => why.clone(),
            };
            format!("{number}, {name}: {what}")
        });
        if current && let Some(covered) = &covered {
            self.take_down(number, id, covered);
        }
        let mut tag = tag;
        if (self.is(Mutant::GenerationNotCompared) || self.is(Mutant::SeekIgnoresPull)) && !current {
            let newest = self.newest_like(number, id);
            tag = self.members[number].as_ref().and_then(|one| one.fetching.pulls.tag(newest)).unwrap_or(tag);
        }
        if self.is(Mutant::BrokenBytesPassed)
            && let Ok(pulled) = &mut pulled
        {
            drop_torn_tail(pulled);
        }
        self.visit(number, |member| member.fetching.pulls.answered(tag, pulled));
        if !current && self.mutant.is_none() && others != self.picture(number) {
            self.ledger.break_promise(3, || {
                format!("{number}: an answer to a former generation changed {others:?}")
            });
        }
    }

    /// What the answer that a generation is about to take in has passed over for good.
    fn take_down(&mut self, number: usize, id: u64, covered: &Covered) {
        let Some(member) = &mut self.members[number] else { return };
        let filter = member.fetching.pulls.filter(id).cloned();
        let queue = member.owned.get(&id).map(|queue| queue.queue().topic().to_owned());
        let now = queue.and_then(|topic| member.core.subscription(&topic));
        if let (Some(old), Some(now)) = (&filter, &now)
            && !Arc::ptr_eq(old, now)
        {
            // It is asked for again, by the new filter.
            return;
        }
        member.expected.insert(id, covered.next);
        for offset in covered.from..covered.next {
            let sent = covered.sent.iter().find(|(sent, _)| *sent == offset);
            let passes =
                |filter: &Arc<Subscription>| sent.is_some_and(|(_, tag)| filter.matches_tag(Some(*tag)));
            if !filter.as_ref().is_some_and(passes) {
                self.ledger.finish(id, offset);
            }
        }
    }

    /// Where the open generations stand.
    fn picture(&self, number: usize) -> Vec<(u64, i64, usize)> {
        let member = self.members[number].iter();
        let open = member.flat_map(|member| member.owned.values()).filter(|queue| !queue.is_closed());
        open.map(|queue| (queue.id(), queue.watermark().wire(), queue.load().span)).collect()
    }

    fn newest_like(&self, number: usize, id: u64) -> u64 {
        let queue = self.ledger.queue_of(id);
        let owned = self.members[number].iter().flat_map(|member| member.owned.keys().copied());
        owned.filter(|other| self.ledger.queue_of(*other) == queue).max().unwrap_or(id)
    }

    pub(super) fn run_rebalance(&mut self, number: usize) {
        for _ in 0..64 {
            let item = self.members[number].as_mut().and_then(|member| member.rebalance.items.pop_front());
            let Some(item) = item else { break };
            match item {
                ForRebalance::Event(RebalanceEvent::LocalOffset(tag, stored)) => {
                    self.rebalance_answered(number, tag, &Ok(Reply::Stored(stored.map(Offset::wire))));
                }
                ForRebalance::Event(RebalanceEvent::Polled(core, wish)) => self.grant(number, core, wish),
                ForRebalance::Event(event) => {
                    if !self.look_for_move(number, &event) {
                        self.visit(number, |member| member.groups.handle(event));
                    }
                }
                ForRebalance::Answer(tag, outcome) => self.rebalance_answered(number, tag, &outcome),
            }
        }
        self.visit(number, |member| member.groups.due());
        let now = self.now;
        let Some(member) = &mut self.members[number] else { return };
        if let Some(at) = member.groups.deadline()
            && member.rebalance_due.is_none_or(|due| due <= now || at < due)
        {
            member.rebalance_due = Some(at);
            self.at(at.max(now), Happening::Run(number, Loop::Rebalance));
        }
        let Some(member) = &mut self.members[number] else { return };
        if !member.rebalance.items.is_empty() {
            self.rouse(number, Loop::Rebalance);
        }
        let report =
            self.members[number].as_ref().and_then(|member| member.leaving.as_ref()?.report.try_recv().ok());
        if let Some(report) = report {
            self.say_goodbye(number, Some(&report));
        }
    }

    fn rebalance_answered(&mut self, number: usize, tag: u64, outcome: &Outcome) {
        let mut said = None;
        let mutant = self.mutant;
        let Some(member) = &mut self.members[number] else { return };
        member.core.seen.borrow_mut().now = self.now;
        let ledger = &mut self.ledger;
        member.groups.answered(tag, |request| {
            if let (Request::Lock { .. }, Ok(Reply::Locked(granted))) = (request, outcome) {
                ledger.granted(number, &granted.mine, granted.asked);
            }
            if let Request::Ask { queue, epoch, ask } = request {
                said = said_by(*ask, *epoch, outcome);
                match said {
                    Some(Said { ask: Ask::Stored, offset: Some(held), .. }) => {
                        ledger.confirmed(number, ledger.place(number, queue), held);
                    }
                    Some(Said { ask: Ask::Stored, offset: None, .. }) => {
                        ledger.nothing_stored(number, ledger.place(number, queue), *epoch);
                    }
                    _ => {}
                }
            }
            read(request, outcome, mutant)
        });
        self.answering = said;
        self.carry_out(number);
        self.answering = None;
    }

    pub(super) fn run_control(&mut self, number: usize) {
        while let Some(item) = self.members[number].as_mut().and_then(|one| one.control.items.pop_front()) {
            self.control_item(number, item);
        }
        let now = self.now;
        let Some(member) = &mut self.members[number] else { return };
        let due = member.beats.take_due(now);
        for address in due {
            self.send_heartbeat(number, broker_at(&address));
        }
        let Some(member) = &mut self.members[number] else { return };
        if let Some(at) = member.beats.next_due()
            && member.control_due.is_none_or(|due| due <= now || at < due)
        {
            member.control_due = Some(at);
            self.at(at.max(now), Happening::Run(number, Loop::Control));
        }
    }

    /// A member has heard that the connection to this broker is lost. What it owns may not be stored any more.
    pub(super) fn confirmations_are_doubtful(&mut self, number: usize, broker: &str) {
        for owned in self.members[number].iter().flat_map(|member| member.owned.values()) {
            if owned.queue().broker_name() == broker {
                self.ledger.confirmation_is_doubtful(number, owned.queue());
            }
        }
    }

    fn control_item(&mut self, number: usize, item: ForControl) {
        let now = self.now;
        let Some(member) = &mut self.members[number] else { return };
        match item {
            ForControl::Up(broker, address) => {
                member.beats.linked(&address, now);
                self.notice(number, Notice::BrokerUp { name: BROKERS[broker].0.into(), address });
            }
            ForControl::Down(address) => {
                member.beats.lost(&address, now);
                if self.is(Mutant::LossNotNoticed) {
                    self.confirmations_are_doubtful(number, BROKERS[broker_at(&address)].0);
                } else {
                    self.notice(number, Notice::Disconnected { address, error: "cut".into() });
                }
            }
            ForControl::Heartbeat(None) => member.beats.want_all(now),
            ForControl::Heartbeat(Some(broker)) => member.beats.want(&member.core.address(broker), now),
            ForControl::Tell(notice) => self.notice(number, notice),
            ForControl::Route(topic, route) => self.route_came(number, &topic, route),
            ForControl::Answer(tag, outcome) => self.control_answered(number, tag, &outcome),
        }
    }

    fn route_came(&mut self, number: usize, topic: &str, route: Route) {
        let now = self.now;
        match route {
            Route::Failed => self.notice(number, Notice::RouteFailed(topic.into())),
            Route::Missing => self.notice(number, Notice::RouteMissing(topic.into())),
            Route::Found(queues, ports) => {
                self.leave_former_addresses(number, &queues, &ports);
                let Some(member) = &mut self.members[number] else { return };
                let core = member.core.clone();
                let mut seen = core.seen.borrow_mut();
                let changed = seen.routes.insert(topic.to_owned(), queues.clone()) != Some(queues);
                let known = |name: &str| seen.routes.values().flatten().any(|one| one.broker_name() == name);
                if member.leaving.as_ref().is_none_or(|leaving| !leaving.said_goodbye) {
                    let brokers = (0..seen.ports.len()).filter(|broker| known(BROKERS[*broker].0));
                    member.beats.set_brokers(brokers.map(|broker| address(broker, seen.ports[broker])), now);
                }
                if changed {
                    self.notice(number, Notice::RouteChanged(topic.into()));
                }
            }
        }
    }

    fn send_heartbeat(&mut self, number: usize, broker: usize) {
        let Some(member) = &mut self.members[number] else { return };
        let address = member.core.address(broker);
        let subscriptions = member.core.subscriptions();
        let topics = subscriptions.iter().map(|(topic, one)| (topic.to_string(), one.version)).collect();
        let mut content = Content::default();
        let is_member = member.core.is_member();
        if is_member {
            content.consumers.insert(GROUP.to_owned(), topics);
        }
        let connection = member.core.told.connection(&address);
        let tag = member.next_question;
        member.next_question += 1;
        let wire = Wire::Heartbeat(is_member.then(|| subscriptions.values().cloned().collect()));
        self.send(number, broker, wire, Sink::Control, tag);
        let Some(member) = &mut self.members[number] else { return };
        let link = member.links[broker].number;
        let question = Question::Heartbeat { broker, address, link, connection, content: Arc::new(content) };
        member.questions.insert(tag, question);
    }

    fn control_answered(&mut self, number: usize, tag: u64, outcome: &Outcome) {
        let now = self.now;
        let Some(member) = &mut self.members[number] else { return };
        let Some(Question::Heartbeat { address, connection, content, .. }) = member.questions.remove(&tag)
        else {
            return;
        };
        let beaten = match outcome {
            Ok(Reply::Done) => match member.core.told.acknowledged(&address, connection, &content) {
                Some(_) => Beaten::Acknowledged,
                None => Beaten::Failed,
            },
            Ok(_) => Beaten::Refused,
            Err(_) => Beaten::Failed,
        };
        member.beats.answered(&address, beaten, now);
        self.note(|| format!("{number}: heartbeat to {address}: {beaten:?}"));
        if self.plan.moves && outcome.is_err() {
            // Who does not answer may have moved.
            self.ask_routes(number);
        }
        if beaten == Beaten::Acknowledged {
            self.notice(number, Notice::Heartbeaten { address });
        }
    }

    /// The consumer has ended, or its time is over: brokers hear that it leaves.
    pub(super) fn say_goodbye(&mut self, number: usize, report: Option<&ShutdownReport>) {
        let now = self.now;
        let Some(member) = &mut self.members[number] else { return };
        let Some(leaving) = &mut member.leaving else { return };
        if std::mem::replace(&mut leaving.said_goodbye, true) {
            return;
        }
        let owned = leaving.owned.clone();
        member.locks = None;
        member.beats.set_brokers([], now);
        member.ready.clear();
        let told: Vec<usize> = (0..member.links.len())
            .filter(|broker| member.core.told.knows(&member.core.address(*broker)))
            .collect();
        // Whoever is no member has nobody to say it to.
        let told = if member.core.is_member() { told } else { Vec::new() };
        for broker in told {
            let Some(member) = &mut self.members[number] else { return };
            member.core.told.forget_group(&member.core.address(broker), MemberKind::Consumer, GROUP);
            let tag = member.next_question;
            member.next_question += 1;
            member.questions.insert(tag, Question::Goodbye);
            self.send(number, broker, Wire::Goodbye, Sink::Control, tag);
        }
        let clean = report.is_some_and(ShutdownReport::is_clean);
        self.note(|| format!("{number} says goodbye, {report:?}"));
        // Who keeps offsets itself says what comes again.
        if clean && !self.plan.own_offsets {
            let mut stored = Vec::new();
            for (at, broker) in self.brokers.iter().enumerate() {
                // A reset that no pull has met yet may be forgotten with the next restart, and may not.
                let of = |(n, queue): (usize, &Queue)| {
                    let least = |stored: i64| queue.reset_to.map_or(stored, |to| to.min(stored));
                    (queue.queue.clone(), self.stored(self.ledger.home(number), at, n).map(least))
                };
                stored.extend(broker.queues.iter().enumerate().map(of));
            }
            let stored = |name: &MessageQueue| stored.iter().find(|(known, _)| known == name)?.1;
            self.ledger.left_cleanly(number, &owned, stored, now);
        }
        let end = self.rng.millis(50, 500);
        self.later(end, Happening::Gone(number));
    }
}

fn refusal(code: ResponseCode) -> crate::consumer::answer::Pulled {
    crate::consumer::answer::Pulled { code, offsets: None, remark: None, bytes: Vec::new(), body: 0..0 }
}

/// A mutant: what cannot be read counts as passed.
fn drop_torn_tail(pulled: &mut crate::consumer::answer::Pulled) {
    let mut end = 0;
    while let Some(length) = pulled.bytes.get(end..end + 4) {
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if end + length > pulled.bytes.len() {
            break;
        }
        end += length;
    }
    pulled.body = 0..end;
    if end == 0 && !pulled.bytes.is_empty() {
        pulled.code = ResponseCode::PULL_RETRY_IMMEDIATELY;
    }
}

/// Whether a broker holds the message: as the real loop reads it.
fn back_answer(outcome: &Outcome) -> Result<(), String> {
    match outcome {
        Ok(Reply::Done | Reply::Refused(ResponseCode::FLUSH_DISK_TIMEOUT)) => Ok(()),
        Ok(other) => Err(format!("{other:?}")),
        Err(why) => Err(why.clone()),
    }
}

/// What an answer about an offset says, if it says anything.
fn said_by(ask: Ask, epoch: u64, outcome: &Outcome) -> Option<Said> {
    let offset = match outcome {
        Ok(Reply::Stored(stored)) => *stored,
        Ok(Reply::Offset(offset)) => Some(*offset),
        _ => return None,
    };
    Some(Said { ask, epoch, offset })
}

/// An answer as the real loop reads it.
fn read(request: &Request, outcome: &Outcome, mutant: Option<Mutant>) -> Answer {
    let refused = || format!("{outcome:?}");
    match (request, outcome) {
        (Request::Members { .. }, Ok(Reply::Members(members))) => {
            Answer::Members(Ok(members.iter().map(|number| format!("10.0.0.1@{number}")).collect()))
        }
        (Request::Members { .. }, _) => Answer::Members(Err(refused())),
        (Request::Ask { ask: Ask::Stored, .. }, Ok(Reply::Stored(stored))) => {
            Answer::Stored(Ok(stored.and_then(Offset::new)))
        }
        (Request::Ask { ask: Ask::Stored, .. }, _) => Answer::Stored(match mutant {
            Some(Mutant::FailedReadIsZero) => Ok(Some(Offset::ZERO)),
            Some(Mutant::FailedReadIsNone) => Ok(None),
            _ => Err(refused()),
        }),
        (Request::Ask { .. }, Ok(Reply::Offset(offset))) => {
            Answer::Offset(Offset::new(*offset).ok_or_else(refused))
        }
        (Request::Ask { .. }, _) => Answer::Offset(Err(refused())),
        (Request::Commit { .. }, Ok(Reply::Done)) => Answer::Committed(Ok(())),
        (Request::Commit { .. }, _) if mutant == Some(Mutant::FailedCommitIsDone) => {
            Answer::Committed(Ok(()))
        }
        (Request::Commit { .. }, _) => Answer::Committed(Err(refused())),
        // The model broker lets nobody but operators ask what others subscribe.
        (Request::Connections { .. }, _) => Answer::Connections(Err(refused())),
        (Request::Peer { .. }, _) => Answer::Peer(Err(refused())),
        (Request::Lock { .. }, _) => Answer::Locked(locked(outcome)),
        (Request::Unlock { .. }, Ok(Reply::Done)) => Answer::Unlocked(Ok(())),
        (Request::Unlock { .. }, _) => Answer::Unlocked(Err(refused())),
    }
}
