//! The user's code as a guest: what it holds is let go of in time and on a consume thread, what panics in its end costs
//! nothing else, and threads that come and go leave nothing behind.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use crate::support::{
    SOON, Seen, advance_until, billing, client_by_hand, client_of, consumed, orders, orders_by_hand, put,
    until,
};
use rocketmq_sync::{Batch, ConsumeStatus, ErrorKind};

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose, at the end");
    }
}

/// Says on which thread it was dropped.
struct Witness(Arc<Mutex<Vec<String>>>);

impl Drop for Witness {
    fn drop(&mut self) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.0.lock().unwrap().push(name);
    }
}

/// The timer looks after running calls once a second, and a clock that is moved by hand stands still.
#[test]
fn what_a_listener_holds_is_let_go_of_on_a_consume_thread_by_the_end_of_the_shutdown() {
    let broker = orders_by_hand(1);
    let client = client_by_hand(&broker);
    let (seen, ends) = (Seen::default(), Arc::new(Mutex::new(Vec::new())));
    let (noting, witness, other) = (seen.clone(), Witness(ends.clone()), Witness(ends.clone()));
    let consumer = billing()
        .client(&client)
        .consume_hook(move |_, next| {
            let _ = &other;
            next.run()
        })
        .consume_concurrently(move |batch: &Batch| {
            let _ = &witness;
            noting.note(batch);
        })
        .start()
        .unwrap();
    put(&broker, 0..1);
    seen.wait(1);
    assert!(consumer.shutdown(SOON).is_clean());
    let ends = ends.lock().unwrap().clone();
    assert_eq!(ends.len(), 2, "{ends:?}");
    assert!(ends.iter().all(|name| name.starts_with("rmq-consume-")), "{ends:?}");
}

#[test]
fn a_listener_whose_end_panics_is_made_anew_and_its_thread_ends_as_others_do() {
    let broker = orders_by_hand(1);
    let client = client_by_hand(&broker);
    let (seen, failed) = (Seen::default(), Arc::new(AtomicBool::new(false)));
    let noting = seen.clone();
    let consumer = billing()
        .client(&client)
        .consume_concurrently_with(move |_| {
            let (bomb, failed, noting) = (Bomb, failed.clone(), noting.clone());
            move |batch: &Batch| {
                let _ = &bomb;
                assert!(failed.swap(true, Ordering::SeqCst), "on purpose");
                noting.note(batch);
            }
        })
        .start()
        .unwrap();
    put(&broker, 0..1);
    advance_until(broker.clock(), Duration::from_secs(1), "it comes again", || seen.len() == 1);
    assert!(consumer.shutdown(SOON).is_clean());
    // Two of the client, three that its consumers share, and none of the consumer.
    until("all consume threads have ended", || client.stats().threads <= 5);
}

#[test]
fn a_listener_whose_end_panics_does_not_hurt_the_other_consumers_of_its_client() {
    let broker = orders_by_hand(1);
    let client = client_by_hand(&broker);
    let (seen, bomb) = (Seen::default(), Bomb);
    let noting = seen.clone();
    let consumer = billing()
        .client(&client)
        .consume_concurrently(move |batch: &Batch| {
            let _ = &bomb;
            noting.note(batch);
        })
        .start()
        .unwrap();
    put(&broker, 0..1);
    seen.wait(1);
    assert!(consumer.shutdown(SOON).is_clean());
    drop(consumer);
    // Whoever still held something of it has let go of it by then.
    broker.clock().advance(Duration::from_secs(2));
    let again = Seen::default();
    let noting = again.clone();
    let consumer = billing()
        .client(&client)
        .consume_orderly(move |batch: &Batch| {
            noting.note(batch);
            if noting.len() == 1 { ConsumeStatus::ReconsumeLater } else { ConsumeStatus::Success }
        })
        .start()
        .unwrap();
    put(&broker, 1..2);
    // Its pause is the timer's.
    advance_until(broker.clock(), Duration::from_secs(1), "it comes again", || again.len() == 2);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn threads_that_come_and_go_have_no_more_numbers_than_there_are_at_a_time() {
    let broker = orders(4);
    let numbers = Arc::new(Mutex::new(BTreeSet::new()));
    let (noting, all) = (numbers.clone(), Arc::new(Barrier::new(4)));
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_threads(4)
        .consume_concurrently_with(move |number| {
            noting.lock().unwrap().insert(number);
            let all = all.clone();
            move |_: &Batch| {
                all.wait();
            }
        })
        .start()
        .unwrap();
    for round in 0..15 {
        put(&broker, round * 4..round * 4 + 4);
        consumed(&broker);
        consumer.set_consume_threads(1).unwrap();
        until("threads end", || consumer.stats().threads == 1);
        consumer.set_consume_threads(4).unwrap();
    }
    let numbers = numbers.lock().unwrap();
    // One that has ended may need a moment to say that its number is free.
    assert!(numbers.len() <= 10, "{numbers:?}");
    assert!(consumer.shutdown(SOON).is_clean());
}

/// Told as a story: one thread wants more consume threads, and another shuts the consumer down. Either the shutdown sees
/// the new threads, or whoever wants them hears that it is too late.
#[test]
fn threads_that_are_wanted_while_the_consumer_ends_are_joined_by_the_shutdown() {
    let broker = orders(1);
    let client = client_of(broker.name_server());
    for _ in 0..30 {
        let consumer = billing().client(&client).consume_threads(1).consume_concurrently(|_| ()).start();
        let consumer = consumer.unwrap();
        let wanting = |n: usize| {
            let mut wishes = (1..=n).cycle();
            let wish = || consumer.set_consume_threads(wishes.next().unwrap_or(1));
            std::iter::repeat_with(wish).find_map(Result::err)
        };
        let report = std::thread::scope(|scope| {
            let refused = [4, 7].map(|n| scope.spawn(move || wanting(n)));
            until("threads come", || consumer.stats().threads > 2);
            let report = consumer.shutdown(SOON);
            for refused in refused {
                assert_eq!(refused.join().unwrap().map(|error| error.kind()), Some(ErrorKind::Closed));
            }
            report
        });
        assert!(report.is_clean(), "{report}");
        // Two of the client, three that its consumers share, and none of the consumer.
        assert_eq!(client.stats().threads, 5);
    }
}
