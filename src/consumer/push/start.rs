//! From checked settings to a running push consumer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, unbounded};

use super::PushConsumer;
use super::end::Inner;
use super::member::Membership;
use crate::client::{Client, Instance};
use crate::consumer::core::{Core, Parts};
use crate::consumer::filters::check_filter;
use crate::consumer::listener::{Hook, Listener};
use crate::consumer::local::{LocalOffsets, LocalStore};
use crate::consumer::loops::Loops;
use crate::consumer::rebalance_loop::{self, RebalanceEvent};
use crate::consumer::settings::Settings;
use crate::consumer::timer_loop::TimerEvent;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{DLQ_PREFIX, Filter, RETRY_PREFIX, Subscription, retry_topic};

pub(super) fn start(
    client: Client,
    group: String,
    settings: Settings,
    listener: Listener,
    hooks: Vec<Hook>,
    local: Option<LocalOffsets>,
    topics: BTreeMap<String, Filter>,
) -> Result<PushConsumer> {
    let instance = client.instance().clone();
    let deadline = Instant::now() + instance.config().start_timeout;
    let wire_group = instance.namespace().group(&group);
    let version = instance.clock().millis();
    let mut subscriptions = subscriptions(&instance, &wire_group, &topics, version, deadline)?;
    // Where every member gets everything, nothing comes back.
    if !settings.is_broadcasting() {
        let retries: Arc<str> = retry_topic(&wire_group).into();
        let everything = Subscription::parse(&*retries, &Filter::all(), version);
        subscriptions.insert(retries, Arc::new(everything.map_err(Error::invalid_input)?));
    }

    let loops = instance.extension(|| Loops::start(&instance))?;
    let local =
        local.map(|place| open_local(&place, &loops, &instance, &wire_group, deadline)).transpose()?;
    let threads = settings.consume_threads;
    let (lock, locks) = unbounded();
    let needs_locks = settings.order.as_ref().is_some_and(|order| order.locks);
    let core = Arc::new(Core::new(Parts {
        plain_group: group.into(),
        settings,
        instance: instance.clone(),
        listener,
        hooks,
        tracer: instance.tracer()?,
        local,
        budget: loops.budget().clone(),
        polling: None,
        subscriptions,
        pull: loops.pull().clone(),
        timer: loops.timer().clone(),
        rebalance: loops.rebalance().clone(),
        lock: needs_locks.then_some(lock),
    }));
    let inner = Arc::new(Inner::new(core.clone(), client));
    // A second consumer of the group on this client ends here, before anything of it exists that could be mistaken
    // for the first.
    instance.register(Arc::new(Membership(inner.clone())))?;
    let consumer = PushConsumer { inner: inner.clone() };
    if needs_locks {
        inner.start_lock_thread(locks)?;
    }
    let ready = begin(&core);
    inner.start_threads(threads)?;
    wait_until_ready(&core, &ready, deadline);
    Ok(consumer)
}

/// By topic as the wire has it. Their topics exist, and their filters are understood.
fn subscriptions(
    instance: &Instance,
    wire_group: &str,
    topics: &BTreeMap<String, Filter>,
    version: i64,
    deadline: Instant,
) -> Result<BTreeMap<Arc<str>, Arc<Subscription>>> {
    let mut subscriptions = BTreeMap::new();
    for (topic, filter) in topics {
        let wire: Arc<str> = instance.namespace().topic(topic).into();
        let subscription = Subscription::parse(&*wire, filter, version).map_err(Error::invalid_input)?;
        if !instance.config().in_background && !comes_later(&wire) {
            find_topic(instance, &wire, deadline)?;
            check_filter(instance, wire_group, &subscription, deadline)?;
        }
        subscriptions.insert(wire, Arc::new(subscription));
    }
    Ok(subscriptions)
}

/// The offsets of a broadcasting consumer.
pub(in crate::consumer) fn open_local(
    place: &LocalOffsets,
    loops: &Loops,
    instance: &Instance,
    wire_group: &str,
    deadline: Instant,
) -> Result<Arc<LocalStore>> {
    let rebalance = loops.rebalance().clone();
    // The loop ends after the last consumer: then nobody waits for an answer.
    let written = move |tag, result| drop(rebalance.send(RebalanceEvent::LocalCommit(tag, result)));
    LocalStore::open(place, wire_group, instance.remoting().aux(), deadline, Box::new(written))
}

/// The queues are looked for from now on. Hears when the first of them have their start positions.
pub(in crate::consumer) fn begin(core: &Arc<Core>) -> Receiver<()> {
    let (ready, is_ready) = bounded(1);
    core.post_timer(TimerEvent::Sample(Arc::downgrade(core)));
    core.post_rebalance(RebalanceEvent::Start { core: core.clone(), ready });
    is_ready
}

/// Waits for that, unless nobody is to wait, or an allocation strategy would wait for its own thread.
pub(in crate::consumer) fn wait_until_ready(core: &Core, ready: &Receiver<()>, deadline: Instant) {
    let waits = !core.instance.config().in_background && !rebalance_loop::is_here();
    if waits && ready.recv_deadline(deadline).is_err() {
        log::warn!(
            "consumer {} has started, but not every queue has its start position yet: see stats()",
            core.plain_group
        );
    }
    log::info!("consumer {} started on client {}", core.plain_group, core.instance.id());
}

/// Brokers make these when they are needed.
pub(in crate::consumer) fn comes_later(topic: &str) -> bool {
    topic.starts_with(DLQ_PREFIX) || topic.starts_with(RETRY_PREFIX)
}

/// A topic that was made a moment ago may not have reached the name servers yet.
pub(in crate::consumer) fn find_topic(instance: &Instance, topic: &str, deadline: Instant) -> Result<()> {
    let patience = Instant::now() + TOPIC_PATIENCE;
    loop {
        match instance.route_or_fetch(topic, deadline) {
            Ok(_) => return Ok(()),
            Err(error)
                if error.kind() == ErrorKind::TopicNotFound && Instant::now() < patience.min(deadline) =>
            {
                std::thread::sleep(ASK_TOPIC_AGAIN);
            }
            Err(error) => return Err(error),
        }
    }
}

const TOPIC_PATIENCE: Duration = Duration::from_secs(1);
const ASK_TOPIC_AGAIN: Duration = Duration::from_millis(100);
