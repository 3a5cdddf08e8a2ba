//! Pulls, those that wait included.

use std::sync::Arc;
use std::time::Duration;

use super::super::hold::Held;
use super::super::pull_answer::{Manner, Pull, code_of, frame};
use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::settings::MASTER;
use super::super::sql::{Dialect, Sql};
use super::super::state::State;
use super::super::store::{Entry, Found, Status};
use super::super::wanted::Wanted;
use crate::message::{Filter, MessageQueue, Subscription};
use crate::protocol::body::perm;
use crate::protocol::headers::{PullMessage, PullMessageAnswer, pull_flag};
use crate::protocol::{RemotingCommand, ResponseCode};

/// No pull is held longer, whatever it asks for.
const LONGEST_HOLD: i64 = 10 * 60 * 1000;

pub(crate) fn pull(state: &mut State, request: &Request) -> Handled {
    let header: PullMessage = request.header()?;
    let wanted = check(state, &header)?;
    if header.sys_flag & pull_flag::COMMIT_OFFSET != 0 && !state.is_slave() {
        let (group, topic) = (&header.consumer_group, &header.topic);
        state.offsets.commit(group, topic, header.queue_id, header.commit_offset, state.now.millis);
    }
    let suspend = header.sys_flag & pull_flag::SUSPEND != 0;
    let patience = u64::try_from(header.suspend_timeout_millis.clamp(0, LONGEST_HOLD)).unwrap_or(0);
    let pull = Pull {
        to: request.reply.clone(),
        group: header.consumer_group,
        topic: header.topic,
        queue_id: header.queue_id,
        offset: header.queue_offset,
        max_messages: usize::try_from(header.max_msg_nums).unwrap_or(0),
        wanted,
    };
    let found = state.look(&pull)?;
    if suspend && code_of(found.status, pull.offset) == ResponseCode::PULL_NOT_FOUND {
        state.hold(pull, Duration::from_millis(patience));
    } else {
        state.answer_pull(&pull, &found)?;
    }
    Ok(Answer::Later)
}

/// The offsets that clients expect beside the code, for an answer that a fault makes up.
pub(crate) fn add_offsets(state: &State, request: &Request, answer: RemotingCommand) -> RemotingCommand {
    let Ok(header) = request.header::<PullMessage>() else { return answer };
    let (min, max) = state.store.range(&header.topic, header.queue_id);
    let moved = answer.response_code() == ResponseCode::PULL_OFFSET_MOVED;
    let next = if moved { header.queue_offset.clamp(min, max) } else { header.queue_offset };
    answer.header_fields(&PullMessageAnswer {
        next_begin_offset: next,
        min_offset: min,
        max_offset: max,
        ..PullMessageAnswer::default()
    })
}

/// The checks of a real broker in their order (`PullMessageProcessor`); leads to what is wanted.
fn check(state: &mut State, header: &PullMessage) -> Result<Wanted, Refusal> {
    let group = &header.consumer_group;
    let config = state.group_or_create(group).ok_or_else(|| Refusal::no_group(group))?;
    let (consume_enable, broadcast_enable) = (config.consume_enable, config.consume_broadcast_enable);
    if !consume_enable {
        return Err(no_permission(format_args!("subscription group no permission, {group}")));
    }
    check_queue(state, header)?;
    if header.sys_flag & pull_flag::CLASS_FILTER != 0 {
        return filter_of_class(state, header);
    }
    if header.sys_flag & pull_flag::SUBSCRIPTION != 0 {
        return filter_in_request(state, header);
    }
    filter_of_group(state, header, broadcast_enable)
}

fn check_queue(state: &State, header: &PullMessage) -> Result<(), Refusal> {
    let topic = &header.topic;
    let config = state.topics.get(topic).ok_or_else(|| Refusal::no_topic(topic))?;
    if config.perm & perm::READ == 0 {
        return Err(no_permission(format_args!("the topic[{topic}] pulling message is forbidden")));
    }
    let queues = config.read_queue_nums;
    if (0..queues).contains(&header.queue_id) {
        return Ok(());
    }
    let (queue, group) = (header.queue_id, &header.consumer_group);
    Err(state.invalid(format_args!(
        "queueId[{queue}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{queues}] consumer:[{group}]"
    )))
}

