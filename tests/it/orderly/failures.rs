//! What is not accepted: its queue waits for it, until it is accepted, a dead letter or given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{Lanes, SECOND, SHORT, start};
use crate::support::{
    Gate, SOON, Seen, advance_until, billing, body, client_by_hand, consumed, consumed_by_hand, next_event,
    orders, orders_by_hand, put, put_in_turn, queue, until,
};
use rocketmq_sync::broker::{Fault, Reaction};
use rocketmq_sync::consumer::Event;
use rocketmq_sync::{ConsumeStatus, RequestCode, ResponseCode, dead_letter_topic, retry_topic};

#[test]
fn a_message_that_is_not_accepted_holds_up_its_queue_and_no_other() {
    let broker = orders(2);
    put_in_turn(&broker, 0..20, 2);
    let (lanes, seen) = (Lanes::default(), Seen::default());
    let consumer = start(
        &broker,
        lanes.listener(seen.answering(|batch| match body(&batch[0]) {
            "4" if batch[0].reconsume_times() < 3 => ConsumeStatus::ReconsumeLater,
            "8" if batch[0].reconsume_times() < 1 => ConsumeStatus::ReconsumeAfter(Duration::ZERO),
            "10" if batch[0].reconsume_times() < 1 => panic!("counts as later"),
            _ => ConsumeStatus::Success,
        })),
    );
    // The panic leaves its lane marked.
    until("the panic", || seen.counts().get("10").is_some_and(|times| *times >= 1));
    lanes.of(&queue(0), |lane| lane.inside = false);
    consumed(&broker);
    lanes.assert_all(10);
    assert_eq!(seen.reconsume_times_of("4"), [0, 1, 2, 3]);
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
    let client = client_by_hand(&broker);
    let consumer = billing()
        .client(&client)
        .suspend_time(5 * SECOND)
        .consume_orderly(seen.answering(|batch| match (body(&batch[0]), batch[0].reconsume_times()) {
            ("0", 0) => ConsumeStatus::ReconsumeLater,
            ("0", 1) => ConsumeStatus::ReconsumeAfter(45 * SECOND),
            _ => ConsumeStatus::Success,
        }))
        .start()
        .unwrap();
    for (n, wait) in [(1, 5 * SECOND), (2, 45 * SECOND)] {
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
    assert_eq!(seen.bodies(), ["0", "0", "0", "1", "2"]);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn l4_an_exhausted_message_becomes_a_dead_letter_with_its_count_and_the_queue_goes_on() {
    let broker = orders(1);
    put(&broker, 0..3);
    let seen = Seen::default();
    let consumer = billing()
        .name_servers(broker.name_server())
        .suspend_time(SHORT)
        .max_reconsume_times(2)
        .consume_orderly(seen.answering(|batch| if body(&batch[0]) == "1" { Err("never") } else { Ok(()) }))
        .start()
        .unwrap();
    let mut events = consumer.events();
    consumed(&broker);
    seen.wait(5);
    assert_eq!(seen.bodies(), ["0", "1", "1", "1", "2"]);
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
    let client = client_by_hand(&broker);
    let consumer = billing()
        .client(&client)
        .max_reconsume_times(0)
        .consume_orderly(seen.answering(|batch| if body(&batch[0]) == "0" { Err("never") } else { Ok(()) }))
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
fn a_late_listener_is_told_so_and_its_answer_counts() {
    let broker = orders_by_hand(1);
    put(&broker, 0..2);
    let (seen, gate) = (Seen::default(), Gate::default());
    let hold = gate.clone();
    let cancelled = Arc::new(AtomicU32::new(0));
    let noted = cancelled.clone();
    let client = client_by_hand(&broker);
    let consumer = billing()
        .client(&client)
        .consume_timeout(10 * SECOND)
        .consume_orderly(seen.answering(move |batch| {
            hold.pass();
            noted.fetch_add(u32::from(batch.is_cancelled()), Ordering::SeqCst);
        }))
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
