//! From checked settings to a running pull consumer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::PullConsumer;
use super::polling::{Assigned, Polling, StartOffset};
use crate::client::{Client, Instance};
use crate::consumer::core::{Core, Parts};
use crate::consumer::filters::check_filter;
use crate::consumer::listener::Listener;
use crate::consumer::local::LocalOffsets;
use crate::consumer::loops::Loops;
use crate::consumer::push::end::Inner;
use crate::consumer::push::member::Membership;
use crate::consumer::push::start::{begin, comes_later, find_topic, open_local, wait_until_ready};
use crate::consumer::settings::Settings;
use crate::error::{Error, Result};
use crate::message::{Filter, MessageQueue, Subscription};

/// What is to be started.
pub(super) struct Plan {
    pub(super) group: String,
    pub(super) settings: Settings,
    /// Of a broadcasting consumer.
    pub(super) local: Option<LocalOffsets>,
    /// Subscribed, or assigned as a whole.
    pub(super) topics: BTreeMap<String, Filter>,
    /// `None` for a member of the group.
    pub(super) queues: Option<BTreeSet<MessageQueue>>,
    pub(super) auto_commit: bool,
    pub(super) start_offset: Option<StartOffset>,
}

impl Plan {
    /// What was handed out does not count: there is no limit to it.
    pub(super) fn without_span(settings: Settings) -> Settings {
        Settings { max_span: usize::MAX, ..settings }
    }
}

pub(super) fn start(client: Client, plan: Plan) -> Result<PullConsumer> {
    let instance = client.instance().clone();
    let deadline = Instant::now() + instance.config().start_timeout;
    let wire_group = instance.namespace().group(&plan.group);
    let on_wire = |queue: &MessageQueue| instance.namespace().queue(queue).into_owned();
    let queues = plan.queues.map(|queues| queues.iter().map(on_wire).collect());
    let subscriptions = subscriptions(&instance, &plan.topics, queues.as_ref())?;
    if !instance.config().in_background {
        for (topic, subscription) in subscriptions.iter().filter(|(topic, _)| !comes_later(topic)) {
            find_topic(&instance, topic, deadline)?;
            check_filter(&instance, &wire_group, subscription, deadline)?;
        }
    }
    let assigned = queues.map(|queues| {
        let topics = plan.topics.keys().map(|topic| instance.namespace().topic(topic).into()).collect();
        Assigned { topics, queues }
    });
    let loops = instance.extension(|| Loops::start(&instance))?;
    let open = |place: LocalOffsets| open_local(&place, &loops, &instance, &wire_group, deadline);
    let local = plan.local.map(open).transpose()?;
    let core = Arc::new(Core::new(Parts {
        plain_group: plan.group.into(),
        settings: plan.settings,
        instance: instance.clone(),
        listener: Listener::Polled,
        hooks: Vec::new(),
        tracer: instance.tracer()?,
        local,
        budget: loops.budget().clone(),
        polling: Some(Polling::new(plan.auto_commit, assigned, plan.start_offset)),
        subscriptions,
        pull: loops.pull().clone(),
        timer: loops.timer().clone(),
        rebalance: loops.rebalance().clone(),
        lock: None,
    }));
    let inner = Arc::new(Inner::new(core.clone(), client));
    instance.register(Arc::new(Membership(inner.clone())))?;
    let consumer = PullConsumer { inner };
    let ready = begin(&core);
    wait_until_ready(&core, &ready, deadline);
    Ok(consumer)
}

/// By topic as the wire has it.
fn subscriptions(
    instance: &Instance,
    topics: &BTreeMap<String, Filter>,
    queues: Option<&BTreeSet<MessageQueue>>,
) -> Result<BTreeMap<Arc<str>, Arc<Subscription>>> {
    let version = instance.clock().millis();
    let everything = Filter::all();
    let of_queues = queues.into_iter().flatten().map(|queue| (queue.topic().to_owned(), &everything));
    let named = topics.iter().map(|(topic, filter)| (instance.namespace().topic(topic), filter));
    // Of a topic that is named as a whole, its filter counts.
    let mut all = BTreeMap::new();
    for (topic, filter) in of_queues.chain(named) {
        let subscription = Subscription::parse(&*topic, filter, version).map_err(Error::invalid_input)?;
        all.insert(topic.into(), Arc::new(subscription));
    }
    Ok(all)
}
