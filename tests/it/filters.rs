//! Filters over properties: what comes through, what brokers refuse, and what becomes of a broker that has lost them.

use rocketmq_sync::broker::{Broker, Fault, Reaction, Version};
use rocketmq_sync::consumer::PushConsumerBuilder;
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::headers::PullMessage;
use rocketmq_sync::{ConsumeFrom, ErrorKind, Filter, Message, PushConsumer, RequestCode, ResponseCode};

use crate::support::{SOON, Seen, orders, queue, until};
use crate::wire::{Wire, heartbeat_with, messages, pull};

fn fraud(broker: &Broker, filter: Filter) -> PushConsumerBuilder {
    PushConsumer::builder("fraud")
        .name_servers(broker.name_server())
        .subscribe("orders", filter)
        .consume_from(ConsumeFrom::FirstOffset)
}

fn put(broker: &Broker, amounts: &[i32]) {
    for amount in amounts {
        let message = Message::new("orders", amount.to_string()).property("amount", amount.to_string());
        broker.put(&message).unwrap();
    }
}

/// Sorted, for several threads consume at once.
fn bodies(seen: &Seen) -> Vec<String> {
    let mut bodies = seen.bodies();
    bodies.sort();
    bodies
}

/// Changes a setting of the broker, as a tool does.
fn set(broker: &Broker, setting: &str) {
    let command =
        RemotingCommand::request(RequestCode::UPDATE_BROKER_CONFIG).body(setting.as_bytes().to_vec());
    let answer = Wire::connect(&broker.name_server()).call(command);
    assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
}

#[test]
fn what_a_filter_leaves_out_counts_as_consumed() {
    let broker = orders(1);
    put(&broker, &[5, 2000, 7, 1001]);
    let seen = Seen::default();
    let filter = Filter::sql("amount > 1000");
    let consumer = fraud(&broker, filter).consume_concurrently(seen.listener()).start().unwrap();
    seen.wait(2);
    put(&broker, &[3, 4]);
    assert!(consumer.shutdown(SOON).is_clean());
    put(&broker, &[9000]);
    broker.wait(SOON, |state| state.committed("fraud", &queue(0)).is_some_and(|offset| offset >= 4)).unwrap();
    assert_eq!(bodies(&seen), ["1001", "2000"]);
    assert_eq!(broker.inspect().requests(RequestCode::CHECK_CLIENT_CONFIG), 1);
}

#[test]
fn a_pull_is_held_until_something_comes_that_its_filter_lets_through() {
    let broker = orders(1);
    let seen = Seen::default();
    let filter = Filter::sql("amount BETWEEN 10 AND 20");
    let consumer = fraud(&broker, filter).consume_concurrently(seen.listener()).start().unwrap();
    broker.wait(SOON, |state| state.waiting_pulls("fraud") == 1).unwrap();
    let pulls = broker.inspect().requests(RequestCode::PULL_MESSAGE);
    put(&broker, &[1, 2, 3]);
    assert_eq!(broker.inspect().waiting_pulls("fraud"), 1);
    put(&broker, &[15]);
    seen.wait(1);
    broker.wait(SOON, |state| state.waiting_pulls("fraud") == 1).unwrap();
    assert_eq!(broker.inspect().requests(RequestCode::PULL_MESSAGE), pulls + 1);
    assert_eq!(bodies(&seen), ["15"]);
    assert!(consumer.shutdown(SOON).is_clean());
    assert_eq!(broker.inspect().committed("fraud", &queue(0)), Some(4));
}

