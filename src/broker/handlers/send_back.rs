//! Messages that consumers could not handle.

use std::borrow::Cow;

use super::super::put::with;
use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::state::State;
use super::send::KNOWS_MAX_RECONSUME;
use crate::message::properties as names;
use crate::message::retry_topic;
use crate::protocol::headers::ConsumerSendBack;
use crate::protocol::{OffsetId, StoredMessage};

/// The level of the first retry; each further one waits a level longer.
const FIRST_LEVEL: i32 = 3;

/// 36: the message comes again by way of the group's retry topic, or ends as a dead letter.
pub(crate) fn send_back(state: &mut State, request: &Request) -> Handled {
    let header: ConsumerSendBack = request.header()?;
    let config = state.group_or_create(&header.group).ok_or_else(|| Refusal::no_group(&header.group))?;
    let (retry_queues, retry_max) = (config.retry_queue_nums, config.retry_max_times);
    if retry_queues <= 0 {
        return Answer::ok();
    }
    let retry = retry_topic(&header.group);
    state.ensure_topic(&retry, retry_queues);
    let record = u64::try_from(header.offset).ok().and_then(|position| state.store.record_at(position));
    let record = record
        .ok_or_else(|| Refusal::error(format_args!("look message by offset failed, {}", header.offset)))?;
    let message = StoredMessage::decode(&record)?;
    let told = header.max_reconsume_times.filter(|_| request.command.version >= KNOWS_MAX_RECONSUME);
    let dead = header.delay_level < 0 || message.reconsume_times >= told.unwrap_or(retry_max);
    let level = match header.delay_level {
        _ if dead => 0,
        0 => message.reconsume_times.saturating_add(FIRST_LEVEL),
        level => level,
    };
    let (topic, queues) = if dead { (state.dead_letters(&header.group), 1) } else { (retry, retry_queues) };
    let queue_id = state.any_queue(queues);
    state.put(again(message, topic, queue_id, level))?;
    Answer::ok()
}

/// The copy that is stored.
fn again(message: StoredMessage<'_>, topic: String, queue_id: i32, level: i32) -> StoredMessage<'_> {
    let properties = &message.properties;
    let id = OffsetId { host: message.store_host, commit_log_offset: message.physical_offset }.to_string();
    let level = level.to_string();
    let mut changes = vec![(names::WAIT, "false"), (names::DELAY, level.as_str())];
    for (name, value) in [(names::RETRY_TOPIC, &*message.topic), (names::ORIGIN_MESSAGE_ID, id.as_str())] {
        if names::find(properties, name).is_none() {
            changes.push((name, value));
        }
    }
    StoredMessage {
        properties: Cow::Owned(with(properties, &changes)),
        topic: Cow::Owned(topic),
        queue_id,
        reconsume_times: message.reconsume_times.saturating_add(1),
        prepared_transaction_offset: 0,
        ..message
    }
}
