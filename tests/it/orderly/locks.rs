//! The lock of a queue: waited for, renewed, lost and had again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::{Lanes, SECOND, all_locked, as_another, holder, start, waiting_for_lock};
use crate::between::Between;
use crate::support::{
    Gate, SOON, Seen, advance_until, alone, billing, client_by_hand, consumed, consumed_by_hand,
    library_threads, orders, orders_by_hand, put, put_in_turn, queue, until,
};
use crate::wire::Wire;
use rocketmq_sync::broker::{Broker, Fault, Lose, Reaction};
use rocketmq_sync::consumer::Waiting;
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::body::{LockBatchAnswer, LockBatchRequest};
use rocketmq_sync::{ConsumeStatus, RequestCode, ResponseCode, allocate};

#[test]
fn a_lock_that_another_member_holds_is_waited_for_and_the_reason_is_visible() {
    let broker = orders(1);
    put(&broker, 0..3);
    assert!(as_another(&broker, RequestCode::LOCK_BATCH_MQ));
    let seen = Seen::default();
    let consumer = start(&broker, seen.answering(|_| ConsumeStatus::Success));
    assert!(waiting_for_lock(&consumer), "{:?}", consumer.stats());
    assert!(consumer.assignment().iter().all(|owned| owned.topic() != "orders"));
    broker.wait(SOON, |state| state.requests(RequestCode::LOCK_BATCH_MQ) > 4).unwrap();
    assert_eq!(seen.len(), 0);
    as_another(&broker, RequestCode::UNLOCK_BATCH_MQ);
    seen.wait(3);
    assert_eq!(holder(&broker, 0).as_deref(), Some(consumer.client().client_id()));
    assert!(consumer.shutdown(SOON).is_clean());
    assert_eq!(holder(&broker, 0), None);
}

