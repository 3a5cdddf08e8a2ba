//! How messages flow: pulls, limits, threads, figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    Gate, SOON, Seen, Ticking, alone, billing, body, client_by_hand, client_of, consumed, library_threads,
    noting_member, orders, orders_by_hand, put, queue, until,
};
use rocketmq_sync::broker::{Fault, Reaction};
use rocketmq_sync::consumer::Waiting;
use rocketmq_sync::{Batch, Client, Message, Producer, PushConsumer, RequestCode, ResponseCode};

#[test]
fn p5_a_busy_broker_is_asked_again_after_milliseconds_not_seconds() {
    let broker = orders(1);
    let busy = Reaction::Reply(ResponseCode::FLOW_CONTROL);
    let fault = broker.fault(Fault::on(RequestCode::PULL_MESSAGE, busy).topic("orders").forever());
    let seen = Seen::default();
    let consumer = noting_member(&broker, &seen);
    fault.wait_hits(1, SOON).unwrap();
    let began = Instant::now();
    fault.wait_hits(21, SOON).unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    fault.remove();
    put(&broker, 0..1);
    seen.wait(1);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn p7_the_number_of_consume_threads_is_exact_and_can_be_changed() {
    let broker = orders(4);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gates = [Gate::default(), Gate::default()];
    let (running, highest, waiting) = (now.clone(), most.clone(), gates.clone());
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_threads(1)
        .consume_concurrently(move |batch| {
            highest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            match body(&batch[0]).parse().unwrap() {
                100..200 => waiting[0].pass(),
                300..400 => waiting[1].pass(),
                _ => {}
            }
            running.fetch_sub(1, Ordering::SeqCst);
        })
        .start()
        .unwrap();
    let done = || consumed(&broker);
    put(&broker, 0..100);
    done();
    assert_eq!(most.load(Ordering::SeqCst), 1);
    consumer.set_consume_threads(20).unwrap();
    put(&broker, 100..200);
    gates[0].wait_for(20);
    assert_eq!((consumer.stats().threads, consumer.stats().busy_threads), (20, 20));
    gates[0].open();
    done();
    assert_eq!(most.swap(0, Ordering::SeqCst), 20);
    consumer.set_consume_threads(2).unwrap();
    until("threads end", || consumer.stats().threads == 2);
    put(&broker, 300..400);
    gates[1].wait_for(2);
    gates[1].open();
    done();
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert!(consumer.set_consume_threads(0).is_err());
    assert!(consumer.shutdown(SOON).is_clean());
}

/// Each consume thread has a listener of its own, which need not be `Send`.
#[test]
fn a_listener_is_made_on_each_thread_and_anew_after_a_panic() {
    let broker = orders_by_hand(1);
    let (made, seen) = (Arc::new(AtomicUsize::new(0)), Seen::default());
    let (counting, noting) = (made.clone(), seen.clone());
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_threads(1)
        .consume_concurrently_with(move |thread| {
            assert_eq!(thread, 0);
            counting.fetch_add(1, Ordering::SeqCst);
            let mut calls = std::rc::Rc::new(0);
            let noting = noting.clone();
            move |batch: &Batch| {
                noting.note(batch);
                *std::rc::Rc::get_mut(&mut calls).unwrap() += 1;
                assert!(*calls < 3, "on purpose");
            }
        })
        .start()
        .unwrap();
    put(&broker, 0..4);
    broker.fast_forward(SOON, |_| seen.len() == 5).unwrap();
    assert_eq!((seen.counts()["2"], made.load(Ordering::SeqCst)), (2, 2));
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn p8_all_queues_together_keep_to_the_bytes_of_the_client() {
    const LIMIT: usize = 1 << 20;
    const BODY: usize = 100 << 10;
    let broker = orders(8);
    for n in 0..8 * 30u32 {
        let message = Message::new("orders", vec![0; BODY]).key(n.to_string());
        broker.put(&message.queue(&queue(i32::try_from(n % 8).unwrap()))).unwrap();
    }
    let client = Client::builder().name_servers(broker.name_server()).cache_limit(LIMIT).start().unwrap();
    let (gate, seen) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
    let (waiting, counting) = (gate.clone(), seen.clone());
    let consumer = billing()
        .client(&client)
        .pull_batch_size(2)
        .consume_threads(2)
        .consume_concurrently(move |batch| {
            waiting.pass();
            counting.fetch_add(batch.len(), Ordering::SeqCst);
        })
        .start()
        .unwrap();
    let orders = || {
        let queues = consumer.stats().queues.into_iter();
        queues.filter(|one| one.queue.topic() == "orders").collect::<Vec<_>>()
    };
    until("the limit is reached", || {
        orders().iter().all(|one| one.waiting == Some(Waiting::CacheLimit) && one.cached_messages > 0)
    });
    let cached = client.stats().cached_bytes;
    assert!((LIMIT..LIMIT + 8 * 2 * (BODY + 1024)).contains(&cached), "{cached}");
    gate.open();
    consumed(&broker);
    assert_eq!(seen.load(Ordering::SeqCst), 240);
    assert_eq!(client.stats().cached_bytes, 0);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn p9_single_messages_arrive_at_once() {
    let broker = orders(4);
    let (said, heard) = std::sync::mpsc::channel();
    let said = std::sync::Mutex::new(said);
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_concurrently(move |batch| said.lock().unwrap().send(batch[0].clone()).unwrap())
        .start()
        .unwrap();
    let mut times: Vec<Duration> = (0..300)
        .map(|n| {
            let began = Instant::now();
            put(&broker, n..n + 1);
            assert_eq!(body(&heard.recv_timeout(SOON).unwrap()), n.to_string());
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    assert!(times[150] < Duration::from_millis(100) && times[299] < Duration::from_secs(4), "{times:?}");
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn r12_neither_a_suspended_nor_a_full_queue_expires() {
    let broker = orders_by_hand(2);
    let client = client_by_hand(&broker);
    let ticking = Ticking::of(broker.clock());
    let (seen, gate) = (Seen::default(), Gate::default());
    let (noting, waiting) = (seen.clone(), gate.clone());
    let consumer = billing()
        .client(&client)
        .pull_threshold_messages(1)
        .pull_batch_size(1)
        .consume_timeout(Duration::from_secs(3600))
        .consume_threads(1)
        .consume_concurrently(move |batch| {
            waiting.pass();
            noting.note(batch);
        })
        .start()
        .unwrap();
    let zero = |n: u32| Message::new("orders", n.to_string()).queue(&queue(0));
    (0..3).for_each(|n| drop(broker.put(&zero(n)).unwrap()));
    gate.wait_for(1);
    consumer.suspend();
    broker.put(&Message::new("orders", "3").queue(&queue(1))).unwrap();
    let generations = || {
        // The retry topic is there when the broker has made it.
        let queues = consumer.stats().queues.into_iter().filter(|one| one.queue.topic() == "orders");
        queues.map(|one| (one.queue, one.generation)).collect::<Vec<_>>()
    };
    let before = generations();
    drop(ticking);
    let heartbeats = || broker.inspect().requests(RequestCode::HEART_BEAT);
    for _ in 0..20 {
        let sent = heartbeats();
        // One that is on its way when the clock moves is followed by none before the clock moves again.
        let told = || {
            [100, 9000, 9000].into_iter().any(|wait| {
                broker.clock().advance(Duration::from_secs(35));
                broker
                    .wait(Duration::from_millis(wait), |state| state.requests(RequestCode::HEART_BEAT) > sent)
                    .is_ok()
            })
        };
        assert!(told(), "no heartbeat");
    }
    let _ticking = Ticking::of(broker.clock());
    assert_eq!(generations(), before);
    gate.open();
    consumer.resume();
    consumed(&broker);
    assert_eq!(generations(), before);
    seen.assert_once(0..4);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// Suspended: queues stay owned, what is cached is consumed, nothing is pulled.
#[test]
fn a_suspended_consumer_pulls_nothing_until_it_is_resumed() {
    let broker = orders(1);
    let seen = Seen::default();
    let consumer = noting_member(&broker, &seen);
    put(&broker, 0..5);
    seen.wait(5);
    consumer.suspend();
    // The pull that the broker holds brings one more at most.
    put(&broker, 5..6);
    let suspended = || {
        let stats = consumer.stats();
        stats.queues.iter().find(|one| one.queue == queue(0)).unwrap().waiting == Some(Waiting::Suspended)
    };
    until("suspended", suspended);
    seen.wait(6);
    let pulls = broker.inspect().requests(RequestCode::PULL_MESSAGE);
    put(&broker, 6..100);
    assert!(suspended());
    assert_eq!(consumer.assignment().iter().filter(|queue| queue.topic() == "orders").count(), 1);
    assert_eq!((seen.len(), broker.inspect().requests(RequestCode::PULL_MESSAGE)), (6, pulls));
    consumer.resume();
    consumed(&broker);
    seen.assert_once(0..100);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn f4_twenty_consumers_and_producers_on_one_client_share_its_threads() {
    alone("flow::f4_twenty_consumers_and_producers_on_one_client_share_its_threads", || {
        let broker = orders(4);
        let client = client_of(broker.name_server());
        let seen = Seen::default();
        let consumers: Vec<PushConsumer> = (0..20)
            .map(|n| {
                let builder = PushConsumer::builder(format!("g{n}")).client(&client).subscribe("orders", "*");
                builder.consume_threads(1).consume_concurrently(seen.listener()).start().unwrap()
            })
            .collect();
        let producers: Vec<Producer> =
            (0..20).map(|n| Producer::builder(format!("p{n}")).client(&client).start().unwrap()).collect();
        for producer in &producers[..5] {
            producer.send(&Message::new("orders", "x")).unwrap();
        }
        seen.wait(100);
        assert_eq!(client.stats().threads, 5 + 20);
        let shared: Vec<String> =
            library_threads().into_iter().filter(|name| !name.starts_with("rmq-consume-")).collect();
        assert_eq!(shared, ["rmq-broker", "rmq-control", "rmq-io", "rmq-pull", "rmq-rebalance", "rmq-timer"]);
        assert!(client.shutdown(SOON).is_clean());
        drop(consumers);
        until("threads end", || library_threads() == ["rmq-broker"]);
    });
}

#[test]
fn m2_figures_are_exact() {
    let broker = orders(4);
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_concurrently(|batch| {
            if body(&batch[0]).ends_with("99") && batch[0].reconsume_times() == 0 {
                Err("no")
            } else {
                Ok(())
            }
        })
        .start()
        .unwrap();
    for n in 0..1000u32 {
        let queue = queue(i32::try_from(n % 4).unwrap());
        broker.put(&Message::new("orders", n.to_string()).queue(&queue)).unwrap();
    }
    consumed(&broker);
    let stats = consumer.stats();
    assert_eq!((stats.pulled, stats.succeeded, stats.failed, stats.reconsumed), (1000, 990, 10, 10));
    assert_eq!((stats.cached_messages, stats.cached_bytes, stats.busy_threads), (0, 0, 0));
    assert_eq!((stats.listener_time.count, stats.wait_time.count), (1000, 1000));
    assert_eq!(stats.listener_time.buckets.last().unwrap().1, 1000, "cumulative");
    assert!(stats.listener_time.max <= stats.listener_time.total);
    for one in stats.queues.iter().filter(|one| one.queue.topic() == "orders") {
        assert_eq!((one.position, one.max_offset, one.lag), (250, Some(250), Some(0)), "{one:?}");
        until("committed", || {
            consumer.stats().queues.iter().any(|now| now.queue == one.queue && now.committed == Some(250))
        });
        assert!(one.last_pull.is_some() && one.in_flight == 0);
    }
    assert!(consumer.shutdown(SOON).is_clean());
}
