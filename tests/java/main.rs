//! The official Java client against the embedded broker, which lives in this process. Run by `tests/java/run VERSION`,
//! which brings the client.

#[path = "../scenarios/mod.rs"]
mod scenarios;

use rocketmq_sync::{MessageQueue, RequestCode, dead_letter_topic};
use scenarios::embedded::Embedded;
use scenarios::java::{self, QUICK};
use scenarios::tally::{Member, Tally};
use scenarios::{
    SOON, Target, broadcast, client, eventually, member, member_in_order, producer, send_numbers,
    shared_group, strategies,
};
use std::time::Duration;

const COUNT: u64 = 10_000;

#[test]
fn what_java_sends_is_stored_and_consumed() {
    let broker = Embedded::start();
    broker.create_topic("from-java", 8);
    let (client, tally) = (client(&broker), Tally::new());
    let consumer = member(&client, "from-java-group", "from-java", &tally);
    assert_eq!(java::produce(&broker.name_server(), "from-java", 0..COUNT, &[]), COUNT);
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
    let peer = java::consumer(&broker.name_server(), "to-java-group", "to-java", QUICK, &tally);
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
    let peer = java::consumer(&broker.name_server(), "java-retries-group", "java-retries", QUICK, &tally);
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

#[test]
fn queues_of_a_killed_java_member_come_when_its_locks_expire() {
    const TOPIC: &str = "java-killed";
    const GROUP: &str = "java-killed-group";
    let broker = Embedded::start();
    broker.create_topic(TOPIC, 4);
    let (client, tally) = (client(&broker), Tally::new());
    let survivor = member_in_order(&client, GROUP, TOPIC, &tally);
    let peer = java::consumer_in_order(&broker.name_server(), GROUP, TOPIC, QUICK, &tally);
    eventually(SOON, "half of the queues", || peer.queues().len() == 2);
    let producer = producer(&client);
    send_numbers(&producer, TOPIC, 0..400);
    tally.wait_for(400, SOON);
    let its = peer.queues().into_iter().map(|id| MessageQueue::new(TOPIC, broker.name(), id));
    let its: Vec<_> = its.collect();
    let id = peer.client_id();
    peer.kill();
    broker.wait(SOON, |state| state.members(GROUP).len() == 1).expect("its connection is gone");

    send_numbers(&producer, TOPIC, 400..800);
    let refused_again = || {
        let asked = || broker.inspect().requests(RequestCode::LOCK_BATCH_MQ);
        let before = asked();
        eventually(SOON, "it asks for the locks again", || asked() >= before + 3);
        let state = broker.inspect();
        assert!(its.iter().all(|queue| state.lock_holder(GROUP, queue) == Some(&*id)), "{id}: {its:?}");
    };
    // The broker's clock has stood still all the time.
    refused_again();
    broker.clock().advance(Duration::from_secs(59));
    refused_again();
    broker.clock().advance(Duration::from_secs(2));
    tally.wait_for(800, SOON);
    let report = survivor.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    tally.assert_exactly(0..800);
    tally.assert_in_order();
}

#[cfg(feature = "tls")]
#[test]
fn java_speaks_tls() {
    let authority = scenarios::certificates::Authority::new("the authority");
    authority.sign("server", "127.0.0.1");
    authority.sign("java", "java");
    let broker = Embedded::encrypted(&authority, "encrypted");
    let settings = authority.path("java.tls");
    let path = |name: &str| authority.path(name).display().to_string();
    let lines = [
        "tls.test.mode.enable=false".to_owned(),
        "tls.client.authServer=true".to_owned(),
        format!("tls.client.trustCertPath={}", path("ca.pem")),
        format!("tls.client.certPath={}", path("java.pem")),
        format!("tls.client.keyPath={}", path("java.key")),
    ];
    std::fs::write(&settings, lines.join("\n")).expect("the folder is ours");
    let file = format!("-Dtls.config.file={}", settings.display());
    let options = [QUICK, &["-Dtls.enable=true", &file]].concat();
    let tally = Tally::new();
    let peer = java::consumer(&broker.name_server(), "encrypted-group", "encrypted", &options, &tally);
    assert_eq!(java::produce(&broker.name_server(), "encrypted", 0..COUNT, &options), COUNT);
    tally.wait_for(COUNT, SOON);
    peer.stop();
    tally.assert_exactly(0..COUNT);
    assert_eq!(tally.duplicates(), 0);
}
