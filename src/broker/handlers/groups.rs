//! Administration of consumer groups.

use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::state::State;
use crate::message::{is_reserved_group, retry_topic, topic_problem};
use crate::protocol::body::{SubscriptionGroupConfig, SubscriptionGroupList, SubscriptionGroupTable};
use crate::protocol::headers::{DeleteGroup, GetAllGroupConfigAnswer, Group};
use crate::protocol::{RemotingCommand, ResponseCode};

/// 200.
pub(crate) fn save(state: &mut State, request: &Request) -> Handled {
    let config = SubscriptionGroupConfig::read(&request.command.body)?;
    check(state, &config)?;
    state.groups.insert(config.group_name.clone(), config);
    Answer::ok()
}

/// 225.
pub(crate) fn save_several(state: &mut State, request: &Request) -> Handled {
    let list = SubscriptionGroupList::read(&request.command.body)?.group_config_list;
    list.iter().try_for_each(|config| check(state, config))?;
    state.groups.extend(list.into_iter().map(|config| (config.group_name.clone(), config)));
    Answer::ok()
}

/// 207. The flag that takes the offsets away as well has another name in 4.9.
pub(crate) fn delete(state: &mut State, request: &Request) -> Handled {
    let header: DeleteGroup = request.header()?;
    let group = &header.group_name;
    if is_reserved_group(group) {
        return Err(state.invalid(format_args!("the group[{group}] is conflict with system group.")));
    }
    state.groups.remove(group);
    if header.clean_offset.or(header.remove_offset) == Some(true) {
        state.offsets.delete_group(group);
    }
    Answer::ok()
}

/// 201.
pub(crate) fn all(state: &State) -> Handled {
    let table = SubscriptionGroupTable {
        data_version: Some(state.data_version()),
        forbidden_table: state.settings.version.is_5().then(Default::default),
        subscription_group_table: state.groups.clone(),
    };
    let total_group_num = state.total(state.groups.len());
    let answer = RemotingCommand::response(ResponseCode::SUCCESS, 0).body(table.write());
    Ok(Answer::Now(answer.header_fields(&GetAllGroupConfigAnswer { total_group_num })))
}

/// 352.
pub(crate) fn one(state: &State, request: &Request) -> Handled {
    let group = request.header::<Group>()?.group;
    let config = state.groups.get(&group).ok_or_else(|| Refusal::no_group(&group))?;
    Answer::body(config.write())
}

fn check(state: &State, config: &SubscriptionGroupConfig) -> Result<(), Refusal> {
    match topic_problem(&retry_topic(&config.group_name)) {
        Some(problem) => Err(state.invalid(format_args!("{problem}"))),
        None if config.group_name.is_empty() => Err(state.invalid(format_args!("the group has no name"))),
        None => Ok(()),
    }
}
