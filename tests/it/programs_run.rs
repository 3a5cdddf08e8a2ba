//! The programs of `programs.rs` that can be told where their servers are, run: each in a process of its own, which its
//! test starts, and which knows by a variable that it is to be the program.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::time::Duration;

#[cfg(all(feature = "acl", feature = "tls"))]
use crate::programs::tls_acl;
use crate::programs::{
    answer_with_result, batch_job, broadcast_config, dead_letters, hooks, orderly, own_offsets,
    sql_and_timestamp, tail,
};
#[cfg(all(feature = "acl", feature = "tls"))]
use crate::scenarios::certificates::Authority;
use crate::support::{SOON, Seen, billing, free_address, orders, put};
use rocketmq_sync::broker::Broker;
use rocketmq_sync::{ConsumeStatus, Message, dead_letter_topic};
#[cfg(all(feature = "acl", feature = "tls"))]
use rocketmq_sync::{
    Credentials,
    broker::{Permission, Rights},
};

/// What a program has said, and the code that it ended with.
struct Said {
    text: String,
    code: Option<u8>,
}

impl Said {
    /// What follows this word, line by line.
    fn after<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a str> {
        self.text.lines().filter_map(move |line| line.strip_prefix(word))
    }
}

const IS_THE_PROGRAM: &str = "IT_PROGRAM";
/// Where it finds its files.
const FOLDER: &str = "IT_FOLDER";

/// Runs `play`, which is given a way to run the program with these variables.
fn program(test: &str, run: fn() -> ExitCode, play: impl FnOnce(&dyn Fn(&[(&str, &str)]) -> Said)) {
    if std::env::var_os(IS_THE_PROGRAM).is_some() {
        println!();
        let code = run();
        let code = (0..=u8::MAX).find(|n| ExitCode::from(*n) == code);
        return println!("\nended with {}", code.unwrap());
    }
    play(&|variables| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        if let Some((_, folder)) = variables.iter().find(|(name, _)| *name == FOLDER) {
            command.current_dir(folder);
        }
        let output = command
            .args(["--exact", &format!("programs_run::{test}"), "--nocapture"])
            .env(IS_THE_PROGRAM, "1")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        println!("{text}");
        let code = text.lines().find_map(|line| line.strip_prefix("ended with ")?.parse().ok());
        Said { text, code }
    });
}

fn counts<'a>(rows: impl Iterator<Item = &'a str>) -> BTreeMap<u32, u32> {
    let mut counts = BTreeMap::new();
    rows.for_each(|row| *counts.entry(row.parse().unwrap()).or_default() += 1);
    counts
}

fn each_once(numbers: std::ops::Range<u32>) -> BTreeMap<u32, u32> {
    numbers.map(|number| (number, 1)).collect()
}

#[test]
fn batch_job_loads_what_came_since_the_last_time() {
    program("batch_job_loads_what_came_since_the_last_time", batch_job::run, |run| {
        let broker = orders(4);
        let server = broker.name_server();
        for numbers in [0..1000, 1000..1050, 1050..1050] {
            put(&broker, numbers.clone());
            let said = run(&[("NAMESRV_ADDR", &server)]);
            assert_eq!(said.code, Some(0));
            assert_eq!(counts(said.after("row ")), each_once(numbers));
            assert_eq!(said.after("clean shutdown").count(), 1);
            assert_eq!(broker.inspect().lag("nightly-load", "orders"), 0);
        }
    });
}

#[test]
fn own_offsets_has_each_row_once_although_it_ends_in_between() {
    program("own_offsets_has_each_row_once_although_it_ends_in_between", own_offsets::run, |run| {
        let broker = orders(4);
        let (server, folder) = (broker.name_server(), tempfile::tempdir().unwrap());
        let table = folder.path().join("table");
        put(&broker, 0..1000);
        for rows in ["300", "600", "1000"] {
            let table = table.to_str().unwrap();
            let said = run(&[("NAMESRV_ADDR", &server), ("PROGRAM_TABLE", table), ("PROGRAM_ROWS", rows)]);
            assert_eq!(said.code, Some(0));
        }
        let table = std::fs::read_to_string(table).unwrap();
        let rows = table.lines().flat_map(|line| line.split(' ').skip(2));
        assert_eq!(counts(rows), each_once(0..1000));
    });
}

