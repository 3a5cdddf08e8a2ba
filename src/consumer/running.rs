//! What running info (307) tells besides the queues: settings under the names of the Java client, which the official
//! tools print, rates of each topic, and what each thread is doing.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use super::core::Core;
use super::peers::SHARES_AMONG_SUBSCRIBERS;
use super::process_queue::ProcessQueue;
use super::slot::{Running, Slot};
use crate::message::ConsumeFrom;
use crate::protocol::body::ConsumeRates;

/// Settings and state as text. Nothing secret is among them.
pub(super) fn properties(core: &Core) -> BTreeMap<String, String> {
    let (threads, idle) = core.ready.threads();
    let (settings, client) = (&core.settings, core.instance.config());
    let id = core.instance.id();
    let (ip, instance) = id.split_once('@').unwrap_or((id, ""));
    let consume_type = if core.polling.is_some() { "CONSUME_ACTIVELY" } else { "CONSUME_PASSIVELY" };
    let entries = [
        // What the tools look at.
        ("PROP_NAMESERVER_ADDR", core.instance.name_server_list()),
        ("PROP_THREADPOOL_CORE_SIZE", threads.to_string()),
        ("PROP_CONSUMEORDERLY", settings.order.is_some().to_string()),
        ("PROP_CONSUME_TYPE", consume_type.to_owned()),
        // The version that every request of this client carries.
        ("PROP_CLIENT_VERSION", "V4_9_8".to_owned()),
        ("PROP_CONSUMER_START_TIMESTAMP", core.started_millis.to_string()),
        // What they print.
        ("clientIP", ip.to_owned()),
        ("instanceName", instance.to_owned()),
        ("language", "RUST".to_owned()),
        ("namesrvAddr", core.instance.name_server_list().trim_end_matches(';').to_owned()),
        ("consumerGroup", core.group.to_string()),
        (SHARES_AMONG_SUBSCRIBERS, true.to_string()),
        ("messageModel", if settings.is_broadcasting() { "BROADCASTING" } else { "CLUSTERING" }.to_owned()),
        ("consumeFromWhere", consume_from(settings.consume_from)),
        ("consumeThreadMin", threads.to_string()),
        ("consumeThreadMax", threads.to_string()),
        ("consumeMessageBatchMaxSize", settings.consume_batch_size.to_string()),
        ("consumeConcurrentlyMaxSpan", settings.max_span.to_string()),
        ("consumeTimeout", (settings.consume_timeout.as_secs() / 60).to_string()),
        ("maxReconsumeTimes", most_times(settings.max_reconsume_times)),
        (
            "suspendCurrentQueueTimeMillis",
            settings.order.as_ref().map(|order| millis(order.suspend_time)).unwrap_or_default(),
        ),
        ("pullBatchSize", settings.pull_batch_size.to_string()),
        ("pullBatchSizeInBytes", settings.pull_batch_bytes.to_string()),
        ("pullInterval", millis(settings.pull_interval)),
        ("pullThresholdForQueue", settings.pull_threshold_messages.to_string()),
        ("pullThresholdSizeForQueue", (settings.pull_threshold_bytes >> 20).to_string()),
        ("persistConsumerOffsetInterval", millis(settings.commit_interval)),
        ("pollNameServerInterval", millis(client.route_interval)),
        ("heartbeatBrokerInterval", millis(client.heartbeat_interval)),
        ("mqClientApiTimeout", millis(client.request_timeout)),
        ("enableTrace", client.trace_topic.is_some().to_string()),
        ("traceTopic", client.trace_topic.clone().unwrap_or_default()),
        // What Java has no name for.
        ("clientVersion", concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).to_owned()),
        ("cacheLimit", client.cache_limit.to_string()),
        ("busyThreads", (threads - idle.min(threads)).to_string()),
        ("suspended", core.is_suspended().to_string()),
    ];
    // Java leaves out what is not set.
    let set = entries.into_iter().filter(|(_, value)| !value.is_empty());
    set.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// As Java has it: -1 for no limit.
