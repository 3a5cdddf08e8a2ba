//! What the request log and the faults know of a request, read from its fields.

use std::net::SocketAddr;

use super::requests::RequestRecord;
use crate::clock::Clock;
use crate::protocol::body::{HeartbeatData, LockBatchRequest};
use crate::protocol::{RemotingCommand, RequestCode};

/// Groups that say nothing: every client has this one.
const INNER_PRODUCER: &str = "CLIENT_INNER_PRODUCER";

pub(crate) fn of(
    command: &RemotingCommand,
    client: SocketAddr,
    client_id: Option<&str>,
    clock: &Clock,
) -> RequestRecord {
    let code = command.request_code();
    let field = |names: &[&str]| names.iter().find_map(|name| command.fields.get(name)).map(str::to_owned);
    let in_body = said_in_body(code, &command.body);
    let short = matches!(code, RequestCode::SEND_MESSAGE_V2 | RequestCode::SEND_BATCH_MESSAGE)
        || code == RequestCode::SEND_REPLY_MESSAGE_V2;
    let (group, topic, queue): (&[&str], &[&str], &[&str]) = match short {
        true => (&["a"], &["b"], &["e"]),
        false => (
            &["consumerGroup", "group", "producerGroup", "groupName"],
            &["topic", "originTopic"],
            &["queueId"],
        ),
    };
    RequestRecord {
        time: clock.now(),
        code,
        client,
        client_id: field(&["clientID", "clientId"]).or(in_body.0).or_else(|| client_id.map(str::to_owned)),
        group: field(group).or(in_body.1),
        topic: field(topic),
        queue_id: field(queue).and_then(|text| text.parse().ok()),
        offset: field(offset_field(code)).and_then(|text| text.parse().ok()),
        answer: None,
    }
}

fn offset_field(code: RequestCode) -> &'static [&'static str] {
    match code {
        RequestCode::UPDATE_CONSUMER_OFFSET => &["commitOffset"],
        _ => &["queueOffset", "offset", "commitLogOffset"],
    }
}

/// The client id and group of requests that have them in their body.
fn said_in_body(code: RequestCode, body: &[u8]) -> (Option<String>, Option<String>) {
    match code {
        RequestCode::HEART_BEAT => HeartbeatData::read(body).map_or((None, None), |heartbeat| {
            let consumers = heartbeat.consumer_data_set.into_iter().map(|consumer| consumer.group_name);
            let producers = heartbeat.producer_data_set.into_iter().map(|producer| producer.group_name);
            let group = consumers.chain(producers).find(|group| group != INNER_PRODUCER);
            (Some(heartbeat.client_id), group)
        }),
        RequestCode::LOCK_BATCH_MQ | RequestCode::UNLOCK_BATCH_MQ => LockBatchRequest::read(body)
            .map_or((None, None), |lock| (Some(lock.client_id), Some(lock.consumer_group))),
        _ => (None, None),
    }
}
