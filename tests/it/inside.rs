//! What the user's code may call from where it runs: nothing there waits for the thread that it is on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::support::{SOON, Seen, billing, orders, put, queue, until};
use rocketmq_sync::broker::Broker;
use rocketmq_sync::{
    Client, ConsumeFrom, ErrorKind, Message, PullConsumer, PushConsumer, ShutdownReport, TOOLS_GROUP,
    allocate,
};

type Handle<T> = Arc<OnceLock<Arc<T>>>;

fn client(broker: &Broker) -> Client {
    Client::builder().name_servers(broker.name_server()).start().unwrap()
}

/// Reads on its own, on the same client: with the same `rmq-rebalance`.
fn reader(client: &Client) -> PullConsumer {
    PullConsumer::builder(TOOLS_GROUP)
        .client(client)
        .assign([queue(0)])
        .consume_from(ConsumeFrom::FirstOffset)
        .start()
        .unwrap()
}

/// Starts a consumer and ends it, which a listener may do as others do.
fn come_and_go(client: &Client, group: &str) -> ShutdownReport {
    let other =
        PushConsumer::builder(group).client(client).subscribe("orders", "*").consume_concurrently(|_| ());
    other.start().unwrap().shutdown(SOON)
}

/// Everything that a strategy may not call, since it would wait for itself.
fn refused(own: &PullConsumer, reader: &PullConsumer) -> Vec<ErrorKind> {
    let results = [
        own.seek(&queue(0), 0),
        own.commit(),
        own.commit_offsets([(queue(0), 1)]),
        own.poll(SOON).map(drop),
        own.until_end().map(drop),
        reader.seek(&queue(0), ConsumeFrom::LastOffset),
        reader.assign([queue(1)]),
    ];
    results.into_iter().map(|result| result.unwrap_err().kind()).collect()
}

#[test]
fn what_a_strategy_would_wait_for_itself_with_is_an_error_at_once() {
    let broker = orders(2);
    put(&broker, 0..2);
    let client = client(&broker);
    let (own, kinds) = (Handle::<PullConsumer>::default(), Arc::new(Mutex::new(Vec::new())));
    let reader = reader(&client);
    let (handle, noting, busy) = (own.clone(), kinds.clone(), AtomicBool::new(false));
    let consumer = PullConsumer::builder("billing")
        .client(&client)
        .subscribe("orders", "*")
        .allocate(move |id, ids, queues| {
            if let Some(own) = handle.get()
                && !busy.swap(true, Ordering::SeqCst)
            {
                *noting.lock().unwrap() = refused(own, &reader);
            }
            allocate::averagely(id, ids, queues)
        })
        .start()
        .unwrap();
    let consumer = Arc::new(consumer);
    own.set(consumer.clone()).unwrap();
    let begun = Instant::now();
    consumer.subscribe("orders", "changed").unwrap();
    until("the strategy has run", || !kinds.lock().unwrap().is_empty());
    assert_eq!(*kinds.lock().unwrap(), [ErrorKind::InvalidInput; 7]);
    assert!(begun.elapsed() < SOON, "nobody has waited");
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn whatever_else_a_strategy_calls_works_and_waits_for_nothing_of_its_own() {
    let broker = orders(2);
    put(&broker, 0..2);
    let client = client(&broker);
    let (own, done) = (Handle::<PullConsumer>::default(), Arc::new(OnceLock::new()));
    let reader = reader(&client);
    let (handle, telling, shared) = (own.clone(), done.clone(), client.clone());
    let consumer = PullConsumer::builder("billing")
        .client(&client)
        .subscribe("orders", "*")
        .allocate(move |id, ids, queues| {
            if let Some(own) = handle.get()
                && telling.get().is_none()
            {
                own.pause(&[queue(0)]);
                own.resume(&[queue(0)]);
                own.subscribe("orders", "*").unwrap();
                assert_eq!(own.stats().queues.len(), own.assignment().len());
                assert_eq!(reader.queues("orders").unwrap().len(), 2);
                assert_eq!(reader.offset_at(&queue(0), ConsumeFrom::LastOffset).unwrap(), 1);
                let reports = [come_and_go(&shared, "other"), reader.shutdown(SOON), own.shutdown(SOON)];
                telling.set(reports).unwrap();
            }
            allocate::averagely(id, ids, queues)
        })
        .start()
        .unwrap();
    let consumer = Arc::new(consumer);
    own.set(consumer.clone()).unwrap();
    consumer.subscribe("orders", "changed").unwrap();
    until("the strategy has run", || done.get().is_some());
    let reports = done.get().unwrap();
    assert!(reports.iter().all(|report| report.in_background), "{reports:?}");
    assert!(consumer.shutdown(SOON).is_clean(), "it ends behind the back of its strategy");
    until("and so do the others", || broker.inspect().members("other").is_empty());
    assert!(client.shutdown(SOON).is_clean());
}

/// What a listener or a hook does with its own consumer, and with another one on the same client.
fn everything(own: &PushConsumer, reader: &PullConsumer) -> ShutdownReport {
    own.set_consume_threads(3).unwrap();
    own.subscribe("payments", "*").unwrap();
    own.unsubscribe("payments").unwrap();
    own.suspend();
    own.resume();
    until("too many threads end", || own.stats().threads == 3);
    reader.seek(&queue(0), ConsumeFrom::FirstOffset).unwrap();
    assert_eq!(reader.poll(SOON).unwrap().len(), 1);
    reader.commit().unwrap();
    reader.commit_offsets([(queue(0), 0)]).unwrap();
    reader.assign([queue(1)]).unwrap();
    assert_eq!(reader.until_end().unwrap().flat_map(Result::unwrap).count(), 0);
    let report = come_and_go(own.client(), "other");
    assert!(report.is_clean(), "{report}");
    own.shutdown(Duration::from_secs(20))
}

#[test]
fn a_listener_and_a_hook_may_call_everything() {
    for in_hook in [false, true] {
        let broker = Broker::builder().topic("orders", 2).topic("payments", 1).start().unwrap();
        broker.put(&Message::new("orders", "0").queue(&queue(0))).unwrap();
        let client = client(&broker);
        let (own, done) = (Handle::<PushConsumer>::default(), Arc::new(OnceLock::new()));
        let (seen, reader) = (Seen::default(), reader(&client));
        let (handle, telling) = (own.clone(), done.clone());
        let work = Arc::new(move || {
            until("the handle is known", || handle.get().is_some());
            telling.set(everything(handle.get().unwrap(), &reader)).unwrap();
        });
        let (hook, listener) = (seen.listener(), work.clone());
        let consumer = billing()
            .client(&client)
            .consume_hook(move |batch, next| {
                if in_hook {
                    work();
                }
                let verdict = next.run();
                hook(batch);
                verdict
            })
            .consume_concurrently(move |_| {
                if !in_hook {
                    listener();
                }
            })
            .start()
            .unwrap();
        let consumer = Arc::new(consumer);
        assert!(own.set(consumer.clone()).is_ok());
        until("everything was called", || done.get().is_some());
        let report = consumer.shutdown(SOON);
        assert!(report.is_clean(), "{report}");
        assert!(done.get().unwrap().in_background, "{done:?}");
        seen.assert_once(0..1);
        assert!(client.shutdown(SOON).is_clean());
    }
}
