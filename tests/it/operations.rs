//! What a broker or an operator asks of a member, and the figures it answers with.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::captures;
use crate::support::{
    Gate, Seen, advance_until, billing, client_by_hand, consumed, orders, orders_by_hand, put, queue, until,
};
use crate::wire::{SOON, Wire};
use rocketmq_sync::broker::{Broker, Fault, Reaction};
use rocketmq_sync::consumer::{PushConsumerBuilder, TopicStats};
use rocketmq_sync::testing::protocol::body::{
    ConsumeMessageDirectlyResult, ConsumerRunningInfo, DirectResult, GetConsumerStatusBody,
};
use rocketmq_sync::testing::protocol::headers::{
    ConsumeMessageDirectly, GetConsumerRunningInfo, GetConsumerStatus,
};
use rocketmq_sync::testing::protocol::json::{self, Key, Value};
use rocketmq_sync::{ConsumeStatus, Message, PushConsumer, RequestCode, ResponseCode};

/// 307, by way of the broker.
fn running_info(broker: &Broker, with_threads: bool) -> ConsumerRunningInfo {
    let header = GetConsumerRunningInfo {
        consumer_group: "billing".into(),
        client_id: broker.inspect().members("billing")[0].clone(),
        jstack_enable: Some(with_threads),
    };
    let answer = Wire::connect(&broker.name_server()).ask(RequestCode::GET_CONSUMER_RUNNING_INFO, &header);
    assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
    ConsumerRunningInfo::read(&answer.body).unwrap()
}

fn topic(consumer: &PushConsumer, name: &str) -> TopicStats {
    consumer.stats().topics.into_iter().find(|of| of.topic == name).expect("it is subscribed")
}

/// A member whose listener refuses every third of the numbers for good.
fn refusing_every_third(broker: &Broker) -> PushConsumerBuilder {
    let client = client_by_hand(broker);
    billing().client(&client).max_reconsume_times(0).consume_concurrently(|batch| {
        let number: u32 = batch[0].body_str().unwrap().parse().unwrap();
        if number.is_multiple_of(3) { ConsumeStatus::DeadLetter } else { ConsumeStatus::Success }
    })
}