#[test]
fn dead_letters_go_back_to_their_topic_once() {
    program("dead_letters_go_back_to_their_topic_once", dead_letters::run, |run| {
        let broker = orders(2);
        let server = broker.name_server();
        put(&broker, 0..3);
        let refusing = billing()
            .name_servers(&server)
            .consume_concurrently(|_| ConsumeStatus::DeadLetter)
            .start()
            .unwrap();
        let dead = dead_letter_topic("billing");
        broker.wait(SOON, |state| state.depth(&dead) == 3).unwrap();
        assert!(refusing.shutdown(SOON).is_clean());
        let sent = broker.inspect().messages("orders");

        let said = run(&[("NAMESRV_ADDR", &server)]);
        assert_eq!(said.code, Some(0));
        for message in &sent {
            let line = format!("{} of orders after 1 tries", message.message_id());
            assert_eq!(said.text.matches(&line).count(), 1, "{line}");
        }
        let again = run(&[("NAMESRV_ADDR", &server)]);
        assert_eq!((again.code, again.text.contains(" tries")), (Some(0), false));

        // As new: each body twice, and consumed from the beginning.
        let stored = broker.inspect().messages("orders");
        assert_eq!((stored.len(), broker.inspect().depth(&dead)), (6, 3));
        let seen = Seen::default();
        let next = billing().name_servers(&server).consume_concurrently(seen.listener()).start().unwrap();
        seen.wait(3);
        assert!(next.shutdown(SOON).is_clean());
        seen.assert_once(0..3);
        assert!(seen.messages().iter().all(|message| message.reconsume_times() == 0));
    });
}

#[test]
fn tail_shows_the_last_messages_and_says_by_its_code_what_is_wrong() {
    program("tail_shows_the_last_messages_and_says_by_its_code_what_is_wrong", tail::run, |run| {
        let broker = Broker::builder().topic("orders", 4).auto_create_topics(false).start().unwrap();
        put(&broker, 0..40);
        let server = broker.name_server();
        let said = run(&[("RMQ_NAMESRV", &server)]);
        let lines: Vec<_> = said.after("orders@broker-a:").collect();
        let shown: Vec<u32> =
            lines.iter().map(|line| line.split_once(' ').unwrap().1.parse().unwrap()).collect();
        assert_eq!((said.code, shown.len()), (Some(0), 10), "{lines:?}");
        // Those of one moment may come in any order.
        let stored = broker.inspect().messages("orders");
        let time = |number: &u32| {
            let of = |message: &&rocketmq_sync::MessageView| message.body() == number.to_string().as_bytes();
            stored.iter().find(of).unwrap().store_time()
        };
        assert!(shown.iter().map(time).is_sorted());
        let last =
            stored.iter().map(|message| message.store_time()).collect::<std::collections::BTreeSet<_>>();
        assert!(shown.iter().all(|number| last.range(time(number)..).count() <= 10));

        let nobody = run(&[("RMQ_NAMESRV", &free_address())]);
        assert_eq!(nobody.code, Some(4));
        let other = Broker::builder().auto_create_topics(false).start().unwrap();
        let missing = run(&[("RMQ_NAMESRV", &other.name_server())]);
        assert_eq!(missing.code, Some(3), "{}", missing.text);
    });
}

#[test]
fn orderly_sends_consumes_and_ends() {
    program("orderly_sends_consumes_and_ends", orderly::run, |run| {
        let broker = Broker::builder().topic("order-steps", 4).start().unwrap();
        broker.put(&Message::new("order-steps", "created").sharding_key("order-7")).unwrap();
        // It ends by itself, with the code of its report.
        let said = run(&[("NAMESRV_ADDR", &broker.name_server())]);
        assert_eq!(said.code, None, "{}", said.text);
        let bodies: Vec<_> =
            broker.inspect().messages("order-steps").iter().map(|m| m.body().to_owned()).collect();
        assert_eq!(bodies, [b"created".to_vec(), b"paid".to_vec()]);
        broker.wait(Duration::from_secs(5), |state| state.members("ledger").is_empty()).unwrap();
    });
}

#[test]
fn answer_with_result_starts_what_it_shows() {
    program("answer_with_result_starts_what_it_shows", answer_with_result::run, |run| {
        let broker = Broker::builder().topic("t", 2).start().unwrap();
        put_each(&broker);
        let said = run(&[("NAMESRV_ADDR", &broker.name_server())]);
        assert_eq!(said.code, Some(0), "{}", said.text);
        let joined = broker
            .requests()
            .iter()
            .filter_map(|request| request.group.clone())
            .collect::<std::collections::BTreeSet<_>>();
        for group in ["a", "b", "c", "d", "e", "f", "g"] {
            assert!(joined.contains(group), "{joined:?}");
        }
    });
}

fn put_each(broker: &Broker) {
    (0..10).for_each(|n: u32| drop(broker.put(&Message::new("t", n.to_string())).unwrap()));
}

