use rocketmq_sync::{PushConsumer, consumer::Waiting};
fn export(consumer: &PushConsumer, out: &mut String) {
    use std::fmt::Write;
    let stats = consumer.stats();
    let _ = writeln!(out, "rmq_consumed_total{{group=\"{}\"}} {}", consumer.group(), stats.succeeded);
    let _ = writeln!(out, "rmq_busy_threads {} of {}", stats.busy_threads, stats.threads);
    for (upper, count) in &stats.listener_time.buckets {
        let _ = writeln!(out, "rmq_listener_seconds_bucket{{le=\"{}\"}} {count}", upper.as_secs_f64());
    }
    for q in &stats.queues {
        let _ = writeln!(out, "rmq_lag{{queue=\"{}\"}} {}", q.queue, q.lag.unwrap_or(0));
        if let Some(Waiting::Failing(why)) = &q.waiting {
            let _ = writeln!(out, "# {} fails: {why}", q.queue);
        }
    }
}
fn main() {
    let f: fn(&PushConsumer, &mut String) = export;
    let _ = f;
}
