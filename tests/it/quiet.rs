//! What the library leaves alone: the standard streams, the disk, and a machine on which nothing happens.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{SOON, Seen, alone, billing, client_of, free_address, orders_by_hand, put};
use rocketmq_sync::broker::Broker;
use rocketmq_sync::{Message, Producer};

/// Without a logger nothing is heard of it, also not of what goes wrong, and there is no file afterwards.
#[test]
fn m1_nothing_is_printed_and_no_file_is_written() {
    const NAME: &str = "quiet::m1_nothing_is_printed_and_no_file_is_written";
    const INSIDE: &str = "IT_QUIET";
    if std::env::var_os(INSIDE).is_some() {
        return much_goes_wrong();
    }
    let folder = std::env::temp_dir().join(format!("rocketmq-sync-quiet-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(INSIDE, "1")
        .envs(["HOME", "TMPDIR"].map(|name| (name, &folder)))
        .current_dir(&folder)
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
    let of_the_harness =
        |line: &&str| line.is_empty() || line.starts_with("running 1") || line.starts_with("test ");
    let printed: Vec<&str> = out.lines().filter(|line| !of_the_harness(line)).collect();
    assert!(printed.is_empty() && err.is_empty(), "{printed:?}\n{err}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::remove_dir(&folder).unwrap();
}

fn much_goes_wrong() {
    let broker = orders_by_hand(2);
    let client = client_of(broker.name_server());
    Producer::builder("shop").name_servers(free_address()).start().unwrap_err();
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    producer.send(&Message::new("orders", "0")).unwrap();
    let seen = Seen::default();
    let consumer = billing()
        .client(&client)
        .consume_concurrently(seen.answering(|_| Err::<(), _>("the database is away")));
    let consumer = consumer.start().unwrap();
    broker.fast_forward(SOON, |_| seen.len() >= 3).unwrap();
    broker.cut_connections();
    put(&broker, 1..2);
    seen.wait(4);
    broker.kill();
    drop(consumer);
    drop(client.shutdown(Duration::from_millis(10)));
}

/// A broker on a laptop: there at once, and next to nothing while nobody wants anything of it.
#[test]
fn f3_an_idle_broker_costs_next_to_nothing() {
    alone("quiet::f3_an_idle_broker_costs_next_to_nothing", || {
        let began = Instant::now();
        let broker = Broker::builder().topic("orders", 16).start().unwrap();
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        let consumer =
            billing().name_servers(broker.name_server()).consume_concurrently(|_| ()).start().unwrap();
        broker.wait(SOON, |state| state.waiting_pulls("billing") >= 16).unwrap();
        // Its thread only: this one looks at the broker again and again.
        let before = time_of_thread("rmq-broker");
        let idle = Duration::from_secs(3);
        broker.wait(idle, |_| false).unwrap_err();
        let took = time_of_thread("rmq-broker") - before;
        // Of a minute 50 ms, with ten times as much for a machine that does other things.
        assert!(took < idle * 10 / 1200, "{took:?} in {idle:?}");
        assert!(private_memory() < 30 << 20, "{} bytes", private_memory());
        assert!(consumer.shutdown(SOON).is_clean());
    });
}

/// How long a thread of this process has been on a processor.
fn time_of_thread(name: &str) -> Duration {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let mut named =
        tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name));
    let text = fs::read_to_string(named.next().expect("it runs").join("schedstat")).unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// What this process has in memory, without the program itself.
fn private_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}
