//! A topic is read by polling: in a group, which goes on where it had committed, and by a reader on its own, which leaves
//! nothing behind.

use super::{SOON, Target, client, eventually, once_known, producer, send_numbers};
use rocketmq_sync::consumer::PullConsumerBuilder;
use rocketmq_sync::{Client, ConsumeFrom, MessageView, PullConsumer, TOOLS_GROUP};
use std::collections::BTreeMap;
use std::time::Duration;

const TOPIC: &str = "pulling";
const GROUP: &str = "pulling-group";

pub fn a_topic_is_read_to_its_end(target: &dyn Target) {
    target.create_topic(TOPIC, 4);
    let client = client(target);
    send_numbers(&producer(&client), TOPIC, 0..1000);
    let consumer = start(member(&client));
    let mut read = Vec::new();
    for messages in consumer.until_end().expect("the ends are known") {
        read.extend(numbers(&messages.expect("messages")));
        consumer.commit().expect("the broker confirms");
    }
    assert_eq!(sorted(read), (0..1000).collect::<Vec<_>>());
    for queue in consumer.assignment() {
        let committed = consumer.committed(&queue).expect("the broker tells");
        assert_eq!(committed, consumer.position(&queue), "{queue}");
    }
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");

    target.restart_broker();
    send_numbers(&producer_again(target), TOPIC, 1000..1100);
    let client = super::client(target);
    let consumer = start(member(&client));
    assert_eq!(sorted(rest(&consumer)), (1000..1100).collect::<Vec<_>>());
    // It is not committed, so it comes again.
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    let consumer = start(member(&client));
    assert_eq!(sorted(rest(&consumer)), (1000..1100).collect::<Vec<_>>());
    consumer.commit().expect("the broker confirms");
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
}

pub fn a_reader_on_its_own_goes_where_it_likes(target: &dyn Target) {
    target.create_topic("reading", 2);
    let client = client(target);
    let begun = std::time::SystemTime::now();
    send_numbers(&producer(&client), "reading", 0..500);
    let reader = PullConsumer::builder(TOOLS_GROUP)
        .client(&client)
        .assign_topic("reading", "*")
        .consume_from(ConsumeFrom::FirstOffset);
    let reader = start(reader);
    assert_eq!(reader.queues("reading").expect("the route is known"), reader.assignment());
    assert_eq!(sorted(rest(&reader)), (0..500).collect::<Vec<_>>());
    let mut ends = BTreeMap::new();
    for queue in reader.assignment() {
        let end = reader.offset_at(&queue, ConsumeFrom::LastOffset).expect("the broker tells");
        assert_eq!(reader.position(&queue), Some(end));
        assert!(reader.seek(&queue, end + 1).is_err() && reader.seek(&queue, -1).is_err());
        assert_eq!(reader.offset_at(&queue, begun - Duration::from_secs(60)).expect("the broker tells"), 0);
        reader.seek(&queue, ConsumeFrom::LastMessages(3)).expect("the broker tells");
        ends.insert(queue, end);
    }
    assert_eq!(ends.values().sum::<i64>(), 500);
    assert_eq!(rest(&reader).len(), 6);
    let one = reader.assignment().remove(0);
    reader.assign([one.clone()]).expect("it is there");
    reader.seek(&one, ends[&one] - 10).expect("it is there");
    assert_eq!(rest(&reader).len(), 10);
    let report = reader.shutdown(SOON);
    assert!(report.is_clean() && report.committed.is_empty(), "{report}");

    // Offsets of a group that has never had a member.
    let keeper = start(PullConsumer::builder("reading-keeper").client(&client).assign([one.clone()]));
    keeper.seek(&one, 7).expect("it is there");
    keeper.commit_offsets([(one.clone(), 7)]).expect("the broker confirms");
    assert_eq!(keeper.committed(&one).expect("the broker tells"), Some(7));
    let report = keeper.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    let again = start(PullConsumer::builder("reading-keeper").client(&client).assign([one.clone()]));
    eventually(SOON, "the stored offset", || again.position(&one) == Some(7));
    let report = again.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
}

fn member(client: &Client) -> PullConsumerBuilder {
    PullConsumer::builder(GROUP)
        .client(client)
        .subscribe(TOPIC, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .auto_commit(false)
}

fn producer_again(target: &dyn Target) -> rocketmq_sync::Producer {
    producer(&client(target))
}

/// With all its queues.
fn start(builder: PullConsumerBuilder) -> PullConsumer {
    let consumer = once_known(|| builder.clone().start());
    eventually(SOON, "queues with a place to begin", || {
        let queues = consumer.assignment();
        !queues.is_empty() && queues.iter().all(|queue| consumer.position(queue).is_some())
    });
    consumer
}

fn rest(consumer: &PullConsumer) -> Vec<u64> {
    let to_end = consumer.until_end().expect("the ends are known");
    to_end.flat_map(|messages| numbers(&messages.expect("messages"))).collect()
}

fn numbers(messages: &[MessageView]) -> Vec<u64> {
    let number = |message: &MessageView| message.body_str().ok()?.parse().ok();
    messages.iter().map(|message| number(message).expect("a number")).collect()
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}
