//! Members of a group: who owns which queue, and what happens to its messages meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{SOON, Seen, billing, orders, put, queue, until};
use crate::wire::Wire;
use rocketmq_sync::{MessageQueue, PushConsumer, RequestCode, allocate};

fn owned(consumer: &PushConsumer) -> Vec<MessageQueue> {
    consumer.assignment().into_iter().filter(|queue| queue.topic() == "orders").collect()
}

fn shared_out(members: &[&PushConsumer], queues: usize) {
    until("every queue is owned once", || {
        let all: Vec<MessageQueue> = members.iter().flat_map(|member| owned(member)).collect();
        let different: BTreeSet<&MessageQueue> = all.iter().collect();
        let least = queues / members.len();
        all.len() == queues
            && different.len() == queues
            && members.iter().all(|member| (least..=least + 1).contains(&owned(member).len()))
    });
}

/// Pain R16, and what members promise each other.
#[test]
fn members_share_the_queues_and_hand_them_over_without_loss_or_repetition() {
    let broker = orders(4);
    let seen = Seen::default();
    let start = || {
        billing().name_servers(broker.name_server()).consume_concurrently(seen.listener()).start().unwrap()
    };
    let first = start();
    shared_out(&[&first], 4);
    put(&broker, 0..200);
    broker.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
    let second = start();
    shared_out(&[&first, &second], 4);
    put(&broker, 200..400);
    broker.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
    assert!(first.stats().succeeded > 200 && second.stats().succeeded == 100);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| put(&broker, 400..1000));
        second.shutdown(SOON)
    });
    assert!(report.is_clean(), "{report}");
    shared_out(&[&first], 4);
    broker.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
    seen.wait(1000);
    seen.assert_once(0..1000);
    assert!(first.shutdown(SOON).is_clean());
}

/// Pain R10.
#[test]
fn a_queue_that_is_lost_and_won_again_is_pulled_by_one_generation() {
    let broker = orders(1);
    let seen = Seen::default();
    let wanted = Arc::new(AtomicBool::new(true));
    let reading = wanted.clone();
    let consumer = billing()
        .name_servers(broker.name_server())
        .allocate(move |id, ids, queues| {
            let is_ours =
                reading.load(Ordering::SeqCst) || queues.iter().any(|queue| queue.topic() != "orders");
            if is_ours { allocate::averagely(id, &ids[..1], queues) } else { Vec::new() }
        })
        .consume_concurrently(seen.listener())
        .start()
        .unwrap();
    // Another member of the group, which comes and goes: brokers tell the members then.
    let id = broker.inspect().members("billing")[0].clone();
    let wake =
        || Wire::connect(&broker.name_server()).heartbeat(&format!("{id}-z"), "billing", "orders", &["*"]);
    let mut generations = BTreeSet::new();
    for round in 0..3 {
        until("owned", || !owned(&consumer).is_empty());
        broker.wait(SOON, |state| state.waiting_pulls("billing") > 0).unwrap();
        let stats = consumer.stats();
        generations.insert(stats.queues.iter().find(|one| one.queue == queue(0)).unwrap().generation);
        assert_eq!(generations.len(), round + 1);
        wanted.store(false, Ordering::SeqCst);
        wake();
        until("given up", || owned(&consumer).is_empty());
        wanted.store(true, Ordering::SeqCst);
        wake();
    }
    until("owned", || !owned(&consumer).is_empty());
    // Every generation left a held pull behind, and all of them are answered now.
    put(&broker, 0..20);
    broker.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
    seen.wait(20);
    seen.assert_once(0..20);
    broker.wait(SOON, |state| state.waiting_pulls("billing") > 0).unwrap();
    let pulls = broker.inspect().requests(RequestCode::PULL_MESSAGE);
    put(&broker, 20..21);
    seen.wait(21);
    broker.wait(SOON, |state| state.requests(RequestCode::PULL_MESSAGE) > pulls).unwrap();
    assert!(consumer.shutdown(SOON).is_clean());
    seen.assert_once(0..21);
}
