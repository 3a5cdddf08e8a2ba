//! Accounts: whose requests are served.

use std::collections::BTreeMap;

use super::request::{Refusal, Request};
use super::settings::Version;
use super::state::State;
use crate::message::RETRY_PREFIX;
use crate::protocol::body::{HeartbeatData, LockBatchRequest};
use crate::protocol::{DecodeError, RequestCode as Code, ResponseCode};
use crate::remoting::acl;

/// What an account may do with a topic or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Nothing.
    Deny,
    /// Consume.
    Read,
    /// Send.
    Write,
    /// Both.
    ReadWrite,
}

/// What an account may do.
#[derive(Clone, Debug)]
#[must_use]
pub struct Rights {
    default: Permission,
    topics: BTreeMap<String, Permission>,
    groups: BTreeMap<String, Permission>,
    administer: bool,
}

impl Permission {
    fn allows(self, wanted: Self) -> bool {
        self == wanted || self == Self::ReadWrite
    }
}

impl Rights {
    /// Everything, administration included.
    pub fn all() -> Self {
        Self { default: Permission::ReadWrite, administer: true, ..Self::none() }
    }

    /// Nothing but what is added by [`topic`](Self::topic) and [`group`](Self::group).
    pub fn none() -> Self {
        let (topics, groups) = (BTreeMap::new(), BTreeMap::new());
        Self { default: Permission::Deny, topics, groups, administer: false }
    }

    /// What it may do with one topic.
    pub fn topic(mut self, name: impl Into<String>, permission: Permission) -> Self {
        self.topics.insert(name.into(), permission);
        self
    }

    /// What it may do as a group; consuming is [`Permission::Read`].
    pub fn group(mut self, name: impl Into<String>, permission: Permission) -> Self {
        self.groups.insert(name.into(), permission);
        self
    }

    fn allow(&self, action: &Action) -> bool {
        let of = |table: &BTreeMap<String, Permission>, name: &str| {
            table.get(name).copied().unwrap_or(self.default)
        };
        match action {
            Action::Send(topic) => of(&self.topics, topic).allows(Permission::Write),
            // The retry topic of a group goes with the group.
            Action::Read(topic) if topic.starts_with(RETRY_PREFIX) => true,
            Action::Read(topic) => of(&self.topics, topic).allows(Permission::Read),
            Action::Consume(group) => of(&self.groups, group).allows(Permission::Read),
            Action::Administer => self.administer,
        }
    }
}

/// Something that needs a right.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    Send(String),
    Read(String),
    Consume(String),
    Administer,
}

/// Whether the account of a request may make it. Without accounts everybody may.
pub(crate) fn check(state: &State, request: &Request) -> Result<(), Refusal> {
    let accounts = &state.settings.accounts;
    if accounts.is_empty() {
        return Ok(());
    }
    let command = &request.command;
    let refuse = |why: String| refusal(state.settings.version, why);
    let key = acl::access_key(command).ok_or_else(|| refuse("the request is not signed".to_owned()))?;
    let account = accounts.iter().find(|(credentials, _)| credentials.access_key == key);
    let (credentials, rights) = account.ok_or_else(|| refuse(format!("no account {key} is known")))?;
    if !acl::is_signed_with(command, &credentials.secret_key) {
        return Err(refuse(format!("the signature of account {key} is wrong")));
    }
    match actions(request)?.iter().find(|action| !rights.allow(action)) {
        None => Ok(()),
        Some(action) => Err(refuse(format!("account {key} has no right for {action:?}"))),
    }
}

fn refusal(version: Version, why: String) -> Refusal {
    match version {
        Version::V4_9 => Refusal::error(format_args!("AclException: {why}")),
        _ => Refusal::new(ResponseCode::NO_PERMISSION, why),
    }
}

fn actions(request: &Request) -> Result<Vec<Action>, DecodeError> {
    let command = &request.command;
    let field = |name: &str| command.fields.get(name).unwrap_or_default().to_owned();
    let of_topic = || Action::Read(field("topic"));
    Ok(match command.request_code() {
        Code::SEND_MESSAGE | Code::SEND_REPLY_MESSAGE => vec![sending(field("topic"))],
        Code::SEND_MESSAGE_V2 | Code::SEND_BATCH_MESSAGE | Code::SEND_REPLY_MESSAGE_V2 => {
            vec![sending(field("b"))]
        }
        Code::PULL_MESSAGE | Code::LITE_PULL_MESSAGE => {
            vec![of_topic(), Action::Consume(field("consumerGroup"))]
        }
        Code::CONSUMER_SEND_MSG_BACK => vec![Action::Consume(field("group"))],
        Code::QUERY_CONSUMER_OFFSET | Code::UPDATE_CONSUMER_OFFSET | Code::GET_CONSUMER_LIST_BY_GROUP => {
            vec![Action::Consume(field("consumerGroup"))]
        }
        Code::GET_MAX_OFFSET
        | Code::GET_MIN_OFFSET
        | Code::GET_EARLIEST_MSG_STORETIME
        | Code::SEARCH_OFFSET_BY_TIMESTAMP
        | Code::QUERY_MESSAGE => vec![of_topic()],
        Code::LOCK_BATCH_MQ | Code::UNLOCK_BATCH_MQ => {
            vec![Action::Consume(LockBatchRequest::read(&command.body)?.consumer_group)]
        }
        Code::HEART_BEAT => of_heartbeat(&HeartbeatData::read(&command.body)?),
        // They change nothing that is not the client's own, or say nothing about any topic.
        Code::UNREGISTER_CLIENT | Code::CHECK_CLIENT_CONFIG | Code::VIEW_MESSAGE_BY_ID => Vec::new(),
        _ => vec![Action::Administer],
    })
}

fn sending(topic: String) -> Action {
    match topic.strip_prefix(RETRY_PREFIX) {
        Some(group) => Action::Consume(group.to_owned()),
        None => Action::Send(topic),
    }
}

fn of_heartbeat(heartbeat: &HeartbeatData) -> Vec<Action> {
    let of_consumer = |consumer: &crate::protocol::body::ConsumerData| {
        let topics = consumer.subscription_data_set.iter().map(|subscription| subscription.topic.clone());
        let mut actions: Vec<_> = topics.map(Action::Read).collect();
        actions.push(Action::Consume(consumer.group_name.clone()));
        actions
    };
    heartbeat.consumer_data_set.iter().flat_map(of_consumer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_what_was_said_and_else_the_default() {
        let send = |topic: &str| Action::Send(topic.into());
        let read = |topic: &str| Action::Read(topic.into());
        let some = Rights::none().topic("t", Permission::Read).group("g", Permission::Read);
        assert!(some.allow(&read("t")) && !some.allow(&send("t")) && !some.allow(&read("u")));
        assert!(some.allow(&Action::Consume("g".into())) && !some.allow(&Action::Consume("h".into())));
        assert!(some.allow(&read("%RETRY%g")) && !some.allow(&Action::Administer));
        let most = Rights::all().topic("secret", Permission::Deny);
        assert!(most.allow(&send("t")) && !most.allow(&send("secret")) && most.allow(&Action::Administer));
        assert_eq!(sending("%RETRY%g".into()), Action::Consume("g".into()));
    }
}
