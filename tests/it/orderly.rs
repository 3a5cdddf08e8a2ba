//! Consumption in order: one batch of a queue at a time, under the lock of its broker, and nothing overtakes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::between::Between;
use crate::support::{
    Gate, SOON, Seen, advance_until, alone, billing, body, client_by_hand, library_threads, next_event,
    orders, orders_by_hand, put, queue, until,
};
use crate::wire::Wire;
use rocketmq_sync::broker::{Broker, Fault, Lose, Reaction, RequestRecord};
use rocketmq_sync::consumer::{Event, LocalOffsets, Waiting};
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::body::{LockBatchAnswer, LockBatchRequest};
use rocketmq_sync::{
    Batch, ConsumeStatus, Message, MessageModel, MessageQueue, Producer, PushConsumer, RequestCode,
    ResponseCode, dead_letter_topic, retry_topic,
};

const SECOND: Duration = Duration::from_secs(1);
const SHORT: Duration = Duration::from_millis(10);

/// What was accepted of each queue, in order; and whether two calls were ever in one queue at once.
#[derive(Clone, Default)]
struct Lanes(Arc<Mutex<BTreeMap<MessageQueue, Lane>>>);

#[derive(Default)]
struct Lane {
    inside: bool,
    accepted: Vec<i64>,
}

impl Lanes {
    /// For a listener that accepts what `accepts` says.
    fn listener(
        &self,
        accepts: impl Fn(&Batch) -> ConsumeStatus + Send + Sync + 'static,
    ) -> impl Fn(&Batch) -> ConsumeStatus + Send + Sync + 'static {
        let lanes = self.clone();
        move |batch| {
            lanes.of(batch.queue(), |lane| {
                assert!(!lane.inside, "two in {} at once", batch.queue());
                lane.inside = true;
            });
            let status = accepts(batch);
            lanes.of(batch.queue(), |lane| {
                lane.inside = false;
                if status == ConsumeStatus::Success {
                    lane.accepted.extend(batch.iter().map(|message| message.queue_offset()));
                }
            });
            status
        }
    }

    fn of<T>(&self, queue: &MessageQueue, work: impl FnOnce(&mut Lane) -> T) -> T {
        work(self.0.lock().unwrap().entry(queue.clone()).or_default())
    }

    /// So many messages of each queue were accepted, each once, in order.
    fn assert_all(&self, each: i64) {
        for (queue, lane) in self.0.lock().unwrap().iter() {
            assert!(lane.accepted.iter().copied().eq(0..each), "{queue}: {:?}", lane.accepted);
        }
    }
}

fn start(
    broker: &Broker,
    listener: impl Fn(&Batch) -> ConsumeStatus + Send + Sync + 'static,
) -> PushConsumer {
    billing()
        .name_servers(broker.name_server())
        .suspend_time(SHORT)
        .consume_orderly(listener)
        .start()
        .unwrap()
}

fn consumed(broker: &Broker) {
    broker.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
}

/// As `consumed`, for a consumer whose commits are on the broker's clock.
fn consumed_by_hand(broker: &Broker) {
    let tenth = SECOND / 10;
    advance_until(broker.clock(), tenth, "all committed", || broker.inspect().lag("billing", "orders") == 0);
}

fn holder(broker: &Broker, id: i32) -> Option<String> {
    broker.inspect().lock_holder("billing", &queue(id)).map(str::to_owned)
}

/// Asks for the lock of queue 0 as another member would, or gives it back.
fn as_another(broker: &Broker, code: RequestCode) -> bool {
    let request = LockBatchRequest {
        client_id: "another".into(),
        consumer_group: "billing".into(),
        mq_set: vec![queue(0)],
        only_this_broker: None,
    };
    let answer =
        Wire::connect(&broker.name_server()).call(RemotingCommand::request(code).body(request.write()));
    assert_eq!(answer.response_code(), ResponseCode::SUCCESS);
    code == RequestCode::LOCK_BATCH_MQ
        && LockBatchAnswer::read(&answer.body).unwrap().lock_ok_mq_set == [queue(0)]
}

fn all_locked(consumer: &PushConsumer) -> bool {
    // The retry topic comes when its broker has made it.
    let stats = consumer.stats();
    stats.queues.iter().filter(|one| one.queue.topic() == "orders").all(|one| one.locked)
}

