//! Asking a broker whether it can filter as a consumer wants it to, before anything is fetched by that filter.

use std::time::Instant;

use super::classes;
use crate::client::{Instance, failed_attempt};
use crate::error::{Attempt, Error, Result};
use crate::message::{Subscription, SubscriptionKind};
use crate::protocol::body::CheckClientConfig;
use crate::protocol::{RemotingCommand, RequestCode, ResponseCode};
use crate::remoting::CallError;

/// Asks one broker of the topic, the next one if that cannot be reached. Tag filters need no asking, and
/// classes are given to the filter servers. `group` is the name that brokers know.
///
/// # Errors
/// `InvalidInput` with the broker's words if the filter cannot be read, `Broker` if the broker filters by tag only,
/// and what went wrong if none answers. `TopicNotFound` if there is none to ask.
pub(crate) fn check_filter(
    instance: &Instance,
    group: &str,
    subscription: &Subscription,
    deadline: Instant,
) -> Result<()> {
    match subscription.kind {
        SubscriptionKind::Tag => return Ok(()),
        SubscriptionKind::Class => return classes::upload(instance, group, subscription, deadline),
        SubscriptionKind::Sql92 => {}
    }
    let route = instance.route_or_fetch(&subscription.topic, deadline)?;
    let brokers = route.brokers().values().filter_map(|addresses| addresses.values().next());
    let mut attempts = Vec::new();
    for address in brokers {
        let began = Instant::now();
        let left = deadline.saturating_duration_since(began).min(instance.config().request_timeout);
        let answer = instance.call(address, question(instance, group, subscription), left);
        let attempt = match answer.and_then(|frame| frame.command().map_err(CallError::Decode)) {
            Ok(answer) if answer.response_code() == ResponseCode::SUCCESS => return Ok(()),
            Ok(answer) => {
                let (code, remark) = (answer.response_code(), answer.remark);
                let attempt = Attempt::answered(&**address, code, remark.as_deref(), began.elapsed());
                return Err(failed(instance, subscription, vec![attempt], hint(code)));
            }
            Err(error) => failed_attempt(address, &error, began.elapsed()),
        };
        attempts.push(attempt);
    }
    Err(failed(instance, subscription, attempts, ""))
}

fn question(instance: &Instance, group: &str, subscription: &Subscription) -> RemotingCommand {
    let body = CheckClientConfig {
        client_id: instance.id().to_owned(),
        group: group.to_owned(),
        namespace: None,
        subscription_data: Some(subscription.into()),
    };
    RemotingCommand::request(RequestCode::CHECK_CLIENT_CONFIG).body(body.write())
}

fn failed(instance: &Instance, subscription: &Subscription, attempts: Vec<Attempt>, hint: &str) -> Error {
    let (topic, filter) = (instance.namespace().strip(&subscription.topic), &subscription.expression);
    Error::failed(format_args!("subscribing topic {topic} with the filter `{filter}`"), attempts)
        .with_note(hint)
        .with_topic(&topic)
}

/// What to do about a refusal, where the broker does not say it.
fn hint(code: ResponseCode) -> &'static str {
    match code {
        ResponseCode::SYSTEM_ERROR => " (brokers filter by properties if enablePropertyFilter=true is set)",
        ResponseCode::REQUEST_CODE_NOT_SUPPORTED => " (brokers know SQL92 filters from 4.1.0 on)",
        _ => "",
    }
}
