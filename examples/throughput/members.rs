//! A consumer that does nothing, measured, and one that tells how many queues it holds.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq_sync::{PushConsumer, Result};

use crate::Outcome;
use crate::args::Args;
use crate::meter::{Mark, status, until};

/// Subscribes, waits until the queues are held, settles, then measures doing nothing.
pub fn idle(args: &Args) -> Outcome {
    let queues: usize = args.number("queues", 16)?;
    let consumer = start(args, &format!("idle_{}", std::process::id()))?;
    if !until(Duration::from_secs(60), || held(&consumer) >= queues) {
        return Err(format!("only {} of {queues} queues are held", held(&consumer)).into());
    }
    std::thread::sleep(Duration::from_secs(args.number("settle-s", 15)?));
    let begun = Mark::now();
    std::thread::sleep(Duration::from_secs(args.number("seconds", 60)?));
    let end = Mark::now();
    let seconds = end.at.duration_since(begun.at).as_secs_f64();
    let cpu = end.user - begun.user + end.system - begun.system;
    println!(
        "{{\"op\":\"idle\",\"queues\":{},\"seconds\":{seconds:.3},\"cpu_s\":{cpu:.4},\"percent_of_a_core\":{:.4},\"rss_kib\":{},\"max_rss_kib\":{},\"os_threads\":{}}}",
        held(&consumer),
        cpu / seconds * 100.0,
        status("VmRSS"),
        status("VmHWM"),
        status("Threads"),
    );
    Ok(consumer.shutdown(Duration::from_secs(5)).is_clean())
}

/// Prints every change of the number of queues it holds, until it is told to stop by a signal.
pub fn member(args: &Args) -> Outcome {
    let stopped = Arc::new(AtomicBool::new(false));
    let stopping = stopped.clone();
    ctrlc::set_handler(move || stopping.store(true, Ordering::SeqCst))?;
    event("start", 0)?;
    let consumer = start(args, args.text("group")?)?;
    event("started", held(&consumer))?;
    let mut was = 0;
    while !stopped.load(Ordering::SeqCst) {
        let now = held(&consumer);
        if now != was {
            was = now;
            event("queues", now)?;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    event("shutdown", held(&consumer))?;
    let clean = consumer.shutdown(Duration::from_secs(10)).is_clean();
    event("stopped", 0)?;
    Ok(clean)
}

fn start(args: &Args, group: &str) -> Result<PushConsumer> {
    let text = |name| args.text(name).unwrap_or_default();
    PushConsumer::builder(group)
        .name_servers(text("namesrv"))
        .subscribe(text("topic"), "*")
        .consume_threads(args.number("threads", 20).unwrap_or(20))
        .consume_concurrently(|_| ())
        .start()
}

fn held(consumer: &PushConsumer) -> usize {
    consumer.assignment().iter().filter(|queue| !queue.topic().starts_with("%RETRY%")).count()
}

fn event(what: &str, n: usize) -> std::io::Result<()> {
    let t_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{{\"t_ms\":{t_ms},\"event\":\"{what}\",\"n\":{n}}}")?;
    out.flush()
}
