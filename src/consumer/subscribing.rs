//! Subscribing and unsubscribing while a consumer runs.

use std::sync::Arc;
use std::time::Instant;

use super::core::Core;
use super::filters::check_filter;
use super::pull_loop::PullEvent;
use super::rebalance_loop::RebalanceEvent;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Filter, Subscription, topic_problem};

/// Subscribes a topic, or changes its filter. Brokers are told, and the queues follow. An SQL92 filter is shown to one first.
pub(super) fn subscribe(core: &Arc<Core>, topic: &str, filter: &Filter) -> Result<()> {
    if let Some(problem) = topic_problem(topic) {
        return Err(Error::invalid_input(problem));
    }
    let wire: Arc<str> = core.instance.namespace().topic(topic).into();
    let mut subscription = Subscription::parse(&*wire, filter, 0)
        .map_err(|problem| Error::invalid_input(format!("topic {topic}: {problem}")))?;
    if let Some(known) = core.subscription(&wire)
        && (&known.expression, known.kind) == (&subscription.expression, subscription.kind)
    {
        return Ok(());
    }
    check(core, &subscription)?;
    subscription.version = core.next_version();
    core.set_subscription(wire, subscription);
    changed(core);
    Ok(())
}

/// Gives a topic up.
pub(super) fn unsubscribe(core: &Arc<Core>, topic: &str) -> Result<()> {
    if !core.remove_subscription(&core.instance.namespace().topic(topic)) {
        return Err(Error::invalid_input(format!("topic {topic} is not subscribed")));
    }
    changed(core);
    Ok(())
}

fn check(core: &Core, subscription: &Subscription) -> Result<()> {
    let instance = &core.instance;
    if instance.config().in_background {
        return Ok(());
    }
    let deadline = Instant::now() + instance.config().start_timeout;
    match check_filter(instance, &core.group, subscription, deadline) {
        // The topic may come later, as with a tag filter; what its brokers say of the filter is seen in `stats()`.
        Err(error) if error.kind() == ErrorKind::TopicNotFound => Ok(()),
        result => result,
    }
}

fn changed(core: &Arc<Core>) {
    core.instance.members_changed();
    core.instance.heartbeat_now(None);
    core.post_rebalance(RebalanceEvent::Subscribed(core.clone()));
    core.post_pull(PullEvent::NudgeAll);
}
