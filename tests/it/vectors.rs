//! Bytes that the wire reference gives as examples, recorded from real servers unless it says otherwise.

use rocketmq_sync::testing::message::tags::java_hash;
use rocketmq_sync::testing::protocol::headers::{OffsetAnswer, QueryConsumerOffset};
use rocketmq_sync::testing::protocol::record::body_crc;
use rocketmq_sync::testing::protocol::{
    Compression, Encoding, Frame, MAX_INFLATED, OffsetId, RemotingCommand, RequestCode, StoredMessage,
    body::*, encode, inflate,
};

use super::captures::hex;

fn encoded(command: &RemotingCommand, encoding: Encoding) -> Vec<u8> {
    let mut out = Vec::new();
    encode(command, encoding, &mut out).unwrap();
    out
}

#[test]
fn a_route_request_of_ours() {
    let mut command = RemotingCommand::request(RequestCode::GET_ROUTEINFO_BY_TOPIC).field("topic", "T");
    command.opaque = 7;
    let binary =
        "00000025 01000021 0069 0c 0199 00000007 00000000 00000000 0000000c 0005 746f706963 00000001 54";
    assert_eq!(encoded(&command, Encoding::Binary), hex(binary));
    let json = encoded(&command, Encoding::Json);
    assert_eq!(json[..8], hex("0000007f 0000007b"));
    let text = r#"{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"RUST","opaque":7,"serializeTypeCurrentRPC":"JSON","version":409}"#;
    assert_eq!(json[8..], *text.as_bytes());
}

#[test]
fn a_question_for_an_offset_and_its_answer() {
    let question = "0000006b 01000067 000e 00 0201 0000009e 00000000 00000000 00000052 \
        0007 71756575654964 00000001 32 0005 626e616d65 00000008 62726f6b65722d61 \
        0005 746f706963 0000000a 6361702d6f7264657273 000d 636f6e73756d657247726f7570 00000009 6361702d67726f7570";
    let command = Frame::parse(hex(question)).unwrap().command().unwrap();
    assert_eq!((command.request_code(), command.opaque, command.version), (RequestCode(14), 158, 513));
    let header: QueryConsumerOffset = command.header().unwrap();
    assert_eq!((header.queue_id, header.bname.as_deref()), (2, Some("broker-a")));
    assert_eq!((header.topic.as_str(), header.consumer_group.as_str()), ("cap-orders", "cap-group"));
    assert_eq!(encoded(&command, Encoding::Binary), hex(question));

    let answer =
        "00000026 01000022 0000 00 0201 0000009e 00000001 00000000 0000000d 0006 6f6666736574 00000001 30";
    let command = Frame::parse(hex(answer)).unwrap().command().unwrap();
    assert!(command.is_response() && command.opaque == 158);
    assert_eq!(command.header(), Ok(OffsetAnswer { offset: 0 }));
}

#[test]
fn x2_routes_as_old_and_new_name_servers_write_them() {
    for (addresses, cluster) in [
        (r#"{0:"127.0.0.1:1",1:"127.0.0.1:2"}"#, "c世"),
        (r#"{"0":"127.0.0.1:1","1":"127.0.0.1:2"}"#, "c\\u4E16"),
        (r#"{"0":"127.0.0.1:1","1":"127.0.0.1:2"}"#, "c世"),
    ] {
        let text = format!(
            r#"{{"brokerDatas":[{{"brokerAddrs":{addresses},"brokerName":"b","cluster":"{cluster}"}}]}}"#
        );
        let route = TopicRouteData::read(text.as_bytes()).unwrap();
        let broker = &route.broker_datas[0];
        assert_eq!(
            broker.broker_addrs.values().map(String::as_str).collect::<Vec<_>>(),
            ["127.0.0.1:1", "127.0.0.1:2"]
        );
        assert_eq!(broker.cluster, "c世");
    }
}

#[test]
fn x4_compressed_bodies() {
    let plain = "0123456789".repeat(600);
    for (compression, bytes) in [
        (
            Compression::Zlib,
            "785eedc6490100200800b04a7820dabf981d786fafc5986be7a9fbc2cccccccccccccccccccccc9afb98b8ceb5",
        ),
        (
            Compression::Lz4,
            "04224d186070732b000000af303132333435363738390a00ffffffffffffffffffffffffffffffffffffffffffffff6550353637383900000000",
        ),
        (Compression::Zstd, "28b52ffd00589400005030313233343536373839010063d7be2001010000"),
    ] {
        assert_eq!(
            inflate(compression, &hex(bytes), MAX_INFLATED).unwrap(),
            plain.as_bytes(),
            "{compression:?}"
        );
    }
}

#[test]
fn checksums_hashes_and_ids() {
    assert_eq!(body_crc(b"123456789"), 1_274_296_614);
    for (tag, hash) in [
        ("TagA", 2_598_919),
        ("TagB", 2_598_920),
        ("标签", 857_175),
        ("😀", 1_772_899),
        ("tag-1", 110_118_590),
    ] {
        assert_eq!(java_hash(tag), hash, "{tag}");
    }
    assert_eq!(java_hash("TAG_Alpha_longer_name"), -1_004_440_101);
    let id = OffsetId::parse("7F00000100002A9F00000000000004D2").unwrap();
    assert_eq!((id.host, id.commit_log_offset), ("127.0.0.1:10911".parse().unwrap(), 1234));
}

#[test]
fn the_size_of_a_stored_message() {
    let size = |topic: usize, hosts: [&str; 2]| {
        let [born_host, store_host] = hosts.map(|host| host.parse().unwrap());
        let topic = "t".repeat(topic).into();
        let (body, properties) = (b"12345".as_slice().into(), b"1234567".as_slice().into());
        StoredMessage { born_host, store_host, topic, body, properties, ..StoredMessage::default() }
            .encoded_len()
    };
    let (v4, v6) = ("1.2.3.4:5", "[::1]:5");
    assert_eq!(size(10, [v4, v4]), 91 + 5 + 10 + 7);
    assert_eq!(size(10, [v4, v6]), 91 + 5 + 10 + 7 + 12);
    assert_eq!(size(10, [v6, v6]), 91 + 5 + 10 + 7 + 24);
    assert_eq!(size(128, [v4, v4]), 91 + 5 + 128 + 7 + 1);
}
