//! The members of a group, what tools ask of them through the broker, and the locks they hold.

use std::time::Duration;

use super::{broker, code, commit, connect, put, queue};
use crate::wire::{SOON, message, messages, pull};
use rocketmq_sync::broker::{Broker, Clock};
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::body::{
    ConsumerIdList, GetConsumerStatusBody, LockBatchAnswer, LockBatchRequest, SubscriptionGroupConfig,
    SubscriptionGroupTable,
};
use rocketmq_sync::testing::protocol::headers::{
    ConsumeMessageDirectly, ConsumerGroup, DeleteGroup, GetConsumerRunningInfo, GetConsumerStatus, Group,
    UnregisterClient,
};
use rocketmq_sync::{RequestCode, ResponseCode, retry_topic};

#[test]
fn members_hear_of_each_other() {
    let broker = broker();
    let (mut one, mut two) = (connect(&broker), connect(&broker));
    let group = ConsumerGroup { consumer_group: "g".into() };
    assert_eq!(code(&one.ask(RequestCode::GET_CONSUMER_LIST_BY_GROUP, &group)), ResponseCode::SYSTEM_ERROR);
    one.heartbeat("c1", "g", "t", &["*"]);
    assert_eq!(one.requests.len(), 1, "the notification comes before the answer");
    assert_eq!(one.request().request_code(), RequestCode::NOTIFY_CONSUMER_IDS_CHANGED);
    two.heartbeat("c2", "g", "t", &["*"]);
    let told = one.request();
    assert!(told.is_oneway() && told.fields.get("consumerGroup") == Some("g"));
    let list = ConsumerIdList::read(&one.ask(RequestCode::GET_CONSUMER_LIST_BY_GROUP, &group).body).unwrap();
    assert_eq!(list.consumer_id_list, ["c1", "c2"]);
    one.heartbeat("c1", "g", "t", &["*"]);
    assert!(one.requests.is_empty(), "nothing changed");
    drop(two);
    assert_eq!(one.request().request_code(), RequestCode::NOTIFY_CONSUMER_IDS_CHANGED);
    assert_eq!(broker.inspect().members("g"), ["c1"]);
    let leave =
        UnregisterClient { client_id: "c1".into(), producer_group: None, consumer_group: Some("g".into()) };
    assert_eq!(code(&one.ask(RequestCode::UNREGISTER_CLIENT, &leave)), ResponseCode::SUCCESS);
    assert!(broker.inspect().members("g").is_empty());
}

#[test]
fn a_silent_client_is_gone_after_two_minutes() {
    let broker = Broker::builder().topic("t", 1).clock(Clock::manual()).start().unwrap();
    let (mut silent, mut alive) = (connect(&broker), connect(&broker));
    silent.heartbeat("silent", "g", "t", &["*"]);
    broker.clock().advance(Duration::from_secs(100));
    alive.heartbeat("alive", "g", "t", &["*"]);
    assert_eq!(broker.inspect().members("g"), ["silent", "alive"]);
    broker.clock().advance(Duration::from_secs(21));
    assert_eq!(broker.inspect().members("g"), ["alive"]);
    while silent.requests.pop().is_some() || silent.frame(SOON).is_ok() {}
    assert!(silent.is_closed());
}

#[test]
fn questions_to_members_are_passed_on() {
    let broker = broker();
    let (mut member, mut tool) = (connect(&broker), connect(&broker));
    put(&broker, 0, "one");
    let info =
        GetConsumerRunningInfo { consumer_group: "g".into(), client_id: "c".into(), jstack_enable: None };
    let nobody = tool.ask(RequestCode::GET_CONSUMER_RUNNING_INFO, &info);
    assert_eq!(code(&nobody), ResponseCode::SYSTEM_ERROR);
    member.heartbeat("c", "g", "t", &["*"]);
    member.requests.clear();

    let asked = tool.send(RemotingCommand::with_header(RequestCode::GET_CONSUMER_RUNNING_INFO, &info));
    let question = member.request();
    assert_eq!(question.header::<GetConsumerRunningInfo>().unwrap(), info);
    let answer = RemotingCommand::response(ResponseCode::SUCCESS, question.opaque).body(b"{}".to_vec());
    member.send_as_is(&answer);
    assert_eq!(tool.answer(asked).body, b"{}");

    let id = broker.inspect().messages("t")[0].offset_message_id();
    let directly = ConsumeMessageDirectly {
        consumer_group: "g".into(),
        client_id: Some("c".into()),
        msg_id: Some(id),
        ..ConsumeMessageDirectly::default()
    };
    let asked = tool.send(RemotingCommand::with_header(RequestCode::CONSUME_MESSAGE_DIRECTLY, &directly));
    let question = member.request();
    assert_eq!(question.fields.get("brokerName"), Some("broker-a"));
    assert_eq!(&*messages(&question.body)[0].body, b"one");
    drop(member);
    assert_eq!(code(&tool.answer(asked)), ResponseCode::SYSTEM_ERROR, "the member is gone");
}