#[test]
fn sql_and_timestamp_shows_what_its_filters_let_pass() {
    program("sql_and_timestamp_shows_what_its_filters_let_pass", sql_and_timestamp::run, |run| {
        let broker = Broker::builder().topic("payments", 2).topic("chargebacks", 1).start().unwrap();
        let payment = |amount: &str, country: &str| {
            let message =
                Message::new("payments", "").property("amount", amount).property("country", country);
            broker.put(&message).unwrap().message_id().to_owned()
        };
        let dropped = [payment("900", "NL"), payment("1500", "FR"), payment("1000", "DE")];
        let shown = [payment("1001", "NL"), payment("2500", "DE")];
        let back = broker.put(&Message::new("chargebacks", "")).unwrap();

        let said = run(&[("NAMESRV_ADDR", &broker.name_server()), ("PROGRAM_ROWS", "3")]);
        assert_eq!(said.code, Some(0), "{}", said.text);
        assert!(said.text.contains(&format!("{} Some(\"1001\")", shown[0])), "{}", said.text);
        assert!(said.text.contains(&format!("{} Some(\"2500\")", shown[1])), "{}", said.text);
        assert!(said.text.contains(&format!("{} None", back.message_id())), "{}", said.text);
        assert!(!dropped.iter().any(|id| said.text.contains(id.as_str())), "{}", said.text);
        // What it consumed before it gave the topic up is committed as well.
        let state = broker.inspect();
        assert_eq!((state.lag("fraud", "payments"), state.lag("fraud", "chargebacks")), (0, 0));
        assert!(state.members("fraud").is_empty());
    });
}

#[test]
fn hooks_see_what_is_sent_and_consumed() {
    program("hooks_see_what_is_sent_and_consumed", hooks::run, |run| {
        let broker = orders(4);
        let put = |queue: i32, key: &str| {
            let place = rocketmq_sync::MessageQueue::new("orders", "broker-a", queue);
            broker.put(&Message::new("orders", "x").key(key).queue(&place)).unwrap();
        };
        // Its strategy leaves the odd queues to the second member, whom there is not.
        put(0, "new");
        put(1, "new");
        put(2, "seen");
        let said = run(&[("NAMESRV_ADDR", &broker.name_server()), ("PROGRAM_ROWS", "3")]);
        assert_eq!(said.code, Some(0), "{}", said.text);
        let spans: Vec<_> = said.after("span of ").collect();
        assert_eq!(spans.iter().filter(|span| **span == "None").count(), 2, "{spans:?}");
        assert_eq!(spans.iter().filter(|span| **span == "Some(\"00-trace-1\")").count(), 1, "{spans:?}");
        assert_eq!((spans.len(), broker.inspect().lag("billing", "orders")), (3, 1));
    });
}

#[test]
fn broadcast_config_knows_the_last_one() {
    program("broadcast_config_knows_the_last_one", broadcast_config::run, |run| {
        let broker = Broker::builder().topic("config", 1).start().unwrap();
        for (tag, body) in [("shop", "old"), ("stock", "other"), ("shop", "color=blue")] {
            broker.put(&Message::new("config", body).tag(tag)).unwrap();
        }
        // It keeps no offsets: whenever it starts, it has the last one.
        for _ in 0..2 {
            let said = run(&[("NAMESRV_ADDR", &broker.name_server()), ("PROGRAM_ROWS", "1")]);
            assert_eq!(said.code, Some(0), "{}", said.text);
            assert!(said.text.lines().any(|line| line == "color=blue"), "{}", said.text);
            assert!(!said.text.contains("old"), "{}", said.text);
        }
    });
}

#[cfg(all(feature = "acl", feature = "tls"))]
#[test]
fn tls_acl_sends_or_says_why_it_may_not() {
    program("tls_acl_sends_or_says_why_it_may_not", tls_acl::run, |run| {
        let authority = Authority::new("the authority");
        authority.sign("server", "127.0.0.1");
        authority.sign("me", "me");
        let broker = |rights: Rights| {
            let (certificate, key) = (authority.path("server.pem"), authority.path("server.key"));
            let builder = Broker::builder().topic("orders", 1).advertise("10.255.255.1:0");
            let builder = builder.tls_files(certificate, key).tls_client_ca(authority.ca());
            builder.account(Credentials::new("shop", "s3cr3t"), rights).start().unwrap()
        };
        let folder = authority.path("");
        let folder = folder.to_str().unwrap();
        let open = broker(Rights::all());
        let with = |broker: &Broker, secret: &str| {
            let server = broker.name_server();
            run(&[("NAMESRV_ADDR", &server), ("MQ_SECRET", secret), (FOLDER, folder)])
        };

        let said = with(&open, "s3cr3t");
        assert_eq!((said.code, open.inspect().depth("orders")), (Some(0), 1), "{}", said.text);
        assert!(said.text.contains("Client {") && !said.text.contains("s3cr3t"), "{}", said.text);

        let read_only = broker(Rights::all().topic("orders", Permission::Read));
        let said = with(&read_only, "s3cr3t");
        assert_eq!((said.code, read_only.inspect().depth("orders")), (Some(0), 0), "{}", said.text);
        assert!(said.text.contains("wrong key or no right to send: "), "{}", said.text);

        let wrong = with(&open, "wrong");
        assert_eq!(wrong.code, Some(1), "{}", wrong.text);
        assert!(wrong.text.contains("the signature of account shop is wrong"), "{}", wrong.text);

        let none = with(&open, "");
        assert_eq!(none.code, Some(1), "{}", none.text);
        assert!(none.after("credentials: ").count() == 1, "{}", none.text);
        assert_eq!(open.inspect().depth("orders"), 1);
    });
}
