//! A hundred thousand messages, sent in all ways while they are consumed: none is lost, none comes twice.

use super::{SOON, Target, client, member, producer, send_numbers, tally::Tally};
use rocketmq_sync::{Message, Producer};

const COUNT: u64 = 100_000;
const LANES: u64 = 4;

pub fn everything_sent_is_consumed_once(target: &dyn Target) {
    target.create_topic("everything", 8);
    let (client, tally) = (client(target), Tally::new());
    let consumer = member(&client, "everything-group", "everything", &tally);
    let producer = producer(&client);
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let producer = &producer;
            scope.spawn(move || send_lane(producer, lane));
        }
    });
    tally.wait_for(COUNT, SOON);
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    tally.assert_exactly(0..COUNT);
    assert_eq!(tally.duplicates(), 0);
    let committed = report.committed.iter().filter(|(queue, _)| queue.topic() == "everything");
    assert_eq!(committed.map(|(_, offset)| offset).sum::<i64>(), COUNT as i64, "{report:?}");
}

/// The first tenth of each lane one by one, the rest in batches.
fn send_lane(producer: &Producer, lane: u64) {
    let (begin, end) = (COUNT / LANES * lane, COUNT / LANES * (lane + 1));
    let single = begin + (end - begin) / 10;
    for number in begin..single {
        producer.send(&Message::new("everything", number.to_string())).expect("the broker runs");
    }
    send_numbers(producer, "everything", single..end);
}
