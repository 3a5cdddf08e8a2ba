//! Messages from producers.

use std::borrow::Cow;

use super::super::put::with;
use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::settings::{CLUSTER, REGION, Version};
use super::super::state::State;
use super::super::topics::topic_config;
use super::recall::Handle;
use crate::message::properties as names;
use crate::message::{RETRY_PREFIX, is_unsendable_topic, sys_flag, topic_problem};
use crate::protocol::body::perm;
use crate::protocol::headers::{SendAnswer, SendMessage, SendMessageLong};
use crate::protocol::record::{StoredMessage, batch_elements};
use crate::protocol::{RequestCode, ResponseCode};

/// `MQVersion` from which on a client's `maxReconsumeTimes` counts: 3.4.9.
pub(crate) const KNOWS_MAX_RECONSUME: i32 = 121;

/// 10 and 310.
pub(crate) fn one(state: &mut State, request: &Request) -> Handled {
    let header = header(request)?;
    let queue_id = check(state, request, &header)?;
    let body = &request.command.body;
    if body.is_empty() && state.settings.version.is_5() {
        // Real brokers run into a null pointer here.
        return Err(Refusal::error("the message has no body"));
    }
    let properties = stamped(state, header.properties.as_deref().unwrap_or_default().as_bytes());
    let unique_id = names::find_str(&properties, names::UNIQ_KEY).map(str::to_owned);
    let mut message = StoredMessage {
        queue_id,
        flag: header.flag,
        sys_flag: header.sys_flag,
        born_timestamp: header.born_timestamp,
        born_host: request.remote,
        reconsume_times: header.reconsume_times.unwrap_or(0),
        body: Cow::Borrowed(body),
        topic: Cow::Borrowed(&header.topic),
        properties: Cow::Owned(properties),
        ..StoredMessage::default()
    };
    if let Some(group) = header.topic.strip_prefix(RETRY_PREFIX) {
        bury(state, request, &header, group, &mut message)?;
    }
    let due = state.delivery_time(&message.properties)?;
    let placed = state.put(message)?;
    let handle = due.zip(unique_id.clone()).map(|(due, unique_id)| {
        Handle { topic: header.topic, broker: state.settings.name.clone(), due, unique_id }.to_string()
    });
    Answer::header(&SendAnswer {
        msg_id: state.message_id(placed),
        queue_id,
        queue_offset: placed.queue_offset,
        recall_handle: handle,
        transaction_id: unique_id.filter(|_| state.settings.version.is_5()),
        ..send_answer()
    })
}

/// 320: ordinary messages with offsets in a row. Nothing of the header's properties is added to them, since an id there
/// would be taken for that of every message.
pub(crate) fn batch(state: &mut State, request: &Request) -> Handled {
    let header = header(request)?;
    let queue_id = check(state, request, &header)?;
    let illegal = |what: &dyn std::fmt::Display| Refusal::new(ResponseCode::MESSAGE_ILLEGAL, what);
    let elements: Vec<_> =
        batch_elements(&request.command.body).collect::<Result<_, _>>().map_err(|e| illegal(&e))?;
    if elements.is_empty() {
        return Err(illegal(&"the batch has no message"));
    }
    let mut ids = Vec::with_capacity(elements.len());
    let mut first = None;
    for element in elements {
        let placed = state.put(StoredMessage {
            queue_id,
            flag: element.flag,
            sys_flag: header.sys_flag,
            born_timestamp: header.born_timestamp,
            born_host: request.remote,
            body: Cow::Borrowed(element.body),
            topic: Cow::Borrowed(&header.topic),
            properties: Cow::Borrowed(element.properties),
            ..StoredMessage::default()
        })?;
        first.get_or_insert(placed.queue_offset);
        ids.push(state.message_id(placed));
    }
    let of_header =
        names::find_str(header.properties.as_deref().unwrap_or_default().as_bytes(), names::UNIQ_KEY);
    Answer::header(&SendAnswer {
        msg_id: ids.join(","),
        queue_id,
        queue_offset: first.unwrap_or(0),
        transaction_id: of_header.map(str::to_owned).filter(|_| state.settings.version.is_5()),
        ..send_answer()
    })
}

