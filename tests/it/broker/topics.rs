//! Topics, their routes, and the settings of broker and name server.

use std::time::{Duration, Instant};

use super::{broker, code, connect, route};
use crate::wire::message;
use rocketmq_sync::broker::Broker;
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::body::{TopicConfig, TopicConfigTable, TopicList, TopicRouteData};
use rocketmq_sync::testing::protocol::headers::{CreateTopic, GetTopicConfig, KvConfig, PutKvConfig, Topic};
use rocketmq_sync::{RequestCode, ResponseCode};

#[test]
fn a_route_can_be_fetched_as_soon_as_start_returns() {
    let begun = Instant::now();
    let broker = broker();
    let answer = connect(&broker).ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &route("t"));
    let took = begun.elapsed();
    let found = TopicRouteData::read(&answer.body).unwrap();
    assert_eq!(found.queue_datas[0].read_queue_nums, 2);
    assert_eq!(found.broker_datas[0].broker_addrs[&0], broker.name_server());
    assert_eq!(found.broker_datas[0].broker_name, "broker-a");
    assert!(took < Duration::from_secs(2), "{took:?}");
    let answer = connect(&broker).ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &route("nowhere"));
    assert_eq!(code(&answer), ResponseCode::TOPIC_NOT_EXIST);
}

#[test]
fn routes_can_lie_and_topics_can_change() {
    let broker = Broker::builder().topic("t", 2).advertise("10.1.2.3:0").start().unwrap();
    let mut wire = connect(&broker);
    let mut ask = || {
        let answer = wire.ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &route("t"));
        TopicRouteData::read(&answer.body).ok().filter(|_| code(&answer) == ResponseCode::SUCCESS)
    };
    let address =
        |route: Option<TopicRouteData>| route.map(|route| route.broker_datas[0].broker_addrs[&0].clone());
    let port = broker.name_server().split_off("127.0.0.1:".len());
    assert_eq!(address(ask()), Some(format!("10.1.2.3:{port}")));
    broker.advertise_as("broker.example:1");
    assert_eq!(address(ask()), Some("broker.example:1".to_owned()));
    broker.hide_route("t");
    assert!(ask().is_none());
    broker.show_route("t");
    broker.set_queues("t", 5);
    assert_eq!(ask().unwrap().queue_datas[0].write_queue_nums, 5);
}

#[test]
fn topics_are_created_changed_and_deleted() {
    let broker = broker();
    let mut wire = connect(&broker);
    let create = |topic: &str, queues| CreateTopic {
        topic: topic.into(),
        read_queue_nums: queues,
        write_queue_nums: queues,
        perm: 6,
        topic_filter_type: "SINGLE_TAG".into(),
        attributes: Some("+message.type=FIFO".into()),
        ..CreateTopic::default()
    };
    let created = wire.ask(RequestCode::UPDATE_AND_CREATE_TOPIC, &create("new", 3));
    assert_eq!(code(&created), ResponseCode::SUCCESS);
    let get = GetTopicConfig { topic: "new".into(), lo: Some(true) };
    let config = TopicConfig::read(&wire.ask(RequestCode::GET_TOPIC_CONFIG, &get).body).unwrap();
    assert_eq!((config.read_queue_nums, config.attributes.unwrap()["message.type"].as_str()), (3, "FIFO"));
    for (topic, queues) in [("no good", 1), ("TBW102", 1), ("new", -1), ("new", i32::MAX)] {
        let refused = wire.ask(RequestCode::UPDATE_AND_CREATE_TOPIC, &create(topic, queues));
        assert_eq!(code(&refused), ResponseCode::INVALID_PARAMETER, "{topic} {queues}");
    }
    let all = wire.call(RemotingCommand::request(RequestCode::GET_ALL_TOPIC_CONFIG));
    let table = TopicConfigTable::read(&all.body).unwrap().topic_config_table;
    assert!(
        table.contains_key("new")
            && table["TBW102"].perm == 7
            && table["SCHEDULE_TOPIC_XXXX"].read_queue_nums == 18
    );
    wire.publish(&message("new", 0), b"x");
    let topic = Topic { topic: "new".into() };
    wire.ask(RequestCode::DELETE_TOPIC_IN_BROKER, &topic);
    assert_eq!(code(&wire.ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &topic)), ResponseCode::TOPIC_NOT_EXIST);
    assert_eq!(broker.inspect().depth("new"), 0);
    let names = wire.call(RemotingCommand::request(RequestCode::GET_ALL_TOPIC_LIST_FROM_NAMESERVER));
    assert!(TopicList::read(&names.body).unwrap().topic_list.contains(&"t".to_owned()));
}

#[test]
fn settings_of_broker_and_name_server() {
    let broker = broker();
    let mut wire = connect(&broker);
    let update = |text: &str| RemotingCommand::request(RequestCode::UPDATE_BROKER_CONFIG).body(text.into());
    let answer = wire.call(update("autoCreateTopicEnable=false\nfileReservedTime=48\n"));
    assert_eq!(code(&answer), ResponseCode::SUCCESS);
    let send = RemotingCommand::with_header(RequestCode::SEND_MESSAGE_V2, &message("new", 0)).body(vec![1]);
    assert_eq!(code(&wire.call(send)), ResponseCode::TOPIC_NOT_EXIST);
    let text = wire.call(RemotingCommand::request(RequestCode::GET_BROKER_CONFIG)).body;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("fileReservedTime=48\n") && text.contains("messageDelayLevel=1s 5s 10s 30s 1m"),
        "{text}"
    );
    for bad in ["brokerName=x", "autoCreateTopicEnable=maybe"] {
        assert_eq!(code(&wire.call(update(bad))), ResponseCode::SYSTEM_ERROR);
    }
    let put = PutKvConfig { namespace: "N".into(), key: "k".into(), value: "v".into() };
    wire.ask(RequestCode::PUT_KV_CONFIG, &put);
    let get = KvConfig { namespace: "N".into(), key: "k".into() };
    assert_eq!(wire.ask(RequestCode::GET_KV_CONFIG, &get).fields.get("value"), Some("v"));
    wire.ask(RequestCode::DELETE_KV_CONFIG, &get);
    assert_eq!(code(&wire.ask(RequestCode::GET_KV_CONFIG, &get)), ResponseCode::QUERY_NOT_FOUND);
}