fn waiting_for_lock(consumer: &PushConsumer) -> bool {
    let stats = consumer.stats();
    let of_orders = stats.queues.iter().find(|one| one.queue == queue(0));
    of_orders.is_some_and(|one| one.waiting == Some(Waiting::NoLock) && !one.locked)
}

/// Also before any lock is renewed: time stands still here.
#[test]
fn l1_each_queue_is_consumed_in_order_by_one_call_at_a_time() {
    let broker = orders_by_hand(4);
    for n in 0..400 {
        broker.put(&Message::new("orders", n.to_string()).queue(&queue(n % 4))).unwrap();
    }
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

#[test]
fn a_message_that_is_not_accepted_holds_up_its_queue_and_no_other() {
    let broker = orders(2);
    for n in 0..20 {
        broker.put(&Message::new("orders", n.to_string()).queue(&queue(n % 2))).unwrap();
    }
    let (lanes, seen) = (Lanes::default(), Seen::default());
    let noting = seen.clone();
    let consumer = start(
        &broker,
        lanes.listener(move |batch| {
            noting.note(batch);
            match body(&batch[0]) {
                "4" if batch[0].reconsume_times() < 3 => ConsumeStatus::ReconsumeLater,
                "8" if batch[0].reconsume_times() < 1 => ConsumeStatus::ReconsumeAfter(Duration::ZERO),
                "10" if batch[0].reconsume_times() < 1 => panic!("counts as later"),
                _ => ConsumeStatus::Success,
            }
        }),
    );
    // The panic leaves its lane marked.
    until("the panic", || seen.counts().get("10").is_some_and(|times| *times >= 1));
    lanes.of(&queue(0), |lane| lane.inside = false);
    consumed(&broker);
    lanes.assert_all(10);
    let times: Vec<u32> = seen
        .messages()
        .iter()
        .filter(|message| body(message) == "4")
        .map(|message| message.reconsume_times())
        .collect();
    assert_eq!(times, [0, 1, 2, 3]);
    assert_eq!(broker.inspect().depth(&retry_topic("billing")), 0, "nothing goes back to the broker");
    let stats = consumer.stats();
    assert_eq!((stats.succeeded, stats.failed, stats.reconsumed), (20, 5, 0));
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_queue_waits_for_as_long_as_the_setting_or_the_answer_says() {
    let broker = orders_by_hand(1);
    put(&broker, 0..1);
    let seen = Seen::default();
    let noting = seen.clone();
    let client = client_by_hand(&broker);
    let consumer = billing()
        .client(&client)
        .suspend_time(5 * SECOND)
        .consume_orderly(move |batch| {
            noting.note(batch);
            match (body(&batch[0]), batch[0].reconsume_times()) {
                ("0", 0) => ConsumeStatus::ReconsumeLater,
                ("0", 1) => ConsumeStatus::ReconsumeAfter(20 * SECOND),
                _ => ConsumeStatus::Success,
            }
        })
        .start()
        .unwrap();
    for (n, wait) in [(1, 5 * SECOND), (2, 20 * SECOND)] {
        seen.wait(n as usize);
        until("the queue waits", || {
            consumer.stats().failed == u64::from(n) && consumer.stats().busy_threads == 0
        });
        broker.clock().advance(wait - SHORT);
        // What comes meanwhile is fetched and waits behind it.
        put(&broker, n..n + 1);
        until("the other is fetched", || consumer.stats().pulled == u64::from(n) + 1);
        assert_eq!(seen.len(), n as usize);
        broker.clock().advance(SHORT);
    }
    seen.wait(5);
    assert_eq!(seen.messages().iter().map(body).collect::<Vec<_>>(), ["0", "0", "0", "1", "2"]);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn l4_an_exhausted_message_becomes_a_dead_letter_with_its_count_and_the_queue_goes_on() {
    let broker = orders(1);
    put(&broker, 0..3);
    let seen = Seen::default();
    let noting = seen.clone();
    let consumer = billing()
        .name_servers(broker.name_server())
        .suspend_time(SHORT)
        .max_reconsume_times(2)
        .consume_orderly(move |batch| {
            noting.note(batch);
            if body(&batch[0]) == "1" { Err("never") } else { Ok(()) }
        })
        .start()
        .unwrap();
    let mut events = consumer.events();
    consumed(&broker);
    seen.wait(5);
    let order: Vec<String> = seen.messages().iter().map(|message| body(message).to_owned()).collect();
    assert_eq!(order, ["0", "1", "1", "1", "2"]);
    let dead = broker.inspect().messages(&dead_letter_topic("billing"));
    assert_eq!(dead.len(), 1);
    assert_eq!(
        (dead[0].body_str(), dead[0].reconsume_times(), dead[0].origin_topic()),
        (Ok("1"), 3, "orders")
    );
    assert_eq!(dead[0].message_id(), seen.messages()[1].message_id());
    next_event(&mut events, "a dead letter", |event| matches!(event, Event::DeadLetter { .. }).then_some(()));
    assert_eq!(consumer.stats().dead_letters, 1);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_message_that_is_given_up_becomes_a_dead_letter_and_those_around_it_are_finished() {
    let broker = orders(1);
    put(&broker, 0..6);
    let (seen, gate) = (Seen::default(), Gate::default());
    let (noting, hold) = (seen.clone(), gate.clone());
    let consumer = billing()
        .name_servers(broker.name_server())
        .suspend_time(SHORT)
        .consume_batch_size(6)
        .consume_orderly(move |batch| {
            hold.pass();
            noting.note(batch);
            batch.each(|message| match body(message) {
                "1" => ConsumeStatus::DeadLetter,
                "3" if message.reconsume_times() == 0 => ConsumeStatus::ReconsumeLater,
                _ => ConsumeStatus::Success,
            });
        })
        .start()
        .unwrap();
    until("everything is fetched", || consumer.stats().pulled == 6);
    gate.open();
    consumed(&broker);
    let counts = seen.counts();
    assert!(["0", "1", "2"].iter().all(|text| counts[*text] == 1), "{counts:?}");
    assert!(["3", "4", "5"].iter().all(|text| counts[*text] <= 2) && counts["3"] == 2, "{counts:?}");
    let dead = broker.inspect().messages(&dead_letter_topic("billing"));
    assert_eq!(dead.iter().map(body).collect::<Vec<_>>(), ["1"]);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn l4_an_exhausted_message_that_no_broker_takes_stays_here_and_holds_its_queue() {
    let broker = orders_by_hand(1);
    put(&broker, 0..2);
    let error = Reaction::Reply(ResponseCode::SYSTEM_ERROR);
    let refused =
        broker.fault(Fault::on(RequestCode::SEND_MESSAGE, error).topic(retry_topic("billing")).times(2));
    let seen = Seen::default();
    let noting = seen.clone();
    let client = client_by_hand(&broker);
    let consumer = billing()
        .client(&client)
        .max_reconsume_times(0)
        .consume_orderly(move |batch| {
            noting.note(batch);
            if body(&batch[0]) == "0" { Err("never") } else { Ok(()) }
        })
        .start()
        .unwrap();
    let mut events = consumer.events();
    for n in 1..=2 {
        refused.wait_hits(n, SOON).unwrap();
        next_event(&mut events, "a failed hand-over", |event| {
            matches!(event, Event::SendBackFailed { .. }).then_some(())
        });
        assert_eq!(seen.len() as u64, n, "its queue waits, and the listener does not see it meanwhile");
        advance_until(broker.clock(), SECOND, "the listener sees it again", || seen.len() as u64 > n);
    }
    consumed_by_hand(&broker);
    seen.wait(4);
    let times: Vec<u32> = seen.messages().iter().map(|message| message.reconsume_times()).collect();
    assert_eq!(times, [0, 1, 2, 0]);
    assert_eq!(broker.inspect().messages(&dead_letter_topic("billing"))[0].reconsume_times(), 3);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_lock_that_another_member_holds_is_waited_for_and_the_reason_is_visible() {
    let broker = orders(1);
    put(&broker, 0..3);
    assert!(as_another(&broker, RequestCode::LOCK_BATCH_MQ));
    let seen = Seen::default();
    let noting = seen.clone();
    let consumer = start(&broker, move |batch| {
        noting.note(batch);
        ConsumeStatus::Success
    });
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

/// And what happens when renewals fail.
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
    for n in 0..20 {
        broker.put(&Message::new("orders", n.to_string()).queue(&queue(n % 2))).unwrap();
    }
    let lanes = Lanes::default();
    let consumer = start(&broker, lanes.listener(|_| ConsumeStatus::Success));
    consumed(&broker);
    lanes.assert_all(10);
    assert!(all_locked(&consumer), "{:?}", consumer.stats());
    assert!(consumer.shutdown(SOON).is_clean());
    assert_eq!((holder(&broker, 0), holder(&broker, 1)), (None, None));
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
    let noting = seen.clone();
    let consumer = start(&broker, move |batch| {
        noting.note(batch);
        ConsumeStatus::Success
    });
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
    let noting = seen.clone();
    let consumer = start(&broker, move |batch| {
        noting.note(batch);
        ConsumeStatus::Success
    });
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

/// A listener that takes ten minutes keeps its queue and the lock, and nothing is consumed twice.
#[test]
fn r12_a_call_in_order_that_takes_ten_minutes_keeps_its_queue() {
    let broker = orders_by_hand(1);
    let began = broker.clock().now();
    let client = client_by_hand(&broker);
    let (seen, gate) = (Seen::default(), Gate::default());
    let (noting, hold) = (seen.clone(), gate.clone());
    let consumer = billing()
        .client(&client)
        .consume_timeout(3600 * SECOND)
        .consume_orderly(move |batch| {
            noting.note(batch);
            hold.pass();
        })
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
fn l2_locks_are_renewed_in_time_and_without_renewal_nothing_starts() {
    let broker = orders_by_hand(1);
    let seen = Seen::default();
    let noting = seen.clone();
    let client = client_by_hand(&broker);
    let consumer =
        billing().client(&client).consume_orderly(move |batch| noting.note(batch)).start().unwrap();
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

#[test]
fn a_refused_renewal_ends_the_generation_and_nothing_of_it_is_committed() {
    let broker = orders_by_hand(1);
    put(&broker, 0..2);
    let (seen, gate) = (Seen::default(), Gate::default());
    let (noting, hold) = (seen.clone(), gate.clone());
    let client = client_by_hand(&broker);
    let cancelled = Arc::new(AtomicU32::new(0));
    let noted = cancelled.clone();
    let consumer = billing()
        .client(&client)
        .consume_orderly(move |batch| {
            noting.note(batch);
            hold.pass();
            noted.fetch_add(u32::from(batch.is_cancelled()), Ordering::SeqCst);
        })
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
    assert_eq!(seen.messages().iter().map(body).collect::<Vec<_>>(), ["0", "0", "1"]);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_broker_that_forgot_its_locks_is_asked_before_anything_starts_again() {
    let broker = orders(1);
    put(&broker, 0..3);
    let seen = Seen::default();
    let noting = seen.clone();
    let consumer = start(&broker, move |batch| {
        noting.note(batch);
        ConsumeStatus::Success
    });
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

/// The broker forgets its locks, and another member takes the queue and goes on in it before this one is back.
#[test]
fn who_comes_back_after_another_member_starts_from_where_that_one_was() {
    let broker = orders(1);
    put(&broker, 0..4);
    let (seen, gate) = (Seen::default(), Gate::default());
    let (noting, hold) = (seen.clone(), gate.clone());
    let consumer = start(&broker, move |batch| {
        noting.note(batch);
        hold.pass();
        ConsumeStatus::Success
    });
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
    assert_eq!(seen.messages().iter().map(body).collect::<Vec<_>>(), ["0", "3"]);
    assert!(consumer.shutdown(SOON).is_clean());
}

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
    for n in 0..20 {
        broker.put(&Message::new("orders", n.to_string()).queue(&queue(n % 2))).unwrap();
    }
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
    for n in 0..10 {
        broker.put(&Message::new("orders", n.to_string()).queue(&queue(n % 2))).unwrap();
    }
    consumed(&broker);
    lanes.assert_all(5);
    assert!(second.shutdown(SOON).is_clean());
}

#[test]
fn a_killed_members_queue_comes_when_its_lock_has_expired() {
    let broker = orders_by_hand(1);
    put(&broker, 0..2);
    assert!(as_another(&broker, RequestCode::LOCK_BATCH_MQ));
    let seen = Seen::default();
    let client = client_by_hand(&broker);
    let noting = seen.clone();
    let consumer =
        billing().client(&client).consume_orderly(move |batch| noting.note(batch)).start().unwrap();
    let begun = broker.clock().now();
    advance_until(broker.clock(), SECOND, "its lock has expired", || seen.len() == 2);
    let waited = broker.clock().now().duration_since(begun).unwrap();
    assert!((59 * SECOND..75 * SECOND).contains(&waited), "{waited:?}");
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_late_listener_is_told_so_and_its_answer_counts() {
    let broker = orders_by_hand(1);
    put(&broker, 0..2);
    let (seen, gate) = (Seen::default(), Gate::default());
    let (noting, hold) = (seen.clone(), gate.clone());
    let cancelled = Arc::new(AtomicU32::new(0));
    let noted = cancelled.clone();
    let client = client_by_hand(&broker);
    let consumer = billing()
        .client(&client)
        .consume_timeout(10 * SECOND)
        .consume_orderly(move |batch| {
            noting.note(batch);
            hold.pass();
            noted.fetch_add(u32::from(batch.is_cancelled()), Ordering::SeqCst);
        })
        .start()
        .unwrap();
    let mut events = consumer.events();
    gate.wait_for(1);
    let late = std::thread::scope(|scope| {
        let late = scope.spawn(|| {
            next_event(&mut events, "it is late", |event| {
                if let Event::ListenerLate { message, .. } = event { Some(message) } else { None }
            })
        });
        advance_until(broker.clock(), SECOND, "it is late", || late.is_finished());
        late.join().unwrap()
    });
    assert_eq!(body(&late), "0");
    assert_eq!(seen.len(), 1, "nothing overtakes it");
    gate.open();
    consumed_by_hand(&broker);
    seen.assert_once(0..2);
    assert_eq!(cancelled.load(Ordering::SeqCst), 1);
    assert_eq!(broker.inspect().requests(RequestCode::CONSUMER_SEND_MSG_BACK), 0);
    assert!(consumer.shutdown(SOON).is_clean());
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

#[test]
fn o12_a_reset_waits_for_the_call_and_goes_on_in_order_under_the_same_lock() {
    let broker = orders(1);
    put(&broker, 0..6);
    let (seen, gate) = (Seen::default(), Gate::default());
    let (noting, hold) = (seen.clone(), gate.clone());
    let consumer = start(&broker, move |batch| {
        noting.note(batch);
        if body(&batch[0]) == "3" {
            hold.pass();
        }
        ConsumeStatus::Success
    });
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
    let order: Vec<String> = seen.messages().iter().map(|message| body(message).to_owned()).collect();
    assert_eq!(order, ["0", "1", "2", "3", "0", "1", "2", "3", "4", "5"]);
    assert_eq!(broker.inspect().requests(RequestCode::UNLOCK_BATCH_MQ), 0);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn broadcasting_in_order_needs_no_lock_and_gives_up_what_fails() {
    let broker = orders(2);
    let start = |lanes: &Lanes, seen: &Seen| {
        let noting = seen.clone();
        billing()
            .name_servers(broker.name_server())
            .message_model(MessageModel::Broadcasting)
            .local_offsets(LocalOffsets::Memory)
            .suspend_time(SHORT)
            .max_reconsume_times(2)
            .consume_orderly(lanes.listener(move |batch| {
                noting.note(batch);
                if body(&batch[0]) == "4" { ConsumeStatus::ReconsumeLater } else { ConsumeStatus::Success }
            }))
            .start()
            .unwrap()
    };
    let all: Vec<(Lanes, Seen)> = (0..2).map(|_| Default::default()).collect();
    let members: Vec<PushConsumer> = all.iter().map(|(lanes, seen)| start(lanes, seen)).collect();
    for n in 0..20 {
        broker.put(&Message::new("orders", n.to_string()).queue(&queue(n % 2))).unwrap();
    }
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

#[test]
fn the_lock_thread_runs_while_the_consumer_does_and_is_joined() {
    alone("orderly::the_lock_thread_runs_while_the_consumer_does_and_is_joined", || {
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
