//! A namespace in front of names: servers know it, programs do not see it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{SOON, Seen, billing, next_event, queue, until};
use rocketmq_sync::broker::Broker;
use rocketmq_sync::consumer::Event;
use rocketmq_sync::{
    Batch, Client, ConsumeFrom, Message, MessageQueue, Producer, PullConsumer, allocate, retry_topic,
};

fn broker() -> Broker {
    Broker::builder().topic("eu%orders", 2).start().unwrap()
}

fn client(broker: &Broker) -> Client {
    Client::builder().name_servers(broker.name_server()).namespace("eu").start().unwrap()
}

fn put(broker: &Broker, bodies: &[&str]) {
    bodies.iter().for_each(|body| drop(broker.put(&Message::new("eu%orders", *body)).unwrap()));
}

#[test]
fn a_push_consumer_names_queues_without_it() {
    for in_order in [false, true] {
        let broker = broker();
        let client = client(&broker);
        put(&broker, &["0", "1"]);
        let (seen, queues) = (Seen::default(), Arc::new(Mutex::new(Vec::new())));
        let listener = {
            let (seen, queues) = (seen.clone(), queues.clone());
            move |batch: &Batch| {
                queues.lock().unwrap().push(batch.queue().clone());
                seen.note(batch);
            }
        };
        let builder = billing().client(&client);
        let builder =
            if in_order { builder.consume_orderly(listener) } else { builder.consume_concurrently(listener) };
        let consumer = builder.start().unwrap();
        let mut events = consumer.events();
        seen.wait(2);
        queues.lock().unwrap().sort();
        assert_eq!(*queues.lock().unwrap(), [queue(0), queue(1)]);
        assert!(seen.messages().iter().all(|message| message.queue().topic() == "orders"));
        for _ in 0..2 {
            let assigned = next_event(&mut events, "a queue of orders", |event| match event {
                Event::Assigned { queue, .. } if !queue.topic().starts_with("%RETRY%") => Some(queue),
                _ => None,
            });
            assert_eq!(assigned.topic(), "orders");
        }
        // The queue of retries comes a moment later.
        let retries = MessageQueue::new(retry_topic("billing"), "broker-a", 0);
        until("all queues", || consumer.assignment() == [retries.clone(), queue(0), queue(1)]);
        let shown: Vec<_> = consumer.stats().queues.into_iter().map(|stats| stats.queue).collect();
        assert_eq!(shown, consumer.assignment());
        let report = consumer.shutdown(SOON);
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.committed.iter().filter(|(queue, _)| queue.topic() == "orders").count(), 2);
        let revoked = next_event(&mut events, "a queue given up", |event| match event {
            Event::Revoked { queue, .. } => Some(queue),
            _ => None,
        });
        assert!(!revoked.topic().contains("eu%"), "{revoked}");
    }
}

#[test]
fn queues_by_configuration_are_named_without_it() {
    let broker = broker();
    let client = client(&broker);
    put(&broker, &["0", "1"]);
    let seen = Seen::default();
    let consumer = billing()
        .client(&client)
        .allocate(allocate::by_config([queue(1)]))
        .consume_concurrently(seen.listener())
        .start()
        .unwrap();
    assert_eq!(consumer.assignment(), [queue(1)]);
    seen.wait(1);
    assert_eq!(seen.messages()[0].queue(), &queue(1));
}

#[test]
fn a_pull_consumer_gives_and_takes_queues_without_it() {
    let broker = broker();
    let client = client(&broker);
    put(&broker, &["0", "1"]);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let asking = asked.clone();
    let reader = PullConsumer::builder("billing")
        .client(&client)
        .assign([queue(0), queue(1)])
        .consume_from(ConsumeFrom::FirstOffset)
        .start_offset(move |queue| {
            asking.lock().unwrap().push(queue.clone());
            Ok::<_, String>(None)
        })
        .start()
        .unwrap();
    assert_eq!(reader.queues("orders").unwrap(), [queue(0), queue(1)]);
    assert_eq!(reader.assignment(), [queue(0), queue(1)]);
    for _ in 0..2 {
        let message = reader.poll(SOON).unwrap().remove(0);
        assert_eq!((message.topic(), message.queue().topic()), ("orders", "orders"));
        assert_eq!(reader.position(message.queue()), Some(1));
    }
    asked.lock().unwrap().sort();
    assert_eq!(*asked.lock().unwrap(), [queue(0), queue(1)]);
    reader.commit_offsets([(queue(0), 1)]).unwrap();
    assert_eq!(reader.committed(&queue(0)).unwrap(), Some(1));
    reader.seek(&queue(1), ConsumeFrom::FirstOffset).unwrap();
    assert_eq!(reader.poll(SOON).unwrap()[0].queue(), &queue(1));
    for error in [
        reader.seek(&queue(7), ConsumeFrom::FirstOffset).unwrap_err(),
        reader.seek(&queue(0), 100).unwrap_err(),
        reader.commit_offsets([(queue(0), 100)]).unwrap_err(),
        reader.offset_at(&MessageQueue::new("orders", "nowhere", 0), ConsumeFrom::LastOffset).unwrap_err(),
        reader.queues("none").unwrap_err(),
    ] {
        assert!(
            !error.to_string().contains("eu%") && !error.topic().unwrap_or_default().contains("eu%"),
            "{error}"
        );
    }
    // What came from a queue can go back to it.
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    let receipt = producer.send(&Message::new("orders", "2").queue(&queue(1))).unwrap();
    assert_eq!(receipt.queue(), &queue(1));
    assert_eq!(reader.poll(SOON).unwrap()[0].queue_offset(), 1);
    let report = reader.shutdown(Duration::from_secs(5));
    assert!(report.committed.iter().all(|(queue, _)| queue.topic() == "orders"), "{report:?}");
}
