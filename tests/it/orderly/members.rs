//! A queue and its lock go from one member to another.

use std::time::Instant;

use super::{Lanes, SECOND, as_another, holder, start};
use crate::support::{
    Gate, SOON, Seen, advance_until, billing, client_by_hand, consumed, orders, orders_by_hand, put,
    put_in_turn, queue, until,
};
use crate::wire::Wire;
use rocketmq_sync::broker::{Broker, Fault, Lose, Reaction};
use rocketmq_sync::consumer::Waiting;
use rocketmq_sync::{ConsumeStatus, Message, PushConsumer, RequestCode, ResponseCode};

#[test]
fn l6_a_queue_goes_to_another_member_without_overlap_when_its_call_is_over() {
    let broker = orders(2);
    let lanes = Lanes::default();
    let gate = Gate::default();
    let hold = gate.clone();
    let first = start(
        &broker,
        lanes.listener(move |_| {
            hold.pass();
            ConsumeStatus::Success
        }),
    );
    put_in_turn(&broker, 0..20, 2);
    gate.wait_for(2);
    let second = start(&broker, lanes.listener(|_| ConsumeStatus::Success));
    until("one is given up", || {
        first.stats().queues.iter().any(|one| one.waiting == Some(Waiting::Revoking))
    });
    let holders: Vec<_> = (0..2).map(|id| holder(&broker, id)).collect();
    let ours = Some(first.client().client_id().to_owned());
    assert_eq!(holders, [ours.clone(), ours.clone()], "not while its listener runs");
    assert_eq!(second.stats().succeeded, 0);
    gate.open();
    let begun = Instant::now();
    until("it has the lock", || {
        (0..2).any(|id| holder(&broker, id).as_deref() == Some(second.client().client_id()))
    });
    assert!(begun.elapsed() < 10 * SECOND, "{:?}", begun.elapsed());
    consumed(&broker);
    lanes.assert_all(10);
    assert!(first.stats().succeeded > 0 && second.stats().succeeded > 0);
    assert!(first.shutdown(SOON).is_clean() && second.shutdown(SOON).is_clean());
    lanes.assert_all(10);
}

#[test]
fn l6_who_leaves_commits_and_unlocks_so_that_another_has_the_queue_at_once() {
    let broker = orders(2);
    let lanes = Lanes::default();
    let first = start(&broker, lanes.listener(|_| ConsumeStatus::Success));
    let second = start(&broker, lanes.listener(|_| ConsumeStatus::Success));
    let has = |member: &PushConsumer| {
        let owned = member.assignment();
        owned.iter().filter(|owned| owned.topic() == "orders").count()
    };
    until("both have one", || (has(&first), has(&second)) == (1, 1));
    let report = first.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    let ours = first.client().client_id();
    assert!((0..2).all(|id| holder(&broker, id).as_deref() != Some(ours)));
    let begun = Instant::now();
    until("the other has both", || has(&second) == 2);
    assert!(begun.elapsed() < 5 * SECOND, "not after the locks have expired: {:?}", begun.elapsed());
    put_in_turn(&broker, 0..10, 2);
    consumed(&broker);
    lanes.assert_all(5);
    assert!(second.shutdown(SOON).is_clean());
}

/// And who gives its topic up unlocks its queues when the running call is over.
#[test]
fn l6_who_unsubscribes_unlocks_when_its_call_is_over() {
    let broker = Broker::builder().topic("orders", 2).topic("stock", 1).start().unwrap();
    let (lanes, gate) = (Lanes::default(), Gate::default());
    let hold = gate.clone();
    let consumer = billing()
        .name_servers(broker.name_server())
        .subscribe("stock", "*")
        .consume_orderly(lanes.listener(move |_| {
            hold.pass();
            ConsumeStatus::Success
        }))
        .start()
        .unwrap();
    broker.put(&Message::new("orders", "0").queue(&queue(0))).unwrap();
    gate.wait_for(1);
    consumer.unsubscribe("orders").unwrap();
    until("the idle one is unlocked", || holder(&broker, 1).is_none());
    assert_eq!(holder(&broker, 0).as_deref(), Some(consumer.client().client_id()), "its listener runs");
    gate.open();
    until("the other one, too", || holder(&broker, 0).is_none());
    assert_eq!(broker.inspect().committed("billing", &queue(0)), Some(1));
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_killed_members_queue_comes_when_its_lock_has_expired() {
    let broker = orders_by_hand(1);
    put(&broker, 0..2);
    assert!(as_another(&broker, RequestCode::LOCK_BATCH_MQ));
    let seen = Seen::default();
    let client = client_by_hand(&broker);
    let consumer = billing().client(&client).consume_orderly(seen.listener()).start().unwrap();
    let begun = broker.clock().now();
    advance_until(broker.clock(), SECOND, "its lock has expired", || seen.len() == 2);
    let waited = broker.clock().now().duration_since(begun).unwrap();
    assert!((59 * SECOND..75 * SECOND).contains(&waited), "{waited:?}");
    assert!(consumer.shutdown(SOON).is_clean());
}

/// The broker forgets its locks, and another member takes the queue and goes on in it before this one is back.
#[test]
fn who_comes_back_after_another_member_starts_from_where_that_one_was() {
    let broker = orders(1);
    put(&broker, 0..4);
    let (seen, gate) = (Seen::default(), Gate::default());
    let hold = gate.clone();
    let consumer = start(
        &broker,
        seen.answering(move |_| {
            hold.pass();
            ConsumeStatus::Success
        }),
    );
    gate.wait_for(1);
    let error = Reaction::Reply(ResponseCode::SYSTEM_ERROR);
    let ours = consumer.client().client_id().to_owned();
    let refusal = broker.fault(Fault::on(RequestCode::LOCK_BATCH_MQ, error).client_id(ours).forever());
    broker.restart_losing(Lose::Locks).unwrap();
    refusal.wait_hits(1, SOON).unwrap();
    assert!(as_another(&broker, RequestCode::LOCK_BATCH_MQ));
    let committed = rocketmq_sync::testing::protocol::headers::UpdateConsumerOffset {
        consumer_group: "billing".into(),
        topic: "orders".into(),
        queue_id: 0,
        commit_offset: 3,
        bname: None,
    };
    Wire::connect(&broker.name_server()).ask(RequestCode::UPDATE_CONSUMER_OFFSET, &committed);
    as_another(&broker, RequestCode::UNLOCK_BATCH_MQ);
    refusal.remove();
    gate.open();
    seen.wait(2);
    consumed(&broker);
    assert_eq!(seen.bodies(), ["0", "3"]);
    assert!(consumer.shutdown(SOON).is_clean());
}
