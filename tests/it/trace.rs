//! The message trace, as the official tools would find and read it.

use std::time::{Duration, Instant};

use crate::support::{
    SOON, Seen, advance_until, alone, billing, body, library_threads, noting_member_of, until,
};
use rocketmq_sync::broker::{Broker, Clock, Fault, Reaction};
use rocketmq_sync::{
    Client, ConsumeFrom, ConsumeStatus, Message, Producer, PullConsumer, PushConsumer, RequestCode,
    ResponseCode,
};

const TRACES: &str = "RMQ_SYS_TRACE_TOPIC";

fn broker() -> Broker {
    Broker::builder().topic("orders", 1).topic(TRACES, 1).start().unwrap()
}

fn traced(broker: &Broker) -> Client {
    Client::builder().name_servers(broker.name_server()).trace_topic(TRACES).start().unwrap()
}

/// What has been stored, as fields, of the messages that are found by this id.
fn records(broker: &Broker, id: &str) -> Vec<Vec<String>> {
    let seen = Seen::default();
    let reader = PushConsumer::builder(format!("console-{id}"))
        .name_servers(broker.name_server())
        .subscribe(TRACES, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(seen.listener())
        .start()
        .unwrap();
    seen.wait(broker.inspect().depth(TRACES).try_into().unwrap());
    drop(reader.shutdown(SOON));
    let mut records = Vec::new();
    for message in seen.messages().iter().filter(|message| message.keys().any(|key| key == id)) {
        let text = body(message).to_owned();
        let all = text.strip_suffix('\u{2}').expect("each record has its end").split('\u{2}');
        let fields = all.map(|record| record.split('\u{1}').map(str::to_owned).collect::<Vec<_>>());
        records.extend(
            fields.filter(|fields| fields.iter().flat_map(|field| field.split(' ')).any(|word| word == id)),
        );
    }
    // A message may reach its consumer before its producer has the answer.
    let order = ["Pub", "SubBefore", "SubAfter"];
    records.sort_by_key(|fields| order.iter().position(|kind| *kind == fields[0]));
    records
}

#[test]
fn a_message_can_be_followed_from_its_producer_to_its_consumers() {
    let broker = broker();
    let client = traced(&broker);
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    let consumer = billing()
        .client(&client)
        .max_reconsume_times(0)
        .consume_concurrently(|batch| match batch[0].body() {
            b"fails" => Err("no"),
            _ => Ok(()),
        })
        .start()
        .unwrap();
    let receipt = producer.send(&Message::new("orders", "paid").tag("t").key("k1").key("k2")).unwrap();
    let failing = producer.send(&Message::new("orders", "fails")).unwrap();
    let batch = [Message::new("orders", "a"), Message::new("orders", "b").key("kb")];
    let two = producer.send_batch(&batch).unwrap();
    until("all are consumed", || consumer.stats().succeeded == 3 && consumer.stats().failed == 1);
    assert!(client.shutdown(SOON).is_clean());
    assert_eq!(client.stats().lost_traces, 0);

    let found = records(&broker, receipt.message_id());
    let kinds: Vec<&str> = found.iter().map(|fields| fields[0].as_str()).collect();
    assert_eq!(kinds, ["Pub", "SubBefore", "SubAfter"]);
    let [sent, before, after] = &*found else { unreachable!() };
    assert_eq!(
        sent[2..9].join(","),
        format!("DefaultRegion,shop,orders,{},t,k1 k2,{}", receipt.message_id(), broker.name_server())
    );
    assert_eq!((sent[9].as_str(), sent[11].as_str(), sent[13].as_str()), ("4", "0", "true"));
    assert_eq!((sent[12].as_str(), sent.len()), (receipt.offset_message_id(), 14));
    assert_eq!((before[2].as_str(), before[3].as_str()), ("DefaultRegion", "billing"));
    assert_eq!((before[6].as_str(), before[7].as_str(), before.len()), ("0", "k1 k2", 8));
    assert_eq!(after[1], before[4], "they belong together");
    assert_eq!((after[4].as_str(), after[5].as_str(), after[6].as_str()), ("true", "k1 k2", "0"));
    assert_eq!((after[8].as_str(), after.len()), ("billing", 9));

    let found = records(&broker, failing.message_id());
    let after = found.iter().find(|fields| fields[0] == "SubAfter").unwrap();
    assert_eq!((after[4].as_str(), after[5].as_str(), after[6].as_str()), ("false", "null", "2"));
    for (receipt, keys) in two.iter().zip(["null", "kb"]) {
        let found = records(&broker, receipt.message_id());
        assert_eq!((found[0][0].as_str(), found[0][7].as_str()), ("Pub", keys));
        assert_eq!(found[0][12], receipt.offset_message_id());
    }
    assert_eq!(records(&broker, "k2").len(), 3, "by a key as well");
}

#[test]
fn a_send_that_fails_is_traced_as_well() {
    let broker = broker();
    let client = traced(&broker);
    let producer = Producer::builder("shop").client(&client).max_attempts(1).start().unwrap();
    let no = Reaction::Reply(ResponseCode::MESSAGE_ILLEGAL);
    let refusal = broker.fault(Fault::on(RequestCode::SEND_MESSAGE_V2, no).topic("orders"));
    producer.send(&Message::new("orders", "x").key("lost")).unwrap_err();
    refusal.wait_hits(1, SOON).unwrap();
    assert!(client.shutdown(SOON).is_clean());
    let found = records(&broker, "lost");
    let server = format!("broker-a ({})", broker.name_server());
    assert_eq!((found[0][8].as_str(), found[0][13].as_str()), (server.as_str(), "false"));
}

#[test]
fn what_a_poll_hands_out_is_traced_as_consumed() {
    let broker = broker();
    let client = traced(&broker);
    let stored = broker.put(&Message::new("orders", "x").key("k")).unwrap();
    let reader = PullConsumer::builder("nightly").client(&client).assign_topic("orders", "*");
    let reader = reader.consume_from(ConsumeFrom::FirstOffset).start().unwrap();
    assert_eq!(reader.poll(SOON).unwrap().len(), 1);
    assert!(client.shutdown(SOON).is_clean());
    let found = records(&broker, stored.message_id());
    let kinds: Vec<&str> = found.iter().map(|fields| fields[0].as_str()).collect();
    assert_eq!(kinds, ["SubBefore", "SubAfter"]);
    let [before, after] = &*found else { unreachable!() };
    assert_eq!((before[3].as_str(), before[6].as_str(), before[7].as_str()), ("nightly", "0", "k"));
    assert_eq!((&after[1], after[4].as_str(), after[6].as_str()), (&before[4], "true", "0"));
    assert_eq!(after[8], "nightly");
}

#[test]
fn traces_come_a_second_later_in_few_messages() {
    let broker =
        Broker::builder().topic("orders", 1).topic(TRACES, 1).clock(Clock::manual()).start().unwrap();
    let client = Client::builder()
        .name_servers(broker.name_server())
        .clock(broker.clock().clone())
        .trace_topic(TRACES)
        .start()
        .unwrap();
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    for n in 0..100 {
        producer.send(&Message::new("orders", n.to_string())).unwrap();
    }
    assert_eq!(broker.inspect().depth(TRACES), 0);
    advance_until(broker.clock(), Duration::from_secs(1), "they are stored", || {
        broker.inspect().depth(TRACES) == 1
    });
    assert!(client.shutdown(SOON).is_clean());
    assert_eq!(broker.inspect().depth(TRACES), 1, "all in one");
}

#[test]
fn who_reads_the_traces_is_not_traced() {
    let broker = broker();
    let client = traced(&broker);
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    let seen = Seen::default();
    let reader = PushConsumer::builder("console")
        .client(&client)
        .subscribe(TRACES, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(seen.listener())
        .start()
        .unwrap();
    producer.send(&Message::new("orders", "x")).unwrap();
    seen.wait(1);
    producer.send(&Message::new(TRACES, "by hand")).unwrap();
    seen.wait(2);
    assert!(reader.shutdown(SOON).is_clean());
    assert!(client.shutdown(SOON).is_clean());
    assert_eq!(broker.inspect().depth(TRACES), 2);
}

/// Nobody waits for a broker that does not take traces: not those who send and consume, and not the shutdown.
#[test]
fn traces_that_cannot_be_stored_hold_nobody_up() {
    let broker = broker();
    let client = traced(&broker);
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    let silence =
        broker.fault(Fault::on(RequestCode::SEND_MESSAGE_V2, Reaction::Ignore).topic(TRACES).forever());
    producer.send(&Message::new("orders", "first")).unwrap();
    silence.wait_hits(1, SOON).unwrap();
    for n in 0..5000 {
        producer.send_oneway(&Message::new("orders", n.to_string())).unwrap();
    }
    seen.wait(5001);
    // More than the queue holds: two for each of these, and rmq-trace waits for the broker.
    until("some are dropped", || client.stats().lost_traces > 0);
    let (begun, grace) = (Instant::now(), Duration::from_millis(1500));
    assert!(consumer.shutdown(grace).is_clean());
    assert!(client.shutdown(grace).is_clean());
    assert!(begun.elapsed() < grace * 2 + Duration::from_secs(1), "{:?}", begun.elapsed());
    assert!(client.stats().lost_traces > 5000);
}

#[test]
fn there_is_no_thread_for_traces_unless_they_are_wanted_and_none_is_left_behind() {
    alone("trace::there_is_no_thread_for_traces_unless_they_are_wanted_and_none_is_left_behind", || {
        let broker = broker();
        let is_there = || library_threads().contains(&"rmq-trace".to_owned());
        for wanted in [false, true] {
            let builder = Client::builder().name_servers(broker.name_server());
            let builder = if wanted { builder.trace_topic(TRACES) } else { builder };
            let client = builder.start().unwrap();
            let producer = Producer::builder("shop").client(&client).start().unwrap();
            producer.send(&Message::new("orders", "x")).unwrap();
            assert_eq!(is_there(), wanted);
            assert!(client.shutdown(SOON).is_clean());
            until("it has ended", || !is_there());
        }
        assert_eq!(broker.inspect().depth(TRACES), 1);
    });
}

#[test]
fn a_late_listener_is_traced_as_late() {
    let broker = broker();
    let client = traced(&broker);
    let consumer = billing()
        .client(&client)
        .consume_timeout(Duration::from_millis(100))
        .max_reconsume_times(0)
        .consume_concurrently(|batch| {
            while !batch.is_cancelled() {
                std::thread::sleep(Duration::from_millis(5));
            }
            ConsumeStatus::Success
        })
        .start()
        .unwrap();
    let stored = broker.put(&Message::new("orders", "slow").key("slow")).unwrap();
    until("it is late", || consumer.stats().failed == 1);
    assert!(client.shutdown(SOON).is_clean());
    let found = records(&broker, stored.message_id());
    let after = found.iter().find(|fields| fields[0] == "SubAfter").unwrap();
    assert_eq!((after[4].as_str(), after[6].as_str()), ("false", "1"));
}
