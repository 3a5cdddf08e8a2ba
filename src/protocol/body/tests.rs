use super::*;

fn queue(id: i32) -> MessageQueue {
    MessageQueue::new("T", "b", id)
}

#[test]
fn x2_routes_of_every_dialect() {
    let quoted = r#"{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#;
    let route = TopicRouteData::read(quoted.as_bytes()).unwrap();
    assert_eq!(route.broker_datas[0].broker_addrs[&0], "10.0.0.1:10911");
    assert_eq!((route.queue_datas[0].perm, route.queue_datas[0].read_queue_nums), (6, 4));
    assert_eq!(String::from_utf8(route.write()).unwrap(), quoted);
    let bare = quoted.replace("{\"0\":", "{0:").replace(":6,", ":\"6\",");
    assert_eq!(TopicRouteData::read(bare.as_bytes()), Ok(route));
}

#[test]
fn x2_queues_as_keys_in_every_form() {
    let table = ResetOffsetBody { offset_table: BTreeMap::from([(queue(0), 5), (queue(1), 7)]) };
    let text = r#"{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5,{"brokerName":"b","queueId":1,"topic":"T"}:7}}"#;
    assert_eq!(String::from_utf8(table.write()).unwrap(), text);
    for form in [
        text,
        r#"{ "offsetTable" : { { "topic" : "T", "x":[1], "queueId":0, "brokerName":"b" } : 5 , {"brokerName":"b","queueId":1,"topic":"T"}:"7"}}"#,
        r#"{"offsetTable":{"{\"topic\":\"T\",\"brokerName\":\"b\",\"queueId\":0}":5,{"brokerName":"b","queueId":1,"topic":"T"}:7}}"#,
        r#"{offsetTable:{{brokerName:"b",queueId:0,topic:"T"}:5,{"brokerName":"b","queueId":1,"topic":"T"}:7,{"topic":"x"}:null}}"#,
        std::str::from_utf8(&table.write_list()).unwrap(),
    ] {
        assert_eq!(ResetOffsetBody::read(form.as_bytes()).as_ref(), Ok(&table), "{form}");
    }
}

#[test]
fn the_fingerprint_of_a_heartbeat() {
    // Recorded with 5.5.0.
    let text = r#"{"clientID":"","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"cap-group","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[97,98],"expressionType":"TAG","subString":"a || b","subVersion":0,"tagsSet":["a","b"],"topic":"cap-orders"},{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":0,"tagsSet":[],"topic":"%RETRY%cap-group"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"CLIENT_INNER_PRODUCER"}],"withoutSub":false}"#;
    let mut heartbeat = HeartbeatData::read(text.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(heartbeat.write()).unwrap(), text);
    heartbeat.client_id = "someone".into();
    heartbeat.consumer_data_set[0].subscription_data_set[0].sub_version = 17;
    assert_eq!(heartbeat.fingerprint(), -751_146_488);
}

#[test]
fn heartbeats_of_other_clients() {
    let go = r#"{"clientID":"x","consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_PASSIVELY","messageModel":1,
        "consumeFromWhere":"CONSUME_FROM_SOMEWHERE","subscriptionDataSet":[{"codeSet":["97"],"subVersion":1700000000000000000,"tagsSet":["a"],"topic":"t","subString":"a"}]}],"producerDataSet":null}"#;
    let heartbeat = HeartbeatData::read(go.as_bytes()).unwrap();
    let consumer = &heartbeat.consumer_data_set[0];
    assert_eq!(
        (consumer.message_model, consumer.consume_from_where),
        (MessageModel::Clustering, ConsumeFromWhere::Unknown)
    );
    assert_eq!(consumer.subscription_data_set[0].code_set, [97]);
    assert!(!String::from_utf8(heartbeat.write()).unwrap().contains("consumeFromWhere"));
}

#[test]
fn results_by_name_and_by_number() {
    for (text, result) in [
        ("\"CR_LATER\"", DirectResult::Later),
        ("1", DirectResult::Later),
        ("\"cr_commit\"", DirectResult::Commit),
        ("\"1\"", DirectResult::Later),
        ("77", DirectResult::Unknown),
        ("null", DirectResult::Unknown),
    ] {
        let body = format!("{{\"consumeResult\":{text},\"spentTimeMills\":3}}");
        assert_eq!(
            ConsumeMessageDirectlyResult::read(body.as_bytes()).unwrap().consume_result,
            result,
            "{text}"
        );
    }
}

#[test]
fn what_java_assumes_is_assumed() {
    let group = SubscriptionGroupConfig::read(br#"{"groupName":"g"}"#).unwrap();
    assert_eq!((group.consume_enable, group.retry_max_times, group.retry_queue_nums), (true, 16, 1));
    let topic = TopicConfig::read(br#"{"topicName":"t"}"#).unwrap();
    assert_eq!((topic.perm, topic.read_queue_nums, topic.topic_filter_type.as_str()), (6, 16, "SINGLE_TAG"));
}

#[test]
fn rates_are_read_and_written_as_in_java() {
    let stats = ConsumeStats { consume_tps: f64::NAN, ..ConsumeStats::default() };
    assert_eq!(stats.write(), br#"{"consumeTps":null,"offsetTable":{}}"#);
    assert_eq!(ConsumeStats::read(br#"{"consumeTps":1.0E10,"offsetTable":{}}"#).unwrap().consume_tps, 1e10);
    assert_eq!(ConsumeStats::read(&stats.write()).unwrap().consume_tps, 0.0);
}

#[test]
fn says_what_is_wrong_and_where() {
    let says = |body: &str| TopicRouteData::read(body.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        says(r#"{"queueDatas":[{"perm":"x"}]}"#),
        "TopicRouteData: queueDatas: perm: not a number of 32 bits"
    );
    assert_eq!(says("null"), "TopicRouteData: not an object");
    assert!(says("").starts_with("TopicRouteData: a value expected"));
    assert!(says(r#"{"brokerDatas":[{"brokerAddrs":{"x":"y"}}]}"#).contains("a key of the wrong kind"));
}
