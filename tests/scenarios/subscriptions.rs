//! Members of one group that do not subscribe the same: real brokers must tell enough for what we make of it.

use super::tally::Tally;
use super::{SOON, Target, client, eventually, producer, send_numbers, start};
use rocketmq_sync::consumer::Event;
use rocketmq_sync::{Client, ConsumeFrom, PushConsumer};
use std::collections::BTreeSet;
use std::sync::Arc;

const TOPIC: &str = "given-up";
const OTHER: &str = "kept";
const GROUP: &str = "given-up-group";

/// One of two members gives a topic up: the other takes all its queues, and gives half of them back later.
pub fn a_topic_given_up_by_one_member_is_read_by_the_other(target: &dyn Target) {
    target.create_topic(TOPIC, 4);
    target.create_topic(OTHER, 4);
    let (one, two, tally) = (client(target), client(target), Tally::new());
    let (first, second) = (member(&one, &tally), member(&two, &tally));
    let share = |topic| (owned(&first, topic), owned(&second, topic));
    let halves = |topic| {
        let (first, second) = share(topic);
        first.len() == 2 && second.len() == 2 && first.is_disjoint(&second)
    };
    eventually(SOON, "each has half", || halves(TOPIC) && halves(OTHER));
    let sending = producer(&one);
    send_numbers(&sending, TOPIC, 0..100);
    tally.wait_for(100, SOON);

    let mut events = second.events();
    first.unsubscribe(TOPIC).expect("it is subscribed");
    eventually(SOON, "the other has all", || share(TOPIC).0.is_empty() && share(TOPIC).1.len() == 4);
    assert!(halves(OTHER), "the other topic is left in peace");
    let told = std::iter::from_fn(|| events.next_timeout(SOON)).any(|event| {
        matches!(event, Event::SubscriptionMismatch { topic, theirs, .. } if topic == TOPIC && theirs.is_empty())
    });
    assert!(told, "the mismatch is told");
    send_numbers(&sending, TOPIC, 100..200);
    tally.wait_for(200, SOON);

    first.subscribe(TOPIC, "*").expect("it runs");
    eventually(SOON, "each has half again", || halves(TOPIC));
    send_numbers(&sending, TOPIC, 200..300);
    tally.wait_for(300, SOON);
    for member in [first, second] {
        let report = member.shutdown(SOON);
        assert!(report.is_clean(), "{report}");
    }
    tally.assert_exactly(0..300);
    assert_eq!(tally.duplicates(), 0);
}

fn member(client: &Client, tally: &Arc<Tally>) -> PushConsumer {
    let tally = tally.clone();
    let builder = PushConsumer::builder(GROUP)
        .client(client)
        .subscribe(TOPIC, "*")
        .subscribe(OTHER, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(move |batch| batch.each(|message| tally.take(message)));
    start(&builder)
}

fn owned(consumer: &PushConsumer, topic: &str) -> BTreeSet<i32> {
    let queues = consumer.assignment().into_iter();
    queues.filter(|queue| queue.topic() == topic).map(|queue| queue.queue_id()).collect()
}
