//! Class filters, as brokers up to 4.2 had them: the source goes to every filter server of the topic, and pulls go to
//! one of those.

use std::sync::Arc;
use std::time::Instant;

use crate::client::{Instance, Route, failed_attempt, random_below};
use crate::error::{Attempt, Error, Result};
use crate::message::{Subscription, SubscriptionKind};
use crate::protocol::headers::RegisterFilterClass;
use crate::protocol::{RemotingCommand, RequestCode, ResponseCode};
use crate::remoting::{CallError, ReplySink};

/// Gives the source to all filter servers of the topic.
///
/// # Errors
/// `InvalidInput` if there are none; what went wrong if one does not take it.
pub(super) fn upload(
    instance: &Instance,
    group: &str,
    subscription: &Subscription,
    deadline: Instant,
) -> Result<()> {
    let route = instance.route_or_fetch(&subscription.topic, deadline)?;
    let servers: Vec<&String> = route.data().filter_server_table.values().flatten().collect();
    let topic = instance.namespace().strip(&subscription.topic);
    if servers.is_empty() {
        let problem = format!(
            "topic {topic} cannot be filtered by the class {}: that takes filter servers, which RocketMQ had up to 4.2, \
             and there are none",
            subscription.expression
        );
        return Err(Error::invalid_input(problem).with_topic(&topic));
    }
    for server in servers {
        let began = Instant::now();
        let left = deadline.saturating_duration_since(began).min(instance.config().request_timeout);
        let answer = instance.call(server, registration(group, subscription), left);
        let attempt = match answer.and_then(|frame| frame.command().map_err(CallError::Decode)) {
            Ok(answer) if answer.response_code() == ResponseCode::SUCCESS => continue,
            Ok(answer) => {
                let (code, remark) = (answer.response_code(), answer.remark);
                Attempt::answered(server.as_str(), code, remark.as_deref(), began.elapsed())
            }
            Err(error) => failed_attempt(server, &error, began.elapsed()),
        };
        let what =
            format!("giving the class {} for topic {topic} to a filter server", subscription.expression);
        return Err(Error::failed(what, vec![attempt]).with_topic(&topic));
    }
    Ok(())
}

/// Gives the sources again, since a filter server that has restarted has none: with each heartbeat, as Java does it.
/// Does not wait.
pub(super) fn upload_again<'a>(
    instance: &Instance,
    group: &str,
    subscriptions: impl Iterator<Item = &'a Arc<Subscription>>,
    broker: &str,
) {
    for subscription in subscriptions.filter(|subscription| subscription.kind == SubscriptionKind::Class) {
        let Some(route) = instance.route(&subscription.topic) else { continue };
        for server in servers_of(&route, broker) {
            let (name, class) = (server.clone(), subscription.expression.clone());
            let reply = ReplySink::new(move |_, answer| {
                let code = answer.map(|frame| frame.command().map(|answer| answer.response_code()));
                if !matches!(code, Ok(Ok(ResponseCode::SUCCESS))) {
                    log::warn!("filter server {name} did not take the class {class}: {code:?}");
                }
            });
            let timeout = instance.config().request_timeout;
            instance.invoke(server, registration(group, subscription), timeout, reply.reply(0));
        }
    }
}

/// One of the filter servers of a broker.
pub(super) fn filter_server(instance: &Instance, topic: &str, broker: &str) -> Option<Arc<str>> {
    let route = instance.route(topic)?;
    let servers = servers_of(&route, broker);
    servers.get(random_below(servers.len())).map(|server| server.as_str().into())
}

fn servers_of<'a>(route: &'a Route, broker: &str) -> &'a [String] {
    route.data().filter_server_table.get(broker).map_or(&[], Vec::as_slice)
}

fn registration(group: &str, subscription: &Subscription) -> RemotingCommand {
    let source = subscription.source.as_deref().unwrap_or_default().as_bytes();
    let header = RegisterFilterClass {
        consumer_group: group.to_owned(),
        topic: subscription.topic.clone(),
        class_name: subscription.expression.clone(),
        // Without the sign, as Java computes it.
        class_crc: (crc32fast::hash(source) & 0x7FFF_FFFF).cast_signed(),
    };
    RemotingCommand::with_header(RequestCode::REGISTER_MESSAGE_FILTER_CLASS, &header).body(source.to_vec())
}
