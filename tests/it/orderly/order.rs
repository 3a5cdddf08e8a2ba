//! What is accepted is accepted in order, one call of a queue at a time, and from where it should begin.

use std::sync::{Arc, Mutex};

use super::{Lanes, SHORT, all_locked, start};
use crate::support::{
    Gate, SOON, Seen, billing, body, client_by_hand, consumed, orders, orders_by_hand, put, put_in_turn,
    queue, until,
};
use crate::wire::Wire;
use rocketmq_sync::broker::{Fault, Lose, Reaction, RequestRecord};
use rocketmq_sync::consumer::{LocalOffsets, Waiting};
use rocketmq_sync::{
    ConsumeStatus, Message, MessageModel, Producer, PushConsumer, RequestCode, ResponseCode,
};

/// Also before any lock is renewed: time stands still here.
#[test]
fn l1_each_queue_is_consumed_in_order_by_one_call_at_a_time() {
    let broker = orders_by_hand(4);
    put_in_turn(&broker, 0..400, 4);
    let lanes = Lanes::default();
    let client = client_by_hand(&broker);
    let consumer = billing()
        .client(&client)
        .consume_batch_size(3)
        .consume_orderly(lanes.listener(|_| ConsumeStatus::Success))
        .start()
        .unwrap();
    until("all are consumed", || consumer.stats().succeeded == 400);
    lanes.assert_all(100);
    assert_eq!(consumer.stats().failed, 0);
    assert!(all_locked(&consumer), "{:?}", consumer.stats());
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_batch_spans_pulls_and_is_as_large_as_what_there_is() {
    let broker = orders(1);
    put(&broker, 0..50);
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let (noted, gate) = (sizes.clone(), Gate::default());
    let hold = gate.clone();
    let consumer = billing()
        .name_servers(broker.name_server())
        .pull_batch_size(4)
        .consume_batch_size(20)
        .consume_orderly(move |batch| {
            noted.lock().unwrap().push(batch.len());
            hold.pass();
        })
        .start()
        .unwrap();
    gate.wait_for(1);
    until("everything is fetched", || consumer.stats().pulled == 50);
    gate.open();
    consumed(&broker);
    let sizes = sizes.lock().unwrap().clone();
    assert_eq!((sizes[1], sizes.iter().sum::<usize>()), (20, 50), "{sizes:?}");
    assert!(consumer.shutdown(SOON).is_clean());
}

/// What belongs together stays together, from the producer to the listener.
#[test]
fn l9_messages_of_one_key_stay_in_one_queue_and_in_order() {
    let broker = orders(4);
    let producer = Producer::builder("shop").name_servers(broker.name_server()).start().unwrap();
    for step in 0..5 {
        for key in ["anna", "bert", "carla"] {
            let message = Message::new("orders", format!("{key} {step}")).sharding_key(key);
            producer.send(&message).unwrap();
        }
    }
    let seen = Seen::default();
    let consumer = start(&broker, seen.answering(|_| ConsumeStatus::Success));
    consumed(&broker);
    seen.wait(15);
    let messages = seen.messages();
    for key in ["anna", "bert", "carla"] {
        let of_key: Vec<_> = messages.iter().filter(|message| message.sharding_key() == Some(key)).collect();
        let steps: Vec<String> = of_key.iter().map(|message| body(message).to_owned()).collect();
        assert_eq!(steps, (0..5).map(|step| format!("{key} {step}")).collect::<Vec<_>>());
        assert!(of_key.iter().all(|message| message.queue() == of_key[0].queue()));
    }
    assert!(consumer.shutdown(SOON).is_clean() && producer.shutdown(SOON).is_clean());
}

#[test]
fn a_queue_with_much_to_do_leaves_the_thread_to_others_after_a_turn() {
    let broker = orders(2);
    for n in 0..200 {
        broker.put(&Message::new("orders", n.to_string()).queue(&queue(n / 100))).unwrap();
    }
    let (seen, gate) = (Seen::default(), Gate::default());
    let (noting, hold) = (seen.clone(), gate.clone());
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_threads(1)
        .consume_orderly(move |batch| {
            hold.pass();
            noting.note(batch);
        })
        .start()
        .unwrap();
    until("everything is fetched", || consumer.stats().pulled == 200);
    gate.open();
    consumed(&broker);
    seen.wait(200);
    let order: Vec<i32> = seen.messages().iter().map(|message| message.queue().queue_id()).collect();
    let longest = order.chunk_by(|a, b| a == b).map(<[i32]>::len).max();
    assert!(longest < Some(100), "{longest:?}");
    assert!(consumer.shutdown(SOON).is_clean());
}

/// The first read of the stored offset succeeds, and no other is needed: neither for the start nor for a lock that is
/// granted anew. One that is made after the broker was lost may fail without harm.
#[test]
fn o3_a_second_read_of_the_offset_that_fails_moves_nothing() {
    let broker = orders(1);
    put(&broker, 0..10);
    let before = start(&broker, |_| ConsumeStatus::Success);
    consumed(&broker);
    assert!(before.shutdown(SOON).is_clean());
    put(&broker, 10..15);
    let reads = || {
        let read = |one: &RequestRecord| {
            one.code == RequestCode::QUERY_CONSUMER_OFFSET && one.topic.as_deref() == Some("orders")
        };
        broker.requests().iter().filter(|one| read(one)).count()
    };
    let already = reads();
    let error = Reaction::Reply(ResponseCode::SYSTEM_ERROR);
    let unread = Fault::on(RequestCode::QUERY_CONSUMER_OFFSET, error).topic("orders").skip(1).times(3);
    let unread = broker.fault(unread);
    let seen = Seen::default();
    let consumer = start(&broker, seen.answering(|_| ConsumeStatus::Success));
    seen.wait(5);
    consumed(&broker);
    assert_eq!((reads() - already, unread.hits()), (1, 0), "the offset is read once");
    broker.restart_losing(Lose::Locks).unwrap();
    put(&broker, 15..20);
    seen.wait(10);
    consumed(&broker);
    seen.assert_once(10..20);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn o12_a_reset_waits_for_the_call_and_goes_on_in_order_under_the_same_lock() {
    let broker = orders(1);
    put(&broker, 0..6);
    let (seen, gate) = (Seen::default(), Gate::default());
    let hold = gate.clone();
    let consumer = start(
        &broker,
        seen.answering(move |batch| {
            if body(&batch[0]) == "3" {
                hold.pass();
            }
            ConsumeStatus::Success
        }),
    );
    gate.wait_for(1);
    let header = rocketmq_sync::testing::protocol::headers::ResetOffset {
        topic: "orders".into(),
        group: "billing".into(),
        queue_id: None,
        timestamp: 0,
        is_force: true,
        offset: None,
    };
    Wire::connect(&broker.name_server()).ask(RequestCode::INVOKE_BROKER_TO_RESET_OFFSET, &header);
    until("it is closed", || {
        consumer
            .stats()
            .queues
            .iter()
            .any(|one| one.queue == queue(0) && one.waiting == Some(Waiting::Revoking))
    });
    assert_eq!(seen.len(), 4);
    gate.open();
    seen.wait(10);
    assert_eq!(seen.bodies(), ["0", "1", "2", "3", "0", "1", "2", "3", "4", "5"]);
    assert_eq!(broker.inspect().requests(RequestCode::UNLOCK_BATCH_MQ), 0);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn broadcasting_in_order_needs_no_lock_and_gives_up_what_fails() {
    let broker = orders(2);
    let start = |lanes: &Lanes, seen: &Seen| {
        billing()
            .name_servers(broker.name_server())
            .message_model(MessageModel::Broadcasting)
            .local_offsets(LocalOffsets::Memory)
            .suspend_time(SHORT)
            .max_reconsume_times(2)
            .consume_orderly(lanes.listener(seen.answering(|batch| {
                if body(&batch[0]) == "4" { ConsumeStatus::ReconsumeLater } else { ConsumeStatus::Success }
            })))
            .start()
            .unwrap()
    };
    let all: Vec<(Lanes, Seen)> = (0..2).map(|_| Default::default()).collect();
    let members: Vec<PushConsumer> = all.iter().map(|(lanes, seen)| start(lanes, seen)).collect();
    put_in_turn(&broker, 0..20, 2);
    for ((lanes, seen), member) in all.iter().zip(&members) {
        seen.wait(22);
        until("all but the one", || member.stats().succeeded == 19);
        assert_eq!(seen.counts()["4"], 3);
        assert_eq!(member.stats().given_up, 1);
        lanes.of(&queue(0), |lane| assert!(lane.accepted.iter().copied().eq((0..10).filter(|n| *n != 2))));
        lanes.of(&queue(1), |lane| assert!(lane.accepted.iter().copied().eq(0..10)));
    }
    assert_eq!(broker.inspect().requests(RequestCode::LOCK_BATCH_MQ), 0);
    members.iter().for_each(|member| assert!(member.shutdown(SOON).is_clean()));
}
