//! Every way of sending a message brings it to a consumer as it was sent.

use super::{SOON, Target, client, producer, producer_builder};
use rocketmq_sync::producer::Compression;
use rocketmq_sync::{
    Client, ConsumeFrom, Message, MessageView, Producer, PushConsumer, SendReceipt, SendStatus,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const TOPIC: &str = "sending";

/// What has come, by the first word of its body.
type Inbox = Arc<Mutex<BTreeMap<String, MessageView>>>;

pub fn every_way_of_sending_arrives(target: &dyn Target) {
    target.create_topic(TOPIC, 4);
    let (client, inbox) = (client(target), Inbox::default());
    let consumer = reader(&client, &inbox);
    let producer = producer(&client);

    let order = message("plain").tag("paid").key("order-7").key("customer-3").property("colour", "blé");
    let plain = send(&producer, &order);
    let queue = producer.queues(TOPIC).expect("the route is known").remove(2);
    let aimed = send(&producer, &message("aimed").queue(&queue));
    assert_eq!(aimed.queue(), &queue);
    producer.send_oneway(&message("oneway")).expect("the broker runs");
    let names = ["first", "second", "third"];
    let batch = producer.send_batch(&names.map(|name| message(name).tag(name))).expect("the broker runs");
    for (name, compression) in
        [("zlib", Compression::Zlib(5)), ("lz4", Compression::Lz4), ("zstd", Compression::Zstd)]
    {
        let builder = producer_builder(&client, &format!("sending-{name}"));
        send(
            &builder.compression(compression).start().expect("the client runs"),
            &Message::new(TOPIC, long_body(name)),
        );
    }
    send(&producer, &message("later").delay_level(1));

    target.pass_until(SOON, "ten messages", &|| inbox.lock().expect("no panic under the lock").len() == 10);
    let inbox = inbox.lock().expect("no panic under the lock");
    assert_eq!(inbox["plain"].tag(), Some("paid"));
    assert_eq!(inbox["plain"].keys().collect::<Vec<_>>(), ["order-7", "customer-3"]);
    assert_eq!(inbox["plain"].property("colour"), Some("blé"));
    assert_arrived(&inbox["plain"], &plain);
    assert_arrived(&inbox["aimed"], &aimed);
    for (name, receipt) in names.iter().zip(&batch) {
        assert_eq!(inbox[*name].tag(), Some(*name));
        assert_arrived(&inbox[*name], receipt);
    }
    for name in ["zlib", "lz4", "zstd"] {
        assert_eq!(inbox[name].body_str(), Ok(long_body(name).as_str()));
        assert!(inbox[name].store_size() < 5_000, "{name}: stored in {} bytes", inbox[name].store_size());
    }
    assert_eq!((inbox["later"].topic(), inbox["later"].reconsume_times()), (TOPIC, 0));
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
}

fn reader(client: &Client, inbox: &Inbox) -> PushConsumer {
    let inbox = inbox.clone();
    PushConsumer::builder("sending-group")
        .client(client)
        .subscribe(TOPIC, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(move |batch| {
            batch.each(|message| {
                let body = message.body_str().map_err(|error| error.to_string())?;
                let name = body.split(' ').next().unwrap_or("").to_string();
                inbox.lock().map_err(|error| error.to_string())?.insert(name, message.clone());
                Ok::<_, String>(())
            })
        })
        .start()
        .expect("the topic is there")
}

fn message(name: &str) -> Message {
    Message::new(TOPIC, name)
}

fn send(producer: &Producer, message: &Message) -> SendReceipt {
    let receipt = producer.send(message).expect("the broker runs");
    assert_eq!(receipt.status(), SendStatus::SendOk);
    receipt
}

/// The receipt says where the message is, and by which id its consumer knows it.
fn assert_arrived(message: &MessageView, receipt: &SendReceipt) {
    assert_eq!(message.message_id(), receipt.message_id());
    assert_eq!((message.queue(), message.queue_offset()), (receipt.queue(), receipt.queue_offset()));
}

fn long_body(name: &str) -> String {
    (0..2_000).fold(name.to_string(), |body, n| format!("{body} {}", n % 100))
}