#[test]
fn running_info_has_what_the_tools_look_at() {
    let broker = orders_by_hand(2);
    put(&broker, 0..30);
    let consumer = refusing_every_third(&broker).start().unwrap();
    until("everything is finished", || {
        let stats = consumer.stats();
        stats.succeeded == 20 && stats.dead_letters == 10 && stats.cached_messages == 0
    });
    let info = running_info(&broker, false);

    assert_eq!(info.jstack, None);
    let property = |name: &str| info.properties.get(name).map(String::as_str);
    assert_eq!(property("PROP_CONSUME_TYPE"), Some("CONSUME_PASSIVELY"));
    assert_eq!(property("PROP_CONSUMEORDERLY"), Some("false"));
    assert_eq!(property("PROP_NAMESERVER_ADDR"), Some(format!("{};", broker.name_server()).as_str()));
    assert_eq!(property("consumeFromWhere"), Some("CONSUME_FROM_FIRST_OFFSET"));
    assert_eq!(property("consumeThreadMin"), Some("20"));
    let started: u128 = property("PROP_CONSUMER_START_TIMESTAMP").unwrap().parse().unwrap();
    let now = broker.clock().now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    assert!(now.abs_diff(started) < 60_000, "{started} and {now}");

    let topics: Vec<&str> = info.subscription_set.iter().map(|of| of.topic.as_str()).collect();
    assert_eq!(topics, ["%RETRY%billing", "orders"]);
    let one = &info.mq_table[&queue(0)];
    assert_eq!((one.commit_offset, one.cached_msg_count, one.dropped), (15, 0, false));
    assert!(one.last_pull_timestamp > 0 && one.last_consume_timestamp > 0, "{one:?}");

    let rates = &info.status_table["orders"];
    assert_eq!((rates.consume_ok_tps, rates.consume_failed_tps, rates.pull_tps), (2.0, 1.0, 3.0));
    assert_eq!(rates.consume_failed_msgs, 10);
    assert_eq!(info.status_table["%RETRY%billing"].consume_ok_tps, 0.0);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// The official tools and the console read what Java members answer; ours have the same members in the same form.
#[test]
fn x3_running_info_has_the_form_of_a_java_member() {
    let broker = orders(2);
    put(&broker, 0..4);
    let consumer = billing().name_servers(broker.name_server()).consume_concurrently(|_| ()).start().unwrap();
    until("everything is finished", || consumer.stats().succeeded == 4);
    let header = GetConsumerRunningInfo {
        consumer_group: "billing".into(),
        client_id: consumer.client().client_id().into(),
        jstack_enable: None,
    };
    let ours = Wire::connect(&broker.name_server()).ask(RequestCode::GET_CONSUMER_RUNNING_INFO, &header).body;
    let ours = json::parse(&ours).unwrap();
    let mut compared = 0;
    for capture in captures::all() {
        if !capture.is_response() || capture.request() != "GET_CONSUMER_RUNNING_INFO" {
            continue;
        }
        let theirs = json::parse(capture.frame.body()).unwrap();
        for part in ["", "mqTable", "mqTable keys", "statusTable", "subscriptionSet"] {
            let (ours, theirs) = (members(&ours, part), members(&theirs, part));
            assert!(ours.is_superset(&theirs), "{}: {part}: {ours:?}, {theirs:?}", capture.place);
        }
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
    // What the tools look at.
    let properties = members(&ours, "properties");
    for name in
        ["PROP_CONSUME_TYPE", "PROP_CONSUMEORDERLY", "PROP_CONSUMER_START_TIMESTAMP", "PROP_CLIENT_VERSION"]
    {
        assert!(properties.contains(name), "{properties:?}");
    }
    assert!(consumer.shutdown(SOON).is_clean());
}

/// The names of the members of one part of it: of a table or list, those of its first entry.
fn members(info: &Value<'_>, part: &str) -> BTreeSet<String> {
    let (part, keys) = part.split_once(' ').map_or((part, false), |(part, _)| (part, true));
    let value = if part.is_empty() { info } else { info.get(part).unwrap() };
    let value = match value {
        Value::Object(entries) if part.ends_with("Table") => match &entries[0] {
            (Key::Object(queue), _) if keys => queue,
            (_, entry) => entry,
        },
        Value::Array(items) => &items[0],
        value => value,
    };
    let Value::Object(members) = value else { panic!("{part} has no members") };
    members.iter().filter_map(|(name, _)| Some(name.to_text()?.into_owned())).collect()
}

#[test]
fn rates_are_those_of_the_last_minute_hour_and_day() {
    let broker = orders_by_hand(1);
    let consumer = refusing_every_third(&broker).start().unwrap();
    put(&broker, 0..30);
    until("everything is counted", || consumer.stats().succeeded == 20 && consumer.stats().failed == 10);
    let now = topic(&consumer, "orders");
    assert_eq!((now.succeeded, now.failed, now.pulled), (20, 10, 30));
    assert_eq!((now.minute.succeeded_per_second, now.minute.failed_per_second), (2.0, 1.0));

    // In steps of the timer, so that each sample is taken.
    let clock = broker.clock();
    advance_until(clock, Duration::from_secs(10), "the minute is quiet", || {
        topic(&consumer, "orders").minute.succeeded_per_second == 0.0
    });
    let later = topic(&consumer, "orders");
    assert_eq!((later.succeeded, later.minute.failed, later.minute.pulled_per_second), (20, 0, 0.0));
    assert_eq!((later.hour.failed, later.day.failed), (10, 10));
    let rates = running_info(&broker, false).status_table.remove("orders").unwrap();
    assert_eq!((rates.consume_ok_tps, rates.consume_failed_msgs), (0.0, 10));
    // The listener's time is that of the hour when the minute has none.
    assert_eq!(rates.consume_rt, later.hour.listener_time.as_secs_f64() * 1000.0);

    advance_until(clock, Duration::from_secs(600), "the hour is quiet", || {
        topic(&consumer, "orders").hour.failed == 0
    });
    assert_eq!(topic(&consumer, "orders").day.failed, 10);
    // In these hours the broker has hung up. What it had confirmed is in doubt until the client is back, for which its
    // clock would have to move.
    let _ = consumer.shutdown(Duration::ZERO);
}

#[test]
fn m5_the_thread_list_says_what_each_thread_is_doing() {
    let broker = orders(1);
    let gate = Gate::default();
    let passing = gate.clone();
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_threads(2)
        .pull_threshold_messages(1)
        .consume_concurrently(move |_| passing.pass())
        .start()
        .unwrap();
    broker.put(&Message::new("orders", "slow")).unwrap();
    gate.wait_for(1);
    let remark = || running_info(&broker, false).user_consumer_info.unwrap().remove("orders@broker-a:0");
    until("it is said why the queue stands still", || {
        remark()
            .is_some_and(|remark| remark.contains("a call runs for") && remark.contains("not pulling for"))
    });
    let threads = running_info(&broker, true).jstack.expect("it was asked for");
    let lines: Vec<&str> = threads.lines().collect();
    for name in ["rmq-io", "rmq-control", "rmq-pull", "rmq-timer", "rmq-rebalance"] {
        assert!(lines.iter().any(|line| line.trim_end() == name), "{name} in\n{threads}");
    }
    let message = broker.inspect().messages("orders")[0].message_id().to_owned();
    let busy: Vec<&&str> = lines.iter().filter(|line| line.contains("in the listener for")).collect();
    assert!(busy.len() == 1 && busy[0].starts_with("rmq-consume-"), "{threads}");
    assert!(busy[0].contains(&message) && busy[0].contains("orders@broker-a:0"), "{threads}");
    assert_eq!(lines.iter().filter(|line| line.ends_with("idle")).count(), 1, "{threads}");
    gate.open();
    consumer.set_consume_threads(1).unwrap();
    until("a thread that has ended is not listed", || {
        running_info(&broker, true).jstack.unwrap().matches("rmq-consume-").count() == 1
    });
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn m5_what_went_wrong_last_with_a_queue_is_said() {
    let broker = orders(1);
    let fault = Fault::on(RequestCode::PULL_MESSAGE, Reaction::Reply(ResponseCode::SYSTEM_ERROR));
    broker.fault(fault.topic("orders").forever());
    let consumer = billing().name_servers(broker.name_server()).consume_concurrently(|_| ()).start().unwrap();
    until("the last error is told", || {
        let remark = running_info(&broker, false).user_consumer_info.unwrap().remove("orders@broker-a:0");
        remark.is_some_and(|remark| remark.contains("last error:") && remark.contains("SYSTEM_ERROR"))
    });
    let queues = consumer.stats().queues;
    let error = queues.iter().find(|one| one.queue == queue(0)).and_then(|one| one.last_error.clone());
    assert!(error.unwrap().contains("SYSTEM_ERROR"));
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn an_operator_sees_how_far_each_queue_is() {
    let broker = orders(2);
    put(&broker, 0..10);
    let consumer = billing().name_servers(broker.name_server()).consume_concurrently(|_| ()).start().unwrap();
    consumed(&broker);
    let member = consumer.client().client_id().to_owned();
    let mut tool = Wire::connect(&broker.name_server());
    let mut ask = |topic: &str| {
        let header = GetConsumerStatus { topic: topic.into(), group: "billing".into(), client_addr: None };
        let answer = tool.ask(RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS, &header);
        assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
        GetConsumerStatusBody::read(&answer.body).unwrap().consumer_table.remove(&member).unwrap_or_default()
    };
    assert_eq!(ask("orders"), [(queue(0), 5), (queue(1), 5)].into());
    assert_eq!(ask("nothing-of-it").len(), 0);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn direct_consumption_tells_what_the_listener_made_of_it() {
    let broker = orders(1);
    let seen = Seen::default();
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_concurrently(seen.answering(|batch| match batch[0].body() {
            b"panics" => panic!("on purpose"),
            b"fails" => Err("the database is away".to_owned()),
            _ => Ok(()),
        }))
        .start()
        .unwrap();
    let mut tool = Wire::connect(&broker.name_server());
    let mut consume = |body: &str| {
        let stored = broker.put(&Message::new("other", body)).unwrap();
        let header = ConsumeMessageDirectly {
            consumer_group: "billing".into(),
            client_id: Some(consumer.client().client_id().to_owned()),
            msg_id: Some(stored.offset_message_id()),
            ..ConsumeMessageDirectly::default()
        };
        let answer = tool.ask(RequestCode::CONSUME_MESSAGE_DIRECTLY, &header);
        let result = ConsumeMessageDirectlyResult::read(&answer.body).unwrap();
        assert!(!result.order && result.auto_commit && result.spent_time_mills >= 0, "{result:?}");
        (result.consume_result, result.remark)
    };
    assert_eq!(consume("is fine"), (DirectResult::Success, None));
    assert_eq!(consume("fails"), (DirectResult::Later, Some("the database is away".into())));
    assert_eq!(consume("panics"), (DirectResult::ThrowException, Some("on purpose".into())));
    let stats = consumer.stats();
    assert_eq!((stats.succeeded, stats.failed, seen.len()), (0, 0, 3), "it is nobody's message");
    assert!(consumer.shutdown(SOON).is_clean());
}
