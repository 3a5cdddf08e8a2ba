//! Members of a group: who owns which queue, and what happens to its messages meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    SOON, Seen, alone, billing, client_of, client_with_routes_every, consumed, library_threads, next_event,
    noting_member, noting_member_of, orders, put, queue, until,
};
use crate::wire::Wire;
use rocketmq_sync::broker::{Broker, Cluster};
use rocketmq_sync::consumer::Event;
use rocketmq_sync::{Client, Message, MessageQueue, PushConsumer, RequestCode, allocate};

fn owned(consumer: &PushConsumer) -> Vec<MessageQueue> {
    consumer.assignment().into_iter().filter(|queue| queue.topic() == "orders").collect()
}

fn shared_out(members: &[&PushConsumer], queues: usize) {
    until("every queue is owned once", || {
        let all: Vec<MessageQueue> = members.iter().flat_map(|member| owned(member)).collect();
        let different: BTreeSet<&MessageQueue> = all.iter().collect();
        let least = queues / members.len();
        all.len() == queues
            && different.len() == queues
            && members.iter().all(|member| (least..=least + 1).contains(&owned(member).len()))
    });
}

#[test]
fn r16_members_share_the_queues_and_hand_them_over_without_loss_or_repetition() {
    let broker = orders(4);
    let seen = Seen::default();
    let start = || noting_member(&broker, &seen);
    let first = start();
    shared_out(&[&first], 4);
    put(&broker, 0..200);
    consumed(&broker);
    let second = start();
    shared_out(&[&first, &second], 4);
    put(&broker, 200..400);
    consumed(&broker);
    assert!(first.stats().succeeded > 200 && second.stats().succeeded == 100);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| put(&broker, 400..1000));
        second.shutdown(SOON)
    });
    assert!(report.is_clean(), "{report}");
    shared_out(&[&first], 4);
    consumed(&broker);
    seen.wait(1000);
    seen.assert_once(0..1000);
    assert!(first.shutdown(SOON).is_clean());
}

#[test]
fn r10_a_queue_that_is_lost_and_won_again_is_pulled_by_one_generation() {
    let broker = orders(1);
    let seen = Seen::default();
    let wanted = Arc::new(AtomicBool::new(true));
    let reading = wanted.clone();
    let consumer = billing()
        .name_servers(broker.name_server())
        .allocate(move |id, ids, queues| {
            let is_ours =
                reading.load(Ordering::SeqCst) || queues.iter().any(|queue| queue.topic() != "orders");
            if is_ours { allocate::averagely(id, &ids[..1], queues) } else { Vec::new() }
        })
        .consume_concurrently(seen.listener())
        .start()
        .unwrap();
    // Another member of the group, which comes and goes: brokers tell the members then.
    let id = broker.inspect().members("billing")[0].clone();
    let wake =
        || Wire::connect(&broker.name_server()).heartbeat(&format!("{id}-z"), "billing", "orders", &["*"]);
    let mut generations = BTreeSet::new();
    for round in 0..3 {
        until("owned", || !owned(&consumer).is_empty());
        broker.wait(SOON, |state| state.waiting_pulls("billing") > 0).unwrap();
        let stats = consumer.stats();
        generations.insert(stats.queues.iter().find(|one| one.queue == queue(0)).unwrap().generation);
        assert_eq!(generations.len(), round + 1);
        wanted.store(false, Ordering::SeqCst);
        wake();
        until("given up", || owned(&consumer).is_empty());
        wanted.store(true, Ordering::SeqCst);
        wake();
    }
    until("owned", || !owned(&consumer).is_empty());
    // Every generation left a held pull behind, and all of them are answered now.
    put(&broker, 0..20);
    consumed(&broker);
    seen.wait(20);
    seen.assert_once(0..20);
    broker.wait(SOON, |state| state.waiting_pulls("billing") > 0).unwrap();
    let pulls = broker.inspect().requests(RequestCode::PULL_MESSAGE);
    put(&broker, 20..21);
    seen.wait(21);
    broker.wait(SOON, |state| state.requests(RequestCode::PULL_MESSAGE) > pulls).unwrap();
    assert!(consumer.shutdown(SOON).is_clean());
    seen.assert_once(0..21);
}

#[test]
fn r1_clients_have_different_ids_unless_told_otherwise() {
    let broker = orders(4);
    let client = || client_of(broker.name_server());
    let clients: Vec<Client> = (0..8).map(|_| client()).collect();
    let ids: BTreeSet<&str> = clients.iter().map(Client::client_id).collect();
    assert_eq!(ids.len(), 8, "{ids:?}");
}

