//! The broker is killed while messages are sent, consumed and sent back, and comes again: what it had acknowledged
//! arrives, and so does every retry.

use super::{SOON, Target, client, eventually, member, producer, tally::Tally, until_acknowledged};
use rocketmq_sync::{Message, Producer};
use std::sync::atomic::{AtomicU64, Ordering};

const COUNT: u64 = 3_000;

pub fn a_killed_broker_loses_nothing(target: &dyn Target) {
    target.create_topic("crash", 4);
    let (client, tally) = (client(target), Tally::new());
    let consumer = member(&client, "crash-group", "crash", &tally);
    let (producer, refused) = (producer(&client), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| (0..COUNT).for_each(|number| send(&producer, number, &refused)));
        tally.wait_for(COUNT / 3, SOON);
        target.kill_broker();
        eventually(SOON, "a send that fails", || refused.load(Ordering::Relaxed) > 0);
        target.start_broker();
    });
    let done = || {
        tally.count() == COUNT
            && (0..COUNT)
                .filter(|number| is_flaky(*number))
                .all(|n| tally.reconsumed(n).iter().any(|r| *r > 0))
    };
    target.pass_until(SOON, "every message, and the retry of every flaky one", &done);
    tally.assert_exactly(0..COUNT);
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
}

fn send(producer: &Producer, number: u64, refused: &AtomicU64) {
    let body = if is_flaky(number) { format!("{number} fails 1") } else { number.to_string() };
    let message = Message::new("crash", body);
    until_acknowledged(|| {
        producer.send(&message).map(drop).inspect_err(|_| {
            refused.fetch_add(1, Ordering::Relaxed);
        })
    });
}

fn is_flaky(number: u64) -> bool {
    number.is_multiple_of(50)
}