#[test]
fn a_filter_that_the_broker_cannot_read_fails_the_start_with_the_place_of_the_mistake() {
    let broker = orders(1);
    let error = fraud(&broker, Filter::sql("amount >")).consume_concurrently(|_| ()).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(error.code(), Some(ResponseCode::SUBSCRIPTION_PARSE_FAILED));
    assert_eq!(error.topic(), Some("orders"));
    let text = error.to_string();
    assert!(text.contains("topic orders with the filter `amount >`"), "{text}");
    assert!(text.contains(&broker.name_server()) && text.contains("at line 1, column 9"), "{text}");
    broker.wait(SOON, |state| state.connections() == 0 && state.members("fraud").is_empty()).unwrap();

    let old = Broker::builder().topic("orders", 1).version(Version::V4_9).start().unwrap();
    let new_words = Filter::sql("country STARTSWITH 'N' AND amount > 5");
    let consumer = fraud(&broker, new_words.clone()).consume_concurrently(|_| ()).start().unwrap();
    assert!(consumer.shutdown(SOON).is_clean());
    // 4.9 reads the first word as a property and stops there: a real one takes it as well.
    assert!(fraud(&old, new_words).consume_concurrently(|_| ()).start().unwrap().shutdown(SOON).is_clean());
}

#[test]
fn a_broker_that_filters_by_tag_only_says_so() {
    let broker = orders(1);
    set(&broker, "enablePropertyFilter=false");
    let filter = || Filter::sql("amount > 5");
    let error = fraud(&broker, filter()).consume_concurrently(|_| ()).start().unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Broker, Some(ResponseCode::SYSTEM_ERROR)));
    let text = error.to_string();
    assert!(text.contains("enablePropertyFilter") && text.contains("SQL92"), "{text}");
    let in_request = PullMessage {
        sys_flag: 4,
        subscription: Some("amount > 5".into()),
        expression_type: Some("SQL92".into()),
        ..pull("g", "orders", 0, 0)
    };
    let mut wire = Wire::connect(&broker.name_server());
    let answer = wire.ask(RequestCode::PULL_MESSAGE, &in_request);
    assert_eq!(answer.response_code(), ResponseCode::SYSTEM_ERROR);

    set(&broker, "enablePropertyFilter=true");
    put(&broker, &[1, 6, 2, 7]);
    let answer = wire.ask(RequestCode::PULL_MESSAGE, &in_request);
    assert_eq!(messages(&answer.body).len(), 2);
    let seen = Seen::default();
    let consumer = fraud(&broker, filter()).consume_concurrently(seen.listener()).start().unwrap();
    seen.wait(2);
    // Switched off under a running consumer: its queue says why nothing comes.
    set(&broker, "enablePropertyFilter=false");
    put(&broker, &[8]);
    until("the reason is seen", || {
        let stats = consumer.stats();
        stats.queues.iter().any(|queue| queue.last_error.as_deref().unwrap_or("").contains("SQL92"))
    });
    set(&broker, "enablePropertyFilter=true");
    seen.wait(3);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_filter_can_be_changed_while_the_consumer_runs_unless_the_broker_refuses_the_new_one() {
    let broker = orders(1);
    let seen = Seen::default();
    let filter = Filter::sql("amount > 1000");
    let consumer = fraud(&broker, filter).consume_concurrently(seen.listener()).start().unwrap();
    put(&broker, &[5, 2000]);
    seen.wait(1);
    let error = consumer.subscribe("orders", Filter::sql("amount IN (5)")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    put(&broker, &[3000]);
    seen.wait(2);
    consumer.subscribe("orders", Filter::sql("amount < 10")).unwrap();
    // The broker may hold a pull with the old filter, which one of these ends and none of these decides.
    put(&broker, &[7, 4000, 8]);
    seen.wait(4);
    // A topic that is not there yet has no broker to ask.
    consumer.subscribe("later", Filter::sql("amount < 10")).unwrap();
    assert!(consumer.shutdown(SOON).is_clean());
    assert_eq!(bodies(&seen), ["2000", "3000", "7", "8"]);
}

#[test]
fn a_broker_that_has_lost_the_filter_is_told_it_again() {
    let lost = [
        ResponseCode::SUBSCRIPTION_NOT_EXIST,
        ResponseCode::SUBSCRIPTION_NOT_LATEST,
        ResponseCode::FILTER_DATA_NOT_EXIST,
        ResponseCode::FILTER_DATA_NOT_LATEST,
    ];
    for code in lost {
        let broker = orders(1);
        let seen = Seen::default();
        put(&broker, &[1, 2000]);
        broker.fault(Fault::on(RequestCode::PULL_MESSAGE, Reaction::Reply(code)).topic("orders"));
        let filter = Filter::sql("amount > 1000");
        let consumer = fraud(&broker, filter).consume_concurrently(seen.listener()).start().unwrap();
        seen.wait(1);
        assert!(broker.inspect().requests(RequestCode::HEART_BEAT) >= 2, "{code}");
        assert!(consumer.shutdown(SOON).is_clean());
    }
}

#[test]
fn filters_of_one_group_and_topic_go_with_the_versions_of_their_subscription() {
    let broker = orders(1);
    put(&broker, &[1, 2000]);
    let mut wire = Wire::connect(&broker.name_server());
    let mut told = |filter: &str, version: i64| {
        wire.call(heartbeat_with("c", "g", "orders", &Filter::sql(filter), version));
        let header = PullMessage { sub_version: version, ..pull("g", "orders", 0, 0) };
        let answer = wire.ask(RequestCode::PULL_MESSAGE, &header);
        (answer.response_code(), messages(&answer.body).len())
    };
    assert_eq!(told("amount > 1000", 5), (ResponseCode::SUCCESS, 1));
    assert_eq!(told("amount > 0", 6), (ResponseCode::SUCCESS, 2));
    assert_eq!(told("amount >", 7), (ResponseCode::FILTER_DATA_NOT_EXIST, 0));
    assert_eq!(told("amount > 5000", 8), (ResponseCode::PULL_RETRY_IMMEDIATELY, 0));
}

#[test]
fn a_class_filter_lets_through_what_the_class_says_and_is_uploaded_again_after_a_restart() {
    let broker = Broker::builder()
        .topic("orders", 1)
        .class_filter("com.shop.Long", |message| message.body().len() > 3)
        .class_filter("com.shop.Broken", |message| panic!("over {message:?}"))
        .start()
        .unwrap();
    put(&broker, &[5, 2000, 7, 1001]);
    let seen = Seen::default();
    let filter = Filter::java_class("com.shop.Long", "package com.shop; public class Long {}");
    let consumer = fraud(&broker, filter).consume_concurrently(seen.listener()).start().unwrap();
    seen.wait(2);
    broker.wait(SOON, |state| state.waiting_pulls("fraud") == 1).unwrap();
    assert_eq!(broker.inspect().requests(RequestCode::CHECK_CLIENT_CONFIG), 0);
    broker.restart().unwrap();
    put(&broker, &[8, 9000]);
    seen.wait(3);
    assert!(broker.inspect().requests(RequestCode::REGISTER_MESSAGE_FILTER_CLASS) >= 2);
    assert!(consumer.shutdown(SOON).is_clean());
    assert_eq!(bodies(&seen), ["1001", "2000", "9000"]);
    assert_eq!(broker.inspect().committed("fraud", &queue(0)), Some(6));

    let broken = Filter::java_class("com.shop.Broken", "");
    let consumer = fraud(&broker, broken).consume_concurrently(seen.listener()).start().unwrap();
    put(&broker, &[4000]);
    broker.wait(SOON, |state| state.lag("fraud", "orders") == 0).unwrap();
    assert!(consumer.shutdown(SOON).is_clean());
    assert_eq!(seen.len(), 3);
    let unknown = Filter::java_class("com.shop.Unknown", "");
    let error = fraud(&broker, unknown).consume_concurrently(|_| ()).start().unwrap_err();
    assert!(error.to_string().contains("com.shop.Unknown"), "{error}");
}

#[test]
fn a_class_filter_fails_the_start_where_there_are_no_filter_servers() {
    let broker = orders(1);
    let filter = Filter::java_class("com.shop.Large", "class Large {}");
    let error = fraud(&broker, filter).consume_concurrently(|_| ()).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error.to_string().contains("com.shop.Large") && error.to_string().contains("filter servers"),
        "{error}"
    );
}
