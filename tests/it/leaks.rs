//! Fifty starts and stops of everything that can be started, with a broker, without one, and where the start fails: no
//! thread and no open file is left. Each test has a process of its own, where nothing else has any.

use std::net::TcpListener;
use std::time::Duration;

use crate::support::{SOON, Seen, alone, free_address, library_threads, open_files, orders, put, until};
use rocketmq_sync::broker::Broker;
use rocketmq_sync::consumer::{LocalOffsets, PushConsumerBuilder};
use rocketmq_sync::{
    Client, ClientBuilder, ConsumeFrom, Error, Message, MessageModel, Producer, PullConsumer, PushConsumer,
};

const TIMES: usize = 50;

/// What can be started.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Concurrent,
    Orderly,
    Broadcasting,
    Polled,
    Reader,
    Producer,
}

use Kind::{Broadcasting, Concurrent, Orderly, Polled, Producer as Sender, Reader};

const KINDS: [Kind; 6] = [Concurrent, Orderly, Broadcasting, Polled, Reader, Sender];

/// What was started, and its end.
enum Running {
    Pushed {
        consumer: PushConsumer,
        /// Where it keeps its offsets, if it does.
        _directory: tempfile::TempDir,
    },
    Polled(PullConsumer),
    Producer(Producer),
}

impl Running {
    fn shutdown(&self, grace: Duration) -> rocketmq_sync::ShutdownReport {
        match self {
            Self::Pushed { consumer, .. } => consumer.shutdown(grace),
            Self::Polled(consumer) => consumer.shutdown(grace),
            Self::Producer(producer) => producer.shutdown(grace),
        }
    }
}

fn pushed(
    client: &Client,
    topic: &str,
    kind: Kind,
    seen: &Seen,
    offsets: &tempfile::TempDir,
) -> PushConsumerBuilder {
    let builder = PushConsumer::builder("billing")
        .client(client)
        .subscribe(topic, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_threads(3);
    match kind {
        Orderly => builder.consume_orderly(seen.listener()),
        Broadcasting => builder
            .message_model(MessageModel::Broadcasting)
            .local_offsets(LocalOffsets::Directory(offsets.path().to_owned()))
            .consume_concurrently(seen.listener()),
        _ => builder.consume_concurrently(seen.listener()),
    }
}

fn start(client: ClientBuilder, topic: &str, kind: Kind, seen: &Seen) -> Result<Running, Error> {
    let client = client.start()?;
    let polled = PullConsumer::builder("billing").client(&client).consume_from(ConsumeFrom::FirstOffset);
    Ok(match kind {
        Polled => Running::Polled(polled.subscribe(topic, "*").start()?),
        Reader => Running::Polled(polled.assign_topic(topic, "*").start()?),
        Sender => Running::Producer(Producer::builder("shop").client(&client).preload(topic).start()?),
        _ => {
            let offsets = tempfile::tempdir().unwrap();
            let consumer = pushed(&client, topic, kind, seen, &offsets).start()?;
            Running::Pushed { consumer, _directory: offsets }
        }
    })
}

/// Has each of its kind do what it is there for, if only a little.
fn use_it(broker: &Broker, running: &Running, seen: &Seen) {
    match running {
        Running::Producer(producer) => drop(producer.send(&Message::new("orders", "1")).unwrap()),
        Running::Pushed { .. } => {
            put(broker, 0..4);
            seen.wait(4);
        }
        Running::Polled(consumer) => {
            put(broker, 0..4);
            until("a message", || !consumer.poll(Duration::from_millis(100)).unwrap().is_empty());
        }
    }
}

/// Once to see what stays open anyway, then so many times.
fn leaves_nothing(what: &str, broker: Option<&Broker>, times: usize, mut cycle: impl FnMut()) {
    let threads: &[&str] = if broker.is_some() { &["rmq-broker"] } else { &[] };
    let settle = |most: Option<usize>| {
        if let Some(broker) = broker {
            broker.wait(SOON, |state| state.connections() == 0).unwrap();
        }
        until(&format!("{what}: threads end"), || library_threads() == threads);
        // A broker counts a connection out before it closes its socket.
        until(&format!("{what}: files are closed"), || most.is_none_or(|most| open_files() <= most));
        open_files()
    };
    cycle();
    let files = settle(None);
    (0..times).for_each(|_| cycle());
    settle(Some(files));
}

#[test]
fn fifty_starts_and_stops_of_everything_leave_nothing_behind() {
    alone("leaks::fifty_starts_and_stops_of_everything_leave_nothing_behind", || {
        let broker = orders(4);
        for kind in KINDS {
            leaves_nothing(&format!("{kind:?}"), Some(&broker), TIMES, || {
                let seen = Seen::default();
                let client = Client::builder().name_servers(broker.name_server());
                let running = start(client, "orders", kind, &seen).unwrap();
                use_it(&broker, &running, &seen);
                assert!(running.shutdown(SOON).is_clean());
            });
        }
    });
}

#[test]
fn fifty_starts_that_fail_leave_nothing_behind() {
    alone("leaks::fifty_starts_that_fail_leave_nothing_behind", || {
        let client = |address: &str| {
            Client::builder()
                .name_servers(address)
                .request_timeout(Duration::from_millis(10))
                .start_timeout(Duration::from_millis(20))
        };
        // Nobody listens there; somebody does, and says nothing.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        for address in [free_address(), silent.local_addr().unwrap().to_string()] {
            leaves_nothing(&address, None, TIMES, || {
                for kind in KINDS {
                    assert!(start(client(&address), "orders", kind, &Seen::default()).is_err());
                }
            });
        }
    });
}

/// The client starts, and what is started on it fails for want of its topic.
#[test]
fn fifty_starts_without_their_topic_leave_nothing_behind() {
    alone("leaks::fifty_starts_without_their_topic_leave_nothing_behind", || {
        let broker = Broker::builder().topic("orders", 1).auto_create_topics(false).start().unwrap();
        // Each asks for a second: ten of a kind at once.
        leaves_nothing("without a topic", Some(&broker), TIMES / 10, || {
            std::thread::scope(|scope| {
                for kind in std::iter::repeat_n(KINDS, 10).flatten() {
                    let client = Client::builder().name_servers(broker.name_server());
                    scope.spawn(move || assert!(start(client, "ordres", kind, &Seen::default()).is_err()));
                }
            });
        });
    });
}

/// A start that needs no server, and a shutdown while there is none.
#[test]
fn fifty_starts_and_stops_without_a_broker_leave_nothing_behind() {
    alone("leaks::fifty_starts_and_stops_without_a_broker_leave_nothing_behind", || {
        let address = free_address();
        for kind in KINDS {
            leaves_nothing(&format!("{kind:?}"), None, TIMES, || {
                let client = Client::builder().name_servers(&address).connect_in_background();
                let Ok(running) = start(client, "orders", kind, &Seen::default()) else { return };
                drop(running.shutdown(Duration::from_millis(20)));
            });
        }
    });
}

/// The broker dies while they run.
#[test]
fn fifty_that_lose_their_broker_leave_nothing_behind() {
    alone("leaks::fifty_that_lose_their_broker_leave_nothing_behind", || {
        let broker = orders(2);
        for kind in KINDS {
            leaves_nothing(&format!("{kind:?}"), Some(&broker), TIMES, || {
                let seen = Seen::default();
                let client = Client::builder().name_servers(broker.name_server());
                let running = start(client, "orders", kind, &seen).unwrap();
                broker.kill();
                drop(running.shutdown(Duration::from_millis(20)));
                broker.start().unwrap();
            });
        }
    });
}
