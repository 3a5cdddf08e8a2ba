//! A member of ours in a process of its own, which can be killed: this test program once more. It reports as the peers in
//! Java do.

use super::peer::{Peer, into_tally};
use super::tally::{Member, Tally};
use rocketmq_sync::consumer::PushConsumerBuilder;
use rocketmq_sync::{ConsumeFrom, MessageModel, MessageView, PushConsumer};
use std::io::{BufRead, Write};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// Name server, group, topic and one of the words below.
const MEMBER: &str = "RMQ_MEMBER";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Concurrently,
    InOrder,
    Broadcasting,
}

impl How {
    const ALL: [(&str, How); 3] = [
        ("concurrently", How::Concurrently),
        ("in-order", How::InOrder),
        ("broadcasting", How::Broadcasting),
    ];
}

/// Starts one, by a test that begins with [`run_if_member`]. What it is given goes to `tally`.
pub fn member(test: &str, name_server: &str, group: &str, topic: &str, how: How, tally: &Arc<Tally>) -> Peer {
    let mut command = command(name_server, group, topic, how);
    command.args(["--exact", test, "--nocapture"]);
    Peer::spawn(&mut command, into_tally(tally, Member::Apart)).has_started()
}

/// This program, as a member.
pub fn command(name_server: &str, group: &str, topic: &str, how: How) -> Command {
    let program = std::env::current_exe().expect("it runs");
    let (how, _) = How::ALL.iter().find(|(_, one)| *one == how).expect("they are all there");
    let mut command = Command::new(program);
    command.env(MEMBER, [name_server, group, topic, how].join(" "));
    command
}

/// Whether this process is one; then it has been, until a line came on its standard input or that ended.
pub fn run_if_member() -> bool {
    let Ok(words) = std::env::var(MEMBER) else { return false };
    let words: Vec<&str> = words.split(' ').collect();
    let [name_server, group, topic, how] = words[..] else { panic!("four words: {words:?}") };
    let (_, how) = How::ALL.iter().find(|(word, _)| *word == how).expect("a word for how");
    run(name_server, group, topic, *how);
    true
}

fn run(name_server: &str, group: &str, topic: &str, how: How) {
    let builder = PushConsumer::builder(group)
        .name_servers(name_server)
        .subscribe(topic, "*")
        .consume_from(ConsumeFrom::FirstOffset);
    say("\"event\":\"start\"");
    let consumer = super::start(&listening(builder, how));
    say(&format!("\"event\":\"started\",\"client_id\":\"{}\"", consumer.client().client_id()));
    let stopping = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| report(&consumer, topic, &stopping));
        // Its end, too.
        let _ = std::io::stdin().lock().read_line(&mut String::new());
        stopping.store(true, Ordering::SeqCst);
    });
    say("\"event\":\"stop\"");
    let report = consumer.shutdown(super::SOON);
    assert!(report.is_clean(), "{report}");
    say("\"event\":\"stopped\"");
}

fn listening(builder: PushConsumerBuilder, how: How) -> PushConsumerBuilder {
    match how {
        How::Concurrently => builder.consume_concurrently(|batch| batch.each(note)),
        How::InOrder => builder.consume_orderly(|batch| batch.each(note)),
        How::Broadcasting => builder
            .message_model(MessageModel::Broadcasting)
            .local_offsets(rocketmq_sync::consumer::LocalOffsets::Memory)
            .consume_concurrently(|batch| batch.each(note)),
    }
}

fn note(message: &MessageView) {
    say(&format!(
        "\"event\":\"message\",\"body\":\"{}\",\"queue\":{},\"offset\":{},\"reconsumed\":{}",
        message.body_str().expect("a number"),
        message.queue().queue_id(),
        message.queue_offset(),
        message.reconsume_times(),
    ));
}

/// What it owns, when that has changed.
fn report(consumer: &PushConsumer, topic: &str, stopping: &AtomicBool) {
    let mut told = None;
    while !stopping.load(Ordering::SeqCst) {
        let queues = consumer.assignment().into_iter().filter(|queue| queue.topic() == topic);
        let ids: Vec<i32> = queues.map(|queue| queue.queue_id()).collect();
        if told.as_ref() != Some(&ids) {
            say(&format!("\"event\":\"queues\",\"ids\":{ids:?}"));
            told = Some(ids);
        }
        super::pause(Duration::from_millis(5));
    }
}

/// A line of its own: the test harness leaves one unfinished.
fn say(rest: &str) {
    let at = UNIX_EPOCH.elapsed().map_or(0, |time| time.as_millis());
    let mut out = std::io::stdout().lock();
    let said = write!(out, "\n{{\"t_ms\":{at},{rest}}}\n").and_then(|()| out.flush());
    said.expect("whoever started this reads it");
}
