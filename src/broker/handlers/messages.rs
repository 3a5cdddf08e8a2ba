//! Looking messages up.

use super::super::keys::Wanted;
use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::state::State;
use crate::protocol::body::{ConsumeQueueEntry, QueryConsumeQueueAnswer};
use crate::protocol::headers::{QueryConsumeQueue, QueryMessage, QueryMessageAnswer, ViewMessage};
use crate::protocol::{RemotingCommand, ResponseCode};

/// How many messages a question by unique id is answered with (`defaultQueryMaxNum`).
const BY_ID: usize = 32;
/// How many entries of a queue are shown at once.
const MOST_ENTRIES: i32 = 1000;

/// 33: by position in the log.
pub(crate) fn view(state: &State, request: &Request) -> Handled {
    let offset = request.header::<ViewMessage>()?.offset;
    let record = u64::try_from(offset).ok().and_then(|position| state.store.record_at(position));
    match record {
        Some(record) => Answer::body(record),
        None => Err(Refusal::error(format_args!("can not find message by the offset, {offset}"))),
    }
}

/// 12: by key or unique id.
pub(crate) fn query(state: &mut State, request: &Request) -> Handled {
    let header: QueryMessage = request.header()?;
    let by_id = header.unique_key_query == Some(true);
    let wanted = Wanted {
        topic: &header.topic,
        key: &header.key,
        stored: (header.begin_timestamp, header.end_timestamp),
        most: if by_id { BY_ID } else { usize::try_from(header.max_num).unwrap_or(0) },
    };
    let found = state.keys.find(&state.store, &wanted).concat();
    let (code, end) = match found.is_empty() {
        true => (ResponseCode::QUERY_NOT_FOUND, 0),
        false => (ResponseCode::SUCCESS, state.store.end()),
    };
    let answer = RemotingCommand::response(code, 0).header_fields(&QueryMessageAnswer {
        index_last_update_timestamp: if end > 0 { state.now.millis } else { 0 },
        index_last_update_phyoffset: i64::try_from(end).unwrap_or(i64::MAX),
    });
    Ok(Answer::Now(match found.is_empty() {
        true => answer.remark("can not find message, maybe time range not correct"),
        false => answer.body(found),
    }))
}

/// 321: the entries of a queue's index.
pub(crate) fn consume_queue(state: &State, request: &Request) -> Handled {
    let header: QueryConsumeQueue = request.header()?;
    let (topic, queue_id) = (&header.topic, header.queue_id);
    if !state.topics.contains_key(topic) {
        return Err(Refusal::no_topic(topic));
    }
    let (min, max) = state.store.range(topic, queue_id);
    let count = i64::from(header.count.clamp(0, MOST_ENTRIES));
    let from = header.index.clamp(min, max);
    let entries =
        (from..from.saturating_add(count).min(max)).filter_map(|at| state.store.entry(topic, queue_id, at));
    let queue_data = entries.map(|entry| ConsumeQueueEntry {
        physic_offset: i64::try_from(entry.position).unwrap_or(i64::MAX),
        physic_size: i32::try_from(entry.size).unwrap_or(i32::MAX),
        tags_code: entry.tag,
        eval: true,
        ..ConsumeQueueEntry::default()
    });
    let group = header.consumer_group.as_deref().unwrap_or_default();
    let subscription_data =
        state.members.group(group).and_then(|members| members.subscriptions.get(topic).cloned());
    let answer = QueryConsumeQueueAnswer {
        filter_data: Some("null".to_owned()),
        max_queue_index: max,
        min_queue_index: min,
        queue_data: queue_data.collect(),
        subscription_data,
    };
    Answer::body(answer.write())
}
