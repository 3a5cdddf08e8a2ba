//! A member that is killed: what it had finished and not committed is repeated, and no more.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{
    SOON, Seen, Ticking, advance_until, billing, body, client_by_hand, consumed, noting_member, orders,
    orders_by_hand, put, queue, until,
};
use rocketmq_sync::RequestCode;
use rocketmq_sync::broker::Broker;

/// Where the process that is to be killed finds the broker.
const NAME_SERVER: &str = "IT_KILLED_NAME_SERVER";

/// Runs the test of this name in a process of its own, which knows by the variable that it is the one to be killed.
fn child(test: &str, broker: &Broker) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(NAME_SERVER, broker.name_server())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Says on the standard output that a message was finished.
fn say(number: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nfinished {number}").and_then(|()| out.flush()).unwrap();
}

/// Reads what the child says until it has said enough, kills it, and returns all that it said.
fn kill_after(mut child: Child, enough: usize) -> BTreeSet<u32> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut finished = BTreeSet::new();
    for line in lines {
        if let Some(number) = line.strip_prefix("finished ") {
            finished.insert(number.parse().unwrap());
        }
        if finished.len() == enough {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(finished.len() >= enough, "{} of {enough}", finished.len());
    finished
}

/// Killed with SIGKILL.
#[test]
fn r16_a_killed_member_repeats_no_more_than_it_had_not_committed() {
    if let Ok(name_server) = std::env::var(NAME_SERVER) {
        let consumer = billing()
            .name_servers(name_server)
            .consume_threads(4)
            .commit_interval(Duration::from_millis(100))
            .consume_concurrently(|batch| {
                std::thread::sleep(Duration::from_millis(2));
                say(body(&batch[0]));
            })
            .start()
            .unwrap();
        return consumer.wait();
    }
    let broker = orders(4);
    put(&broker, 0..4000);
    let child = child("killed::r16_a_killed_member_repeats_no_more_than_it_had_not_committed", &broker);
    let finished = kill_after(child, 1000);
    broker.wait(SOON, |state| state.members("billing").is_empty()).unwrap();
    let state = broker.inspect();
    let committed: i64 = (0..4).filter_map(|id| state.committed("billing", &queue(id))).sum();
    assert!(committed > 0, "it committed several times a second");
    let again = Seen::default();
    let consumer = noting_member(&broker, &again);
    again.wait(4000 - usize::try_from(committed).unwrap());
    assert!(consumer.shutdown(SOON).is_clean());
    let again: BTreeSet<u32> = again.counts().keys().map(|number| number.parse().unwrap()).collect();
    let all: BTreeSet<u32> = finished.union(&again).copied().collect();
    assert_eq!(all.len(), 4000, "nothing is lost");
    let repeated = finished.intersection(&again).count();
    // Four threads finish at most 2000 messages a second; two intervals are 400 of them.
    assert!(repeated <= 1000 - usize::try_from(committed).unwrap().min(1000) + 400, "{repeated}");
}

/// Killed with SIGKILL: however far the others ran ahead of one that is stuck, the span bounds what is repeated.
#[test]
fn o9_what_a_crash_repeats_stays_under_the_span() {
    const SPAN: usize = 200;
    if let Ok(name_server) = std::env::var(NAME_SERVER) {
        let consumer = billing()
            .name_servers(name_server)
            .max_span(SPAN)
            .commit_interval(Duration::from_millis(100))
            .consume_concurrently(|batch| {
                if body(&batch[0]) == "10" {
                    loop {
                        std::thread::park();
                    }
                }
                say(body(&batch[0]));
            })
            .start()
            .unwrap();
        return consumer.wait();
    }
    let broker = orders(1);
    put(&broker, 0..2000);
    let child = child("killed::o9_what_a_crash_repeats_stays_under_the_span", &broker);
    let stuck = queue(0);
    let finished = std::thread::scope(|scope| {
        // Killed when it can go no further, and has committed what it may.
        let reader = scope.spawn(|| kill_after(child, SPAN + 9));
        until("everything before the stuck one is committed", || {
            broker.inspect().committed("billing", &stuck) == Some(10) || reader.is_finished()
        });
        reader.join().unwrap()
    });
    assert!(finished.len() <= 10 + SPAN + 32, "{} messages ran ahead", finished.len());
    let again = Seen::default();
    let consumer = noting_member(&broker, &again);
    consumed(&broker);
    assert!(consumer.shutdown(SOON).is_clean());
    let again: BTreeSet<u32> = again.counts().keys().map(|number| number.parse().unwrap()).collect();
    let repeated = finished.intersection(&again).count();
    assert!(repeated <= SPAN + 32, "{repeated}");
    assert_eq!(finished.union(&again).count(), 2000, "nothing is lost");
}

/// With SIGKILL: the locks of the dead keep everybody else out for 60 s after they were renewed last, and no
/// longer.
#[test]
fn the_queues_of_a_killed_orderly_member_come_when_its_locks_expire() {
    if let Ok(name_server) = std::env::var(NAME_SERVER) {
        let consumer = billing()
            .name_servers(name_server)
            .commit_interval(Duration::from_millis(100))
            .consume_orderly(|batch| {
                std::thread::sleep(Duration::from_millis(2));
                say(body(&batch[0]));
            })
            .start()
            .unwrap();
        return consumer.wait();
    }
    let broker = orders_by_hand(4);
    put(&broker, 0..2000);
    let ticking = Ticking::of(broker.clock());
    let (seen, client) = (Seen::default(), client_by_hand(&broker));
    // So slow that it has not finished its own queues before the other one comes.
    let noting = seen.clone();
    let survivor = billing()
        .client(&client)
        .consume_orderly(move |batch| {
            std::thread::sleep(Duration::from_millis(2));
            noting.note(batch);
        })
        .start()
        .unwrap();
    let child = child("killed::the_queues_of_a_killed_orderly_member_come_when_its_locks_expire", &broker);
    let finished = kill_after(child, 100);
    drop(ticking);
    let is_its = |holder: &str| holder != client.client_id();
    let its: Vec<_> = (0..4)
        .map(queue)
        .filter(|queue| broker.inspect().lock_holder("billing", queue).is_some_and(is_its))
        .collect();
    assert_eq!(its.len(), 2, "it had its share");
    broker.wait(SOON, |state| state.members("billing") == [client.client_id()]).unwrap();

    let expire = last_renewal(&broker, client.client_id()) + Duration::from_secs(60);
    let has_all = || {
        let state = broker.inspect();
        its.iter().all(|queue| state.lock_holder("billing", queue) == Some(client.client_id()))
    };
    let second = Duration::from_secs(1);
    advance_until(broker.clock(), second, "the locks are its own", || {
        assert!(!has_all() || broker.clock().now() >= expire, "not before they expire");
        has_all()
    });
    let late = broker.clock().now().duration_since(expire).unwrap();
    assert!(late <= 3 * second, "it asks every second, and here a clock goes in steps of one: {late:?}");

    let _ticking = Ticking::of(broker.clock());
    consumed(&broker);
    assert!(survivor.shutdown(SOON).is_clean());
    assert_in_order(&seen);
    let again: BTreeSet<u32> = seen.counts().keys().map(|number| number.parse().unwrap()).collect();
    assert_eq!(finished.union(&again).count(), 2000, "nothing is lost");
}

/// When another one than this asked for locks, by the broker's clock.
fn last_renewal(broker: &Broker, survivor: &str) -> std::time::SystemTime {
    let requests = broker.requests();
    let locks = requests.iter().filter(|request| request.code == RequestCode::LOCK_BATCH_MQ);
    let others = locks.filter(|request| request.client_id.as_deref() != Some(survivor));
    others.map(|request| request.time).max().unwrap()
}

/// In every queue each message followed the one before; only between two times that it had the queue something is missing.
fn assert_in_order(seen: &Seen) {
    let mut last = BTreeMap::new();
    let mut gaps = 0;
    for message in seen.messages() {
        let (queue, offset) = (message.queue().clone(), message.queue_offset());
        let before = last.insert(queue, offset);
        assert!(before.is_none_or(|before| before < offset), "{before:?}, and then {offset}");
        gaps += usize::from(before.is_some_and(|before| before + 1 < offset));
    }
    assert!(gaps <= 2, "two queues were another one's for a while: {gaps}");
}
