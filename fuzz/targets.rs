//! What is fuzzed. None of these may panic, loop, or take memory beyond the size of what it is given (and the limits of
//! inflating); what can be read must be written so that it is read as the same.

use std::sync::Arc;

use rocketmq_sync::MessageQueue;
use rocketmq_sync::testing::message::{MessageView, Source, Subscription, properties as strings};
use rocketmq_sync::testing::protocol::record::{
    batch_elements, inflate_batch, verify_body, write_batch_element,
};
use rocketmq_sync::testing::protocol::{
    Compression, Encoding, Frame, FrameDecoder, Header, OffsetId, StoredMessage, body::*, encode, headers::*,
    inflate, json as dialect, records,
};

/// A limit low enough for many runs a second.
const LIMIT: usize = 1 << 20;

/// A stream of frames, in pieces whose size the first byte gives.
pub fn frame(bytes: &[u8]) {
    let Some((piece, stream)) = bytes.split_first() else { return };
    let mut decoder = FrameDecoder::new(LIMIT);
    for part in stream.chunks(usize::from(*piece).max(1)) {
        decoder.feed(part);
        while let Ok(Some(frame)) = decoder.next_frame() {
            one_frame(&frame);
        }
    }
}

fn one_frame(frame: &Frame) {
    let head = frame.head();
    let _ = (frame.pull_answer(), format!("{frame:?}"));
    let Ok(command) = frame.command() else { return };
    head.expect("what can be read as a whole can be read in part");
    for encoding in [Encoding::Json, Encoding::Binary] {
        let mut out = Vec::new();
        encode(&command, encoding, &mut out).expect("what came in one frame fits into one");
        let mut again = Frame::parse(out).expect("a frame").command().expect("a command");
        // JSON has names for languages, and no unknown ones.
        again.language = command.language;
        assert_eq!(again, command);
    }
}

/// A header; the first byte says in which encoding.
pub fn header(bytes: &[u8]) {
    let Some((kind, header)) = bytes.split_first() else { return };
    if header.len() > LIMIT {
        return;
    }
    let mut frame = (header.len() as u32 + 4).to_be_bytes().to_vec();
    frame.extend_from_slice(&(u32::from(kind & 1) << 24 | header.len() as u32).to_be_bytes());
    frame.extend_from_slice(header);
    let frame = Frame::parse(frame).expect("the lengths are right");
    one_frame(&frame);
    let Ok(command) = frame.command() else { return };
    macro_rules! through {
        ($($header:ty)*) => { $(
            if let Ok(header) = command.header::<$header>() {
                let mut fields = Default::default();
                header.write(&mut fields);
                assert_eq!(<$header>::read(&fields).as_ref(), Ok(&header));
            }
        )* };
    }
    through!(
        PullMessage PullMessageAnswer SendMessage SendMessageLong SendAnswer GetRoute UnregisterClient ConsumerSendBack
        QueryConsumerOffset UpdateConsumerOffset OffsetAnswer EndTransaction CheckTransactionState ResetOffset
        ConsumeMessageDirectly GetConsumerRunningInfo PushReply CreateTopic QueryMessage PopMessage
    );
}

/// JSON as servers write it, and every body.
pub fn json(bytes: &[u8]) {
    if let Ok(value) = dialect::parse(bytes) {
        let mut once = Vec::new();
        value.write(&mut once);
        let mut twice = Vec::new();
        dialect::parse(&once).expect("what we write can be read").write(&mut twice);
        assert_eq!(once, twice);
    }
    macro_rules! through {
        ($($body:ty)*) => { $(
            if let Ok(body) = <$body>::read(bytes) {
                let written = body.write();
                assert_eq!(<$body>::read(&written).expect("what we write can be read").write(), written);
            }
        )* };
    }
    through!(
        TopicRouteData ClusterInfo TopicList KvTable HeartbeatData CheckClientConfig ConsumerIdList LockBatchRequest
        LockBatchAnswer ResetOffsetBody GetConsumerStatusBody ConsumerRunningInfo ConsumeMessageDirectlyResult
        TopicConfig TopicConfigTable SubscriptionGroupConfig SubscriptionGroupTable TopicStatsTable ConsumeStats
        ConsumerConnection ProducerConnection ProducerTable GroupList ConsumeTimeSpans ConsumerOffsets DelayOffsets
        BrokerStats BrokerConsumeStats QueryConsumeQueueAnswer QueryAssignment QueryAssignmentAnswer BatchAck
    );
}

/// Stored messages, batches and compressed bodies.
pub fn record(bytes: &[u8]) {
    let source =
        Source { bytes: bytes.to_vec(), queue: MessageQueue::new("t", "b", 0), namespace: Some("n".into()) };
    let source = Arc::new(source);
    let mut walk = records(bytes, 0..bytes.len());
    for record in walk.by_ref().flatten() {
        let view = MessageView::new(source.clone(), record);
        let _ = (format!("{view:?}"), view.topic(), view.origin_topic(), view.born_time(), view.store_time());
        let _ = (
            view.born_host(),
            view.to_message(),
            view.transaction_id(),
            view.keys().count(),
            view.raw_bytes(),
        );
        let _ = (verify_body(bytes, &record), OffsetId::parse(view.message_id()));
        if view.is_compressed() {
            let _ = inflate_batch(bytes, &record, LIMIT);
        }
    }
    if let Ok(message) = StoredMessage::decode(bytes) {
        let mut out = Vec::new();
        if message.encode(&mut out).is_ok() {
            let again = StoredMessage::decode(&out).expect("what we write can be read");
            assert_eq!(again.body, message.body);
            assert_eq!((again.topic, again.properties), (message.topic, message.properties));
        }
    }
    for element in batch_elements(bytes).map_while(Result::ok) {
        let mut out = Vec::new();
        write_batch_element(&element, &mut out).expect("what has been read fits");
        assert_eq!(batch_elements(&out).next().expect("one element"), Ok(element));
    }
    for compression in [Compression::Zlib, Compression::Lz4, Compression::Zstd] {
        if let Ok(inflated) = inflate(compression, bytes, LIMIT) {
            assert!(inflated.len() <= LIMIT);
        }
    }
}

/// A property string, and filters on it.
pub fn properties(bytes: &[u8]) {
    for (name, value) in strings::parse(bytes) {
        assert_eq!(strings::find_str(bytes, name), Some(value));
    }
    let tag = strings::find_str(bytes, strings::TAGS);
    let mut out = bytes.to_vec();
    strings::append(&mut out, [("TAGS", "last")]);
    assert_eq!(strings::find_str(&out, strings::TAGS), Some("last"));
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(subscription) = Subscription::parse("t", &text.into(), 0) {
        assert_eq!(subscription.matches(bytes), subscription.matches_tag(tag) || subscription.takes_all());
    }
}
