//! Sending, against the embedded broker.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::support::client_of;
use crate::wire::SOON;
use rocketmq_sync::broker::{Broker, Clock, Cluster, Fault, Reaction};
use rocketmq_sync::producer::{Compression, ProducerBuilder};
use rocketmq_sync::testing::protocol::compress;
use rocketmq_sync::testing::protocol::record::StoredMessage;
use rocketmq_sync::{
    Client, ErrorKind, Message, MessageQueue, MessageView, Producer, RequestCode, ResponseCode, SendStatus,
};

fn broker(queues: u32) -> Broker {
    Broker::builder().topic("orders", queues).start().unwrap()
}

fn builder(broker: &Broker) -> ProducerBuilder {
    Producer::builder("shop").name_servers(broker.name_server())
}

fn order() -> Message {
    Message::new("orders", "paid")
}

fn on_send(reaction: Reaction) -> Fault {
    Fault::on(RequestCode::SEND_MESSAGE, reaction)
}

/// The message as the broker stores it.
fn stored(view: &MessageView) -> StoredMessage<'static> {
    StoredMessage::decode(view.raw_bytes()).unwrap().into_owned()
}

#[test]
fn a_message_arrives_with_all_it_has_and_the_receipt_says_where() {
    let broker = broker(1);
    let producer = builder(&broker).start().unwrap();
    let message = order().tag("created").key("order-7").key("eur").property("currency", "EUR").flag(9);
    let receipt = producer.send(&message).unwrap();
    assert_eq!(receipt.status(), SendStatus::SendOk);
    assert_eq!(receipt.queue(), &MessageQueue::new("orders", "broker-a", 0));
    assert_eq!(receipt.queue_offset(), 0);
    let found = broker.inspect().messages("orders").remove(0);
    assert_eq!((found.body(), found.tag(), found.flag()), (&b"paid"[..], Some("created"), 9));
    assert_eq!(found.keys().collect::<Vec<_>>(), ["order-7", "eur"]);
    assert_eq!(found.property("currency"), Some("EUR"));
    assert_eq!(found.message_id(), receipt.message_id());
    assert_eq!(found.offset_message_id(), receipt.offset_message_id());
    assert_eq!(producer.send(&message).unwrap().queue_offset(), 1);
    let ids: HashSet<String> =
        broker.inspect().messages("orders").iter().map(|m| m.message_id().to_owned()).collect();
    assert_eq!(ids.len(), 2);
}

#[test]
fn messages_go_around_the_queues_and_a_key_stays_in_its_queue() {
    let cluster = Cluster::builder().brokers(2).each(|broker| broker.topic("orders", 2)).start().unwrap();
    let producer = Producer::builder("shop").name_servers(cluster.name_server()).start().unwrap();
    let queues = producer.queues("orders").unwrap();
    let names: Vec<String> = queues.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["orders@broker-a:0", "orders@broker-a:1", "orders@broker-b:0", "orders@broker-b:1"]);
    let mut counts = BTreeMap::<MessageQueue, usize>::new();
    for _ in 0..8 {
        *counts.entry(producer.send(&order()).unwrap().queue().clone()).or_default() += 1;
    }
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [2, 2, 2, 2]);
    for key in ["order-7", "order-8", "x", ""] {
        let message = order().sharding_key(key);
        if key.is_empty() {
            assert_eq!(producer.send(&message).unwrap_err().kind(), ErrorKind::InvalidInput);
            continue;
        }
        let homes: HashSet<MessageQueue> =
            (0..4).map(|_| producer.send(&message).unwrap().queue().clone()).collect();
        assert_eq!(homes.len(), 1, "{key}");
    }
    for queue in &queues {
        assert_eq!(producer.send(&order().queue(queue)).unwrap().queue(), queue);
    }
}

