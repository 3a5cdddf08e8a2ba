//! What each request does: one file for each family, all as functions on the state.

mod clients;
mod config;
mod groups;
mod locks;
mod messages;
pub(crate) mod name_server;
mod offsets;
mod pull;
mod recall;
mod relay;
mod reply;
mod reset;
mod send;
mod send_back;
mod stats;
mod topics;

use super::request::{Answer, Handled, Refusal, Request};
use super::state::State;
use crate::protocol::{RemotingCommand, RequestCode as Code, ResponseCode};

/// Carries a request out.
pub(crate) fn handle(state: &mut State, request: &Request) -> Handled {
    if let Some(handled) = name_server::handle(&state.names, request) {
        return handled;
    }
    #[cfg(feature = "acl")]
    super::rights::check(state, request)?;
    if state.is_slave() && is_write(request.command.request_code()) {
        let remark = "service not available now. It may be caused by one of the following reasons: \
                      the broker's role is slave";
        return Err(Refusal::new(ResponseCode::SERVICE_NOT_AVAILABLE, remark));
    }
    match request.command.request_code() {
        Code::SEND_MESSAGE | Code::SEND_MESSAGE_V2 => send::one(state, request),
        Code::SEND_BATCH_MESSAGE => send::batch(state, request),
        Code::SEND_REPLY_MESSAGE | Code::SEND_REPLY_MESSAGE_V2 => reply::reply(state, request),
        Code::RECALL_MESSAGE if state.settings.version.is_5() => recall::recall(state, request),
        Code::CONSUMER_SEND_MSG_BACK => send_back::send_back(state, request),
        Code::PULL_MESSAGE => pull::pull(state, request),
        Code::LITE_PULL_MESSAGE if state.settings.version.is_5() => pull::pull(state, request),

        Code::HEART_BEAT => clients::heartbeat(state, request),
        Code::UNREGISTER_CLIENT => clients::unregister(state, request),
        Code::GET_CONSUMER_LIST_BY_GROUP => clients::consumer_list(state, request),
        Code::REGISTER_MESSAGE_FILTER_CLASS if !state.settings.classes.is_empty() => {
            clients::register_class(state, request)
        }
        Code::CHECK_CLIENT_CONFIG => clients::check_config(state, request),

        Code::QUERY_CONSUMER_OFFSET => offsets::query(state, request),
        Code::UPDATE_CONSUMER_OFFSET => offsets::update(state, request),
        Code::GET_MAX_OFFSET => offsets::max(state, request),
        Code::GET_MIN_OFFSET => offsets::min(state, request),
        Code::GET_EARLIEST_MSG_STORETIME => offsets::earliest_store_time(state, request),
        Code::SEARCH_OFFSET_BY_TIMESTAMP => offsets::search(state, request),

        Code::VIEW_MESSAGE_BY_ID => messages::view(state, request),
        Code::QUERY_MESSAGE => messages::query(state, request),

        Code::LOCK_BATCH_MQ => locks::lock(state, request),
        Code::UNLOCK_BATCH_MQ => locks::unlock(state, request),
        _ => administer(state, request),
    }
}

/// What a slave leaves to its master.
fn is_write(code: Code) -> bool {
    matches!(
        code,
        Code::SEND_MESSAGE
            | Code::SEND_MESSAGE_V2
            | Code::SEND_BATCH_MESSAGE
            | Code::RECALL_MESSAGE
            | Code::CONSUMER_SEND_MSG_BACK
            | Code::UPDATE_AND_CREATE_TOPIC
            | Code::UPDATE_AND_CREATE_TOPIC_LIST
            | Code::DELETE_TOPIC_IN_BROKER
            | Code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            | Code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
            | Code::DELETE_SUBSCRIPTIONGROUP
    )
}

/// The requests of tools.
fn administer(state: &mut State, request: &Request) -> Handled {
    match request.command.request_code() {
        Code::UPDATE_AND_CREATE_TOPIC => topics::create(state, request),
        Code::UPDATE_AND_CREATE_TOPIC_LIST => topics::create_several(state, request),
        Code::DELETE_TOPIC_IN_BROKER => topics::delete(state, request),
        Code::GET_ALL_TOPIC_CONFIG => topics::all(state),
        Code::GET_TOPIC_CONFIG => topics::one(state, request),
        Code::GET_SYSTEM_TOPIC_LIST_FROM_BROKER => topics::system_topics(state),

        Code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => groups::save(state, request),
        Code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST => groups::save_several(state, request),
        Code::DELETE_SUBSCRIPTIONGROUP => groups::delete(state, request),
        Code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => groups::all(state),
        Code::GET_SUBSCRIPTIONGROUP_CONFIG => groups::one(state, request),

        Code::GET_TOPIC_STATS_INFO => stats::topic(state, request),
        Code::GET_CONSUME_STATS => stats::consumer(state, request),
        Code::GET_BROKER_CONSUME_STATS => stats::all_consumers(state),
        Code::QUERY_CONSUME_TIME_SPAN => stats::time_spans(state, request),
        Code::GET_CONSUMER_CONNECTION_LIST => stats::consumer_connections(state, request),
        Code::GET_PRODUCER_CONNECTION_LIST => stats::producer_connections(state, request),
        Code::GET_ALL_PRODUCER_INFO => stats::producers(state),
        Code::QUERY_TOPIC_CONSUME_BY_WHO => stats::groups_of_topic(state, request),
        Code::QUERY_TOPICS_BY_CONSUMER => stats::topics_of_group(state, request),
        Code::GET_ALL_CONSUMER_OFFSET => stats::consumer_offsets(state),
        Code::GET_ALL_DELAY_OFFSET => stats::delay_offsets(state),
        Code::GET_BROKER_RUNTIME_INFO => stats::runtime(state),

        Code::QUERY_CONSUME_QUEUE => messages::consume_queue(state, request),
        Code::UPDATE_BROKER_CONFIG => config::update(state, request),
        Code::GET_BROKER_CONFIG => config::all(state),

        // In memory there is never anything to clean up.
        Code::CLEAN_EXPIRED_CONSUMEQUEUE | Code::CLEAN_UNUSED_TOPIC | Code::DELETE_EXPIRED_COMMITLOG => {
            Answer::ok()
        }

        Code::CLONE_GROUP_OFFSET => reset::clone(state, request),
        Code::INVOKE_BROKER_TO_RESET_OFFSET => reset::reset(state, request),
        Code::GET_CONSUMER_RUNNING_INFO => relay::running_info(state, request),
        Code::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => relay::consumer_status(state, request),
        Code::CONSUME_MESSAGE_DIRECTLY => relay::consume_directly(state, request),
        other => {
            // The leading space is that of real servers.
            let remark = format!(" request type {} not supported", other.0);
            Err(Refusal::new(ResponseCode::REQUEST_CODE_NOT_SUPPORTED, remark))
        }
    }
}

/// The answer to a request that a fault wants answered with `code`, in a form that clients can read.
pub(crate) fn faulted(state: &State, request: &Request, code: ResponseCode) -> RemotingCommand {
    let answer = RemotingCommand::response(code, 0).remark("a fault of the embedded broker");
    match request.command.request_code() {
        Code::PULL_MESSAGE | Code::LITE_PULL_MESSAGE => pull::add_offsets(state, request, answer),
        _ => answer,
    }
}
