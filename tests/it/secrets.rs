//! Secrets reach no log and no `Debug`, whatever goes well or wrong.

use std::fmt::Write;
use std::sync::Mutex;

use log::{LevelFilter, Log, Metadata, Record};

use crate::scenarios::certificates::Authority;
use crate::support::{SOON, Seen, alone, noting_member_of, put};
use rocketmq_sync::broker::{Broker, Rights};
use rocketmq_sync::{Client, Credentials, ErrorKind, Message, Producer, Tls};

static LOG: Kept = Kept(Mutex::new(String::new()));

/// Everything that is logged.
struct Kept(Mutex<String>);

impl Log for Kept {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let mut lines = self.0.lock().unwrap();
        writeln!(lines, "{} {}: {}", record.level(), record.target(), record.args()).unwrap();
    }

    fn flush(&self) {}
}

#[test]
fn secrets_reach_no_log_and_no_debug() {
    alone("secrets::secrets_reach_no_log_and_no_debug", || {
        log::set_logger(&LOG).unwrap();
        log::set_max_level(LevelFilter::Trace);
        let authority = Authority::new("the authority");
        let mut secrets = vec!["s3cr3t-of-shop".to_owned(), "t0k3n-of-shop".to_owned(), "b0dy".to_owned()];
        for name in ["server", "me"] {
            let key = authority.sign(name, "127.0.0.1");
            secrets.extend(key.lines().filter(|line| !line.starts_with("---")).map(str::to_owned));
        }
        let printed = run(&authority);
        let log = std::mem::take(&mut *LOG.0.lock().unwrap());
        // It is a log of what was sent at all.
        let traced = ["TRACE", "HEART_BEAT", "PULL_MESSAGE", "AccessKey", "Signature", "SecurityToken"];
        let missing: Vec<_> = traced.iter().filter(|word| !log.contains(**word)).collect();
        assert!(missing.is_empty(), "not much of a log, without {missing:?}:\n{log}");
        for secret in secrets {
            let told = log.lines().chain(printed.lines()).find(|line| line.contains(&secret));
            assert_eq!(told, None, "tells {secret}");
        }
    });
}

#[test]
fn a1_who_believes_anybody_is_warned() {
    alone("secrets::a1_who_believes_anybody_is_warned", || {
        log::set_logger(&LOG).unwrap();
        log::set_max_level(LevelFilter::Warn);
        let authority = Authority::new("the authority");
        authority.sign("server", "somebody else");
        let (certificate, key) = (authority.path("server.pem"), authority.path("server.key"));
        let broker = Broker::builder().topic("orders", 1).tls_files(certificate, key).start().unwrap();
        let client = || Client::builder().name_servers(broker.name_server());
        client().tls(Tls::ca_file(authority.ca())).start().unwrap_err();
        assert!(!LOG.0.lock().unwrap().contains("pose as the server"));
        let client = client().tls(Tls::insecure()).start().unwrap();
        Producer::builder("shop")
            .client(&client)
            .start()
            .unwrap()
            .send(&Message::new("orders", "x"))
            .unwrap();
        let log = LOG.0.lock().unwrap();
        assert!(
            log.lines().any(|line| line.starts_with("WARN") && line.contains("pose as the server")),
            "{log}"
        );
    });
}

/// Everything that can be printed, of a run with good and wrong credentials.
fn run(authority: &Authority) -> String {
    let mut printed = String::new();
    let mut print = |what: &dyn std::fmt::Debug| writeln!(printed, "{what:?}").unwrap();
    let account = Credentials::new("shop", "s3cr3t-of-shop").security_token("t0k3n-of-shop");
    let builder = Broker::builder()
        .topic("orders", 2)
        .account(account.clone(), Rights::all())
        .tls_files(authority.path("server.pem"), authority.path("server.key"))
        .tls_client_ca(authority.ca());
    print(&builder);
    let broker = builder.start().unwrap();
    let tls =
        Tls::ca_file(authority.ca()).client_certificate(authority.path("me.pem"), authority.path("me.key"));
    let builder = Client::builder().name_servers(broker.name_server()).tls(tls);
    let wrong = builder
        .clone()
        .credentials(Credentials::new("s3cr3t", "s3cr3t-of-shop").security_token("t0k3n-of-shop"));
    let error = wrong.start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    print(&error);
    let builder = builder.credentials(account);
    print(&builder);
    let client = builder.start().unwrap();
    print(&client);
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    print(&producer);
    print(&producer.send(&Message::new("orders", "b0dy")).unwrap());
    put(&broker, 0..3);
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    seen.wait(4);
    print(&consumer);
    broker.cut_connections();
    put(&broker, 3..5);
    seen.wait(6);
    print(&broker);
    print(&broker.requests());
    print(&consumer.shutdown(SOON));
    printed
}
