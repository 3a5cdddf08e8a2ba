//! Failed messages: sent back, retried, and in the end dead letters.

use std::time::{Duration, Instant};

use crate::between::Between;
use crate::support::{
    SOON, Seen, Ticking, advance_until, billing, body, client_by_hand, consumed, next_event, orders_by_hand,
    put, queue,
};
use rocketmq_sync::broker::{Fault, Reaction};
use rocketmq_sync::consumer::Event;
use rocketmq_sync::{ConsumeStatus, RequestCode, ResponseCode, dead_letter_topic, retry_topic};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn d1_a_refused_send_back_is_repeated_and_the_commit_waits_for_it() {
    let broker = orders_by_hand(1);
    put(&broker, 0..1);
    let error = || Reaction::Reply(ResponseCode::SYSTEM_ERROR);
    let refused = broker.fault(Fault::on(RequestCode::CONSUMER_SEND_MSG_BACK, error()).times(3));
    let retries = retry_topic("billing");
    let unsent = broker.fault(Fault::on(RequestCode::SEND_MESSAGE, error()).topic(&retries).times(3));
    let seen = Seen::default();
    let noting = seen.clone();
    let client = client_by_hand(&broker);
    let _ticking = Ticking::of(broker.clock());
    let consumer = billing()
        .client(&client)
        .consume_concurrently(move |batch| {
            noting.note(batch);
            if noting.len() <= 4 { Err("no") } else { Ok(()) }
        })
        .start()
        .unwrap();
    let mut events = consumer.events();
    for n in 1..=3 {
        seen.wait(n);
        unsent.wait_hits(n as u64, SOON).unwrap();
        next_event(&mut events, "a failed send-back", |event| {
            matches!(event, Event::SendBackFailed { .. }).then_some(())
        });
        assert_eq!(broker.inspect().committed("billing", &queue(0)).unwrap_or(0), 0);
        advance_until(broker.clock(), SECOND, "a local retry", || seen.len() > n);
    }
    assert_eq!(refused.hits(), 3);
    consumed(&broker);
    broker
        .fast_forward(SOON, |state| state.lag("billing", &retries) == 0 && state.depth(&retries) == 1)
        .unwrap();
    seen.wait(5);
    let times: Vec<u32> = seen.messages().iter().map(|message| message.reconsume_times()).collect();
    assert_eq!(times[..4], [0, 1, 2, 3], "counted here, and by the broker after that");
    assert!(seen.messages()[4].queue().topic() == retries);
    let stats = consumer.stats();
    assert_eq!((stats.succeeded, stats.failed, stats.reconsumed, stats.dead_letters), (1, 4, 1, 0));
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn d5_a_message_is_delivered_once_more_than_it_is_retried_and_then_dead() {
    let broker = orders_by_hand(4);
    put(&broker, 0..5);
    let seen = Seen::default();
    let consumer = billing()
        .name_servers(broker.name_server())
        .max_reconsume_times(3)
        .consume_concurrently(seen.answering(|_| ConsumeStatus::ReconsumeLater))
        .start()
        .unwrap();
    let (dead, retries) = (dead_letter_topic("billing"), retry_topic("billing"));
    broker
        .fast_forward(SOON, |state| {
            state.depth(&dead) == 5 && state.lag("billing", &retries) + state.lag("billing", "orders") == 0
        })
        .unwrap();
    assert_eq!(seen.len(), 20);
    assert!(seen.counts().values().all(|times| *times == 4), "{:?}", seen.counts());
    for n in 0..5 {
        let mut times = seen.reconsume_times_of(&n.to_string());
        times.sort_unstable();
        assert_eq!(times, [0, 1, 2, 3]);
    }
    assert_eq!(broker.inspect().delayed(), 0);
    let stats = consumer.stats();
    assert_eq!((stats.failed, stats.reconsumed, stats.dead_letters), (20, 15, 5));
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn d9_of_a_batch_only_what_failed_is_retried() {
    let broker = orders_by_hand(1);
    put(&broker, 0..10);
    let seen = Seen::default();
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_batch_size(10)
        .consume_threads(1)
        .consume_concurrently(seen.answering(|batch| {
            batch.each(|message| {
                if body(message) == "5" && message.reconsume_times() == 0 {
                    Err("not this one")
                } else {
                    Ok(())
                }
            });
        }))
        .start()
        .unwrap();
    broker.fast_forward(SOON, |_| seen.len() == 11).unwrap();
    assert_eq!(seen.counts()["5"], 2);
    consumed(&broker);
    let stats = consumer.stats();
    assert_eq!((stats.failed, stats.reconsumed), (1, 1));
    assert!(consumer.shutdown(SOON).is_clean());
}

/// A wished delay is the next level not below it; a dead letter is one at once.
#[test]
fn verdicts_decide_when_a_message_comes_again_and_whether() {
    let broker = orders_by_hand(1);
    put(&broker, 0..3);
    let seen = Seen::default();
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_concurrently(seen.answering(|batch| match body(&batch[0]) {
            "0" if batch[0].reconsume_times() == 0 => ConsumeStatus::ReconsumeAfter(6 * SECOND),
            "1" => ConsumeStatus::DeadLetter,
            _ => ConsumeStatus::Success,
        }))
        .start()
        .unwrap();
    let dead = dead_letter_topic("billing");
    broker.wait(SOON, |state| state.depth(&dead) == 1 && state.delayed() == 1).unwrap();
    let mut events = consumer.events();
    let letter = next_event(&mut events, "the dead letter", |event| match event {
        Event::DeadLetter { message, .. } => Some(message),
        _ => None,
    });
    assert_eq!(body(&letter), "1");
    let before = broker.clock().now();
    broker.fast_forward(SOON, |_| seen.len() == 4).unwrap();
    let passed = broker.clock().now().duration_since(before).unwrap();
    assert!(passed > 9 * SECOND && passed <= 10 * SECOND, "level 3 is 10 s: {passed:?}");
    assert_eq!(consumer.stats().dead_letters, 1);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// Where a message was stored is no address to turn to: it is that of a machine nobody reaches.
#[test]
fn d3_a_message_goes_back_to_the_broker_of_its_name_wherever_it_says_it_was_stored() {
    let broker = orders_by_hand(1);
    let own: std::net::SocketAddr = broker.name_server().parse().unwrap();
    let bytes = |ip: [u8; 4], port: u32| [ip.as_slice(), &port.to_be_bytes()].concat();
    let (real, bogus) = (bytes([127, 0, 0, 1], own.port().into()), bytes([10, 255, 255, 1], 1));
    let between = Between::clients_and(broker.name_server(), move |request, answer| {
        if request.request_code() == RequestCode::PULL_MESSAGE {
            while let Some(at) = answer.body.windows(8).position(|bytes| bytes == real) {
                answer.body[at..at + 8].copy_from_slice(&bogus);
            }
        }
    });
    broker.advertise_as(&between.address);
    put(&broker, 0..1);
    let seen = Seen::default();
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_concurrently(
            seen.answering(|batch| if batch[0].reconsume_times() < 2 { Err("no") } else { Ok(()) }),
        )
        .start()
        .unwrap();
    broker.fast_forward(SOON, |_| seen.len() == 3).unwrap();
    assert!(seen.messages().iter().all(|message| message.store_host().to_string() == "10.255.255.1:1"));
    let requests = between.requests();
    let backs = requests.iter().filter(|one| one.request_code() == RequestCode::CONSUMER_SEND_MSG_BACK);
    let names: Vec<_> = backs.map(|back| back.fields.get("bname").map(str::to_owned)).collect();
    assert_eq!(names, [Some("broker-a".to_owned()), Some("broker-a".to_owned())]);
    assert_eq!(consumer.stats().reconsumed, 2);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn d4_the_first_retry_of_a_new_group_comes_when_its_delay_is_over() {
    let broker = orders_by_hand(1);
    let seen = Seen::default();
    let consumer = rocketmq_sync::PushConsumer::builder("billing")
        .name_servers(broker.name_server())
        .subscribe("orders", "*")
        .consume_concurrently(
            seen.answering(|batch| if batch[0].reconsume_times() == 0 { Err("no") } else { Ok(()) }),
        )
        .start()
        .unwrap();
    let began = broker.clock().now();
    put(&broker, 0..1);
    broker.wait(SOON, |state| state.delayed() == 1).unwrap();
    let due = Instant::now();
    broker.fast_forward(SOON, |_| seen.len() == 2).unwrap();
    let passed = broker.clock().now().duration_since(began).unwrap();
    assert!(passed <= 10 * SECOND, "the first delay is 10 s: {passed:?}");
    assert!(due.elapsed() < 5 * SECOND, "and then it is delivered: {:?}", due.elapsed());
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn d4_retries_come_with_a_namespace_too() {
    let broker = rocketmq_sync::broker::Broker::builder()
        .topic("eu%orders", 1)
        .clock(rocketmq_sync::broker::Clock::manual())
        .start()
        .unwrap();
    let client =
        rocketmq_sync::Client::builder().name_servers(broker.name_server()).namespace("eu").start().unwrap();
    let seen = Seen::default();
    let consumer = billing()
        .client(&client)
        .consume_concurrently(
            seen.answering(|batch| if batch[0].reconsume_times() == 0 { Err("no") } else { Ok(()) }),
        )
        .start()
        .unwrap();
    broker.put(&rocketmq_sync::Message::new("eu%orders", "0")).unwrap();
    broker.fast_forward(SOON, |_| seen.len() == 2).unwrap();
    assert!(seen.messages().iter().all(|message| message.topic() == "orders"));
    assert_eq!(broker.inspect().members("eu%billing").len(), 1);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// A service for what others could not handle is there before the first such message, and its topic with it.
#[test]
fn dead_letters_are_consumed_by_whoever_started_before_there_were_any() {
    let broker = crate::support::orders(1);
    let client = crate::support::client_with_routes_every(SECOND, broker.name_server());
    let seen = Seen::default();
    let begun = Instant::now();
    let office = rocketmq_sync::PushConsumer::builder("office")
        .client(&client)
        .subscribe(dead_letter_topic("billing"), "*")
        .consume_from(rocketmq_sync::ConsumeFrom::FirstOffset)
        .consume_concurrently(seen.listener())
        .start()
        .unwrap();
    assert!(begun.elapsed() < 5 * SECOND, "nobody waits for it: {:?}", begun.elapsed());
    let refusing =
        billing().client(&client).consume_concurrently(|_| ConsumeStatus::DeadLetter).start().unwrap();
    put(&broker, 0..1);
    seen.wait(1);
    assert_eq!(seen.messages()[0].origin_topic(), "orders");
    assert!(refusing.shutdown(SOON).is_clean());
    assert!(office.shutdown(SOON).is_clean());
}
