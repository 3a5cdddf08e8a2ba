use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::message::{Message, MessageQueue, MessageView, Record, Source, sys_flag};
use crate::protocol::{Compression, MAX_INFLATED, OffsetId, deflate};

/// The first message of a new broker 4.9.7.
const RECORDED: &str = "\
    000000c2 daa320a7 3610a686 00000000 00000000 0000000000000000 0000000000000000 00000000 \
    000001a22867ffa3 7f000001 0000cf52 000001a228680003 7f000001 000051af 00000000 0000000000000000 \
    00000005 68656c6c6f 0a 6361702d6f7264657273 0058 \
    554e49515f4b455901464430303030303030303030303030303030303030303030303030303030303236324639354646 \
    443242323739343030313741333030303002434c55535445520144656661756c74436c7573746572";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn encode(message: &StoredMessage<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out).unwrap();
    assert_eq!(out.len(), message.encoded_len());
    out
}

fn sample(queue_offset: i64) -> StoredMessage<'static> {
    StoredMessage {
        queue_id: 3,
        flag: 7,
        queue_offset,
        physical_offset: 1000 * queue_offset,
        born_timestamp: 1_795_974_234_019,
        store_timestamp: 1_795_974_234_115,
        born_host: "10.0.0.1:50000".parse().unwrap(),
        store_host: "10.0.0.2:10911".parse().unwrap(),
        reconsume_times: 2,
        body: format!("body {queue_offset}").into_bytes().into(),
        topic: "orders".into(),
        properties: b"TAGS\x01a\x02KEYS\x01k1 k2\x02".into(),
        ..StoredMessage::default()
    }
}

fn view(bytes: Vec<u8>) -> MessageView {
    let record = records(&bytes, 0..bytes.len()).next().unwrap().unwrap();
    MessageView::new(
        Arc::new(Source { bytes, queue: MessageQueue::new("orders", "b", 3), namespace: None }),
        record,
    )
}

fn all(bytes: &[u8]) -> (Vec<Record>, Vec<BadRecord>, Option<usize>) {
    let mut walk = records(bytes, 0..bytes.len());
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for record in walk.by_ref() {
        match record {
            Ok(record) => good.push(record),
            Err(error) => bad.push(error),
        }
    }
    (good, bad, walk.stopped_at())
}

fn offsets(bytes: &[u8]) -> Vec<i64> {
    all(bytes).0.iter().map(|record| record.queue_offset).collect()
}

#[test]
fn reads_a_recorded_message() {
    let bytes = hex(RECORDED);
    let message = StoredMessage::decode(&bytes).unwrap();
    assert_eq!((message.queue_id, message.queue_offset, message.physical_offset), (0, 0, 0));
    assert_eq!((message.born_timestamp, message.store_timestamp), (1_795_974_234_019, 1_795_974_234_115));
    assert_eq!(message.born_host, "127.0.0.1:53074".parse().unwrap());
    assert_eq!((&*message.body, &*message.topic), (&b"hello"[..], "cap-orders"));
    assert_eq!(body_crc(b"hello"), 907_060_870);
    assert_eq!(body_crc(b"123456789"), 1_274_296_614);
    assert_eq!(encode(&message), bytes);

    let view = view(bytes);
    assert_eq!(view.message_id(), "FD00000000000000000000000000000262F95FFD2B27940017A30000");
    assert_eq!(view.offset_message_id(), "7F000001000051AF0000000000000000");
    assert_eq!(view.property("CLUSTER"), Some("DefaultCluster"));
    assert_eq!(view.store_size(), 194);
    verify_body(&view.source().bytes, view.record()).unwrap();
}

#[test]
fn a_view_shows_every_part() {
    let mut message = sample(42);
    message.born_host = "[fd00::1]:50000".parse().unwrap();
    let view = view(encode(&message));
    assert_eq!(view.topic(), "orders");
    assert_eq!(view.body_str(), Ok("body 42"));
    assert_eq!((view.tag(), view.keys().collect::<Vec<_>>()), (Some("a"), vec!["k1", "k2"]));
    assert_eq!((view.queue_offset(), view.commit_log_offset()), (42, 42_000));
    assert_eq!((view.reconsume_times(), view.flag()), (2, 7));
    assert_eq!(view.born_host(), message.born_host);
    assert_eq!(view.store_host(), message.store_host);
    let millis =
        |time: std::time::SystemTime| time.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    assert_eq!(millis(view.born_time()), 1_795_974_234_019);
    assert_eq!(millis(view.store_time()), 1_795_974_234_115);
    assert_eq!(view.message_id(), view.offset_message_id());
    let id = OffsetId::parse(view.message_id()).unwrap();
    assert_eq!((id.host, id.commit_log_offset), (message.store_host, 42_000));
    assert_eq!(view.raw_bytes(), encode(&message));
    assert_eq!(view.as_ref(), b"body 42");
}

