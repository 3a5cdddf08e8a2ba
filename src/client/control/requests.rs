//! Requests of brokers: each finds the member it concerns, or is answered here.

use std::sync::Arc;

use crate::message::properties;
use crate::protocol::headers::{
    ConsumeMessageDirectly, ConsumerGroup, GetConsumerRunningInfo, GetConsumerStatus, ResetOffset,
};
use crate::protocol::record;
use crate::protocol::{DecodeError, RemotingCommand, RequestCode, ResponseCode};
use crate::remoting::Incoming;

use super::super::member::{Member, MemberKind, Notice};
use super::Control;

impl Control {
    pub(super) fn serve(&mut self, incoming: Incoming) {
        let code = incoming.code();
        log::trace!("{} asks {code}", incoming.address());
        match code {
            RequestCode::PUSH_REPLY_MESSAGE_TO_CLIENT => self.pass_reply_on(incoming),
            RequestCode::CHECK_TRANSACTION_STATE => self.pass_check_on(incoming),
            RequestCode::RESET_CONSUMER_CLIENT_OFFSET
            | RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT
            | RequestCode::GET_CONSUMER_RUNNING_INFO
            | RequestCode::CONSUME_MESSAGE_DIRECTLY => self.pass_to_consumer(incoming),
            _ => {
                log::debug!("{} asks for {code}, which this client does not do", incoming.address());
                let remark = format!("request type {} not supported", code.0);
                refuse(&incoming, ResponseCode::REQUEST_CODE_NOT_SUPPORTED, remark);
            }
        }
    }

    fn pass_to_consumer(&mut self, incoming: Incoming) {
        let group = match consumer_group(&incoming) {
            Ok(group) => group,
            Err(error) => return refuse(&incoming, ResponseCode::SYSTEM_ERROR, error.to_string()),
        };
        match self.member(MemberKind::Consumer, &group) {
            Some(member) => member.notice(Notice::Request(Arc::new(incoming))),
            None => {
                let remark = format!("this client has no consumer of group {group}");
                refuse(&incoming, ResponseCode::SYSTEM_ERROR, remark);
            }
        }
    }

    /// The half message names the group of its producer.
    fn pass_check_on(&mut self, incoming: Incoming) {
        let address = incoming.address().clone();
        let Some(group) = producer_group(incoming.frame().body()) else {
            return log::warn!("{address} asks about a half message that names no producer group");
        };
        match self.member(MemberKind::Producer, &group) {
            Some(member) => member.notice(Notice::Request(Arc::new(incoming))),
            None => {
                log::warn!("{address} asks about a transaction of producer group {group}, which is not here")
            }
        }
    }

    /// A reply finds its request by its correlation id, which the producers know; the broker only wants to hear that
    /// it has come.
    fn pass_reply_on(&mut self, incoming: Incoming) {
        incoming.respond(RemotingCommand::response(ResponseCode::SUCCESS, 0));
        let incoming = Arc::new(incoming);
        for member in self.instance.members().iter().filter(|member| member.kind() == MemberKind::Producer) {
            member.notice(Notice::Request(incoming.clone()));
        }
    }

    fn member(&self, kind: MemberKind, group: &str) -> Option<Arc<dyn Member>> {
        self.instance.members().into_iter().find(|member| member.kind() == kind && member.group() == group)
    }
}

fn consumer_group(incoming: &Incoming) -> Result<String, DecodeError> {
    let command = incoming.command()?;
    Ok(match incoming.code() {
        RequestCode::RESET_CONSUMER_CLIENT_OFFSET => command.header::<ResetOffset>()?.group,
        RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT => command.header::<GetConsumerStatus>()?.group,
        RequestCode::GET_CONSUMER_RUNNING_INFO => command.header::<GetConsumerRunningInfo>()?.consumer_group,
        RequestCode::CONSUME_MESSAGE_DIRECTLY => command.header::<ConsumeMessageDirectly>()?.consumer_group,
        _ => command.header::<ConsumerGroup>()?.consumer_group,
    })
}

fn producer_group(body: &[u8]) -> Option<String> {
    let half = record::records(body, 0..body.len()).next()?.ok()?;
    let (at, length) = half.properties;
    let start = usize::try_from(at).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    properties::find_str(body.get(start..end)?, properties::PGROUP).map(str::to_owned)
}

fn refuse(incoming: &Incoming, code: ResponseCode, remark: String) {
    incoming.respond(RemotingCommand::response(code, 0).remark(remark));
}