#[test]
fn r3_the_queues_of_a_broker_that_comes_back_are_owned_and_pulled_again() {
    let cluster = Cluster::builder().brokers(2).each(|broker| broker.topic("orders", 2)).start().unwrap();
    let client = client_with_routes_every(Duration::from_millis(100), cluster.name_server());
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    until("all owned", || owned(&consumer).len() == 4);
    let a = cluster.broker("broker-a").unwrap();
    a.kill();
    until("those of the dead broker are given up", || owned(&consumer).len() == 2);
    a.start().unwrap();
    until("all owned", || owned(&consumer).len() == 4);
    put(a, 0..20);
    seen.wait(20);
    cluster.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
    seen.assert_once(0..20);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn r5_new_queues_are_consumed_with_the_next_route() {
    let broker = orders(4);
    let client = client_with_routes_every(Duration::from_millis(100), broker.name_server());
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    broker.set_queues("orders", 8);
    for id in 0..8 {
        broker.put(&Message::new("orders", id.to_string()).queue(&queue(id))).unwrap();
    }
    seen.wait(8);
    seen.assert_once(0..8);
    assert_eq!(owned(&consumer).len(), 8);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// A route that is withdrawn takes its queues along, and they come back with it; the other broker's go on.
#[test]
fn r3_the_queues_of_a_withdrawn_route_come_back_with_it() {
    let cluster = Cluster::builder().brokers(2).each(|broker| broker.topic("orders", 2)).start().unwrap();
    let client = client_with_routes_every(Duration::from_millis(100), cluster.name_server());
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    until("all owned", || owned(&consumer).len() == 4);
    let (a, b) = (cluster.broker("broker-a").unwrap(), cluster.broker("broker-b").unwrap());
    put(a, 0..10);
    seen.wait(10);
    a.hide_route("orders");
    until("its queues are given up", || owned(&consumer).len() == 2);
    // It comes back with empty tables of members.
    a.restart().unwrap();
    put(a, 10..20);
    put(b, 20..30);
    seen.wait(20);
    a.show_route("orders");
    let shown = Instant::now();
    until("all owned", || owned(&consumer).len() == 4);
    seen.wait(30);
    assert!(shown.elapsed() < Duration::from_secs(10), "{:?}", shown.elapsed());
    cluster.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
    seen.assert_once(0..30);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// A topic that no name server knows for a while is consumed on: its brokers are known.
#[test]
fn a_topic_whose_route_is_withdrawn_everywhere_is_consumed_on() {
    let broker = orders(2);
    let client = client_with_routes_every(Duration::from_millis(50), broker.name_server());
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    let mut events = consumer.events();
    broker.hide_route("orders");
    next_event(&mut events, "missing", |event| matches!(event, Event::TopicMissing { .. }).then_some(()));
    put(&broker, 0..10);
    seen.wait(10);
    broker.show_route("orders");
    put(&broker, 10..20);
    seen.wait(20);
    consumed(&broker);
    seen.assert_once(0..20);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// Fewer queues instead of more.
#[test]
fn r5_queues_that_are_taken_away_are_committed_and_given_up() {
    let broker = orders(8);
    let client = client_with_routes_every(Duration::from_millis(100), broker.name_server());
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    put(&broker, 0..80);
    seen.wait(80);
    broker.set_queues("orders", 4);
    until("four are left", || owned(&consumer).len() == 4);
    put(&broker, 80..120);
    seen.wait(120);
    let committed = || (0..8).filter_map(|id| broker.inspect().committed("billing", &queue(id))).sum::<i64>();
    until("everything is committed", || committed() == 120);
    seen.assert_once(0..120);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// Rounds without end, and no queue is ever pulled twice.
#[test]
fn r6_a_storm_of_notifications_and_routes_never_doubles_a_pull() {
    let broker = orders(4);
    let client = client_with_routes_every(Duration::from_millis(20), broker.name_server());
    let seen = Seen::default();
    let consumer = billing()
        .client(&client)
        // Whoever comes, the queues stay here: every pull is of one generation.
        .allocate(|_, _, queues| queues.to_vec())
        .consume_concurrently(seen.listener())
        .start()
        .unwrap();
    let id = broker.inspect().members("billing")[0].clone();
    let held = || broker.inspect().waiting_pulls("billing");
    until("all are held", || held() == 5);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (broker, id) = (&broker, &id);
            scope.spawn(move || {
                for n in 0..25 {
                    let mut wire = Wire::connect(&broker.name_server());
                    wire.heartbeat(&format!("{id}-{thread}-{n}"), "billing", "orders", &["*"]);
                }
            });
        }
        for n in 0..50 {
            put(&broker, n * 2..n * 2 + 2);
            assert!(held() <= 5);
        }
    });
    seen.wait(100);
    consumed(&broker);
    until("all are held", || held() == 5);
    assert_eq!(owned(&consumer).len(), 4);
    seen.assert_once(0..100);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn r7_a_storm_of_notifications_becomes_a_few_rounds() {
    let broker = orders(4);
    let seen = Seen::default();
    let began = Instant::now();
    let storm = |id: &str, n: usize| {
        for n in 0..n {
            Wire::connect(&broker.name_server()).heartbeat(&format!("{id}-{n}"), "billing", "orders", &["*"]);
        }
    };
    let consumer = std::thread::scope(|scope| {
        scope.spawn(|| storm("early", 100));
        noting_member(&broker, &seen)
    });
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let rounds = || broker.inspect().requests(RequestCode::GET_CONSUMER_LIST_BY_GROUP);
    let (before, began) = (rounds(), Instant::now());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let storm = &storm;
            scope.spawn(move || storm(&format!("late-{thread}"), 100));
        }
    });
    put(&broker, 0..100);
    until("all queues are back", || owned(&consumer).len() == 4);
    // Two topics are asked about in each round, and rounds are 50 ms apart at least.
    let most = 2 * (began.elapsed().as_millis() / 50 + 10);
    assert!(u128::from(rounds() - before) <= most.min(200), "{} in {:?}", rounds() - before, began.elapsed());
    consumed(&broker);
    seen.assert_once(0..100);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn r8_members_that_come_and_go_leave_no_thread_behind() {
    alone("rebalance::r8_members_that_come_and_go_leave_no_thread_behind", || {
        let broker = orders(4);
        let consumer = billing()
            .name_servers(broker.name_server())
            .consume_threads(2)
            .consume_concurrently(|_| ())
            .start()
            .unwrap();
        // A thread takes its name when it runs for the first time.
        let names = ["broker", "consume-0", "consume-1", "control", "io", "pull", "rebalance", "timer"];
        let before = names.map(|name| format!("rmq-{name}"));
        until("threads begin", || library_threads() == before);
        let asked = || broker.inspect().requests(RequestCode::GET_CONSUMER_LIST_BY_GROUP);
        // Each comes and goes at once, and of what comes that thick, several make one round.
        for n in 0..200 {
            let rounds = asked();
            Wire::connect(&broker.name_server()).heartbeat(&format!("x-{n}"), "billing", "orders", &["*"]);
            if n % 20 == 0 {
                until("a round", || asked() > rounds);
            }
        }
        until("all owned", || owned(&consumer).len() == 4);
        assert_eq!(library_threads(), before);
        assert!(consumer.shutdown(SOON).is_clean());
    });
}

/// Who gives a topic up commits and releases its queues at once, and tells the brokers, so that the members
/// that subscribe it later start where it ended. Brokers list members by group, not by topic, so that the queues of a
/// topic are shared out as long as any member is there: members of a group subscribe the same.
#[test]
fn u1_who_unsubscribes_commits_and_releases_and_tells_the_brokers() {
    let broker = Broker::builder().topic("orders", 4).topic("stock", 2).start().unwrap();
    let seen = Seen::default();
    let start = || {
        let builder = billing().name_servers(broker.name_server()).subscribe("stock", "*");
        builder.consume_concurrently(seen.listener()).start().unwrap()
    };
    let (first, second) = (start(), start());
    shared_out(&[&first, &second], 4);
    put(&broker, 0..20);
    seen.wait(20);
    first.unsubscribe("orders").unwrap();
    second.unsubscribe("orders").unwrap();
    until("nobody has them", || owned(&first).is_empty() && owned(&second).is_empty());
    consumed(&broker);
    put(&broker, 20..40);
    first.subscribe("orders", "*").unwrap();
    second.subscribe("orders", "*").unwrap();
    shared_out(&[&first, &second], 4);
    consumed(&broker);
    seen.wait(40);
    seen.assert_once(0..40);
    assert!(first.shutdown(SOON).is_clean() && second.shutdown(SOON).is_clean());
}