/// A filter server knows classes, and nothing of subscriptions.
fn filter_of_class(state: &State, header: &PullMessage) -> Result<Wanted, Refusal> {
    let (group, topic) = (&header.consumer_group, &header.topic);
    match state.filters.class(group, topic) {
        Some(class) => {
            let queue = MessageQueue::new(&**topic, state.settings.name.as_str(), header.queue_id);
            Ok(Wanted::Class(class.clone(), queue))
        }
        None => Err(Refusal::error(format_args!(
            "no filter class of group {group} for topic {topic} is registered"
        ))),
    }
}

fn filter_in_request(state: &State, header: &PullMessage) -> Result<Wanted, Refusal> {
    let kind = header.expression_type.as_deref();
    let text = header.subscription.as_deref().unwrap_or("*");
    if is_expression(kind) {
        let sql = state.parse_filter(kind, text)?;
        return state.check_property_filter(kind).map(|()| Wanted::Sql(Arc::new(sql)));
    }
    match Subscription::parse(header.topic.as_str(), &Filter::tags(text), 0) {
        Ok(subscription) if subscription.takes_all() => Ok(Wanted::All),
        Ok(subscription) => Ok(Wanted::Tags(Arc::new(subscription.codes))),
        Err(problem) => {
            let remark = format!("parse the consumer's subscription failed: {problem}");
            Err(Refusal::new(ResponseCode::SUBSCRIPTION_PARSE_FAILED, remark))
        }
    }
}

