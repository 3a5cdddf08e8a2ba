//! Name servers, and what they tell: from the start on, whatever they do.

use super::*;

fn dead_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn without_a_name_server_the_error_names_all_that_were_tried() {
    let (one, two) = (dead_address(), dead_address());
    let error = Client::builder().name_servers(format!("{one};{two}")).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    let mut tried: Vec<&str> = error.attempts().iter().map(|attempt| &*attempt.server).collect();
    tried.sort_unstable();
    let mut expected = [&*one, &*two];
    expected.sort_unstable();
    assert_eq!(tried, expected);
    let text = error.to_string();
    assert!(text.contains(&one) && text.contains(&two) && text.contains("refused"), "{text}");
}

#[test]
fn a_name_server_that_hangs_costs_no_more_than_the_start_timeout() {
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = hanging.local_addr().unwrap().to_string();
    let began = Instant::now();
    let error = Client::builder()
        .name_servers(&address)
        .start_timeout(Duration::from_millis(300))
        .start()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    // The default would be ten seconds; a busy machine takes its share of the time between.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[test]
fn the_next_name_server_is_asked_when_one_fails() {
    let fake = Fake::start();
    for _ in 0..4 {
        let list = format!("{};{}", dead_address(), fake.address);
        let client = Client::builder().name_servers(list).start().unwrap();
        assert!(client.client_id().starts_with("127.0.0.1@"), "{}", client.client_id());
        assert!(client.shutdown(SOON).is_clean());
    }
}

#[test]
fn the_list_can_be_looked_up_by_the_program() {
    let fake = Fake::start();
    let address = fake.address.clone();
    let look_up = move || Ok::<_, String>(format!("http://{address}"));
    drop(Client::builder().name_servers_from(look_up).start().unwrap());
    let failing = Client::builder().name_servers_from(|| Err::<String, _>("registry is down"));
    let error = failing.start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("registry is down"));
    let panicking =
        Client::builder().name_servers_from(|| -> Result<String, String> { panic!("on purpose") });
    assert!(panicking.start().is_err());
}

#[test]
fn a_client_in_the_background_starts_without_servers_and_finds_them_later() {
    let address = dead_address();
    let client = Client::builder().name_servers(&address).connect_in_background().start().unwrap();
    let member = Listener::consumer("g", "orders");
    client.instance().register(member.clone()).unwrap();
    wait_for("a failed try", || member.count(|notice| matches!(notice, Notice::RouteFailed(_))) > 0);
    let fake = Fake::start_at(&address);
    fake.add_topic("orders", 2);
    wait_for("the route", || member.count(changed("orders")) == 1);
    wait_for("the heartbeat", || client.instance().is_told(&address, "g", "orders", 1));
}

#[test]
fn a_missing_topic_is_found_when_it_appears_and_moving_the_clock_helps() {
    let fake = Fake::start();
    let clock = Clock::manual();
    let mut settings = builder(&fake);
    settings.clock = clock.clone();
    let client = settings.start().unwrap();
    let member = Listener::consumer("g", "orders");
    client.instance().register(member.clone()).unwrap();
    wait_for("the first answer", || member.count(|notice| matches!(notice, Notice::RouteMissing(_))) == 1);
    clock.advance(Duration::from_secs(1));
    wait_for("the second answer", || member.count(|notice| matches!(notice, Notice::RouteMissing(_))) == 2);
    fake.add_topic("orders", 4);
    clock.advance(Duration::from_secs(5));
    wait_for("the route", || member.count(changed("orders")) == 1);
    assert_eq!(client.instance().route("orders").unwrap().subscribe().len(), 4);
    fake.add_topic("orders", 8);
    clock.advance(Duration::from_secs(30));
    wait_for("the new queues", || member.count(changed("orders")) == 2);
    assert_eq!(client.instance().route("orders").unwrap().publish().len(), 8);
}

/// As Apache RocketMQ 5.x describes a topic with a mapping of its queues.
#[test]
fn a_static_topic_is_refused_in_clear_words() {
    let fake = Fake::start();
    let client = builder(&fake).start().unwrap();
    fake.answer(RequestCode::GET_ROUTEINFO_BY_TOPIC, |_, _| {
        let mapping = br#"{"brokerDatas":[],"filterServerTable":{},"queueDatas":[],"topicQueueMappingByBroker":{
            "broker-a":{"bname":"broker-a","currIdMap":{0:0},"epoch":1,"scope":"__global__","topic":"s","totalQueues":1}}}"#;
        Some(ok().body(mapping.to_vec()))
    });
    let error = client.instance().fetch_route("s", Instant::now() + SOON).unwrap_err();
    assert_eq!((error.kind(), error.topic()), (ErrorKind::InvalidInput, Some("s")));
    assert!(error.to_string().contains("static topic"), "{error}");
    let member = Listener::consumer("g", "s");
    client.instance().register(member.clone()).unwrap();
    wait_for("an answer", || member.count(|notice| matches!(notice, Notice::TopicUnusable { .. })) == 1);
    assert!(client.instance().route("s").is_none());
}

#[test]
fn a_topic_that_does_not_exist_is_not_an_unreachable_server() {
    let fake = Fake::start();
    let client = builder(&fake).start().unwrap();
    let error = client.instance().fetch_route("nothing", Instant::now() + SOON).unwrap_err();
    assert_eq!((error.kind(), error.topic()), (ErrorKind::TopicNotFound, Some("nothing")));
    assert_eq!(error.attempts()[0].server, fake.address);
    fake.answer(RequestCode::GET_ROUTEINFO_BY_TOPIC, |_, _| Some(ok().body(b"not json".to_vec())));
    let error = client.instance().fetch_route("orders", Instant::now() + SOON).unwrap_err();
    assert!(error.to_string().contains("decoded"), "{error}");
}

#[test]
fn credentials_are_tried_at_the_start() {
    let fake = Fake::start();
    let cluster = format!(
        r#"{{"brokerAddrTable":{{"broker-a":{{"brokerAddrs":{{0:"{}"}},"brokerName":"broker-a","cluster":"c"}}}},"clusterAddrTable":{{}}}}"#,
        fake.address
    );
    fake.answer(RequestCode::GET_BROKER_CLUSTER_INFO, move |_, _| {
        Some(ok().body(cluster.clone().into_bytes()))
    });
    let start = || builder(&fake).credentials(Credentials::new("me", "secret")).start();
    drop(start().unwrap());
    let beats = heartbeats(&fake);
    assert!(beats.iter().all(|beat| beat.consumer_data_set.is_empty() && beat.producer_data_set.is_empty()));
    fake.answer(RequestCode::HEART_BEAT, |_, _| {
        Some(
            RemotingCommand::response(ResponseCode::SYSTEM_ERROR, 0)
                .remark("AclException: Check signature failed"),
        )
    });
    let error = start().unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some(ResponseCode::SYSTEM_ERROR)));
}

#[test]
fn addresses_can_be_translated() {
    let fake = Fake::start();
    fake.add_topic_at("orders", 1, "10.255.255.1:10911");
    let real = fake.address.clone();
    let map = move |address: &str| {
        if address == "10.255.255.1:10911" { real.clone() } else { address.to_owned() }
    };
    let client = builder(&fake).address_map(map).start().unwrap();
    client.instance().register(Listener::consumer("g", "orders")).unwrap();
    wait_for("the broker to be told", || client.instance().is_told("10.255.255.1:10911", "g", "orders", 1));
}