#[test]
fn the_offsets_of_all_members_make_one_answer() {
    let broker = broker();
    let (mut one, mut two, mut tool) = (connect(&broker), connect(&broker), connect(&broker));
    one.heartbeat("c1", "g", "t", &["*"]);
    two.heartbeat("c2", "g", "t", &["*"]);
    let header = GetConsumerStatus { topic: "t".into(), group: "g".into(), client_addr: None };
    let asked =
        tool.send(RemotingCommand::with_header(RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS, &header));
    let question = loop {
        let request = one.request();
        if request.request_code() == RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT {
            break request;
        }
    };
    let offsets = GetConsumerStatusBody {
        message_queue_table: [(queue(0), 5)].into(),
        ..GetConsumerStatusBody::default()
    };
    one.send_as_is(&RemotingCommand::response(ResponseCode::SUCCESS, question.opaque).body(offsets.write()));
    drop(two);
    let table = GetConsumerStatusBody::read(&tool.answer(asked).body).unwrap().consumer_table;
    assert_eq!((table.len(), table["c1"][&queue(0)]), (1, 5), "who is gone is left out");
}

#[test]
fn locks_have_one_holder_who_renews_them() {
    let broker = Broker::builder().topic("t", 2).clock(Clock::manual()).start().unwrap();
    let mut wire = connect(&broker);
    let mut ask = |code, client: &str, ids: &[i32]| {
        let body = LockBatchRequest {
            client_id: client.into(),
            consumer_group: "g".into(),
            mq_set: ids.iter().map(|id| queue(*id)).collect(),
            only_this_broker: None,
        };
        let answer = wire.call(RemotingCommand::request(code).body(body.write()));
        LockBatchAnswer::read(&answer.body).map(|locked| locked.lock_ok_mq_set.len()).unwrap_or(0)
    };
    assert_eq!(ask(RequestCode::LOCK_BATCH_MQ, "a", &[0]), 1);
    assert_eq!(ask(RequestCode::LOCK_BATCH_MQ, "b", &[0, 1]), 1, "queue 0 is another's");
    assert_eq!(broker.inspect().lock_holder("g", &queue(0)), Some("a"));
    ask(RequestCode::UNLOCK_BATCH_MQ, "b", &[0]);
    assert_eq!(ask(RequestCode::LOCK_BATCH_MQ, "b", &[0]), 0, "only the holder can let go");
    broker.clock().advance(Duration::from_millis(60_001));
    assert_eq!(broker.inspect().lock_holder("g", &queue(0)), None);
    assert_eq!(ask(RequestCode::LOCK_BATCH_MQ, "b", &[0]), 1);
}

#[test]
fn retries_of_a_group_that_holds_locks_are_dead_letters() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    let body = LockBatchRequest {
        client_id: "c".into(),
        consumer_group: "g".into(),
        mq_set: vec![queue(0)],
        only_this_broker: None,
    };
    wire.call(RemotingCommand::request(RequestCode::LOCK_BATCH_MQ).body(body.write()));
    wire.publish(&message(&retry_topic("g"), 0), b"again");
    assert_eq!(broker.inspect().depth(&rocketmq_sync::dead_letter_topic("g")), 1);
}

#[test]
fn groups_are_configured_and_deleted() {
    let broker = broker();
    let mut wire = connect(&broker);
    let closed = SubscriptionGroupConfig {
        group_name: "g".into(),
        consume_enable: false,
        retry_max_times: 3,
        ..SubscriptionGroupConfig::default()
    };
    let save = RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP;
    assert_eq!(code(&wire.call(RemotingCommand::request(save).body(closed.write()))), ResponseCode::SUCCESS);
    let group = Group { group: "g".into() };
    let read = wire.ask(RequestCode::GET_SUBSCRIPTIONGROUP_CONFIG, &group);
    assert_eq!(SubscriptionGroupConfig::read(&read.body).unwrap().retry_max_times, 3);
    let refused = wire.ask(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, 0));
    assert_eq!(code(&refused), ResponseCode::NO_PERMISSION);
    let all = wire.call(RemotingCommand::request(RequestCode::GET_ALL_SUBSCRIPTIONGROUP_CONFIG));
    let table = SubscriptionGroupTable::read(&all.body).unwrap().subscription_group_table;
    assert!(!table["g"].consume_enable && table["TOOLS_CONSUMER"].consume_enable);
    commit(&mut wire, 0, 5);
    let delete = DeleteGroup { group_name: "g".into(), clean_offset: None, remove_offset: Some(true) };
    wire.ask(RequestCode::DELETE_SUBSCRIPTIONGROUP, &delete);
    let gone = wire.ask(RequestCode::GET_SUBSCRIPTIONGROUP_CONFIG, &group);
    assert_eq!(code(&gone), ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST);
    assert_eq!(broker.inspect().committed("g", &queue(0)), None);
    let bad = SubscriptionGroupConfig { group_name: "no good".into(), ..closed };
    assert_eq!(
        code(&wire.call(RemotingCommand::request(save).body(bad.write()))),
        ResponseCode::INVALID_PARAMETER
    );
}
