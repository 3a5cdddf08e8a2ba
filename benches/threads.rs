//! How many consume threads does a listener need? The time from `start()` to the last message, with the broker in the
//! same process: for a listener that does nothing, one that computes for 50 µs, and one that sleeps for 1 ms.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rocketmq_sync::broker::Broker;
use rocketmq_sync::{ConsumeFrom, Message, PushConsumer};

type Listener = fn();

fn nothing() {}

fn compute() {
    let end = Instant::now() + Duration::from_micros(50);
    let mut x = 1_u64;
    while Instant::now() < end {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

fn sleep() {
    std::thread::sleep(Duration::from_millis(1));
}

/// One drain of a topic that holds `count` messages.
fn drain(broker: &Broker, group: &str, count: u64, threads: usize, listener: Listener) -> Duration {
    let (done, finished) = mpsc::channel();
    let left = Arc::new(AtomicU64::new(count));
    let begun = Instant::now();
    let consumer = PushConsumer::builder(group)
        .name_servers(broker.name_server())
        .subscribe("work", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_threads(threads)
        .consume_concurrently(move |batch| {
            batch.iter().for_each(|_| listener());
            if left.fetch_sub(batch.len() as u64, Ordering::Relaxed) == batch.len() as u64 {
                let _ = done.send(Instant::now());
            }
        })
        .start()
        .expect("the broker is in this process");
    let end = finished.recv_timeout(Duration::from_secs(120)).expect("every message is consumed");
    assert!(consumer.shutdown(Duration::from_secs(5)).is_clean());
    end - begun
}

fn threads(c: &mut Criterion) {
    let listeners: [(&str, Listener, u64); 3] =
        [("no-op", nothing, 10_000), ("50 µs of CPU", compute, 2_000), ("1 ms of sleep", sleep, 500)];
    let mut round = 0;
    for (name, listener, count) in listeners {
        let broker = Broker::builder().topic("work", 16).start().expect("a broker in this process");
        for n in 0..count {
            broker.put(&Message::new("work", n.to_string())).expect("room for a small message");
        }
        let mut group = c.benchmark_group(name);
        group.sample_size(10).throughput(Throughput::Elements(count));
        group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(2));
        for threads in [1, 2, 4, 8, 16, 32, 64] {
            group.bench_function(BenchmarkId::from_parameter(threads), |b| {
                b.iter_custom(|iterations| {
                    (0..iterations)
                        .map(|_| {
                            round += 1;
                            drain(&broker, &format!("bench-{round}"), count, threads, listener)
                        })
                        .sum()
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, threads);
criterion_main!(benches);
