//! What a broker or an operator asks of a consumer. Runs on `rmq-control`: nothing here waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::core::{Core, Item};
use super::direct::Direct;
use super::lease::Lease;
use super::offset::Offset;
use super::process_queue::ProcessQueue;
use super::rebalance_loop::RebalanceEvent;
use super::running;
use crate::clock::millis_of;
use crate::message::{MessageQueue, MessageView, Source};
use crate::protocol::body::{
    ConsumerRunningInfo, GetConsumerStatusBody, ProcessQueueInfo, ResetOffsetBody, SubscriptionData,
};
use crate::protocol::headers::{GetConsumerRunningInfo, GetConsumerStatus};
use crate::protocol::{self, RemotingCommand, RequestCode, ResponseCode};
use crate::remoting::Incoming;

/// Answers a request, or sees to it that it is answered later.
pub(super) fn answer(core: &Arc<Core>, incoming: &Arc<Incoming>) {
    let command = match incoming.command() {
        Ok(command) => command,
        Err(error) => {
            log::warn!("{} sent a request that cannot be read: {error}", incoming.address());
            return refuse(incoming, error.to_string());
        }
    };
    let answered = match command.request_code() {
        RequestCode::RESET_CONSUMER_CLIENT_OFFSET => reset(core, &command).map(|()| None),
        RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT => status(core, &command).map(Some),
        RequestCode::GET_CONSUMER_RUNNING_INFO => running_info(core, &command).map(Some),
        RequestCode::CONSUME_MESSAGE_DIRECTLY if core.polling.is_some() => {
            Err("a pull consumer has no listener for a message".to_owned())
        }
        RequestCode::CONSUME_MESSAGE_DIRECTLY => consume_directly(core, incoming, command).map(|()| None),
        code => Err(format!("{code} is not for a consumer")),
    };
    match answered {
        Ok(Some(body)) => incoming.respond(RemotingCommand::response(ResponseCode::SUCCESS, 0).body(body)),
        Ok(None) => {}
        Err(problem) => {
            log::warn!("{} asked {} for something: {problem}", incoming.address(), core.plain_group);
            refuse(incoming, problem);
        }
    }
}

fn refuse(incoming: &Incoming, problem: String) {
    incoming.respond(RemotingCommand::response(ResponseCode::SYSTEM_ERROR, 0).remark(problem));
}

/// 220: an operator has set the offsets of a topic.
fn reset(core: &Arc<Core>, command: &RemotingCommand) -> Result<(), String> {
    let body = ResetOffsetBody::read(&command.body).map_err(|error| error.to_string())?;
    let offsets: Vec<(MessageQueue, Offset)> = body
        .offset_table
        .into_iter()
        .filter_map(|(queue, offset)| Offset::new(offset).map(|offset| (queue, offset)))
        .collect();
    core.post_rebalance(RebalanceEvent::Reset { core: core.clone(), offsets });
    Ok(())
}

/// 221: how far each queue of a topic is.
fn status(core: &Core, command: &RemotingCommand) -> Result<Vec<u8>, String> {
    let header: GetConsumerStatus = command.header().map_err(|error| error.to_string())?;
    let of_topic = core
        .owned()
        .into_iter()
        .filter(|process| header.topic.is_empty() || process.queue().topic() == header.topic);
    let message_queue_table =
        of_topic.map(|process| (process.queue().clone(), process.watermark().wire())).collect();
    Ok(GetConsumerStatusBody { consumer_table: BTreeMap::new(), message_queue_table }.write())
}

/// 307: what this member is doing.
fn running_info(core: &Core, command: &RemotingCommand) -> Result<Vec<u8>, String> {
    let header: GetConsumerRunningInfo = command.header().map_err(|error| error.to_string())?;
    let owned = core.owned();
    let info = ConsumerRunningInfo {
        jstack: header.jstack_enable.unwrap_or(false).then(|| running::thread_table(core)),
        mq_pop_table: Some(BTreeMap::new()),
        mq_table: owned.iter().map(|process| (process.queue().clone(), queue_info(core, process))).collect(),
        properties: running::properties(core),
        status_table: running::status_table(core),
        subscription_set: core.subscriptions().values().map(|one| SubscriptionData::from(&**one)).collect(),
        user_consumer_info: Some(running::remarks(core)),
    };
    Ok(info.write())
}

fn queue_info(core: &Core, process: &ProcessQueue) -> ProcessQueueInfo {
    let lease = process.lease();
    let is_valid = |lease: &Lease| lease.is_valid(core.now(), core.instance.clock().now());
    let load = process.load();
    let (low, high) = process.cached_range().unwrap_or_default();
    ProcessQueueInfo {
        cached_msg_count: i32::try_from(load.messages).unwrap_or(i32::MAX),
        cached_msg_max_offset: high.wire(),
        cached_msg_min_offset: low.wire(),
        cached_msg_size_in_mib: i32::try_from(load.bytes >> 20).unwrap_or(i32::MAX),
        commit_offset: process.watermark().wire(),
        dropped: process.is_closed(),
        last_consume_timestamp: process.facts.last_consume.load(Ordering::Relaxed),
        last_lock_timestamp: lease.as_ref().map_or(0, |lease| millis_of(lease.asked().by_wall)),
        last_pull_timestamp: process.facts.last_pull.load(Ordering::Relaxed),
        locked: lease.as_ref().is_some_and(is_valid),
        transaction_msg_count: 0,
        transaction_msg_max_offset: 0,
        transaction_msg_min_offset: 0,
        try_unlock_times: 0,
    }
}

/// 309: consume this message now; a consume thread answers. Messages of retry and dead-letter topics go to the same
/// listener, which sees the topic that they were sent to.
fn consume_directly(
    core: &Arc<Core>,
    incoming: &Arc<Incoming>,
    command: RemotingCommand,
) -> Result<(), String> {
    if core.directs.load(Ordering::Relaxed) >= MOST_DIRECTS {
        return Err("too many messages wait to be consumed directly".to_owned());
    }
    let broker = command.fields.get("brokerName").unwrap_or_default().to_owned();
    let bytes = command.body;
    let end = bytes.len();
    let record = match protocol::records(&bytes, 0..end).next() {
        Some(Ok(record)) => record,
        Some(Err(error)) => return Err(format!("the message cannot be read: {error}")),
        None => return Err("there is no message in the request".to_owned()),
    };
    let namespace = core.instance.namespace();
    let nowhere = Source {
        bytes,
        queue: MessageQueue::new("", broker.as_str(), 0),
        namespace: namespace.shared_name(),
    };
    let view = MessageView::new(Arc::new(nowhere), record);
    let queue =
        MessageQueue::new(namespace.strip(view.stored_topic()), broker.as_str(), view.stored_queue_id());
    let source = Source {
        bytes: view.source().bytes.clone(),
        queue: queue.clone(),
        namespace: view.source().namespace.clone(),
    };
    let message = MessageView::new(Arc::new(source), record);
    let direct = Direct { message, queue, incoming: incoming.clone() };
    core.directs.fetch_add(1, Ordering::Relaxed);
    core.ready.put(Item::Direct(Box::new(direct)), Instant::now());
    core.wake_in_passing();
    Ok(())
}

/// A broker gives up waiting after ten seconds: more than this only fills memory.
const MOST_DIRECTS: usize = 64;
