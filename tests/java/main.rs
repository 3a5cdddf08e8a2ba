//! The official Java client against the embedded broker, which lives in this process. Run by `tests/java/run VERSION`,
//! which brings the client.

#[path = "../scenarios/mod.rs"]
mod scenarios;

use rocketmq_sync::dead_letter_topic;
use scenarios::embedded::Embedded;
use scenarios::java::{JavaPeer, QUICK};
use scenarios::tally::{Member, Tally};
use scenarios::{SOON, Target, broadcast, client, member, producer, send_numbers, shared_group, strategies};

const COUNT: u64 = 10_000;

#[test]
fn what_java_sends_is_stored_and_consumed() {
    let broker = Embedded::start();
    broker.create_topic("from-java", 8);
    let (client, tally) = (client(&broker), Tally::new());
    let consumer = member(&client, "from-java-group", "from-java", &tally);
    assert_eq!(JavaPeer::produce(&broker.name_server(), "from-java", 0..COUNT), COUNT);
    assert_eq!(broker.inspect().depth("from-java"), COUNT);
    tally.wait_for(COUNT, SOON);
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    tally.assert_exactly(0..COUNT);
    assert_eq!(tally.duplicates(), 0);
}

#[test]
fn java_consumes_what_ours_sends() {
    let broker = Embedded::start();
    broker.create_topic("to-java", 8);
    let (client, tally) = (client(&broker), Tally::new());
    let peer = JavaPeer::consumer(&broker.name_server(), "to-java-group", "to-java", QUICK, &tally);
    send_numbers(&producer(&client), "to-java", 0..COUNT);
    tally.wait_for(COUNT, SOON);
    peer.stop();
    // Java commits what it has consumed when it leaves.
    assert_eq!(broker.inspect().lag("to-java-group", "to-java"), 0);
    tally.assert_exactly(0..COUNT);
    assert_eq!(tally.duplicates(), 0);
}

#[test]
fn retries_of_java_end_as_a_dead_letter() {
    let broker = Embedded::start();
    broker.create_topic("java-retries", 4);
    let tally = Tally::new();
    let peer = JavaPeer::consumer(&broker.name_server(), "java-retries-group", "java-retries", QUICK, &tally);
    let producer = producer(&client(&broker));
    for body in ["0", "1 fails 2", "2 fails 99"] {
        producer.send(&rocketmq_sync::Message::new("java-retries", body)).expect("the broker runs");
    }
    let dead = dead_letter_topic("java-retries-group");
    // Four hours and forty-six minutes on the clock of the broker.
    broker.fast_forward(SOON, |state| state.depth(&dead) == 1).expect("a dead letter");
    peer.stop();
    assert_eq!(tally.reconsumed(0), [0]);
    assert_eq!(tally.reconsumed(1), [0, 1, 2]);
    assert_eq!(tally.reconsumed(2), (0..=16).collect::<Vec<_>>());
    assert!(tally.of(2).iter().all(|delivery| delivery.to == Member::Java));
    assert_eq!(broker.inspect().messages(&dead)[0].body_str(), Ok("2 fails 99"));
}

#[test]
fn ours_and_java_share_a_group_in_order() {
    shared_group::ours_and_java_share_a_group_in_order(&Embedded::start());
}

#[test]
fn ours_and_java_share_a_group() {
    shared_group::ours_and_java_share_a_group(&Embedded::start());
}

#[test]
fn ours_and_java_poll_in_one_group() {
    shared_group::ours_and_java_poll_in_one_group(&Embedded::start());
}

#[test]
fn every_strategy_shares_as_java_does() {
    strategies::every_strategy_shares_as_java_does(&Embedded::named(strategies::BROKER));
}

#[test]
fn ours_takes_the_place_of_a_java_member() {
    broadcast::ours_takes_the_place_of_a_java_member(&Embedded::start());
}
