//! What is published through the facade `metrics`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use crate::support::{SOON, Seen, advance_until, alone, billing, client_by_hand, orders_by_hand, until};
use rocketmq_sync::{ConsumeStatus, Message, Producer};

/// The last value of each figure, of a histogram the number of entries, by name and labels.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<BTreeMap<String, f64>>>);

impl Collector {
    fn get(&self, name: &str) -> Option<f64> {
        self.0.lock().unwrap().get(name).copied()
    }

    fn one(&self, key: &Key) -> Arc<One> {
        let labels: Vec<String> = key
            .labels()
            .filter(|label| label.key() != "client")
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        assert!(key.labels().any(|label| label.key() == "client" && label.value().contains('@')));
        Arc::new(One { name: format!("{}{{{}}}", key.name(), labels.join(",")), all: self.clone() })
    }
}

struct One {
    name: String,
    all: Collector,
}

impl One {
    fn set_to(&self, value: f64) {
        self.all.0.lock().unwrap().insert(self.name.clone(), value);
    }

    fn add(&self, value: f64) {
        *self.all.0.lock().unwrap().entry(self.name.clone()).or_default() += value;
    }
}

impl CounterFn for One {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }

    fn absolute(&self, value: u64) {
        self.set_to(value as f64);
    }
}

impl GaugeFn for One {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, value: f64) {
        self.set_to(value);
    }
}

impl HistogramFn for One {
    fn record(&self, value: f64) {
        assert!((0.0..60.0).contains(&value), "{value}");
        self.add(1.0);
    }
}

impl Recorder for Collector {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.one(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.one(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.one(key))
    }
}

/// The recorder is that of the whole process.
#[test]
fn m2_figures_are_published_while_it_runs_and_at_the_end() {
    alone("metrics::m2_figures_are_published_while_it_runs_and_at_the_end", || {
        let all = Collector::default();
        metrics::set_global_recorder(all.clone()).unwrap_or_else(|_| panic!("there is another one"));
        let broker = orders_by_hand(2);
        let client = client_by_hand(&broker);
        let producer = Producer::builder("shop").client(&client).start().unwrap();
        let seen = Seen::default();
        let consumer = billing()
            .client(&client)
            .max_reconsume_times(0)
            .consume_concurrently(seen.answering(|batch| {
                if batch[0].body() == b"bad" { ConsumeStatus::DeadLetter } else { ConsumeStatus::Success }
            }))
            .start()
            .unwrap();
        for body in ["good", "good", "bad"] {
            producer.send(&Message::new("orders", body)).unwrap();
        }
        seen.wait(3);
        until("the dead letter is stored", || consumer.stats().dead_letters == 1);
        advance_until(broker.clock(), Duration::from_secs(10), "the figures are published", || {
            all.get("rocketmq_consumer_succeeded_messages_total{group=billing,topic=orders}") == Some(2.0)
                && all.get("rocketmq_consumer_dead_letters_total{group=billing}") == Some(1.0)
                && all.get("rocketmq_client_lost_traces_total{}").is_some()
        });
        let expected = [
            ("rocketmq_consumer_failed_messages_total{group=billing,topic=orders}", 1.0),
            ("rocketmq_consumer_pulled_messages_total{group=billing,topic=orders}", 3.0),
            ("rocketmq_consumer_queues{group=billing,topic=orders}", 2.0),
            ("rocketmq_consumer_lag_messages{group=billing,topic=orders}", 0.0),
            ("rocketmq_consumer_threads{group=billing}", 20.0),
            ("rocketmq_consumer_listener_seconds{group=billing}", 3.0),
            ("rocketmq_producer_sent_messages_total{group=shop}", 3.0),
            ("rocketmq_producer_in_flight_messages{group=shop}", 0.0),
            ("rocketmq_producer_send_seconds{group=shop}", 3.0),
            ("rocketmq_client_connections{}", 1.0),
            ("rocketmq_client_lost_traces_total{}", 0.0),
        ];
        for (name, value) in expected {
            assert_eq!(all.get(name), Some(value), "{name}");
        }
        assert!(all.get("rocketmq_client_sent_bytes_total{}").unwrap() > 0.0);

        producer.send(&Message::new("orders", "good")).unwrap();
        seen.wait(4);
        until("it is counted", || consumer.stats().succeeded == 3);
        assert!(client.shutdown(SOON).is_clean());
        let last = [
            ("rocketmq_consumer_succeeded_messages_total{group=billing,topic=orders}", 3.0),
            ("rocketmq_consumer_queues{group=billing,topic=orders}", 0.0),
            ("rocketmq_producer_sent_messages_total{group=shop}", 4.0),
        ];
        for (name, value) in last {
            assert_eq!(all.get(name), Some(value), "{name}");
        }
    });
}