/// Of brokers that write more than is needed, in another order, and queues that were not asked for.
#[test]
fn l7_the_answer_to_a_lock_is_read_for_what_it_says() {
    let broker = orders(2);
    let between = Between::clients_and(broker.name_server(), |request, answer| {
        if request.request_code() == RequestCode::LOCK_BATCH_MQ {
            let granted = LockBatchAnswer::read(&answer.body).unwrap().lock_ok_mq_set;
            let queues: Vec<String> = granted
                .iter()
                .rev()
                .map(|queue| {
                    let (topic, id) = (queue.topic(), queue.queue_id());
                    format!(
                        r#"{{ "extra":{{"a":[1,null]}}, "queueId":{id}, "topic":"{topic}", "brokerName":"broker-a" }}"#
                    )
                })
                .chain([r#"{"topic":"orders","queueId":77,"brokerName":"broker-z"}"#.to_owned()])
                .collect();
            answer.body =
                format!(r#"{{ "version":9, "lockOKMQSet":[ {} ], "locked":true }}"#, queues.join(" , "))
                    .into();
        }
    });
    broker.advertise_as(&between.address);
    put_in_turn(&broker, 0..20, 2);
    let lanes = Lanes::default();
    let consumer = start(&broker, lanes.listener(|_| ConsumeStatus::Success));
    consumed(&broker);
    lanes.assert_all(10);
    assert!(all_locked(&consumer), "{:?}", consumer.stats());
    assert!(consumer.shutdown(SOON).is_clean());
    assert_eq!((holder(&broker, 0), holder(&broker, 1)), (None, None));
}

#[test]
fn l2_locks_are_renewed_in_time_and_without_renewal_nothing_starts() {
    let broker = orders_by_hand(1);
    let seen = Seen::default();
    let client = client_by_hand(&broker);
    let consumer = billing().client(&client).consume_orderly(seen.listener()).start().unwrap();
    let requests = || broker.inspect().requests(RequestCode::LOCK_BATCH_MQ);
    for n in 0..15 {
        let before = requests();
        broker.clock().advance(20 * SECOND);
        broker.wait(SOON, |state| state.requests(RequestCode::LOCK_BATCH_MQ) > before).unwrap();
        put(&broker, n..n + 1);
        seen.wait(n as usize + 1);
        assert!(!waiting_for_lock(&consumer));
    }
    let error = Reaction::Reply(ResponseCode::SYSTEM_ERROR);
    let refusal = broker.fault(Fault::on(RequestCode::LOCK_BATCH_MQ, error).forever());
    let begun = broker.clock().now();
    advance_until(broker.clock(), SECOND, "a renewal", || refusal.hits() > 0);
    advance_until(broker.clock(), SECOND, "the lock has run out", || waiting_for_lock(&consumer));
    let passed = broker.clock().now().duration_since(begun).unwrap();
    assert!(refusal.hits() > 2 && passed >= 29 * SECOND, "{} renewals in {passed:?}", refusal.hits());
    put(&broker, 15..16);
    until("it is fetched all the same", || consumer.stats().pulled == 16);
    assert_eq!(seen.len(), 15);
    refusal.remove();
    advance_until(broker.clock(), SECOND, "it goes on", || seen.len() == 16);
    seen.assert_once(0..16);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// A listener that takes ten minutes keeps its queue and the lock, and nothing is consumed twice.
#[test]
fn r12_a_call_in_order_that_takes_ten_minutes_keeps_its_queue() {
    let broker = orders_by_hand(1);
    let began = broker.clock().now();
    let client = client_by_hand(&broker);
    let (seen, gate) = (Seen::default(), Gate::default());
    let hold = gate.clone();
    let consumer = billing()
        .client(&client)
        .consume_timeout(3600 * SECOND)
        .consume_orderly(seen.answering(move |_| hold.pass()))
        .start()
        .unwrap();
    put(&broker, 0..3);
    gate.wait_for(1);
    let generation = || {
        let stats = consumer.stats();
        let one = stats.queues.iter().find(|one| one.queue == queue(0)).unwrap();
        (one.generation, one.locked)
    };
    let before = generation();
    let requests = || broker.inspect().requests(RequestCode::LOCK_BATCH_MQ);
    while broker.clock().now().duration_since(began).unwrap() < 600 * SECOND {
        let renewals = requests();
        advance_until(broker.clock(), 5 * SECOND, "a renewal", || requests() > renewals);
    }
    assert_eq!((generation(), seen.len()), (before, 1));
    assert_eq!(holder(&broker, 0).as_deref(), Some(client.client_id()));
    gate.open();
    consumed_by_hand(&broker);
    seen.assert_once(0..3);
    assert_eq!(generation(), before);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_refused_renewal_ends_the_generation_and_nothing_of_it_is_committed() {
    let broker = orders_by_hand(1);
    put(&broker, 0..2);
    let (seen, gate) = (Seen::default(), Gate::default());
    let hold = gate.clone();
    let client = client_by_hand(&broker);
    let cancelled = Arc::new(AtomicU32::new(0));
    let noted = cancelled.clone();
    let consumer = billing()
        .client(&client)
        .consume_orderly(seen.answering(move |batch| {
            hold.pass();
            noted.fetch_add(u32::from(batch.is_cancelled()), Ordering::SeqCst);
        }))
        .start()
        .unwrap();
    gate.wait_for(1);
    // The broker forgets the lock without anybody noticing, and another member takes it.
    let mine = LockBatchRequest {
        client_id: consumer.client().client_id().to_owned(),
        consumer_group: "billing".into(),
        mq_set: vec![queue(0)],
        only_this_broker: None,
    };
    let command = RemotingCommand::request(RequestCode::UNLOCK_BATCH_MQ).body(mine.write());
    Wire::connect(&broker.name_server()).call(command);
    assert!(as_another(&broker, RequestCode::LOCK_BATCH_MQ));
    broker.clock().advance(20 * SECOND);
    until("it has lost the queue", || {
        let stats = consumer.stats();
        let one = stats.queues.iter().find(|one| one.queue == queue(0));
        one.is_some_and(|one| one.waiting == Some(Waiting::Revoking) && !one.locked)
    });
    gate.open();
    until("it asks for the lock again", || waiting_for_lock(&consumer));
    assert_eq!(cancelled.load(Ordering::SeqCst), 1);
    broker.clock().advance(10 * SECOND);
    assert_eq!(broker.inspect().committed("billing", &queue(0)).unwrap_or(0), 0);
    assert_eq!(seen.len(), 1);
    as_another(&broker, RequestCode::UNLOCK_BATCH_MQ);
    advance_until(broker.clock(), SECOND, "it starts anew", || seen.len() == 3);
    assert_eq!(seen.bodies(), ["0", "0", "1"]);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_broker_that_forgot_its_locks_is_asked_before_anything_starts_again() {
    let broker = orders(1);
    put(&broker, 0..3);
    let seen = Seen::default();
    let consumer = start(&broker, seen.answering(|_| ConsumeStatus::Success));
    seen.wait(3);
    consumed(&broker);
    let refusal = broker
        .fault(Fault::on(RequestCode::LOCK_BATCH_MQ, Reaction::Reply(ResponseCode::SYSTEM_ERROR)).forever());
    broker.restart_losing(Lose::Locks).unwrap();
    refusal.wait_hits(1, SOON).unwrap();
    put(&broker, 3..5);
    until("it is fetched", || consumer.stats().pulled == 5);
    until("it waits for the lock", || waiting_for_lock(&consumer));
    assert_eq!((seen.len(), holder(&broker, 0)), (3, None));
    refusal.remove();
    seen.wait(5);
    seen.assert_once(0..5);
    assert_eq!(holder(&broker, 0).as_deref(), Some(consumer.client().client_id()));
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn the_lock_thread_runs_while_the_consumer_does_and_is_joined() {
    alone("orderly::locks::the_lock_thread_runs_while_the_consumer_does_and_is_joined", || {
        let broker = orders(2);
        let has = || library_threads().contains(&"rmq-lock".to_owned());
        let concurrent =
            billing().name_servers(broker.name_server()).consume_concurrently(|_| ()).start().unwrap();
        assert!(!has());
        drop(concurrent);
        for _ in 0..10 {
            let consumer = start(&broker, |_| ConsumeStatus::Success);
            assert!(has());
            assert!(consumer.shutdown(SOON).is_clean());
            drop(consumer);
            until("threads end", || library_threads() == ["rmq-broker"]);
        }
    });
}

/// The thread that decides about queues runs the strategy, and hears of nothing else meanwhile.
#[test]
fn a_lost_connection_stops_a_queue_though_an_allocation_strategy_does_not_end() {
    let broker = Broker::builder().topic("orders", 1).topic("payments", 1).start().unwrap();
    put(&broker, 0..3);
    let (seen, calls, strategy, hangs) =
        (Seen::default(), Gate::default(), Gate::default(), Arc::new(AtomicBool::new(false)));
    let (noting, in_call, in_strategy, hanging) =
        (seen.clone(), calls.clone(), strategy.clone(), hangs.clone());
    let consumer = billing()
        .name_servers(broker.name_server())
        .allocate(move |id, ids, queues| {
            if hanging.load(Ordering::SeqCst) {
                in_strategy.pass();
            }
            allocate::averagely(id, ids, queues)
        })
        .consume_orderly(move |batch| {
            noting.note(batch);
            in_call.pass();
        })
        .start()
        .unwrap();
    calls.wait_for(1);
    until("all are fetched", || consumer.stats().pulled == 3);
    hangs.store(true, Ordering::SeqCst);
    consumer.subscribe("payments", "*").unwrap();
    strategy.wait_for(1);

    let error = Reaction::Reply(ResponseCode::SYSTEM_ERROR);
    let refusal = broker.fault(Fault::on(RequestCode::LOCK_BATCH_MQ, error).forever());
    broker.cut_connections();
    until("the lock is doubted", || waiting_for_lock(&consumer));
    calls.open();
    // The consume thread has come to the next message, and asks for the lock instead.
    refusal.wait_hits(1, SOON).unwrap();
    assert_eq!(seen.len(), 1);

    refusal.remove();
    hangs.store(false, Ordering::SeqCst);
    strategy.open();
    consumed(&broker);
    assert!(consumer.shutdown(SOON).is_clean());
    seen.assert_once(0..3);
}
