//! Reads a topic from its beginning with a fresh group, and counts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rocketmq_sync::{ConsumeFrom, PullConsumer, PushConsumer, Result, ShutdownReport, testing};

use crate::Outcome;
use crate::args::Args;
use crate::meter::{Mark, Tally, status, until};

pub fn run(args: &Args) -> Outcome {
    let topic = args.text("topic")?;
    let mode = args.all("mode").last().unwrap_or("push").to_owned();
    if !["push", "pull"].contains(&&*mode) {
        return Err(format!("mode {mode:?} is not known: push and pull are").into());
    }
    let count: u64 = args.number("count", 100_000)?;
    let (threads, batch, pull) =
        (args.number("threads", 20)?, args.number("consume-batch", 1)?, args.number("pull-batch", 32)?);
    let timeout = Duration::from_secs(args.number("timeout-s", 120)?);
    let stamp = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let group = format!("throughput_{}_{stamp}", std::process::id());

    let tally = Arc::new(Tally::new(count));
    let wish = Wish { servers: args.text("namesrv")?, topic, group: &group, threads, batch, pull };
    let started = Instant::now();
    let consumer = match &*mode {
        "push" => wish.push(&tally)?,
        _ => wish.poll(&tally)?,
    };
    let mut os_threads = 0;
    let complete = until(timeout, || {
        if os_threads == 0 && tally.unique() > count / 2 {
            os_threads = status("Threads");
        }
        tally.is_complete()
    });
    let end = tally.shares[3].get().copied().unwrap_or_else(Mark::now);
    let first = tally.first.get().copied().unwrap_or(end);
    let seconds = end.at.duration_since(first.at).as_secs_f64();
    let pulls = consumer.pulls_sent();
    let unique = tally.unique();
    let cpu = end.user - first.user + end.system - first.system;
    println!(
        "{{\"op\":\"drain\",\"mode\":\"{mode}\",\"topic\":\"{topic}\",\"group\":\"{group}\",\"complete\":{complete},\
         \"unique\":{unique},\"duplicates\":{},\"alien\":{},\"calls\":{},\"pull_batch\":{pull},\"consume_batch\":{batch},\"threads\":{threads},\
         \"seconds\":{seconds:.3},\"t50_s\":{:.3},\"t90_s\":{:.3},\"t99_s\":{:.3},\"first_message_s\":{:.4},\"msgs_per_s\":{:.0},\
         \"cpu_user_s\":{:.3},\"cpu_sys_s\":{:.3},\"cpu_s_per_million\":{:.3},\"max_rss_kib\":{},\"os_threads\":{os_threads},\
         \"pulls\":{pulls},\"pulls_per_s\":{:.0},\"sleeps_per_pull\":{:.2}}}",
        tally.duplicates.load(Ordering::Relaxed),
        tally.alien.load(Ordering::Relaxed),
        tally.calls(),
        tally.seconds(0),
        tally.seconds(1),
        tally.seconds(2),
        first.at.duration_since(started).as_secs_f64(),
        unique as f64 / seconds.max(1e-9),
        end.user - first.user,
        end.system - first.system,
        cpu / (unique.max(1) as f64 / 1e6),
        status("VmHWM"),
        pulls as f64 / seconds.max(1e-9),
        (end.sleeps - first.sleeps) as f64 / pulls.max(1) as f64,
    );
    let report = consumer.shutdown(Duration::from_secs(5));
    if !report.is_clean() {
        eprintln!("throughput: {report}");
    }
    Ok(complete)
}

/// What is to be drained, and how.
struct Wish<'a> {
    servers: &'a str,
    topic: &'a str,
    group: &'a str,
    threads: usize,
    batch: usize,
    pull: usize,
}

/// What drains it.
enum Draining {
    Push(PushConsumer),
    /// With one thread that polls.
    Pull(Arc<PullConsumer>, JoinHandle<()>),
}

impl Wish<'_> {
    fn push(&self, tally: &Arc<Tally>) -> Result<Draining> {
        let counting = tally.clone();
        let consumer = PushConsumer::builder(self.group)
            .name_servers(self.servers)
            .subscribe(self.topic, "*")
            .consume_from(ConsumeFrom::FirstOffset)
            .consume_threads(self.threads)
            .consume_batch_size(self.batch)
            .pull_batch_size(self.pull)
            .consume_concurrently_with(move |thread| {
                let counting = counting.clone();
                move |batch| {
                    counting.call(thread);
                    for message in batch {
                        counting.message(message.body());
                    }
                }
            });
        Ok(Draining::Push(consumer.start()?))
    }

    fn poll(&self, tally: &Arc<Tally>) -> Result<Draining> {
        let consumer = PullConsumer::builder(self.group)
            .name_servers(self.servers)
            .subscribe(self.topic, "*")
            .consume_from(ConsumeFrom::FirstOffset)
            .pull_batch_size(self.pull)
            .start()?;
        let (consumer, counting) = (Arc::new(consumer), tally.clone());
        let polled = consumer.clone();
        let thread = std::thread::spawn(move || {
            // Until the shutdown.
            while let Ok(messages) = polled.poll(Duration::from_secs(1)) {
                counting.call(0);
                for message in &messages {
                    counting.message(message.body());
                }
            }
        });
        Ok(Draining::Pull(consumer, thread))
    }
}

impl Draining {
    fn pulls_sent(&self) -> u64 {
        match self {
            Self::Push(consumer) => testing::pulls_sent(consumer),
            Self::Pull(consumer, _) => testing::pulls_sent_for_polls(consumer),
        }
    }

    fn shutdown(self, grace: Duration) -> ShutdownReport {
        match self {
            Self::Push(consumer) => consumer.shutdown(grace),
            Self::Pull(consumer, thread) => {
                let report = consumer.shutdown(grace);
                if thread.join().is_err() {
                    eprintln!("throughput: the polling thread panicked");
                }
                report
            }
        }
    }
}
