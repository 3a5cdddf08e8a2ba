//! What the network and the brokers may do to a push consumer.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::between::Between;
use crate::support::{
    Gate, SOON, Seen, billing, body, client_by_hand, client_with_routes_every, consumed, free_address,
    noting_member, noting_member_of, orders, orders_by_hand, put, queue, until,
};
use crate::wire::{Wire, message};
use rocketmq_sync::broker::{Broker, Cluster, Fault, Lose, Reaction};
use rocketmq_sync::consumer::{Event, Waiting};
use rocketmq_sync::testing::message::sys_flag;
use rocketmq_sync::testing::protocol::body::{ConsumeMessageDirectlyResult, DirectResult};
use rocketmq_sync::testing::protocol::headers::{ConsumeMessageDirectly, SendMessage};
use rocketmq_sync::testing::protocol::{Encoding, FrameDecoder, MAX_FRAME, RemotingCommand, encode};
use rocketmq_sync::{
    Client, ConsumeStatus, Message, MessageQueue, PushConsumer, RequestCode, ResponseCode, dead_letter_topic,
    retry_topic,
};

/// At any moment, whatever is under way.
#[test]
fn p1_every_queue_moves_again_after_each_loss_of_the_network() {
    let broker = orders(4);
    let seen = Seen::default();
    let consumer = noting_member(&broker, &seen);
    for round in 0..12u32 {
        let first = round * 20;
        put(&broker, first..first + 15);
        let before_it = (first + round * 7 % 16) as usize;
        until("so many are consumed", || seen.counts().len() >= before_it);
        match round % 4 {
            0 | 3 => broker.cut_connections(),
            1 => broker.restart().unwrap(),
            _ => {
                broker.kill();
                broker.start().unwrap();
            }
        }
        let lost = Instant::now();
        put(&broker, first + 15..first + 20);
        consumed(&broker);
        assert!(lost.elapsed() < Duration::from_secs(10), "{:?} in round {round}", lost.elapsed());
    }
    assert_eq!(seen.counts().len(), 240, "nothing is lost");
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn n9_a_broker_that_was_away_for_half_an_hour_is_found_again() {
    let broker = orders_by_hand(2);
    let client = client_by_hand(&broker);
    let seen = Seen::default();
    let ticking = crate::support::Ticking::of(broker.clock());
    let consumer = noting_member_of(&client, &seen);
    put(&broker, 0..10);
    seen.wait(10);
    drop(ticking);
    broker.kill();
    for _ in 0..360 {
        broker.clock().advance(Duration::from_secs(5));
        std::thread::yield_now();
    }
    broker.start().unwrap();
    put(&broker, 10..20);
    let _ticking = crate::support::Ticking::of(broker.clock());
    seen.wait(20);
    consumed(&broker);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn n1_a_broker_that_moves_is_followed_before_the_next_route_is_due() {
    let black_hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let broker = Broker::builder()
        .topic("orders", 2)
        .advertise(black_hole.local_addr().unwrap().to_string())
        .start()
        .unwrap();
    let client = Client::builder()
        .name_servers(broker.name_server())
        .request_timeout(Duration::from_millis(300))
        .start_timeout(Duration::from_millis(300))
        .start()
        .unwrap();
    let seen = Seen::default();
    put(&broker, 0..10);
    let consumer = noting_member_of(&client, &seen);
    assert_eq!(seen.len(), 0);
    broker.advertise_as(&broker.name_server());
    let began = Instant::now();
    seen.wait(10);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    consumed(&broker);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// The old address accepts connections and swallows what is sent there, as the address of a pod that is gone may. Fifty
/// groups that wait for it do not wait one after the other.
#[test]
fn n1_fifty_groups_follow_a_broker_that_has_moved() {
    let broker = orders(1);
    let between = Between::clients_and(broker.name_server(), |_, _| {});
    broker.advertise_as(&between.address);
    let client = client_with_routes_every(Duration::from_millis(500), broker.name_server());
    let seen = Seen::default();
    let consumers: Vec<PushConsumer> = (0..50)
        .map(|n| {
            let builder = PushConsumer::builder(format!("g{n}")).client(&client).subscribe("orders", "*");
            builder.consume_threads(1).consume_concurrently(seen.listener()).start().unwrap()
        })
        .collect();
    put(&broker, 0..1);
    seen.wait(50);
    between.swallow();
    put(&broker, 1..2);
    broker.advertise_as(&broker.name_server());
    let began = Instant::now();
    seen.wait(100);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(seen.counts().values().all(|count| *count == 50), "{:?}", seen.counts());
    assert!(client.shutdown(SOON).is_clean());
    drop(consumers);
}

/// The broker starts anew at another address, without its locks: nothing of its queues begins before they are granted
/// anew, although nobody has closed a connection.
#[test]
fn n1_in_order_a_broker_that_has_moved_is_asked_for_its_locks_first() {
    let broker = orders(1);
    let between = Between::clients_and(broker.name_server(), |_, _| {});
    broker.advertise_as(&between.address);
    let client = client_with_routes_every(Duration::from_millis(200), broker.name_server());
    put(&broker, 0..30);
    let (seen, gates) = (Seen::default(), [Gate::default(), Gate::default()]);
    let passing = gates.clone();
    let consumer = billing()
        .client(&client)
        .consume_orderly(seen.answering(move |batch| {
            if body(&batch[0]) == "5" {
                passing[0].pass();
            }
        }))
        .start()
        .unwrap();
    gates[0].wait_for(1);
    between.swallow();
    let grant = gates[1].clone();
    let asked = broker.fault(
        Fault::on(RequestCode::LOCK_BATCH_MQ, Reaction::Ignore).when(move |_| !grant.is_open()).forever(),
    );
    broker.restart_losing(Lose::Locks).unwrap();
    broker.advertise_as(&broker.name_server());
    asked.wait_hits(1, SOON).unwrap();
    gates[0].open();
    until("the call has ended", || consumer.stats().busy_threads == 0);
    until("the lock is waited for", || {
        let stats = consumer.stats();
        stats.queues.iter().any(|one| one.queue == queue(0) && one.waiting == Some(Waiting::NoLock))
    });
    assert_eq!(seen.len(), 6);
    gates[1].open();
    seen.wait(30);
    assert_eq!(seen.bodies(), (0..30).map(|n| n.to_string()).collect::<Vec<_>>());
    consumed(&broker);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn n12_two_clusters_in_one_process_do_not_know_of_each_other() {
    let brokers = [orders(2), orders(2)];
    let seen = [Seen::default(), Seen::default()];
    let consumers: Vec<PushConsumer> =
        brokers.iter().zip(&seen).map(|(broker, seen)| noting_member(broker, seen)).collect();
    put(&brokers[0], 0..20);
    put(&brokers[1], 20..40);
    for (broker, range) in brokers.iter().zip([0..20, 20..40]) {
        consumed(broker);
        assert_eq!(broker.inspect().members("billing").len(), 1);
        let index = usize::from(range.start == 20);
        seen[index].assert_once(range);
    }
    assert!(consumers.iter().all(|consumer| consumer.shutdown(SOON).is_clean()));
}

#[test]
fn n13_a_consumer_may_start_before_its_broker_and_its_topic() {
    let address = free_address();
    let client = Client::builder()
        .name_servers(&address)
        .connect_in_background()
        .route_interval(Duration::from_millis(200))
        .start()
        .unwrap();
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    let mut events = consumer.events();
    let broker = Broker::builder().listen(&address).start().unwrap();
    crate::support::next_event(&mut events, "the missing topic", |event| {
        matches!(event, Event::TopicMissing { .. }).then_some(())
    });
    broker.set_queues("orders", 2);
    crate::support::next_event(&mut events, "ready", |event| matches!(event, Event::Ready).then_some(()));
    put(&broker, 0..10);
    seen.wait(10);
    consumed(&broker);
    seen.assert_once(0..10);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// No broker is asked for messages before it knows the subscription.
#[test]
fn f1_no_pull_comes_before_the_heartbeat_with_its_subscription() {
    let cluster = Cluster::builder()
        .brokers(3)
        .each(|broker| broker.topic("orders", 2).topic("stock", 2))
        .start()
        .unwrap();
    let seen = Seen::default();
    for broker in cluster.brokers() {
        for id in 0..2 {
            for topic in ["orders", "stock"] {
                let queue = MessageQueue::new(topic, broker.name(), id);
                broker.put(&Message::new(topic, "x").tag("a").queue(&queue)).unwrap();
            }
        }
    }
    let began = Instant::now();
    let consumer =
        billing().name_servers(cluster.name_server()).consume_concurrently(seen.listener()).start().unwrap();
    seen.wait(6);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for filter in ["b", "a || b", "*", "b", "a"] {
        consumer.subscribe("stock", filter).unwrap();
    }
    until("stock is owned", || {
        consumer.assignment().iter().filter(|queue| queue.topic() == "stock").count() == 6
    });
    consumer.subscribe("orders", "a").unwrap();
    for broker in cluster.brokers() {
        broker.put(&Message::new("stock", "y").tag("a")).unwrap();
        broker.put(&Message::new("orders", "y").tag("a")).unwrap();
    }
    cluster.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
    until("the last of both", || {
        let last = seen.messages();
        ["orders", "stock"].iter().all(|topic| {
            last.iter().filter(|message| message.topic() == *topic && message.body() == b"y").count() == 3
        })
    });
    let strangers = [
        ResponseCode::SUBSCRIPTION_NOT_EXIST,
        ResponseCode::SUBSCRIPTION_NOT_LATEST,
        ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST,
    ];
    for request in cluster.brokers().iter().flat_map(Broker::requests) {
        assert!(!request.answer.is_some_and(|code| strangers.contains(&code)), "{request:?}");
    }
    assert!(consumer.shutdown(SOON).is_clean());
}

/// A broker that says that it does not know the subscription, or an older one, is told it and asked again at once.
#[test]
fn f1_a_broker_that_does_not_know_the_subscription_is_told_it_at_once() {
    for code in [ResponseCode::SUBSCRIPTION_NOT_LATEST, ResponseCode::SUBSCRIPTION_NOT_EXIST] {
        let broker = orders(1);
        let forgotten = Fault::on(RequestCode::PULL_MESSAGE, Reaction::Reply(code)).topic("orders");
        let fault = broker.fault(forgotten);
        let heartbeat = broker.fault(Fault::on(RequestCode::HEART_BEAT, Reaction::Observe).skip(1));
        put(&broker, 0..1);
        let seen = Seen::default();
        let consumer = noting_member(&broker, &seen);
        fault.wait_hits(1, SOON).unwrap();
        let began = Instant::now();
        heartbeat.wait_hits(1, SOON).unwrap();
        seen.wait(1);
        // The next heartbeat in its turn would be half a minute later.
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert!(consumer.shutdown(SOON).is_clean());
    }
}

#[test]
fn x4_a_body_that_cannot_be_inflated_is_one_dead_letter() {
    let broker = orders(1);
    let mut wire = Wire::connect(&broker.name_server());
    for n in 0..5 {
        let broken = SendMessage {
            sys_flag: if n == 2 { sys_flag::COMPRESSED } else { 0 },
            properties: Some(format!("UNIQ_KEY\u{1}id-{n}\u{2}")),
            ..message("orders", 0)
        };
        wire.publish(&broken, n.to_string().as_bytes());
    }
    let seen = Seen::default();
    let consumer = noting_member(&broker, &seen);
    let dead = dead_letter_topic("billing");
    broker.wait(SOON, |state| state.depth(&dead) == 1 && state.lag("billing", "orders") == 0).unwrap();
    let counts = seen.counts();
    assert_eq!(counts.keys().map(String::as_str).collect::<Vec<_>>(), ["0", "1", "3", "4"]);
    assert_eq!(broker.inspect().messages(&dead)[0].message_id(), "id-2");
    assert_eq!(consumer.stats().dead_letters, 1);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn x10_an_unknown_request_of_a_broker_is_answered_politely() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let broker = Broker::builder()
        .topic("orders", 2)
        .advertise(proxy.local_addr().unwrap().to_string())
        .start()
        .unwrap();
    let (said, heard) = std::sync::mpsc::channel();
    let target = broker.name_server();
    std::thread::spawn(move || {
        for down in proxy.incoming() {
            let (mut down, up) = (down.unwrap(), TcpStream::connect(&target).unwrap());
            let mut request = RemotingCommand::request(RequestCode(29_999));
            request.opaque = 4711;
            request.fields.set("neverHeardOf", "1");
            let mut bytes = Vec::new();
            encode(&request, Encoding::Json, &mut bytes).unwrap();
            std::io::Write::write_all(&mut down, &bytes).unwrap();
            let (up_again, down_again, said) =
                (up.try_clone().unwrap(), down.try_clone().unwrap(), said.clone());
            std::thread::spawn(move || std::io::copy(&mut &up_again, &mut &down_again));
            std::thread::spawn(move || listen_in(down, up, |command| drop(said.send(command))));
        }
    });
    let seen = Seen::default();
    let consumer = noting_member(&broker, &seen);
    let answer = heard.recv_timeout(SOON).unwrap();
    assert_eq!((answer.opaque, answer.response_code()), (4711, ResponseCode::REQUEST_CODE_NOT_SUPPORTED));
    put(&broker, 0..20);
    consumed(&broker);
    seen.assert_once(0..20);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// Passes on what comes, and tells of the answers in it.
fn listen_in(mut from: TcpStream, mut to: TcpStream, mut tell: impl FnMut(RemotingCommand)) {
    let mut decoder = FrameDecoder::new(MAX_FRAME);
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = std::io::Read::read(&mut from, &mut buffer) {
        decoder.feed(&buffer[..n]);
        while let Ok(Some(frame)) = decoder.next_frame() {
            let command = frame.command().unwrap();
            if command.is_response() {
                tell(command);
            }
        }
        if std::io::Write::write_all(&mut to, &buffer[..n]).is_err() {
            break;
        }
    }
    drop(to.shutdown(std::net::Shutdown::Both));
}

/// Dead letters and retries are those of the listener that had them before.
#[test]
fn d12_an_operator_may_have_a_dead_letter_or_a_retry_consumed_directly() {
    let broker = orders_by_hand(1);
    put(&broker, 0..2);
    let seen = Seen::default();
    let noting = seen.clone();
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_concurrently(move |batch| {
            noting.note(batch);
            match body(&batch[0]) {
                "0" if noting.counts()["0"] == 1 => ConsumeStatus::DeadLetter,
                "1" if noting.counts()["1"] == 1 => ConsumeStatus::ReconsumeLater,
                _ => ConsumeStatus::Success,
            }
        })
        .start()
        .unwrap();
    let (dead, retries) = (dead_letter_topic("billing"), retry_topic("billing"));
    broker.fast_forward(SOON, |state| state.depth(&dead) == 1 && seen.len() == 3).unwrap();
    let state = broker.inspect();
    for (topic, text, n) in [(&dead, "0", 4), (&retries, "1", 5)] {
        let directly = ConsumeMessageDirectly {
            consumer_group: "billing".into(),
            client_id: Some(state.members("billing")[0].clone()),
            msg_id: Some(state.messages(topic)[0].offset_message_id()),
            ..ConsumeMessageDirectly::default()
        };
        let answer =
            Wire::connect(&broker.name_server()).ask(RequestCode::CONSUME_MESSAGE_DIRECTLY, &directly);
        assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
        let result = ConsumeMessageDirectlyResult::read(&answer.body).unwrap();
        assert_eq!(result.consume_result, DirectResult::Success);
        let last = seen.messages().pop().unwrap();
        assert_eq!((body(&last), last.origin_topic(), seen.len()), (text, "orders", n));
    }
    broker.wait(SOON, |state| state.committed("billing", &queue(0)) == Some(2)).unwrap();
    assert!(consumer.shutdown(SOON).is_clean());
}
