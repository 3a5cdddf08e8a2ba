//! What does it cost to read a pull answer of 32 messages: to tell whose it is, to read its header, to walk its messages?

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rocketmq_sync::testing::hand_over::{Asked, Offset, sift};
use rocketmq_sync::testing::message::{Subscription, properties};
use rocketmq_sync::testing::protocol::{
    Encoding, Frame, FrameDecoder, RemotingCommand, StoredMessage, encode, records,
};
use rocketmq_sync::{Filter, MessageQueue, ResponseCode};

const MESSAGES: i64 = 32;

fn answer(encoding: Encoding) -> Vec<u8> {
    let host = SocketAddr::from(([127, 0, 0, 1], 10911));
    let mut property_string = Vec::new();
    properties::append(
        &mut property_string,
        [("UNIQ_KEY", "7F0000010002ABCDEF0123456789ABCD"), ("TAGS", "paid"), ("CLUSTER", "DefaultCluster")],
    );
    let mut body = Vec::new();
    for offset in 0..MESSAGES {
        let message = StoredMessage {
            queue_id: 0,
            flag: 0,
            queue_offset: offset,
            physical_offset: offset * 346,
            sys_flag: 0,
            born_timestamp: 1_795_974_234_019,
            born_host: host,
            store_timestamp: 1_795_974_234_115,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: vec![b'x'; 128].into(),
            topic: "orders".into(),
            properties: property_string.as_slice().into(),
        };
        message.encode(&mut body).expect("a message of ordinary size");
    }
    let command = RemotingCommand::response(ResponseCode::SUCCESS, 7)
        .field("nextBeginOffset", MESSAGES.to_string())
        .field("minOffset", "0")
        .field("maxOffset", "1000")
        .field("suggestWhichBrokerId", "0")
        .body(body);
    let mut bytes = Vec::new();
    encode(&command, encoding, &mut bytes).expect("a frame of ordinary size");
    bytes
}

fn decode(c: &mut Criterion) {
    for (name, encoding) in [("json", Encoding::Json), ("binary", Encoding::Binary)] {
        let bytes = answer(encoding);
        let mut group = c.benchmark_group(format!("answer of 32 messages, {name} header"));
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function("split off", |b| {
            let mut decoder = FrameDecoder::new(16 << 20);
            b.iter(|| {
                decoder.feed(&bytes);
                decoder.next_frame()
            });
        });
        let frame = Frame::parse(bytes.clone()).expect("a whole frame");
        group.bench_function("whose it is", |b| b.iter(|| frame.head()));
        group.bench_function("its header", |b| b.iter(|| frame.pull_answer()));
        group.bench_function("its header as a value", |b| b.iter(|| frame.command_without_body()));
        group.finish();
    }

    let frame = Frame::parse(answer(Encoding::Json)).expect("a whole frame");
    let mut group = c.benchmark_group("the messages of an answer");
    group.throughput(Throughput::Elements(MESSAGES as u64));
    group.bench_function("walk", |b| b.iter(|| records(frame.bytes(), frame.body_range()).count()));
    let queue = MessageQueue::new("orders", "broker-a", 0);
    for filter in ["*", "created || paid"] {
        let subscription = Subscription::parse("orders", &Filter::from(filter), 0).expect("a good filter");
        group.bench_function(format!("to a run, filter {filter}"), |b| {
            b.iter_batched(
                || frame.bytes().to_vec(),
                |bytes| {
                    let asked = Asked {
                        from: Offset::ZERO,
                        next: Offset::new(MESSAGES).expect("not negative"),
                        offset_delta: 0,
                    };
                    sift(
                        bytes,
                        frame.body_range(),
                        &queue,
                        None::<Arc<str>>,
                        &subscription,
                        asked,
                        Instant::now(),
                    )
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