fn header(request: &Request) -> Result<SendMessage, Refusal> {
    match request.command.request_code() {
        RequestCode::SEND_MESSAGE => Ok(request.header::<SendMessageLong>()?.into()),
        _ => Ok(request.header()?),
    }
}

/// The checks of a real broker in their order (`AbstractSendMessageProcessor.msgCheck`); leads to the queue.
fn check(state: &mut State, request: &Request, header: &SendMessage) -> Result<i32, Refusal> {
    let topic = &header.topic;
    if let Some(problem) = topic_problem(topic) {
        return Err(state.invalid(format_args!("{problem}")));
    }
    if is_unsendable_topic(topic) {
        let remark = format!("Sending message to topic[{topic}] is forbidden.");
        return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
    }
    create_by_sending(state, header);
    let config = state.topics.get(topic).ok_or_else(|| Refusal::no_topic(topic))?;
    let queues = config.write_queue_nums.max(config.read_queue_nums);
    if header.queue_id >= queues {
        return Err(state.invalid(format_args!(
            "request queueId[{}] is illegal, TopicConfig [topicName={topic}, readQueueNums={}, writeQueueNums={}] \
             Producer: {}",
            header.queue_id, config.read_queue_nums, config.write_queue_nums, request.remote
        )));
    }
    let write_queues = config.write_queue_nums;
    if header.sys_flag & sys_flag::TRANSACTION == sys_flag::TRANSACTION_PREPARED {
        let remark = "the broker sending transaction message is forbidden";
        return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
    }
    Ok(if header.queue_id < 0 { state.any_queue(write_queues) } else { header.queue_id })
}

/// Creates the topic of a message, if the topic named as its template allows that.
fn create_by_sending(state: &mut State, header: &SendMessage) {
    let topic = header.topic.as_str();
    if state.topics.contains_key(topic) {
        return;
    }
    let template = state.topics.get(&header.default_topic).filter(|config| config.perm & perm::INHERIT != 0);
    if let Some(template) = template {
        let queues = header.default_topic_queue_nums.min(template.write_queue_nums).max(0);
        let config = topic_config(topic, queues, template.perm & !perm::INHERIT);
        state.set_topic(config);
    } else if topic.starts_with(RETRY_PREFIX) {
        state.ensure_topic(topic, 1);
    }
}

/// Turns a retry that was tried too often into a dead letter, as does one of a group that consumes in order.
fn bury(
    state: &mut State,
    request: &Request,
    header: &SendMessage,
    group: &str,
    message: &mut StoredMessage<'_>,
) -> Result<(), Refusal> {
    let config = state.group_or_create(group).ok_or_else(|| Refusal::no_group(group))?;
    let told = header.max_reconsume_times.filter(|_| request.command.version >= KNOWS_MAX_RECONSUME);
    let max = told.unwrap_or(config.retry_max_times);
    let times = message.reconsume_times;
    let dead = match state.settings.version {
        Version::V4_9 => times >= max,
        _ => times > max || state.locks.any_held(group, state.now.millis),
    };
    if dead {
        message.topic = Cow::Owned(state.dead_letters(group));
        message.queue_id = 0;
        message.properties = Cow::Owned(with(&message.properties, &[(names::DELAY, "-1")]));
    }
    Ok(())
}

/// The properties with what a broker adds to every message.
fn stamped(state: &State, properties: &[u8]) -> Vec<u8> {
    match state.settings.version {
        Version::V4_9 => {
            let kept = names::entries(properties).filter(|(name, _)| *name != names::WAIT.as_bytes());
            let mut out = Vec::with_capacity(properties.len() + 32);
            for (name, value) in kept {
                out.extend_from_slice(&[name, &[names::NAME_END], value, &[names::VALUE_END]].concat());
            }
            names::append(&mut out, [(names::CLUSTER, CLUSTER)]);
            out.pop();
            out
        }
        _ => {
            let added = [(names::MSG_REGION, REGION), (names::CLUSTER, CLUSTER), (names::TRACE_ON, "true")];
            with(properties, &added)
        }
    }
}

fn send_answer() -> SendAnswer {
    SendAnswer {
        msg_region: Some(REGION.to_owned()),
        trace_on: Some("true".to_owned()),
        ..SendAnswer::default()
    }
}
