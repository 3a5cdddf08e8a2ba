//! Which messages a filter lets through is up to the broker, so that the same filter must let the same ones through
//! everywhere: real brokers and the embedded one are asked the same and have to say the same.

use super::{Client, SOON, Target, client, producer};
use rocketmq_sync::{ConsumeFrom, ErrorKind, Filter, Message, PushConsumer, ResponseCode};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};

const TOPIC: &str = "filters";

/// Messages by their bodies, with their properties.
const MESSAGES: [(&str, &[(&str, &str)]); 7] = [
    ("one", &[("amount", "1"), ("country", "NL"), ("vip", "true")]),
    ("half", &[("amount", "0.5"), ("country", "DE")]),
    ("big", &[("amount", "3000000000"), ("country", "it's"), ("vip", "FALSE")]),
    ("minus", &[("amount", "-7"), ("country", "标签")]),
    ("word", &[("amount", "many"), ("country", "NL")]),
    ("bare", &[]),
    ("end", &[("last", "yes")]),
];

/// Filters, with the messages that they let through besides the last one. All versions of RocketMQ agree on these.
const FILTERS: [(&str, &[&str]); 18] = [
    ("amount = 1", &["one"]),
    ("amount > 0.4", &["one", "half", "big"]),
    // A property is read as the kind of number that stands beside it, and what is none of that kind does not match.
    ("amount > 0", &["one"]),
    ("amount > 2147483648", &["big"]),
    ("amount BETWEEN -10 AND 1", &["one", "minus"]),
    ("amount NOT BETWEEN -5 AND 0", &["one", "minus"]),
    ("NOT (amount > 0)", &["minus"]),
    ("country IN ('NL', 'it''s', '标签')", &["one", "big", "minus", "word"]),
    ("country NOT IN ('NL', 'DE')", &["big", "minus"]),
    ("country <> 'NL'", &["half", "big", "minus"]),
    ("'NL' <> country", &["half", "big", "minus", "bare"]),
    ("vip = TRUE", &["one"]),
    ("vip = TRUE OR country = 'DE'", &["one", "half"]),
    ("vip IS NOT NULL AND NOT (vip = TRUE)", &["big"]),
    ("vip IS NULL AND country IS NOT NULL", &["half", "minus", "word"]),
    // `NOT` belongs to the property alone, and what follows a complete filter is not read.
    ("NOT amount = 1", &[]),
    ("amount", &[]),
    ("amount = 1 more of it", &["one"]),
];

const REFUSED: [&str; 8] = [
    "amount >",
    "amount = 1 AND",
    "country > 'A'",
    "amount > 0.0",
    "amount BETWEEN 2 AND 1",
    "amount IN (1, 2)",
    "amount = NULL",
    "country = 'open",
];

pub fn a_filter_lets_the_same_messages_through_everywhere(target: &dyn Target) {
    target.create_topic(TOPIC, 1);
    let client = client(target);
    let producer = producer(&client);
    for (body, properties) in MESSAGES {
        let message = properties
            .iter()
            .fold(Message::new(TOPIC, body), |message, (name, value)| message.property(*name, *value));
        producer.send(&message).expect("the broker runs");
    }
    let readers: Vec<_> =
        FILTERS.iter().enumerate().map(|(n, (sql, _))| Reader::start(&client, n, sql)).collect();
    for (reader, (sql, expected)) in readers.into_iter().zip(FILTERS) {
        assert_eq!(reader.until_the_last(), expected.iter().map(ToString::to_string).collect(), "{sql}");
    }
    for sql in REFUSED {
        let builder =
            PushConsumer::builder("filters-refused").client(&client).subscribe(TOPIC, Filter::sql(sql));
        let error = builder.consume_concurrently(|_| ()).start().expect_err(sql);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert_eq!(error.code(), Some(ResponseCode::SUBSCRIPTION_PARSE_FAILED), "{error}");
        assert!(error.to_string().contains(sql), "{error}");
    }
}

/// A consumer with a filter, and the bodies that have come. They come in order, for the topic has one queue.
struct Reader {
    consumer: PushConsumer,
    bodies: Arc<(Mutex<BTreeSet<String>>, Condvar)>,
}

impl Reader {
    fn start(client: &Client, n: usize, sql: &str) -> Self {
        let bodies = Arc::<(Mutex<BTreeSet<String>>, Condvar)>::default();
        let inbox = bodies.clone();
        let consumer = PushConsumer::builder(format!("filters-{n}"))
            .client(client)
            // What comes before decides nothing for messages that are not the last.
            .subscribe(TOPIC, Filter::sql(format!("last = 'yes' OR {sql}")))
            .consume_from(ConsumeFrom::FirstOffset)
            .consume_threads(1)
            .consume_concurrently(move |batch| {
                let body = batch[0].body_str().expect("bodies are words").to_owned();
                inbox.0.lock().expect("no panic under the lock").insert(body);
                inbox.1.notify_all();
            })
            .start()
            .unwrap_or_else(|error| panic!("{error}"));
        Self { consumer, bodies }
    }

    fn until_the_last(self) -> BTreeSet<String> {
        let bodies = self.bodies.0.lock().expect("no panic under the lock");
        let (bodies, _) = self
            .bodies
            .1
            .wait_timeout_while(bodies, SOON, |bodies| !bodies.contains("end"))
            .expect("no panic under the lock");
        let mut bodies = bodies.clone();
        assert!(bodies.remove("end"), "only {bodies:?}: {:?}", self.consumer.stats());
        let report = self.consumer.shutdown(SOON);
        assert!(report.is_clean(), "{report}");
        bodies
    }
}