#[test]
fn w1_a_broker_that_hangs_does_not_cost_the_send() {
    let cluster = Cluster::builder().brokers(2).each(|broker| broker.topic("orders", 2)).start().unwrap();
    let producer = Producer::builder("shop")
        .name_servers(cluster.name_server())
        .attempt_timeout(Duration::from_millis(400))
        .start()
        .unwrap();
    let silence = cluster.broker("broker-a").unwrap().fault(on_send(Reaction::Ignore).forever());
    for _ in 0..4 {
        let began = Instant::now();
        assert_eq!(producer.send(&order()).unwrap().queue().broker_name(), "broker-b");
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
    assert!(silence.hits() > 0 && producer.stats().retried >= silence.hits());
}

#[test]
fn w2_a_busy_broker_and_a_dead_one_are_passed_by() {
    let cluster = Cluster::builder().brokers(2).each(|broker| broker.topic("orders", 1)).start().unwrap();
    let producer = Producer::builder("shop").name_servers(cluster.name_server()).start().unwrap();
    let a = cluster.broker("broker-a").unwrap();
    for code in [ResponseCode::SYSTEM_BUSY, ResponseCode::SERVICE_NOT_AVAILABLE, ResponseCode::NO_PERMISSION]
    {
        let fault = a.fault(on_send(Reaction::Reply(code)).forever());
        for _ in 0..2 {
            assert_eq!(producer.send(&order()).unwrap().queue().broker_name(), "broker-b");
        }
        fault.remove();
    }
    // The first broker is the name server as well, so the other one dies.
    cluster.broker("broker-b").unwrap().kill();
    for _ in 0..4 {
        assert_eq!(producer.send(&order()).unwrap().queue().broker_name(), "broker-a");
    }
}

#[test]
fn an_answer_that_another_broker_would_give_too_is_final_unless_it_was_named() {
    let broker = broker(1);
    let fault = broker.fault(on_send(Reaction::Reply(ResponseCode::MESSAGE_ILLEGAL)).forever());
    let error = builder(&broker).start().unwrap().send(&order()).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Broker, Some(ResponseCode::MESSAGE_ILLEGAL)));
    assert_eq!((error.attempts().len(), fault.hits()), (1, 1));
    let stubborn =
        builder(&broker).retry_code(ResponseCode::MESSAGE_ILLEGAL).max_attempts(2).start().unwrap();
    assert_eq!(stubborn.send(&order()).unwrap_err().attempts().len(), 2);
}

#[test]
fn a_weaker_status_is_a_result_and_can_be_a_reason_to_go_on() {
    let cluster = Cluster::builder().brokers(2).each(|broker| broker.topic("orders", 1)).start().unwrap();
    let weak = Reaction::Reply(ResponseCode::FLUSH_DISK_TIMEOUT);
    cluster.broker("broker-a").unwrap().fault(on_send(weak.clone()).forever());
    let client = client_of(cluster.name_server());
    let at_a = MessageQueue::new("orders", "broker-a", 0);
    let plain = Producer::builder("plain").client(&client).start().unwrap();
    assert_eq!(plain.send(&order().queue(&at_a)).unwrap().status(), SendStatus::FlushDiskTimeout);
    let strict = Producer::builder("strict").client(&client).retry_when_not_stored(true).start().unwrap();
    for _ in 0..2 {
        let receipt = strict.send(&order()).unwrap();
        assert_eq!((receipt.status(), receipt.queue().broker_name()), (SendStatus::SendOk, "broker-b"));
    }
    let stored = strict.max_weak(&at_a);
    assert_eq!(stored, SendStatus::FlushDiskTimeout, "when nothing better comes, it is stored all the same");
}

trait MaxWeak {
    fn max_weak(&self, queue: &MessageQueue) -> SendStatus;
}

impl MaxWeak for Producer {
    fn max_weak(&self, queue: &MessageQueue) -> SendStatus {
        self.send(&order().queue(queue)).unwrap().status()
    }
}

