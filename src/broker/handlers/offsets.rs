//! What is stored of a group's progress, and the bounds of queues.

use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::state::State;
use super::super::store::Store;
use crate::protocol::ResponseCode;
use crate::protocol::headers::{
    GetMaxOffset, OffsetAnswer, QueryConsumerOffset, QueueStart, SearchOffset, TimestampAnswer,
    UpdateConsumerOffset,
};

/// 14. A new group starts at 0 in a young queue, whatever it was told, since that is what real brokers answer.
pub(crate) fn query(state: &State, request: &Request) -> Handled {
    let header: QueryConsumerOffset = request.header()?;
    let (group, topic, queue_id) = (&header.consumer_group, &header.topic, header.queue_id);
    if let Some(offset) = state.offsets.committed(group, topic, queue_id) {
        return Answer::header(&OffsetAnswer { offset });
    }
    let (min, max) = state.store.range(topic, queue_id);
    let is_5 = state.settings.version.is_5();
    let zero_wanted = header.set_zero_if_not_found != Some(false) || !is_5;
    if zero_wanted && min == 0 && (max > 0 || !is_5) {
        return Answer::header(&OffsetAnswer { offset: 0 });
    }
    let remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first";
    Err(Refusal::new(ResponseCode::QUERY_NOT_FOUND, remark))
}

/// 15.
pub(crate) fn update(state: &mut State, request: &Request) -> Handled {
    let header: UpdateConsumerOffset =
        request.header().map_err(|error| state.invalid(format_args!("{error}")))?;
    if state.settings.version.is_5() {
        if !state.topics.contains_key(&header.topic) {
            return Err(Refusal::no_topic(&header.topic));
        }
        if !state.groups.contains_key(&header.consumer_group) {
            return Err(Refusal::no_group(&header.consumer_group));
        }
    }
    let (group, topic) = (&header.consumer_group, &header.topic);
    state.offsets.commit(group, topic, header.queue_id, header.commit_offset, state.now.millis);
    Answer::ok()
}

/// 30.
pub(crate) fn max(state: &State, request: &Request) -> Handled {
    let header: GetMaxOffset = request.header()?;
    Answer::header(&OffsetAnswer { offset: state.store.range(&header.topic, header.queue_id).1 })
}

/// 31.
pub(crate) fn min(state: &State, request: &Request) -> Handled {
    let header: QueueStart = request.header()?;
    Answer::header(&OffsetAnswer { offset: state.store.range(&header.topic, header.queue_id).0 })
}

/// 32: −1 of an empty queue.
pub(crate) fn earliest_store_time(state: &State, request: &Request) -> Handled {
    let header: QueueStart = request.header()?;
    let (min, _) = state.store.range(&header.topic, header.queue_id);
    let timestamp = store_time(&state.store, &header.topic, header.queue_id, min).unwrap_or(-1);
    Answer::header(&TimestampAnswer { timestamp })
}

/// 29.
pub(crate) fn search(state: &State, request: &Request) -> Handled {
    let header: SearchOffset = request.header()?;
    let upper = header.boundary_type.as_deref().is_some_and(|kind| kind.eq_ignore_ascii_case("upper"));
    let (topic, queue_id, timestamp) = (&header.topic, header.queue_id, header.timestamp);
    let offset = match state.settings.version.is_5() {
        true if upper => last_not_after(&state.store, topic, queue_id, timestamp),
        true => state.store.offset_at_or_after(topic, queue_id, timestamp),
        false => nearest(&state.store, topic, queue_id, timestamp),
    };
    Answer::header(&OffsetAnswer { offset })
}

/// The last message stored at that time or before; the first offset of the queue if there is none.
fn last_not_after(store: &Store, topic: &str, queue_id: i32, millis: i64) -> i64 {
    let after = store.offset_at_or_after(topic, queue_id, millis.saturating_add(1));
    (after - 1).max(store.range(topic, queue_id).0)
}

/// What brokers 4.9 answer: the message of that time, else that of its two neighbours which is nearer.
fn nearest(store: &Store, topic: &str, queue_id: i32, millis: i64) -> i64 {
    let (min, max) = store.range(topic, queue_id);
    let right = store.offset_at_or_after(topic, queue_id, millis);
    let left = right - 1;
    if right >= max {
        return left.max(min);
    }
    if left < min {
        return right;
    }
    let distance =
        |offset| store_time(store, topic, queue_id, offset).map_or(u64::MAX, |time| time.abs_diff(millis));
    if distance(left) < distance(right) { left } else { right }
}

fn store_time(store: &Store, topic: &str, queue_id: i32, offset: i64) -> Option<i64> {
    store.entry(topic, queue_id, offset).and_then(|entry| store.store_time(entry))
}
