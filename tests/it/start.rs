//! What a start says that does not succeed, and what it leaves behind.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::support::{
    SOON, Seen, alone, billing, client_of, free_address, library_threads, noting_member_of, orders, put,
    until,
};
use rocketmq_sync::broker::Broker;
use rocketmq_sync::{Client, ErrorKind, PushConsumer};

/// For a consumer: which of it is wrong, and what was tried.
#[test]
fn n6_start_says_what_is_wrong() {
    let broker = Broker::builder().topic("orders", 1).auto_create_topics(false).start().unwrap();
    let consumer = |topic: &str| {
        PushConsumer::builder("billing").subscribe(topic, "*").consume_concurrently(|_| ()).consume_threads(2)
    };
    let error = consumer("orders").consume_threads(0).pull_batch_size(0).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let wrong: Vec<&str> = error.mistakes().iter().map(|mistake| mistake.setting).collect();
    assert!(wrong.contains(&"consume_threads") && wrong.contains(&"pull_batch_size"), "{wrong:?}");

    let error = consumer("ordres").name_servers(broker.name_server()).start().unwrap_err();
    assert_eq!((error.kind(), error.topic()), (ErrorKind::TopicNotFound, Some("ordres")));
    assert!(error.to_string().contains("ordres"), "{error}");

    let nobody = free_address();
    let error = consumer("orders").name_servers(&nobody).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(error.attempts()[0].server, nobody);

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let client = Client::builder()
        .name_servers(&address)
        .request_timeout(Duration::from_millis(100))
        .start_timeout(Duration::from_millis(300))
        .start();
    assert_eq!(client.unwrap_err().kind(), ErrorKind::Timeout);

    let something_else = speaks_http();
    let error = consumer("orders").name_servers(&something_else).start().unwrap_err();
    assert_eq!((error.kind(), error.attempts().len()), (ErrorKind::Protocol, 1), "{error}");
    assert!(error.to_string().contains(&something_else), "{error}");

    let client = client_of(broker.name_server());
    let one = consumer("orders").client(&client).start().unwrap();
    assert_eq!(consumer("orders").client(&client).start().unwrap_err().kind(), ErrorKind::Config);
    assert!(one.shutdown(SOON).is_clean());
    let threads = client.stats().threads;
    consumer("ordres").client(&client).start().unwrap_err();
    assert_eq!(client.stats().threads, threads, "a failed start leaves nothing behind");
}

/// The address of a server that is none of RocketMQ's.
fn speaks_http() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            drop(stream.read(&mut [0; 1024]));
            drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    address
}

#[cfg(feature = "acl")]
#[test]
fn a4_wrong_credentials_are_refused_at_the_start() {
    use rocketmq_sync::Credentials;
    use rocketmq_sync::broker::Rights;
    let broker = Broker::builder()
        .topic("orders", 1)
        .account(Credentials::new("shop", "right"), Rights::all())
        .start()
        .unwrap();
    let client = |secret: &str| {
        Client::builder()
            .name_servers(broker.name_server())
            .credentials(Credentials::new("shop", secret))
            .start()
    };
    let began = Instant::now();
    let wrong = client("wrong").unwrap_err();
    assert_eq!((wrong.kind(), wrong.attempts().len()), (ErrorKind::Refused, 1), "{wrong}");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(!wrong.is_retryable() && wrong.to_string().contains(&broker.name_server()), "{wrong}");
    let client = client("right").unwrap();
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    put(&broker, 0..3);
    seen.wait(3);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn starting_on_a_client_that_was_shut_down_leaves_no_thread_behind() {
    alone("start::starting_on_a_client_that_was_shut_down_leaves_no_thread_behind", || {
        let broker = orders(1);
        let client = client_of(broker.name_server());
        let start = || billing().client(&client).consume_concurrently(|_| ()).start();
        drop(start().unwrap());
        assert!(client.shutdown(SOON).is_clean());
        assert_eq!(start().unwrap_err().kind(), ErrorKind::Closed);
        until("threads end", || library_threads() == ["rmq-broker"]);
    });
}