#[test]
fn large_bodies_are_compressed_if_that_makes_them_smaller() {
    let broker = broker(1);
    let client = client_of(broker.name_server());
    let text = "the same again and again, ".repeat(400);
    // A sequence that no compression makes shorter.
    let mut state = 1u64;
    let noise: Vec<u8> = (0..10_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    for (n, (compression, bits)) in [
        (Compression::Zlib(5), 0x301),
        (Compression::Lz4, 0x101),
        (Compression::Zstd, 0x201),
        (Compression::None, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let producer =
            Producer::builder(format!("g{n}")).client(&client).compression(compression).start().unwrap();
        for body in [text.as_bytes(), &noise, b"short"] {
            producer.send(&Message::new("orders", body)).unwrap();
        }
        let all = broker.inspect().messages("orders");
        let [large, random, short] = &all[all.len() - 3..] else { panic!("three messages") };
        let raw = stored(large);
        assert_eq!(raw.sys_flag & 0x701, bits, "{compression:?}");
        if bits != 0 {
            assert!(raw.body.len() < text.len() / 2);
            let kind = compress::Compression::of(raw.sys_flag).unwrap();
            assert_eq!(compress::inflate(kind, &raw.body, 1 << 20).unwrap(), text.as_bytes());
        }
        for (view, body) in [(random, &noise[..]), (short, b"short")] {
            assert_eq!((stored(view).sys_flag & 1, view.body()), (0, body), "{compression:?}");
        }
    }
}

#[test]
fn a_batch_is_stored_message_by_message() {
    let broker = broker(2);
    let producer = builder(&broker).start().unwrap();
    let messages: Vec<Message> =
        (0..5).map(|n| Message::new("orders", format!("m{n}")).tag("t").key(format!("k{n}"))).collect();
    let receipts = producer.send_batch(&messages).unwrap();
    let queues: HashSet<&MessageQueue> = receipts.iter().map(|receipt| receipt.queue()).collect();
    assert_eq!(queues.len(), 1);
    let found = broker.inspect().messages("orders");
    assert_eq!(found.len(), 5);
    for (n, (view, receipt)) in found.iter().zip(&receipts).enumerate() {
        assert_eq!(view.body(), format!("m{n}").as_bytes());
        assert_eq!((view.message_id(), view.queue_offset()), (receipt.message_id(), receipt.queue_offset()));
        assert_eq!(view.offset_message_id(), receipt.offset_message_id());
        assert_eq!(view.keys().collect::<Vec<_>>(), [format!("k{n}")]);
    }
    let sharded: Vec<Message> = messages.iter().map(|m| m.clone().sharding_key("order-7")).collect();
    let home = producer.send(&order().sharding_key("order-7")).unwrap().queue().clone();
    assert!(producer.send_batch(&sharded).unwrap().iter().all(|receipt| *receipt.queue() == home));
    assert_eq!(producer.stats().sent, 11);
}

#[test]
fn what_is_too_large_together_is_refused() {
    let broker = broker(1);
    let producer = builder(&broker).max_message_size(100).start().unwrap();
    let half = || Message::new("orders", vec![7; 60]);
    let error = producer.send_batch(&[half(), half()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("max_message_size"), "{error}");
    assert_eq!(broker.inspect().requests(RequestCode::SEND_BATCH_MESSAGE), 0);
}

#[test]
fn one_way_messages_arrive_without_an_answer() {
    let broker = broker(1);
    let producer = builder(&broker).start().unwrap();
    for _ in 0..20 {
        producer.send_oneway(&order()).unwrap();
    }
    broker.wait(SOON, |state| state.depth("orders") == 20).unwrap();
    assert_eq!(producer.stats().sent, 20);
}

#[test]
fn delayed_messages_come_when_their_time_has_come() {
    let broker = Broker::builder().topic("orders", 1).clock(Clock::manual()).start().unwrap();
    let producer = builder(&broker).start().unwrap();
    producer.send(&order().delay_level(3)).unwrap();
    let now = broker.clock().now();
    producer.send(&order().deliver_at(now + Duration::from_secs(3600))).unwrap();
    assert_eq!(broker.inspect().depth("orders"), 0);
    broker.fast_forward(SOON, |state| state.depth("orders") == 1).unwrap();
    assert!(broker.clock().now() >= now + Duration::from_secs(10));
    broker.fast_forward(SOON, |state| state.depth("orders") == 2).unwrap();
    assert!(broker.clock().now() >= now + Duration::from_secs(3600));
    producer.send(&order().deliver_after(Duration::from_secs(60))).unwrap();
    broker.fast_forward(SOON, |state| state.depth("orders") == 3).unwrap();
    let times: Vec<SystemTime> =
        broker.inspect().messages("orders").iter().map(MessageView::store_time).collect();
    assert!(times.is_sorted());
}

#[test]
fn a_topic_that_does_not_exist_is_created_by_its_first_message() {
    let broker = Broker::builder().start().unwrap();
    let producer = builder(&broker).auto_create_queues(2).start().unwrap();
    producer.send(&Message::new("fresh", "x")).unwrap();
    for _ in 0..5 {
        producer.send(&Message::new("fresh", "x")).unwrap();
    }
    assert_eq!(broker.inspect().depth("fresh"), 6);
    assert_eq!(producer.queues("fresh").unwrap().len(), 2);
    // Once it is known, nobody asks for it at every send.
    let asked = broker.inspect().requests(RequestCode::GET_ROUTEINFO_BY_TOPIC);
    for _ in 0..20 {
        producer.send(&Message::new("fresh", "x")).unwrap();
    }
    assert!(broker.inspect().requests(RequestCode::GET_ROUTEINFO_BY_TOPIC) <= asked + 2);
}

#[test]
fn hooks_see_each_message_once() {
    let broker = broker(1);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let results = seen.clone();
    let producer = builder(&broker)
        .before_send(|message| message.set_property("trace", "t-1"))
        .after_send(move |message, result| {
            let stored = result.as_ref().map(|receipt| receipt.queue_offset()).map_err(|error| error.kind());
            results.lock().unwrap().push((message.body().to_vec(), stored));
        })
        .start()
        .unwrap();
    producer.send(&order()).unwrap();
    producer.send_batch(&[order(), order()]).unwrap();
    broker.fault(on_send(Reaction::Reply(ResponseCode::MESSAGE_ILLEGAL)));
    assert!(producer.send(&order()).is_err());
    assert!(producer.send_batch(&[Message::new("orders", "")]).is_err());
    let stored: Vec<Result<i64, ErrorKind>> =
        seen.lock().unwrap().iter().map(|(_, stored)| *stored).collect();
    assert_eq!(stored, [Ok(0), Ok(1), Ok(2), Err(ErrorKind::Broker), Err(ErrorKind::InvalidInput)]);
    assert!(broker.inspect().messages("orders").iter().all(|view| view.property("trace") == Some("t-1")));
}

#[test]
fn another_timeout_holds_for_that_handle_only() {
    let broker = broker(1);
    let producer = builder(&broker).max_attempts(1).start().unwrap();
    producer.send(&order()).unwrap();
    let silence = broker.fault(on_send(Reaction::Ignore).forever());
    let began = Instant::now();
    let error = producer.with_timeout(Duration::from_millis(100)).send(&order()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(error.to_string().contains("may have been stored"), "{error}");
    silence.remove();
    producer.send(&order()).unwrap();
}

#[test]
fn figures_are_kept() {
    let broker = broker(1);
    let producer = builder(&broker).start().unwrap();
    for _ in 0..3 {
        producer.send(&order()).unwrap();
    }
    assert!(producer.send(&Message::new("orders", "")).is_err());
    let stats = producer.stats();
    assert_eq!((stats.sent, stats.failed, stats.in_flight, stats.in_flight_bytes), (3, 1, 0, 0));
    assert_eq!(stats.send_time.count, 4);
}

#[test]
fn many_threads_can_send_over_one_producer() {
    let broker = broker(4);
    let producer = builder(&broker).start().unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..100).for_each(|_| drop(producer.send(&order()).unwrap())));
        }
    });
    assert_eq!(broker.inspect().depth("orders"), 800);
    let ids: HashSet<String> =
        broker.inspect().messages("orders").iter().map(|view| view.message_id().to_owned()).collect();
    assert_eq!(ids.len(), 800);
}