fn filter_of_group(state: &State, header: &PullMessage, broadcast_enable: bool) -> Result<Wanted, Refusal> {
    let (group, topic) = (&header.consumer_group, &header.topic);
    let unknown =
        || Refusal::new(ResponseCode::SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist");
    let members = state.members.group(group).ok_or_else(unknown)?;
    if members.is_broadcasting() && !broadcast_enable {
        return Err(no_permission(format_args!(
            "the consumer group[{group}] can not consume by broadcast way"
        )));
    }
    let subscription = members.subscriptions.get(topic).ok_or_else(|| {
        Refusal::new(ResponseCode::SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
    })?;
    if subscription.sub_version < header.sub_version {
        return Err(Refusal::new(
            ResponseCode::SUBSCRIPTION_NOT_LATEST,
            "the consumer's subscription not latest",
        ));
    }
    let kind = subscription.expression_type.as_deref();
    if !is_expression(kind) {
        return Ok(Wanted::by_tags(subscription));
    }
    let filter = state.filters.get(group, topic).ok_or_else(|| {
        Refusal::new(ResponseCode::FILTER_DATA_NOT_EXIST, "the broker has no filter data of the consumer")
    })?;
    if filter.version < header.sub_version {
        let remark = "the filter data of the consumer is not the latest";
        return Err(Refusal::new(ResponseCode::FILTER_DATA_NOT_LATEST, remark));
    }
    state.check_property_filter(kind).map(|()| Wanted::Sql(filter.sql.clone()))
}

/// Whether messages are chosen by anything but their tags.
pub(crate) fn is_expression(kind: Option<&str>) -> bool {
    kind.is_some_and(|kind| !kind.is_empty() && kind != "TAG")
}

fn no_permission(remark: std::fmt::Arguments<'_>) -> Refusal {
    Refusal::new(ResponseCode::NO_PERMISSION, remark)
}

impl State {
    /// Reads a filter that is no tag filter.
    pub(crate) fn parse_filter(&self, kind: Option<&str>, text: &str) -> Result<Sql, Refusal> {
        let refused = |remark: String| Refusal::new(ResponseCode::SUBSCRIPTION_PARSE_FAILED, remark);
        match kind {
            Some("SQL92") => {
                Sql::parse(text, self.dialect()).map_err(|error| refused(format!("Invalid filter: {error}")))
            }
            kind => Err(refused(format!("there are no filters of type {}", kind.unwrap_or_default()))),
        }
    }

    /// The words that filters may use.
    pub(crate) fn dialect(&self) -> Dialect {
        if self.settings.version.is_5() { Dialect::New } else { Dialect::Old }
    }

    /// Whether the broker filters by properties. Real ones do not until they are told to.
    pub(crate) fn check_property_filter(&self, kind: Option<&str>) -> Result<(), Refusal> {
        if self.settings.property_filter {
            return Ok(());
        }
        let kind = kind.unwrap_or_default();
        Err(Refusal::error(format_args!("The broker does not support consumer to filter message by {kind}")))
    }

    /// Parks a pull, and then looks once more: what arrived in between would wake nobody.
    fn hold(&mut self, pull: Pull, patience: Duration) {
        let (topic, queue_id, offset) = (pull.topic.clone(), pull.queue_id, pull.offset);
        let deadline = self.now.real + patience;
        let held = Held { peer: pull.to.peer, group: pull.group.clone(), offset, deadline, pull };
        self.holds.park(&topic, queue_id, held);
        if self.store.range(&topic, queue_id).1 > offset {
            self.arrivals.entry((topic, queue_id)).or_default();
        }
    }

    /// Looks again for pulls whose queues got messages that they want.
    pub(crate) fn wake_holds(&mut self) {
        for ((topic, queue_id), entries) in std::mem::take(&mut self.arrivals) {
            let (store, max) = (&self.store, self.store.range(&topic, queue_id).1);
            let woken = self.holds.take(&topic, queue_id, |held| {
                let wants = |entry: &Entry| held.pull.wanted.takes(*entry, store);
                max > held.offset && (entries.is_empty() || entries.iter().any(wants))
            });
            woken.into_iter().for_each(|held| self.answer_held(held.pull));
        }
    }

    /// The second look, which never waits.
    pub(crate) fn answer_held(&mut self, pull: Pull) {
        let answered = self.look(&pull).and_then(|found| self.answer_pull(&pull, &found));
        if let Err(refusal) = answered {
            self.answer(&pull.to, refusal.into_command());
        }
    }

    /// Looks a pull's messages up; they are in `entries` then.
    fn look(&mut self, pull: &Pull) -> Result<Found, Refusal> {
        if let Some(next) = self.offsets.take_reset(&pull.group, &pull.topic, pull.queue_id) {
            let (min, max) = self.store.range(&pull.topic, pull.queue_id);
            self.entries.clear();
            return Ok(Found { status: Status::OffsetReset, next, min, max });
        }
        let (topic, queue_id) = (&pull.topic, pull.queue_id);
        let store = &self.store;
        let matches = |entry| pull.wanted.takes(entry, store);
        Ok(store.look_up(topic, queue_id, pull.offset, pull.max_messages, matches, &mut self.entries)?)
    }

    /// A slave does not say that an offset is wrong: what it lacks may be on its way.
    fn judged(&self, pull: &Pull, found: Found) -> (ResponseCode, Found) {
        match code_of(found.status, pull.offset) {
            ResponseCode::PULL_OFFSET_MOVED if self.is_slave() => {
                (ResponseCode::PULL_RETRY_IMMEDIATELY, Found { next: pull.offset, ..found })
            }
            code => (code, found),
        }
    }

    /// The broker id that a group is to read from. Real brokers name slaves only if they are told to.
    fn suggested(&self, group: &str) -> i64 {
        let from_slaves = self.config.get("slaveReadEnable").is_some_and(|on| on == "true");
        let config = self.groups.get(group).filter(|_| from_slaves);
        config.map_or(MASTER, |config| config.broker_id)
    }

    fn answer_pull(&mut self, pull: &Pull, found: &Found) -> Result<(), Refusal> {
        let (code, found) = self.judged(pull, *found);
        let version = self.settings.version;
        let suggested = self.suggested(&pull.group);
        let manner = Manner { version: version.number(), sys_flags: version.is_5(), suggested };
        let bytes = frame(&pull.to, code, &found, manner, &self.store, &self.entries)?;
        self.offsets.set_pulled(&pull.group, &pull.topic, pull.queue_id, found.next);
        self.answer_bytes(&pull.to, code, bytes);
        Ok(())
    }
}