#[test]
fn a_detached_view_says_the_same_with_bytes_of_its_own() {
    let mut bytes: Vec<u8> = [1, 2, 3].iter().flat_map(|offset| encode(&sample(*offset))).collect();
    bytes.extend(encode(&inner_batch(batch(2), sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP)));
    let found = all(&bytes).0;
    assert_eq!(found.len(), 5);
    let source = Arc::new(Source { bytes, queue: MessageQueue::new("orders", "b", 3), namespace: None });
    for record in found {
        let view = MessageView::new(source.clone(), record);
        let own = view.detached();
        assert!(own.source().bytes.len() < source.bytes.len());
        assert_eq!((own.body(), own.tag(), own.topic()), (view.body(), view.tag(), view.topic()));
        assert_eq!(own.properties().collect::<Vec<_>>(), view.properties().collect::<Vec<_>>());
        assert_eq!((own.queue_offset(), own.queue()), (view.queue_offset(), view.queue()));
        assert_eq!(own.commit_log_offset(), view.commit_log_offset());
        assert_eq!((own.born_time(), own.store_host()), (view.born_time(), view.store_host()));
    }
}

#[test]
fn a_retry_shows_the_topic_it_was_sent_to() {
    let mut message = sample(0);
    message.topic = "%RETRY%ns%g".into();
    message.properties = b"RETRY_TOPIC\x01ns%orders\x02".into();
    let bytes = encode(&message);
    let retry = view(bytes.clone());
    assert_eq!(
        (retry.topic(), retry.stored_topic(), retry.origin_topic()),
        ("ns%orders", "%RETRY%ns%g", "ns%orders")
    );
    let source = Source { bytes, queue: MessageQueue::new("t", "b", 0), namespace: Some("ns".into()) };
    let unwrapped = MessageView::new(Arc::new(source), *retry.record());
    assert_eq!(unwrapped.topic(), "orders");
}

#[test]
fn a_dead_letter_knows_where_it_came_from() {
    let mut message = sample(0);
    message.topic = "%DLQ%g".into();
    message.properties =
        b"RETRY_TOPIC\x01orders\x02TAGS\x01a\x02UNIQ_KEY\x01u\x02color\x01red\x02DELAY\x010\x02".into();
    let dead = view(encode(&message));
    assert_eq!((dead.topic(), dead.origin_topic()), ("%DLQ%g", "orders"));
    let again = dead.to_message();
    assert_eq!((again.topic(), again.body()), ("orders", &b"body 0"[..]));
    assert_eq!(again.properties().collect::<Vec<_>>(), [("TAGS", "a"), ("color", "red")]);
}

#[test]
fn transactions_have_an_id() {
    let id = |properties: &'static [u8]| {
        view(encode(&StoredMessage { properties: properties.into(), ..sample(0) }))
            .transaction_id()
            .map(String::from)
    };
    assert_eq!(id(b"__transactionId__\x01t\x02"), Some("t".into()));
    assert_eq!(id(b"TRAN_MSG\x01true\x02UNIQ_KEY\x01u\x02"), Some("u".into()));
    assert_eq!(id(b"UNIQ_KEY\x01u\x02"), None);
}

#[test]
fn a_message_becomes_a_view() {
    let message = Message::new("orders", "body").tag("a").key("k").flag(9);
    let view = MessageView::from(message.queue(&MessageQueue::new("orders", "b", 2)));
    assert_eq!((view.topic(), view.body(), view.tag(), view.flag()), ("orders", &b"body"[..], Some("a"), 9));
    assert_eq!(view.queue().to_string(), "orders@b:2");
    assert_eq!(view.reconsume_times(), 0);
}

#[test]
fn a_local_retry_is_counted_and_a_body_can_be_inflated() {
    let mut message = sample(1);
    message.sys_flag = Compression::Zlib.sys_flag();
    let mut view = view(encode(&message));
    assert!(view.is_compressed());
    view.set_body(b"inflated".as_slice().into());
    view.set_reconsume_times(5);
    assert_eq!((view.body(), view.is_compressed(), view.sys_flag()), (&b"inflated"[..], false, 0));
    assert_eq!(view.reconsume_times(), 5);
}

#[test]
fn debug_does_not_show_whole_bodies() {
    let text = format!("{:?}", view(encode(&StoredMessage { body: vec![b'x'; 5000].into(), ..sample(1) })));
    assert!(text.contains("5000 bytes \"xxxx") && text.len() < 300, "{text}");
}