fn most_times(times: u32) -> String {
    if times == u32::MAX { "-1".to_owned() } else { times.to_string() }
}

/// The figures that Java shows: of the last minute, but failures of the last hour.
pub(super) fn status_table(core: &Core) -> BTreeMap<String, ConsumeRates> {
    let now = core.now();
    let rates = core.figures.each(core, |topic, tally, history| {
        let (minute, hour) = (history.minute(now, tally), history.hour(now, tally));
        // A topic that is quiet just now is shown with what its listener took before.
        let of_listener = if minute.listener_time.is_zero() { hour } else { minute };
        let rates = ConsumeRates {
            consume_failed_msgs: i64::try_from(hour.failed).unwrap_or(i64::MAX),
            consume_failed_tps: minute.failed_per_second,
            consume_ok_tps: minute.succeeded_per_second,
            consume_rt: in_millis(of_listener.listener_time),
            pull_rt: in_millis(minute.pull_time),
            pull_tps: minute.pulled_per_second,
        };
        (topic.to_owned(), rates)
    });
    rates.into_iter().collect()
}

/// The queues about which there is something to say: that they are not pulling, what went wrong with them last, how long
/// the oldest call has been running.
pub(super) fn remarks(core: &Core) -> BTreeMap<String, String> {
    let now = core.now();
    let slots = core.slots();
    let running: Vec<Running> = slots.iter().filter_map(|slot| slot.running(now)).collect();
    let of_queue = |process: &ProcessQueue| {
        let mine = running.iter().filter(|call| call.work.queue.id() == process.id());
        let oldest = mine.map(|call| call.since).max().map(|since| format!("a call runs for {since:.1?}"));
        let waiting = process.facts.waiting().map(|(why, since)| {
            format!("not pulling for {:.1?}: {why}", now.saturating_duration_since(since))
        });
        let error = process.facts.last_error().map(|error| format!("last error: {error}"));
        [oldest, waiting, error].into_iter().flatten().collect::<Vec<_>>().join("; ")
    };
    let all = core.owned();
    let remarks = all.iter().map(|process| (process.queue().to_string(), of_queue(process)));
    remarks.filter(|(_, remark)| !remark.is_empty()).collect()
}

/// What stands where Java has the stacks of its threads: a line for each thread of this consumer and its client.
pub(super) fn thread_table(core: &Core) -> String {
    let now = core.now();
    let mut table = String::new();
    // Several consumers on one client have consume threads of the same names; only ours are of interest.
    for name in core.instance.thread_names() {
        if !name.starts_with("rmq-consume-") {
            line(&mut table, &name, "");
        }
    }
    for slot in core.slots().iter().filter(|slot| !slot.is_over()) {
        line(&mut table, slot.name(), &doing(slot, now));
    }
    table
}

fn line(table: &mut String, name: &str, doing: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(table, "{name:<16} {doing}");
}

fn doing(slot: &Slot, now: Instant) -> String {
    let Some(running) = slot.running(now) else {
        let late = "in a listener whose messages were sent back, since it took too long";
        return if slot.is_busy() { late } else { "idle" }.to_owned();
    };
    let (queue, from, n) = (running.work.queue.queue(), running.range.start, running.range.len());
    let first = running.work.run.view(from);
    let (id, offset) = first.as_ref().map_or(("?", 0), |first| (first.message_id(), first.queue_offset()));
    format!("in the listener for {:.1?}: {n} of {queue} from offset {offset} on, message {id}", running.since)
}

fn consume_from(from: ConsumeFrom) -> String {
    match from {
        ConsumeFrom::FirstOffset => "CONSUME_FROM_FIRST_OFFSET".into(),
        ConsumeFrom::LastOffset => "CONSUME_FROM_LAST_OFFSET".into(),
        ConsumeFrom::Timestamp(_) => "CONSUME_FROM_TIMESTAMP".into(),
        // Java has no word for the others.
        other => format!("{other:?}"),
    }
}

fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}

fn in_millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
