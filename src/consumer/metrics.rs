//! What a consumer publishes with the feature `metrics`.

use std::sync::Arc;

use super::core::Core;
use super::push::snapshot;
use crate::client::metrics::Labels;

pub(super) fn publish(core: &Arc<Core>) {
    let (stats, of) = (snapshot::take(core), Labels::of(&core.instance, Some(&core.plain_group)));
    of.gauge("rocketmq_consumer_threads", stats.threads as f64);
    of.gauge("rocketmq_consumer_busy_threads", stats.busy_threads as f64);
    of.gauge("rocketmq_consumer_cached_messages", stats.cached_messages as f64);
    of.gauge("rocketmq_consumer_cached_bytes", stats.cached_bytes as f64);
    of.counter("rocketmq_consumer_reconsumed_messages_total", stats.reconsumed);
    of.counter("rocketmq_consumer_dead_letters_total", stats.dead_letters);
    for topic in &stats.topics {
        let of = of.topic(&topic.topic);
        of.counter("rocketmq_consumer_pulled_messages_total", topic.pulled);
        of.counter("rocketmq_consumer_succeeded_messages_total", topic.succeeded);
        of.counter("rocketmq_consumer_failed_messages_total", topic.failed);
        // Queues have the topic's name on the servers.
        let plain = |queue: &str| core.instance.namespace().strip(queue) == topic.topic;
        let queues: Vec<_> = stats.queues.iter().filter(|queue| plain(queue.queue.topic())).collect();
        let waiting = queues.iter().filter(|queue| queue.waiting.is_some()).count();
        let lag: u64 = queues.iter().filter_map(|queue| queue.lag).sum();
        of.gauge("rocketmq_consumer_queues", queues.len() as f64);
        of.gauge("rocketmq_consumer_waiting_queues", waiting as f64);
        of.gauge("rocketmq_consumer_lag_messages", lag as f64);
    }
}