#[test]
fn long_topics_take_the_second_version() {
    for (length, magic) in
        [(0, MAGIC_V1), (127, MAGIC_V1), (128, MAGIC_V2), (255, MAGIC_V2), (1000, MAGIC_V2)]
    {
        let message = StoredMessage { topic: "t".repeat(length).into(), ..sample(1) };
        let bytes = encode(&message);
        assert_eq!(i32::from_be_bytes(bytes[4..8].try_into().unwrap()), magic, "{length}");
        assert_eq!(StoredMessage::decode(&bytes).unwrap(), message);
    }
    assert_eq!(
        encode(&StoredMessage { topic: "".into(), properties: b"".into(), body: b"".into(), ..sample(0) })
            .len(),
        91
    );
}

#[test]
fn too_long_properties_cannot_be_stored() {
    let message = StoredMessage { properties: vec![b'x'; 32_768].into(), ..sample(1) };
    assert!(message.encode(&mut Vec::new()).is_err());
}

#[test]
fn one_bad_message_is_one_failed_message() {
    let mut bytes: Vec<u8> = (0..3).flat_map(|offset| encode(&sample(offset))).collect();
    let start = encode(&sample(0)).len();
    // The body of the second one claims to be longer than the message.
    bytes[start + 84..start + 88].copy_from_slice(&1_000_000i32.to_be_bytes());
    let (good, bad, stopped) = all(&bytes);
    assert_eq!(good.iter().map(|record| record.queue_offset).collect::<Vec<_>>(), [0, 2]);
    assert_eq!((bad.len(), stopped), (1, None));
    assert_eq!(
        (bad[0].queue_offset, bad[0].commit_log_offset, bad[0].rest_lost),
        (Some(1), Some(1000), false)
    );
    assert_eq!(bad[0].start, start);

    // An unknown version mark says nothing about where the offset is.
    bytes[start + 4..start + 8].copy_from_slice(&0xCBD4_3194_u32.to_be_bytes());
    let (good, bad, _) = all(&bytes);
    assert_eq!((good.len(), bad[0].queue_offset), (2, None));
}

#[test]
fn a_wrong_length_ends_the_walk() {
    for length in [i32::MAX, -1, 0, 3, 90, 1_000_000] {
        let mut bytes: Vec<u8> = (0..3).flat_map(|offset| encode(&sample(offset))).collect();
        let start = encode(&sample(0)).len();
        bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
        let (good, bad, stopped) = all(&bytes);
        assert_eq!((good.len(), bad.len(), stopped), (1, 1, Some(start)), "{length}");
        assert!(bad[0].rest_lost && bad[0].to_string().contains("nothing behind it"));
    }
}

#[test]
fn a_damaged_body_does_not_agree_with_its_checksum() {
    let mut bytes = encode(&sample(1));
    bytes[88] ^= 1;
    let record = records(&bytes, 0..bytes.len()).next().unwrap().unwrap();
    assert!(verify_body(&bytes, &record).is_err());
}

fn batch(count: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for index in 0..count {
        let body = [b'0' + index; 3];
        let properties = [b"TAGS\x01", &[b'a' + index][..], b"\x02"].concat();
        let element = BatchElement { flag: index.into(), body: &body, properties: &properties };
        write_batch_element(&element, &mut out).unwrap();
    }
    out
}

fn inner_batch(body: Vec<u8>, flag: i32) -> StoredMessage<'static> {
    StoredMessage {
        sys_flag: sys_flag::NEED_UNWRAP | sys_flag::INNER_BATCH | flag,
        body: body.into(),
        born_host: "[::1]:1".parse().unwrap(),
        ..sample(100)
    }
}

#[test]
fn reads_a_recorded_batch_element() {
    let mut bytes = hex(
        "00000077 00000000 00000000 00000000 00000007 62617463682031 005a 4b455953016231 02 554e49515f4b455901",
    );
    bytes.extend_from_slice(&[b'A'; 56]);
    bytes.extend_from_slice(&hex("02 574149540174727565 02 54414753 01 61"));
    let elements: Vec<_> = batch_elements(&bytes).map(Result::unwrap).collect();
    assert_eq!((elements.len(), elements[0].body, elements[0].flag), (1, &b"batch 1"[..], 0));
    let mut out = Vec::new();
    write_batch_element(&elements[0], &mut out).unwrap();
    assert_eq!(out, bytes);
}

