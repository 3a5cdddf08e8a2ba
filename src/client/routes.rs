//! What is known of topics and brokers, and when to ask again. Pure: no socket, no clock.
//!
//! [`Route`] is one topic as a name server described it, with the queues that follow from it. [`RouteTable`] holds
//! them all and the addresses of the brokers. [`RouteWatch`] (in `watch`) says which topic to ask for next.

mod table;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::message::MessageQueue;
use crate::protocol::body::{QueueData, TopicRouteData};

pub(crate) use table::{Change, Moved, Role, RouteTable};
pub(crate) use watch::{Asked, RouteWatch};

/// One topic, as a name server described it last. Never changes: news make a new one.
#[derive(Debug)]
pub(crate) struct Route {
    topic: Arc<str>,
    data: TopicRouteData,
    brokers: BTreeMap<Arc<str>, BTreeMap<u64, Arc<str>>>,
    publish: Vec<MessageQueue>,
    subscribe: Vec<MessageQueue>,
    used: AtomicBool,
}

impl Route {
    pub(crate) fn new(topic: Arc<str>, mut data: TopicRouteData) -> Self {
        data.queue_datas.sort_by(|a, b| a.broker_name.cmp(&b.broker_name));
        data.broker_datas.sort_by(|a, b| a.broker_name.cmp(&b.broker_name));
        let brokers = addresses(&data);
        let publish = publish_queues(&topic, &data, &brokers);
        let subscribe = subscribe_queues(&topic, &data);
        Route { topic, data, brokers, publish, subscribe, used: AtomicBool::new(true) }
    }

    pub(crate) fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    pub(crate) fn data(&self) -> &TopicRouteData {
        &self.data
    }

    /// The queues a producer may send to, by broker name and number: writable, and with a master.
    pub(crate) fn publish(&self) -> &[MessageQueue] {
        &self.publish
    }

    /// The queues a consumer reads, by broker name and number: readable, with or without a master.
    pub(crate) fn subscribe(&self) -> &[MessageQueue] {
        &self.subscribe
    }

    /// The brokers of the topic: name → id → address. Id 0 is the master.
    pub(crate) fn brokers(&self) -> &BTreeMap<Arc<str>, BTreeMap<u64, Arc<str>>> {
        &self.brokers
    }

    /// Notes that somebody needs this topic, so that it is kept fresh.
    pub(crate) fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was needed since the last call.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Whether a broker of this topic has this address.
    pub(crate) fn has_address(&self, address: &str) -> bool {
        self.brokers.values().flat_map(BTreeMap::values).any(|known| &**known == address)
    }
}

fn addresses(data: &TopicRouteData) -> BTreeMap<Arc<str>, BTreeMap<u64, Arc<str>>> {
    let mut brokers = BTreeMap::<Arc<str>, BTreeMap<u64, Arc<str>>>::new();
    for broker in &data.broker_datas {
        let known = brokers.entry(broker.broker_name.as_str().into()).or_default();
        for (id, address) in &broker.broker_addrs {
            // A negative id is nobody's; an address without text cannot be dialled.
            if let Ok(id) = u64::try_from(*id)
                && !address.is_empty()
            {
                known.insert(id, address.as_str().into());
            }
        }
    }
    brokers
}

fn publish_queues(
    topic: &Arc<str>,
    data: &TopicRouteData,
    brokers: &BTreeMap<Arc<str>, BTreeMap<u64, Arc<str>>>,
) -> Vec<MessageQueue> {
    if let Some(order) = data.order_topic_conf.as_deref().filter(|order| !order.is_empty()) {
        return ordered_queues(topic, order);
    }
    let mut queues = Vec::new();
    for entry in data.queue_datas.iter().filter(|entry| entry.perm & WRITABLE != 0) {
        let master = brokers.get(entry.broker_name.as_str()).is_some_and(|ids| ids.contains_key(&MASTER));
        if master {
            push_queues(&mut queues, topic, &entry.broker_name, entry.write_queue_nums);
        }
    }
    queues
}

fn subscribe_queues(topic: &Arc<str>, data: &TopicRouteData) -> Vec<MessageQueue> {
    let mut queues = Vec::new();
    let readable = |entry: &&QueueData| entry.perm & READABLE != 0;
    for entry in data.queue_datas.iter().filter(readable) {
        push_queues(&mut queues, topic, &entry.broker_name, entry.read_queue_nums);
    }
    queues
}

/// `broker-a:4;broker-b:4`, in the order given: the name server's word on an ordered topic.
fn ordered_queues(topic: &Arc<str>, order: &str) -> Vec<MessageQueue> {
    let mut queues = Vec::new();
    for pair in order.split(';') {
        if let Some((broker, count)) = pair.split_once(':')
            && let Ok(count) = count.trim().parse::<i32>()
        {
            push_queues(&mut queues, topic, broker.trim(), count);
        }
    }
    queues
}

fn push_queues(queues: &mut Vec<MessageQueue>, topic: &Arc<str>, broker: &str, count: i32) {
    let broker: Arc<str> = broker.into();
    let room = i32::try_from(MOST_QUEUES.saturating_sub(queues.len())).unwrap_or(i32::MAX);
    if count > room {
        log::warn!("topic {topic} claims {count} queues on {broker}; {room} of them are used");
    }
    for id in 0..count.min(room) {
        queues.push(MessageQueue::new(topic.clone(), broker.clone(), id));
    }
}

pub(crate) const MASTER: u64 = 0;
const READABLE: i32 = 4;
const WRITABLE: i32 = 2;
/// A count in a route is four bytes of somebody else's: more than this is not believed.
const MOST_QUEUES: usize = 100_000;

#[cfg(test)]
mod tests;
