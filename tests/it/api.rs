//! What the types of the public API promise: which go to other threads, can be cloned and printed, and how large an
//! error is. Most of it is checked by the compiler.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use crate::support::client_of;
use rocketmq_sync::broker::{
    Broker, BrokerBuilder, Clock, Cluster, ClusterBuilder, Fault, FaultHandle, Lose, Reaction, RequestRecord,
    Snapshot, Version,
};
use rocketmq_sync::consumer::{
    ConsumerStats, Event, Events, LocalOffsets, Next, OffsetIllegal, PushConsumerBuilder, QueueStats,
    StartReason, TopicRates, TopicStats, Waiting,
};
use rocketmq_sync::producer::{Compression, ProducerBuilder, ProducerStats};
use rocketmq_sync::{
    Attempt, Batch, Client, ClientBuilder, ClientStats, ConsumeFrom, ConsumeStatus, Credentials, Error,
    ErrorKind, Filter, Message, MessageModel, MessageQueue, MessageView, Mistake, Producer, PushConsumer,
    RequestCode, ResponseCode, SendReceipt, SendStatus, ShutdownReport, Stopper, TimeStats,
    TransactionStatus, Verdict,
};

fn shared<T: Send + Sync + Debug + 'static>() {}
fn value<T: Clone + Debug + Send + Sync + 'static>() {}
fn kind<T: Copy + Eq + Hash + Debug + Send + Sync + 'static>() {}
fn builder<T: Clone + Debug + Send + 'static>() {}

#[test]
fn u5_handles_are_used_from_any_thread() {
    shared::<Client>();
    shared::<Producer>();
    shared::<PushConsumer>();
    shared::<Stopper>();
    shared::<Batch>();
    shared::<Broker>();
    shared::<Cluster>();
    shared::<Events>();
    value::<Client>();
    value::<Producer>();
    value::<Stopper>();
    value::<FaultHandle>();
    value::<Clock>();
    fn printed<T: Debug>() {}
    printed::<Next<'_>>();
}

#[test]
fn builders_are_plain_data() {
    builder::<ClientBuilder>();
    builder::<ProducerBuilder>();
    builder::<PushConsumerBuilder>();
    builder::<BrokerBuilder>();
    builder::<ClusterBuilder>();
    builder::<Fault>();
    builder::<Credentials>();
    #[cfg(feature = "tls")]
    builder::<rocketmq_sync::Tls>();
    #[cfg(feature = "acl")]
    builder::<rocketmq_sync::broker::Rights>();
}

#[test]
fn values_can_be_kept_and_kinds_compared() {
    value::<Message>();
    value::<MessageView>();
    value::<MessageQueue>();
    value::<Filter>();
    value::<Attempt>();
    value::<Mistake>();
    value::<Verdict>();
    value::<Verdict<TransactionStatus>>();
    value::<SendReceipt>();
    value::<ShutdownReport>();
    value::<ClientStats>();
    value::<ConsumerStats>();
    value::<QueueStats>();
    value::<TopicStats>();
    value::<TopicRates>();
    value::<ProducerStats>();
    value::<TimeStats>();
    value::<Event>();
    value::<StartReason>();
    value::<Waiting>();
    value::<LocalOffsets>();
    value::<Snapshot>();
    value::<RequestRecord>();
    value::<Reaction>();
    kind::<ErrorKind>();
    kind::<RequestCode>();
    kind::<ResponseCode>();
    kind::<ConsumeFrom>();
    kind::<ConsumeStatus>();
    kind::<TransactionStatus>();
    kind::<SendStatus>();
    kind::<Compression>();
    kind::<OffsetIllegal>();
    kind::<MessageModel>();
    kind::<Lose>();
    kind::<Version>();
}

#[test]
fn an_error_is_one_word() {
    assert_eq!(size_of::<Error>(), size_of::<usize>());
    assert_eq!(size_of::<Option<Error>>(), size_of::<usize>());
    shared::<Error>();
    fn error<T: std::error::Error + Send + Sync + 'static>() {}
    error::<Error>();
}

#[test]
fn the_longest_waits_are_as_good_as_for_ever() {
    let broker = Broker::builder().topic("orders", 1).clock(Clock::manual()).start().unwrap();
    let client = client_of(broker.name_server());
    let producer = Producer::builder("shop")
        .client(&client)
        .send_timeout(Duration::MAX)
        .attempt_timeout(Duration::MAX)
        .start()
        .unwrap();
    let consumer = PushConsumer::builder("billing")
        .client(&client)
        .subscribe("orders", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_timeout(Duration::MAX)
        .commit_interval(Duration::MAX)
        .consume_concurrently(|_| ())
        .start()
        .unwrap();
    let fault = broker.fault(Fault::on(RequestCode::SEND_MESSAGE, Reaction::Observe));
    producer.send(&Message::new("orders", "x")).unwrap();
    fault.wait_hits(1, Duration::MAX).unwrap();
    broker.wait(Duration::MAX, |state| state.lag("billing", "orders") == 0).unwrap();
    broker.fast_forward(Duration::MAX, |state| state.delayed() == 0).unwrap();
    for _ in 0..2 {
        assert!(consumer.shutdown(Duration::MAX).is_clean());
        assert!(producer.shutdown(Duration::MAX).is_clean());
        assert!(client.shutdown(Duration::MAX).is_clean());
    }
}