#[test]
fn inner_batches_come_out_as_their_elements() {
    let bytes = [encode(&sample(99)), encode(&inner_batch(batch(3), 0)), encode(&sample(103))].concat();
    assert_eq!(offsets(&bytes), [99, 100, 101, 102, 103]);
    let second = all(&bytes).0[2];
    let source = Source { bytes, queue: MessageQueue::new("orders", "b", 3), namespace: None };
    let element = MessageView::new(Arc::new(source), second);
    assert_eq!((element.body(), element.tag(), element.flag()), (&b"111"[..], Some("b"), 1));
    assert_eq!(
        (element.topic(), element.commit_log_offset(), element.queue_offset()),
        ("orders", 100_000, 101)
    );
    assert_eq!(element.born_host(), "[::1]:1".parse().unwrap());
    assert_eq!(element.store_host(), "10.0.0.2:10911".parse().unwrap());
    assert_eq!((element.sys_flag(), element.reconsume_times()), (sys_flag::BORN_HOST_V6, 2));
    verify_body(&element.source().bytes, element.record()).unwrap();
}

#[test]
fn a_damaged_inner_batch_loses_its_own_elements_only() {
    let mut body = batch(3);
    let second = body.len() / 3;
    body[second + 16..second + 20].copy_from_slice(&(-1i32).to_be_bytes());
    let bytes = [encode(&inner_batch(body, 0)), encode(&sample(103))].concat();
    let (good, bad, stopped) = all(&bytes);
    assert_eq!(good.iter().map(|record| record.queue_offset).collect::<Vec<_>>(), [100, 103]);
    assert_eq!((bad.len(), bad[0].queue_offset, stopped), (1, Some(101), None));
}

#[test]
fn an_empty_inner_batch_has_no_elements() {
    let bytes = [encode(&inner_batch(Vec::new(), 0)), encode(&sample(103))].concat();
    assert_eq!(offsets(&bytes), [103]);
}

#[test]
fn a_compressed_inner_batch_is_inflated_first() {
    let compression = Compression::Lz4;
    let bytes = encode(&inner_batch(deflate(compression, 5, &batch(3)), compression.sys_flag()));
    assert_eq!(offsets(&bytes), [100]);
    let record = all(&bytes).0[0];
    let inflated = inflate_batch(&bytes, &record, MAX_INFLATED).unwrap();
    assert_eq!(inflated, encode(&inner_batch(batch(3), 0)));
    assert_eq!(offsets(&inflated), [100, 101, 102]);
    assert!(inflate_batch(&bytes, &record, 10).is_err());
}

fn stored() -> impl Strategy<Value = StoredMessage<'static>> {
    let host = prop_oneof![
        any::<([u8; 4], u16)>().prop_map(Into::into),
        any::<([u8; 16], u16)>().prop_map(Into::into)
    ];
    let numbers = (any::<[i32; 3]>(), any::<[i64; 5]>(), any::<i32>());
    let bytes = || proptest::collection::vec(any::<u8>(), 0..60);
    (numbers, (host.clone(), host), bytes(), bytes(), "[a-z%]{0,140}").prop_map(
        |((ints, longs, sys_flag), (born_host, store_host), body, properties, topic)| {
            let mut message = StoredMessage {
                queue_id: ints[0],
                flag: ints[1],
                reconsume_times: ints[2],
                queue_offset: longs[0],
                physical_offset: longs[1],
                born_timestamp: longs[2],
                store_timestamp: longs[3],
                prepared_transaction_offset: longs[4],
                sys_flag,
                born_host,
                store_host,
                body: body.into(),
                topic: topic.into(),
                properties: properties.into(),
            };
            // The bits for hosts follow from the hosts.
            message.sys_flag = StoredMessage::decode(&encode(&message)).unwrap().sys_flag;
            message
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(message in stored()) {
        let bytes = encode(&message);
        prop_assert_eq!(StoredMessage::decode(&bytes).unwrap(), message);
    }

    #[test]
    fn every_prefix_ends_with_an_error(message in stored()) {
        let mut message = message;
        message.sys_flag &= !sys_flag::INNER_BATCH;
        let bytes = encode(&message);
        for length in 1..bytes.len() {
            let (good, bad, stopped) = all(&bytes[..length]);
            prop_assert_eq!((good.len(), bad.len(), stopped), (0, 1, Some(0)));
        }
    }

    #[test]
    fn random_changes_do_no_harm(messages in proptest::collection::vec(stored(), 1..4), at: usize, byte: u8) {
        let mut bytes: Vec<u8> = messages.iter().flat_map(encode).collect();
        let at = at % bytes.len();
        bytes[at] = byte;
        let source = Arc::new(Source { bytes, queue: MessageQueue::new("t", "b", 0), namespace: None });
        for record in records(&source.bytes, 0..source.bytes.len()).flatten() {
            let view = MessageView::new(source.clone(), record);
            let _ = (format!("{view:?}"), view.to_message(), view.born_time(), view.store_time(), view.store_host());
        }
    }
}
