//! Questions to members of a group that a tool asks by way of the broker.

use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::state::State;
use crate::protocol::headers::{
    ConsumeMessageDirectly, GetConsumerRunningInfo, GetConsumerStatus, GroupTopic,
};
use crate::protocol::{OffsetId, RemotingCommand, RequestCode, ResponseCode};

/// `MQVersion` from which on clients know these requests: 3.1.8.
const KNOWS_RELAYS: i32 = 62;

/// 307.
pub(crate) fn running_info(state: &mut State, request: &Request) -> Handled {
    let header: GetConsumerRunningInfo = request.header()?;
    let command = RemotingCommand::with_header(RequestCode::GET_CONSUMER_RUNNING_INFO, &header);
    pass_on(state, request, &header.consumer_group, &header.client_id, command)
}

/// 309: the member gets the whole message with the question.
pub(crate) fn consume_directly(state: &mut State, request: &Request) -> Handled {
    let mut header: ConsumeMessageDirectly = request.header()?;
    let id = header.msg_id.clone().unwrap_or_default();
    let position = OffsetId::parse(&id)?.commit_log_offset;
    let record = u64::try_from(position).ok().and_then(|position| state.store.record_at(position));
    let record = record.ok_or_else(|| Refusal::error(format_args!("no message {id} on this broker")))?;
    header.broker_name = Some(state.settings.name.clone());
    if state.settings.version.is_5() {
        (header.topic_sys_flag, header.group_sys_flag) = (Some(0), Some(0));
    }
    let command = RemotingCommand::with_header(RequestCode::CONSUME_MESSAGE_DIRECTLY, &header).body(record);
    let client_id = header.client_id.unwrap_or_default();
    pass_on(state, request, &header.consumer_group, &client_id, command)
}

/// 223: the offsets that members remember; of one member if it is named.
pub(crate) fn consumer_status(state: &mut State, request: &Request) -> Handled {
    let header: GetConsumerStatus = request.header()?;
    let wanted = header.client_addr.as_deref().unwrap_or_default();
    let members = state.members.group(&header.group).into_iter().flat_map(|members| &members.channels);
    let members = members.filter(|(_, channel)| wanted.is_empty() || channel.client_id == wanted);
    let clients: Vec<_> = members.map(|(peer, channel)| (*peer, channel.client_id.clone())).collect();
    if clients.is_empty() {
        let remark = format!("No Any Consumer online in the consumer group: [{}]", header.group);
        return Err(Refusal::new(ResponseCode::CONSUMER_NOT_ONLINE, remark));
    }
    let told = GroupTopic { group: header.group, topic: header.topic };
    let command = RemotingCommand::with_header(RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT, &told);
    state.survey(&request.reply, clients, &command);
    Ok(Answer::Later)
}

fn pass_on(
    state: &mut State,
    request: &Request,
    group: &str,
    client_id: &str,
    command: RemotingCommand,
) -> Handled {
    let Some((peer, channel)) = state.members.find(group, client_id) else {
        return Err(Refusal::error(format_args!("The Consumer <{group}> <{client_id}> not online")));
    };
    if channel.version < KNOWS_RELAYS {
        let version = channel.version;
        return Err(Refusal::error(format_args!(
            "The Consumer <{client_id}> Version <{version}> too low to finish, please upgrade it to V3_1_8_SNAPSHOT"
        )));
    }
    state.relay(&request.reply, peer, command);
    Ok(Answer::Later)
}