#[test]
fn shutdown_lets_sends_end_tells_the_broker_and_refuses_new_ones() {
    let broker = broker(1);
    let client = client_of(broker.name_server());
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    producer.send(&order()).unwrap();
    broker.wait(SOON, |state| state.requests(RequestCode::HEART_BEAT) > 0).unwrap();
    let delay = broker.fault(on_send(Reaction::Delay(Duration::from_millis(300))));
    let sending = thread::spawn({
        let producer = producer.clone();
        move || producer.send(&order())
    });
    delay.wait_hits(1, SOON).unwrap();
    let report = producer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    assert_eq!(producer.shutdown(SOON), report);
    sending.join().unwrap().unwrap();
    assert_eq!(broker.inspect().requests(RequestCode::UNREGISTER_CLIENT), 1);
    assert_eq!(producer.send(&order()).unwrap_err().kind(), ErrorKind::Closed);
    // The client was not its own: others can use it.
    Producer::builder("shop").client(&client).start().unwrap().send(&order()).unwrap();
}

#[test]
fn a_send_that_never_ends_is_counted_as_lost() {
    let broker = broker(1);
    let producer = builder(&broker).max_attempts(1).start().unwrap();
    producer.send(&order()).unwrap();
    let silence = broker.fault(on_send(Reaction::Ignore).forever());
    let sending = thread::spawn({
        let producer = producer.clone();
        move || producer.send(&order())
    });
    silence.wait_hits(1, SOON).unwrap();
    let began = Instant::now();
    let report = producer.shutdown(Duration::from_millis(200));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(report.lost_sends, 1);
    assert_eq!(sending.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn s4_a_shared_client_outlives_its_producers_and_an_own_one_does_not() {
    let broker = broker(1);
    let producer = builder(&broker).start().unwrap();
    producer.send(&order()).unwrap();
    assert!(broker.inspect().connections() > 0);
    let other = Producer::builder("other").client(producer.client()).start().unwrap();
    assert!(producer.shutdown(SOON).is_clean());
    other.send(&order()).unwrap();
    assert!(other.shutdown(SOON).is_clean());
    broker.wait(SOON, |state| state.connections() == 0).unwrap();
}

#[test]
fn dropping_the_last_handle_ends_it() {
    let broker = broker(1);
    let producer = builder(&broker).start().unwrap();
    let clone = producer.clone();
    drop(producer);
    clone.send(&order()).unwrap();
    broker.wait(SOON, |state| state.requests(RequestCode::HEART_BEAT) > 0).unwrap();
    drop(clone);
    broker.wait(SOON, |state| state.connections() == 0).unwrap();
    assert_eq!(broker.inspect().requests(RequestCode::UNREGISTER_CLIENT), 1);
}

#[test]
fn names_get_the_namespace_on_the_wire_and_only_there() {
    let broker = Broker::builder().topic("ns1%orders", 2).start().unwrap();
    let client = Client::builder().name_servers(broker.name_server()).namespace("ns1").start().unwrap();
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    let receipt = producer.send(&order()).unwrap();
    assert_eq!(receipt.queue().topic(), "orders");
    let queue = producer.queues("orders").unwrap().remove(1);
    assert_eq!(queue.to_string(), "orders@broker-a:1");
    assert_eq!(producer.send(&order().queue(&queue)).unwrap().queue(), &queue);
    assert_eq!(broker.inspect().depth("ns1%orders"), 2);
    assert!(broker.requests().iter().any(|request| request.group.as_deref() == Some("ns1%shop")));
}
