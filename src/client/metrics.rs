//! The feature `metrics`: figures for whatever the program has installed behind the facade of that name.
//!
//! `rmq-control` publishes what is counted anyway, every ten seconds and when a producer, consumer or client ends;
//! only how long things took is told as it happens. Without the feature nothing of this is there.
//!
//! The names are public: they stand in the guide, and change as the API does.

use std::time::Duration;

use super::instance::Instance;

impl Instance {
    /// Publishes the figures of this client and of all that is on it.
    pub(super) fn publish_all(&self) {
        for member in self.members() {
            member.publish_metrics();
        }
        self.publish();
    }

    /// Publishes the figures of the client alone.
    #[cfg(feature = "metrics")]
    pub(super) fn publish(&self) {
        let (stats, of) = (self.stats(), Labels::of(self, None));
        of.gauge("rocketmq_client_connections", stats.connections as f64);
        of.gauge("rocketmq_client_pending_requests", stats.pending_requests as f64);
        of.gauge("rocketmq_client_cached_bytes", stats.cached_bytes as f64);
        of.gauge("rocketmq_client_threads", stats.threads as f64);
        of.counter("rocketmq_client_received_bytes_total", stats.bytes_received);
        of.counter("rocketmq_client_sent_bytes_total", stats.bytes_sent);
        of.counter("rocketmq_client_lost_traces_total", stats.lost_traces);
    }

    #[cfg(not(feature = "metrics"))]
    pub(super) fn publish(&self) {}
}

/// Whose figures they are.
#[cfg(feature = "metrics")]
#[derive(Debug, Clone)]
pub(crate) struct Labels(Vec<metrics::Label>);

#[cfg(feature = "metrics")]
impl Labels {
    /// Those of a client, or of a group on it, as the program named it.
    pub(crate) fn of(instance: &Instance, group: Option<&str>) -> Self {
        let labels = [("client", Some(instance.id())), ("group", group)].into_iter();
        Labels(
            labels.filter_map(|(name, value)| Some(metrics::Label::new(name, value?.to_owned()))).collect(),
        )
    }

    pub(crate) fn topic(&self, topic: &str) -> Self {
        let topic = metrics::Label::new("topic", topic.to_owned());
        Labels(self.0.iter().cloned().chain([topic]).collect())
    }

    pub(crate) fn counter(&self, name: &'static str, total: u64) {
        metrics::counter!(name, self.0.clone()).absolute(total);
    }

    pub(crate) fn gauge(&self, name: &'static str, value: f64) {
        metrics::gauge!(name, self.0.clone()).set(value);
    }
}

/// How long something took, told each time. It goes to the recorder that was installed when it was made.
#[derive(Clone)]
pub(crate) struct Timing {
    #[cfg(feature = "metrics")]
    histogram: metrics::Histogram,
}

#[cfg_attr(not(feature = "metrics"), allow(unused_variables, reason = "there is nobody to be told"))]
impl Timing {
    pub(crate) fn new(instance: &Instance, group: &str, name: &'static str) -> Self {
        Timing {
            #[cfg(feature = "metrics")]
            histogram: metrics::histogram!(name, Labels::of(instance, Some(group)).0),
        }
    }

    pub(crate) fn took(&self, time: Duration) {
        #[cfg(feature = "metrics")]
        {
            // Whoever collects the figures may have bugs; the thread that tells them goes on.
            let told = || self.histogram.record(time.as_secs_f64());
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(told)).is_err() {
                log::error!("the recorder of metrics panicked");
            }
        }
    }
}

impl std::fmt::Debug for Timing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Timing")
    }
}
