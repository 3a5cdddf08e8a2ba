//! What a producer publishes with the feature `metrics`.

use super::core::Core;
use crate::client::metrics::Labels;

pub(super) fn publish(core: &Core) {
    let (stats, of) = (core.recorder.snapshot(), Labels::of(&core.instance, Some(&core.settings.group)));
    of.counter("rocketmq_producer_sent_messages_total", stats.sent);
    of.counter("rocketmq_producer_failed_messages_total", stats.failed);
    of.counter("rocketmq_producer_retries_total", stats.retried);
    of.gauge("rocketmq_producer_in_flight_messages", stats.in_flight as f64);
    of.gauge("rocketmq_producer_in_flight_bytes", stats.in_flight_bytes as f64);
}
