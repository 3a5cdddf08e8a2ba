//! What a broker is told of a message that goes back.

use std::sync::Arc;

use super::{Back, SendBack};
use crate::consumer::outside::{Outside, Request};
use crate::message::{MessageView, properties, retry_topic, sys_flag};
use crate::protocol::headers::{ConsumerSendBack, SendMessage};

/// Where the broker has stored it, and when it is to come again.
pub(super) fn back<S: Outside>(what: &SendBack<S>, view: &MessageView) -> Request {
    let core = &*what.core;
    let header = ConsumerSendBack {
        offset: view.commit_log_offset(),
        group: core.group().to_string(),
        delay_level: what.back.delay_level(),
        origin_msg_id: Some(view.message_id().to_owned()),
        origin_topic: Some(wire_topic(core, view)),
        unit_mode: Some(false),
        max_reconsume_times: i32::try_from(core.settings().max_reconsume_times).ok(),
        bname: Some(what.queue.queue().broker_name().to_owned()),
    };
    Request::SendBack(header)
}

/// The message as a new one of the retry topic, and the broker to send it to: one of the retry topic's, if its route
/// is known, else any other, and the message's own broker last.
pub(super) fn as_new<S: Outside>(what: &SendBack<S>) -> Option<(Arc<str>, Request)> {
    let core = &*what.core;
    let view = what.run.view(what.index)?;
    let topic = retry_topic(core.group());
    let own: &str = what.queue.queue().broker_name();
    let masters = core.masters();
    // Its own has failed, unless it was not asked at all.
    let own_is_good = what.back == Back::Exhausted;
    let better = masters.iter().find(|(name, _)| (&**name == own) == own_is_good);
    let (name, address) = better.or(masters.first())?.clone();

    let max = core.settings().max_reconsume_times;
    // A count above the limit makes it a dead letter.
    let times =
        if what.back == Back::DeadLetter { max.saturating_add(1) } else { what.times.saturating_add(1) };
    let level = match what.back {
        Back::Level(level) => level,
        Back::Later | Back::DeadLetter | Back::Exhausted => 3 + i32::try_from(what.times).unwrap_or(0),
    };
    let header = SendMessage {
        producer_group: core.group().to_string(),
        topic,
        default_topic: "TBW102".to_owned(),
        default_topic_queue_nums: 4,
        queue_id: 0,
        sys_flag: view.sys_flag() & (sys_flag::COMPRESSED | sys_flag::COMPRESSION_TYPE),
        born_timestamp: crate::clock::millis_of(view.born_time()),
        flag: view.flag(),
        properties: Some(retry_properties(core, &view, level)),
        reconsume_times: Some(i32::try_from(times).unwrap_or(i32::MAX)),
        unit_mode: Some(false),
        max_reconsume_times: i32::try_from(max).ok(),
        batch: Some(false),
        broker_name: Some(name.to_string()),
    };
    Some((address, Request::Send(Box::new(header), view.body().to_vec())))
}

/// Those of the message, and what marks it as a retry.
fn retry_properties(core: &impl Outside, view: &MessageView, level: i32) -> String {
    let own =
        [properties::ORIGIN_MESSAGE_ID, properties::RETRY_TOPIC, properties::DELAY, properties::TRAN_MSG];
    let origin = view.property(properties::ORIGIN_MESSAGE_ID).unwrap_or(view.message_id());
    let mut out = Vec::new();
    let kept = view.properties().filter(|(name, _)| !own.contains(name));
    properties::append(&mut out, kept);
    properties::push(&mut out, properties::ORIGIN_MESSAGE_ID, origin);
    properties::push(&mut out, properties::RETRY_TOPIC, &wire_topic(core, view));
    properties::push(&mut out, properties::DELAY, &level.to_string());
    String::from_utf8_lossy(&out).into_owned()
}

/// The topic that it was sent to, as the wire has it.
fn wire_topic(core: &impl Outside, view: &MessageView) -> String {
    core.namespace().topic(view.topic())
}
