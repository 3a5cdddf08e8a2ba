//! A listener that fails gets its messages again, later and later, until the dead letter.

use super::{SOON, Target, client, eventually, member, producer, tally::Tally};
use rocketmq_sync::{ConsumeFrom, Message, PushConsumer, dead_letter_topic};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GROUP: &str = "retries-group";
const GOOD: std::ops::Range<u64> = 0..20;
const FLAKY: u64 = 20;
const POISON: u64 = 21;

pub fn retries_end_as_a_dead_letter(target: &dyn Target) {
    target.create_topic("retries", 4);
    let (client, tally) = (client(target), Tally::new());
    let consumer = member(&client, GROUP, "retries", &tally);
    let producer = producer(&client);
    for number in GOOD {
        producer.send(&Message::new("retries", number.to_string())).expect("the broker runs");
    }
    producer
        .send(&Message::new("retries", format!("{FLAKY} fails 2")).tag("flaky"))
        .expect("the broker runs");
    producer
        .send(&Message::new("retries", format!("{POISON} fails 99")).tag("poison").key("key-21"))
        .expect("the broker runs");

    target.pass_until(SOON, "the dead letter", &|| consumer.stats().dead_letters == 1);
    assert_eq!(tally.reconsumed(POISON), (0..=16).collect::<Vec<_>>());
    assert_eq!(tally.reconsumed(FLAKY), [0, 1, 2]);
    for number in GOOD {
        assert_eq!(tally.reconsumed(number), [0], "message {number}");
    }
    // The group is new, and so is its retry topic; the first retry comes when its second is over all the same.
    let flaky = tally.of(FLAKY);
    let first = flaky[1].at - flaky[0].at;
    assert!(first < Duration::from_secs(6), "the first retry came after {first:?}");

    check_dead_letter(&client);
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
}

fn check_dead_letter(client: &rocketmq_sync::Client) {
    let letters = Arc::new(Mutex::new(Vec::new()));
    let sink = letters.clone();
    let consumer = PushConsumer::builder("retries-undertaker")
        .client(client)
        .subscribe(dead_letter_topic(GROUP), "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(move |batch| {
            sink.lock().expect("no panic under the lock").extend_from_slice(batch)
        })
        .start()
        .expect("the dead letter is stored");
    eventually(SOON, "a reader of the dead letters", || {
        !letters.lock().expect("no panic under the lock").is_empty()
    });
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    let letters = letters.lock().expect("no panic under the lock");
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!(letter.body_str(), Ok("21 fails 99"));
    assert_eq!((letter.tag(), letter.origin_topic()), (Some("poison"), "retries"));
    assert_eq!(letter.keys().collect::<Vec<_>>(), ["key-21"]);
}
