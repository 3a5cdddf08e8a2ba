//! A group that consumes in order: failures are tried again in place, members come and go, the broker restarts; each
//! queue is consumed in its order all the same.

use super::shared_group::{PACE, StopAtEnd, send_until};
use super::tally::Tally;
use super::{SOON, Target, client, eventually, member_in_order, producer_builder, until_acknowledged};
use rocketmq_sync::{Message, PushConsumer};
use std::sync::atomic::AtomicBool;

const TOPIC: &str = "in-order";
const GROUP: &str = "in-order-group";
const QUEUES: usize = 4;
/// Beyond what is sent besides.
const FLAKY: u64 = 1_000_000;
const POISON: u64 = 1_000_001;

pub fn order_holds_through_failures_members_and_a_restart(target: &dyn Target) {
    target.create_topic(TOPIC, QUEUES as u32);
    let (client, tally, stop) = (client(target), Tally::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send_until(&stop, PACE, &client, TOPIC));
        let stop = StopAtEnd(&stop);
        let first = member_in_order(&client, GROUP, TOPIC, &tally);
        owns("alone", &first, QUEUES);
        fail(&client, &tally, &first);

        let other = super::client(target);
        let second = member_in_order(&other, GROUP, TOPIC, &tally);
        owns("half of it", &first, QUEUES / 2);
        owns("the other half", &second, QUEUES / 2);
        let report = first.shutdown(SOON);
        assert!(report.is_clean(), "{report}");
        owns("alone again", &second, QUEUES);

        // A real broker comes back without its locks.
        target.restart_broker();
        let before = tally.count();
        eventually(SOON, "it goes on after the restart", || tally.count() > before + 100);
        drop(stop);
        let sent = sending.join().expect("it ends when told");
        tally.wait_for(sent + 2, SOON);
        eventually(SOON, "nothing is in hand", || second.stats().cached_messages == 0);
        let report = second.shutdown(SOON);
        assert!(report.is_clean(), "{report}");
        tally.assert_in_order();
    });
}

/// One that is accepted at the third time, and one that never is.
fn fail(client: &rocketmq_sync::Client, tally: &Tally, consumer: &PushConsumer) {
    let producer = producer_builder(client, "in-order-failures").start().expect("the client runs");
    for body in [format!("{FLAKY} fails 2"), format!("{POISON} fails 99")] {
        until_acknowledged(|| producer.send(&Message::new(TOPIC, &*body)).map(drop));
    }
    eventually(SOON, "the dead letter", || consumer.stats().dead_letters == 1);
    eventually(SOON, "the third time", || tally.of(FLAKY).len() == 3);
    assert_eq!(tally.reconsumed(FLAKY), [0, 1, 2]);
    assert_eq!(tally.reconsumed(POISON), [0, 1, 2]);
}

fn owns(when: &str, consumer: &PushConsumer, queues: usize) {
    let owned = || consumer.assignment().iter().filter(|queue| queue.topic() == TOPIC).count();
    eventually(SOON, when, || owned() == queues);
}
