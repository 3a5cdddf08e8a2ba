//! Setting the offsets of a group from outside.

use std::collections::BTreeMap;

use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::state::State;
use crate::message::MessageQueue;
use crate::protocol::body::ResetOffsetBody;
use crate::protocol::headers::{CloneGroupOffset, ResetOffset};
use crate::protocol::{Language, RemotingCommand, RequestCode, ResponseCode};

/// 222: brokers 5.x store the new offsets, and the group's next pull of each queue hears of them; older ones tell the
/// members, who store them.
pub(crate) fn reset(state: &mut State, request: &Request) -> Handled {
    let header: ResetOffset = request.header()?;
    if !state.topics.contains_key(&header.topic) {
        return Err(Refusal::no_topic(&header.topic));
    }
    if state.settings.version.is_5() {
        on_the_broker(state, &header)
    } else {
        by_the_members(state, request, &header)
    }
}

/// 314: one group gets the offsets of another, in one topic or in all.
pub(crate) fn clone(state: &mut State, request: &Request) -> Handled {
    let header: CloneGroupOffset = request.header()?;
    let wanted = header.topic.as_deref().unwrap_or_default();
    let of_source = state.offsets.iter().filter(|((group, topic), _)| {
        *group == header.src_group
            && (wanted.is_empty() || topic == wanted)
            && state.topics.contains_key(topic)
    });
    let copied: Vec<_> = of_source.map(|((_, topic), queues)| (topic.clone(), queues.clone())).collect();
    for (topic, queues) in copied {
        for (queue_id, offset) in queues {
            state.offsets.commit(&header.dest_group, &topic, queue_id, offset, state.now.millis);
        }
    }
    Answer::ok()
}

fn on_the_broker(state: &mut State, header: &ResetOffset) -> Handled {
    if !state.groups.contains_key(&header.group) {
        return Err(Refusal::no_group(&header.group));
    }
    let wanted = header.queue_id.filter(|id| *id >= 0);
    let offset = header.offset.filter(|offset| *offset >= 0);
    let mut offset_table = BTreeMap::new();
    for queue in state.queues_of(&header.topic).unwrap_or_default() {
        if wanted.is_some_and(|id| id != queue.queue_id()) {
            continue;
        }
        let (min, max) = state.store.range(&header.topic, queue.queue_id());
        let target = match offset {
            Some(offset) if (min..=max).contains(&offset) => offset,
            Some(offset) => {
                return Err(Refusal::error(format_args!(
                    "Target offset {offset} not in [{min}, {max}] of {queue}"
                )));
            }
            None => state.offset_of_time(&queue, header.timestamp),
        };
        offset_table.insert(queue, target);
    }
    for (queue, offset) in &offset_table {
        state.offsets.reset(&header.group, &header.topic, queue.queue_id(), *offset, state.now.millis);
    }
    for queue in offset_table.keys() {
        state.answer_holds_of(&header.group, queue);
    }
    Answer::body(ResetOffsetBody { offset_table }.write())
}

fn by_the_members(state: &mut State, request: &Request, header: &ResetOffset) -> Handled {
    let mut offset_table = BTreeMap::new();
    for queue in state.queues_of(&header.topic).unwrap_or_default() {
        let present = state.offsets.committed(&header.group, &header.topic, queue.queue_id());
        let present = present
            .ok_or_else(|| Refusal::error(format_args!("THe consumer group <{}> not exist", header.group)))?;
        let wanted = state.offset_of_time(&queue, header.timestamp);
        offset_table.insert(queue, if header.is_force { wanted } else { wanted.min(present) });
    }
    let Some(members) = state.members.group(&header.group) else {
        let remark = format!("Consumer not online, so can not reset offset, Group: {}", header.group);
        return Err(Refusal::new(ResponseCode::CONSUMER_NOT_ONLINE, remark));
    };
    let peers: Vec<_> = members.channels.keys().copied().collect();
    let body = ResetOffsetBody { offset_table };
    let bytes = if request.command.language == Language::CPP { body.write_list() } else { body.write() };
    let told = ResetOffset { is_force: false, queue_id: Some(-1), offset: None, ..header.clone() };
    for peer in peers {
        let command = RemotingCommand::with_header(RequestCode::RESET_CONSUMER_CLIENT_OFFSET, &told);
        state.send_request(peer, &command.oneway().body(bytes.clone()));
    }
    Answer::body(body.write())
}

impl State {
    /// The offset to go on at, to have everything from that time on; −1 means the end.
    fn offset_of_time(&self, queue: &MessageQueue, timestamp: i64) -> i64 {
        let (topic, queue_id) = (queue.topic(), queue.queue_id());
        match timestamp {
            -1 => self.store.range(topic, queue_id).1,
            _ => self.store.offset_at_or_after(topic, queue_id, timestamp),
        }
    }

    /// Real brokers leave held pulls alone until their time is up; there is no reason to make anybody wait.
    fn answer_holds_of(&mut self, group: &str, queue: &MessageQueue) {
        for held in self.holds.take(queue.topic(), queue.queue_id(), |held| held.group == group) {
            self.answer_held(held.pull);
        }
    }
}
