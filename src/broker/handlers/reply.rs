//! Answers of request-reply: passed on to the requester's connection.

use std::borrow::Cow;

use super::super::put::with;
use super::super::relay::Asker;
use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::settings::REGION;
use super::super::state::State;
use crate::message::properties as names;
use crate::protocol::headers::{PushReply, SendAnswer, SendMessage, SendMessageLong};
use crate::protocol::{RemotingCommand, RequestCode, ResponseCode, StoredMessage};

/// 324 and 325. Once the requester has the reply, it is stored as well, and the replier hears of it.
pub(crate) fn reply(state: &mut State, request: &Request) -> Handled {
    let header: SendMessage = match request.command.request_code() {
        RequestCode::SEND_REPLY_MESSAGE => request.header::<SendMessageLong>()?.into(),
        _ => request.header()?,
    };
    if !state.topics.contains_key(&header.topic) {
        return Err(Refusal::no_topic(&header.topic));
    }
    let properties = header.properties.as_deref().unwrap_or_default().as_bytes();
    let client_id = names::find_str(properties, names::REPLY_TO_CLIENT).unwrap_or_default();
    let requester = state.members.producer(client_id).ok_or_else(|| {
        Refusal::error(format_args!("push reply message fail, channel of <{client_id}> not found."))
    })?;
    let command = push(state, request, &header, properties);
    let message = StoredMessage {
        queue_id: header.queue_id.max(0),
        flag: header.flag,
        sys_flag: header.sys_flag,
        born_timestamp: header.born_timestamp,
        born_host: request.remote,
        reconsume_times: header.reconsume_times.unwrap_or(0),
        body: Cow::Borrowed(&request.command.body),
        topic: Cow::Borrowed(&header.topic),
        properties: Cow::Borrowed(properties),
        ..StoredMessage::default()
    };
    let asker = Asker::Replier { to: request.reply.clone(), message: Box::new(message.into_owned()) };
    state.ask(asker, requester, command);
    Ok(Answer::Later)
}

/// 326: the reply in the form in which the requester gets it.
fn push(state: &State, request: &Request, header: &SendMessage, properties: &[u8]) -> RemotingCommand {
    let now = state.now.millis.to_string();
    let mut added = vec![(names::PUSH_REPLY_TIME, now.as_str())];
    if state.settings.version.is_5() {
        added.extend([(names::MSG_REGION, REGION), (names::TRACE_ON, "true")]);
    }
    let told = PushReply {
        producer_group: header.producer_group.clone(),
        topic: header.topic.clone(),
        default_topic: header.default_topic.clone(),
        default_topic_queue_nums: header.default_topic_queue_nums,
        queue_id: header.queue_id,
        sys_flag: header.sys_flag,
        born_timestamp: header.born_timestamp,
        flag: header.flag,
        properties: Some(String::from_utf8_lossy(&with(properties, &added)).into_owned()),
        reconsume_times: header.reconsume_times,
        unit_mode: header.unit_mode,
        born_host: request.remote.to_string(),
        store_host: state.host.to_string(),
        store_timestamp: state.now.millis,
    };
    RemotingCommand::with_header(RequestCode::PUSH_REPLY_MESSAGE_TO_CLIENT, &told)
        .body(request.command.body.clone())
}

impl State {
    /// What the requester has said to a reply.
    pub(crate) fn replied(
        &mut self,
        message: StoredMessage<'_>,
        answer: &RemotingCommand,
    ) -> RemotingCommand {
        if answer.response_code() != ResponseCode::SUCCESS {
            let remark = format!("push reply message to client fail: {:?}", answer.remark);
            return Refusal::error(remark).into_command();
        }
        let queue_id = message.queue_id;
        let stored = self.put(message).map(|placed| (self.message_id(placed), placed.queue_offset));
        // It has arrived, which is what counts; storing it is for those who look for it later.
        let (msg_id, queue_offset) = stored.unwrap_or_else(|_| ("0".to_owned(), 0));
        RemotingCommand::response(ResponseCode::SUCCESS, 0).header_fields(&SendAnswer {
            msg_id,
            queue_id,
            queue_offset,
            msg_region: Some(REGION.to_owned()),
            trace_on: Some("true".to_owned()),
            ..SendAnswer::default()
        })
    }
}
