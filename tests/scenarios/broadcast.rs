//! Broadcasting: every member gets everything once, over restarts too, and whoever takes the place of a Java member goes
//! on where that one was.

use super::java::{self, QUICK};
use super::tally::Tally;
use super::{SOON, Target, client, eventually, producer, send_numbers};
use rocketmq_sync::consumer::LocalOffsets;
use rocketmq_sync::{Client, ConsumeFrom, MessageModel, PushConsumer};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const COUNT: u64 = 1000;

pub fn every_member_gets_everything(target: &dyn Target) {
    target.create_topic("broadcast", 4);
    let client = client(target);
    let places = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    // Two members of one group need a client each.
    let other = super::client(target);
    let sending = producer(&client);
    for round in 0..2 {
        let tallies = [Tally::new(), Tally::new()];
        let members = [
            member(&client, "broadcast-group", "broadcast", places[0].path(), &tallies[0]),
            member(&other, "broadcast-group", "broadcast", places[1].path(), &tallies[1]),
        ];
        send_numbers(&sending, "broadcast", round * COUNT..(round + 1) * COUNT);
        for tally in &tallies {
            tally.wait_for(COUNT, SOON);
        }
        for member in members {
            let report = member.shutdown(SOON);
            assert!(report.is_clean() && report.committed.len() == 4, "{report}");
        }
        for tally in &tallies {
            tally.assert_exactly(round * COUNT..(round + 1) * COUNT);
            assert_eq!(tally.duplicates(), 0);
        }
    }
}

pub fn ours_takes_the_place_of_a_java_member(target: &dyn Target) {
    const TOPIC: &str = "broadcast-java";
    const GROUP: &str = "broadcast-java-group";
    target.create_topic(TOPIC, 4);
    let client = client(target);
    let (place, java_place) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (ours, java) = (Tally::new(), Tally::new());
    let member_beside_java = member(&client, GROUP, TOPIC, place.path(), &ours);
    let kept_in = format!("-Drocketmq.client.localOffsetStoreDir={}", java_place.path().display());
    let options = [QUICK, &["-Dpeer.broadcasting=true", &kept_in]].concat();
    let peer = java::consumer(&target.name_server(), GROUP, TOPIC, &options, &java);
    let sending = producer(&client);
    send_numbers(&sending, TOPIC, 0..COUNT);
    for tally in [&ours, &java] {
        tally.wait_for(COUNT, SOON);
        tally.assert_exactly(0..COUNT);
        assert_eq!(tally.duplicates(), 0);
    }
    // Java writes its offsets every 5 s, and when it stops, which it does not put off for calls that have not quite ended.
    eventually(SOON, "Java has written where it is", || written_by_java(java_place.path()) == COUNT);
    peer.stop();
    let report = member_beside_java.shutdown(SOON);
    assert!(report.is_clean(), "{report}");

    send_numbers(&sending, TOPIC, COUNT..2 * COUNT);
    let after = Tally::new();
    let successor = member(&client, GROUP, TOPIC, java_place.path(), &after);
    after.wait_for(COUNT, SOON);
    let report = successor.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    after.assert_exactly(COUNT..2 * COUNT);
    assert_eq!(after.duplicates(), 0);
}

/// The sum of the offsets in the file of a Java member, which is in folders by client and group below this one.
fn written_by_java(place: &Path) -> u64 {
    let below =
        |place: &Path| fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path()).next();
    let file = below(place).and_then(|client| below(&client)).map(|group| group.join("offsets.json"));
    let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    // {"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:250}}: queues stand where JSON has texts.
    let offsets = text.split("}:").skip(1);
    offsets.filter_map(|rest| rest.split([',', '}']).next()?.trim().parse::<u64>().ok()).sum()
}

fn member(client: &Client, group: &str, topic: &str, place: &Path, tally: &Arc<Tally>) -> PushConsumer {
    let tally = tally.clone();
    let builder = PushConsumer::builder(group)
        .client(client)
        .subscribe(topic, "*")
        .message_model(MessageModel::Broadcasting)
        .local_offsets(LocalOffsets::Directory(place.to_owned()))
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(move |batch| batch.each(|message| tally.take(message)));
    super::start(&builder)
}
