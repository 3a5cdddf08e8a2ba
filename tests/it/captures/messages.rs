//! The bodies that are messages: stored ones, and batches of new ones.

use super::{Capture, all};
use rocketmq_sync::testing::protocol::record::{batch_elements, verify_body, write_batch_element};
use rocketmq_sync::testing::protocol::{Compression, MAX_INFLATED, StoredMessage, inflate, records};

/// The bodies that consist of stored messages.
fn stored_bodies() -> Vec<Capture> {
    let mut captures = all();
    captures.retain(|capture| {
        let code = capture.frame.head().unwrap().code;
        !capture.frame.body().is_empty()
            && match (capture.request(), capture.is_response()) {
                (
                    "PULL_MESSAGE" | "LITE_PULL_MESSAGE" | "POP_MESSAGE" | "QUERY_MESSAGE"
                    | "VIEW_MESSAGE_BY_ID",
                    true,
                ) => code == 0,
                ("CHECK_TRANSACTION_STATE" | "CONSUME_MESSAGE_DIRECTLY", false) => true,
                _ => false,
            }
    });
    assert!(captures.len() > 80, "{}", captures.len());
    captures
}

#[test]
fn stored_messages_are_written_again() {
    let (mut messages, mut v6) = (0, 0);
    for capture in stored_bodies() {
        let mut rest = capture.frame.body();
        while !rest.is_empty() {
            let message =
                StoredMessage::decode(rest).unwrap_or_else(|error| panic!("{}: {error}", capture.place));
            let mut written = Vec::new();
            message.encode(&mut written).unwrap();
            assert_eq!(written, rest[..written.len()], "{}", capture.place);
            rest = &rest[written.len()..];
            messages += 1;
            v6 += usize::from(message.born_host.is_ipv6() && message.store_host.is_ipv6());
        }
    }
    assert!(messages > 150 && v6 >= 2, "{messages} {v6}");
}

#[test]
fn every_recorded_message_can_be_read() {
    let mut compressed = [0; 3];
    let mut elements = 0;
    for capture in stored_bodies() {
        let bytes = capture.frame.bytes();
        let mut walk = records(bytes, capture.frame.body_range());
        for record in walk.by_ref() {
            let record = record.unwrap_or_else(|error| panic!("{}: {error}", capture.place));
            verify_body(bytes, &record).unwrap();
            let body = &bytes[record.body.0 as usize..record.body.1 as usize];
            if record.sys_flag & 1 != 0 {
                let compression = Compression::of(record.sys_flag).unwrap();
                let plain = inflate(compression, body, MAX_INFLATED).unwrap();
                assert!(plain.len() >= 4096, "{}", capture.place);
                compressed[compression as usize] += 1;
            }
            // An element of an inner batch is shorter than its message by more than the fixed parts.
            let parts = record.body.1 - record.body.0 + record.properties.1 - record.properties.0;
            elements += usize::from(record.total - parts > 91 + 24 + 40 + (record.topic.1 - record.topic.0));
        }
        assert_eq!(walk.stopped_at(), None);
    }
    assert!(compressed.iter().all(|count| *count > 0), "{compressed:?}");
    assert!(elements >= 3, "{elements}");
}

#[test]
fn batches_are_written_again() {
    let mut elements = 0;
    for capture in
        all().iter().filter(|capture| capture.request() == "SEND_BATCH_MESSAGE" && !capture.is_response())
    {
        let mut written = Vec::new();
        for element in batch_elements(capture.frame.body()) {
            write_batch_element(&element.unwrap(), &mut written).unwrap();
            elements += 1;
        }
        assert_eq!(written, capture.frame.body(), "{}", capture.place);
    }
    assert!(elements >= 15, "{elements}");
}
