//! What a consumer costs while it does nothing, and while it holds as much as it may: threads by name, and memory. Each
//! mode and number of queues is measured in a process of its own, which has nothing but the consumer.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rocketmq_sync::consumer::{ConsumerStats, LocalOffsets};
use rocketmq_sync::{
    Batch, Client, ConsumeFrom, ConsumeStatus, Message, MessageModel, Producer, PullConsumer, PushConsumer,
    Result,
};

use crate::Outcome;
use crate::args::Args;
use crate::meter::{status, until};

const MODES: [&str; 4] = ["concurrent", "orderly", "broadcasting", "polling"];
/// As many messages as a queue may hold by its settings: the limit that counts is that of the client.
const MOST: usize = 65_535;
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs all of them, each with a broker of its own, or is one of them.
pub fn run(args: &Args) -> Outcome {
    if args.text("mode").is_ok() {
        return one(args);
    }
    let (cache, settle) = (args.number("cache-mib", 64)?, args.number("settle-s", 3)?);
    for mode in MODES {
        for queues in ["1", "100"] {
            measure(mode, queues, cache, settle)?;
        }
    }
    Ok(true)
}

/// A process with the command and options, ended with this.
struct Process(Child);

impl Process {
    fn start(words: &[&str]) -> std::io::Result<(Self, impl Iterator<Item = String> + use<>)> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program).args(words).stdout(Stdio::piped()).spawn()?;
        let lines = child.stdout.take().map(|out| BufReader::new(out).lines().map_while(|line| line.ok()));
        Ok((Self(child), lines.into_iter().flatten()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn measure(
    mode: &str,
    queues: &str,
    cache: usize,
    settle: u64,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let topic = format!("footprint:{queues}");
    let (_broker, mut said) = Process::start(&["broker", "--listen", "127.0.0.1:0", "--topic", &topic])?;
    let line = said.next().ok_or("the broker does not start")?;
    let servers = line.strip_prefix("NAMESRV_ADDR=").ok_or("the broker says something else")?;
    let numbers = [cache.to_string(), settle.to_string()];
    let words = ["footprint", "--mode", mode, "--namesrv", servers, "--queues", queues];
    let words = [&words[..], &["--cache-mib", &numbers[0], "--settle-s", &numbers[1]]].concat();
    let (_consumer, mut said) = Process::start(&words)?;
    said.next().filter(|line| line == "idle").ok_or("the consumer does not start")?;
    fill(servers, cache)?;
    println!("{}", said.next().ok_or("the cache does not fill")?);
    Ok(())
}

/// A little more than fits.
fn fill(servers: &str, cache: usize) -> Result<()> {
    let producer = Producer::builder("footprint").name_servers(servers).send_timeout(PATIENCE).start()?;
    let some = vec![Message::new("footprint", vec![b'x'; 2048]); 64];
    for _ in 0..cache * 10 {
        producer.send_batch(&some)?;
    }
    Ok(())
}

enum Consumer {
    Pushed(PushConsumer),
    Polled(PullConsumer),
}

impl Consumer {
    fn stats(&self) -> ConsumerStats {
        match self {
            Self::Pushed(consumer) => consumer.stats(),
            Self::Polled(consumer) => consumer.stats(),
        }
    }
}

/// Says that it has come to rest, and when the cache is full what it has measured.
fn one(args: &Args) -> Outcome {
    let (mode, queues) = (args.text("mode")?, args.number("queues", 1)?);
    let limit = args.number("cache-mib", 64)? << 20;
    let consumer = start(args.text("namesrv")?, mode, limit)?;
    let held = || {
        let stats = consumer.stats();
        stats
            .queues
            .iter()
            .filter(|queue| queue.queue.topic() == "footprint" && queue.waiting.is_none())
            .count()
    };
    if !until(PATIENCE, || held() == queues) {
        return Err(format!("only {} of {queues} queues are pulled", held()).into());
    }
    // What is only needed for the start comes to its end.
    std::thread::sleep(Duration::from_secs(args.number("settle-s", 3)?));
    let (idle, threads) = (status("VmRSS"), threads()?);
    println!("idle");
    std::io::stdout().flush()?;
    if !until(PATIENCE, || consumer.stats().cached_bytes >= limit) {
        return Err(format!("only {} bytes are cached", consumer.stats().cached_bytes).into());
    }
    println!(
        "{{\"op\":\"footprint\",\"mode\":\"{mode}\",\"queues\":{queues},\"os_threads\":{},\"threads\":{{{threads}}},\
         \"idle_rss_kib\":{idle},\"cached_kib\":{},\"full_rss_kib\":{}}}",
        status("Threads"),
        consumer.stats().cached_bytes >> 10,
        status("VmRSS"),
    );
    // Its listeners never return.
    std::process::exit(0);
}

fn start(
    servers: &str,
    mode: &str,
    limit: usize,
) -> std::result::Result<Consumer, Box<dyn std::error::Error>> {
    let client = Client::builder().name_servers(servers).cache_limit(limit).start()?;
    if mode == "polling" {
        let consumer = PullConsumer::builder("footprint-group")
            .client(&client)
            .subscribe("footprint", "*")
            .consume_from(ConsumeFrom::FirstOffset)
            .pull_threshold_messages(MOST)
            .pull_threshold_bytes(1 << 30);
        return Ok(Consumer::Polled(consumer.start()?));
    }
    let builder = PushConsumer::builder("footprint-group")
        .client(&client)
        .subscribe("footprint", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .pull_threshold_messages(MOST)
        .pull_threshold_bytes(1 << 30)
        .max_span(MOST);
    let consumer = match mode {
        "concurrent" => builder.consume_concurrently(never),
        "orderly" => builder.consume_orderly(never),
        "broadcasting" => builder
            .message_model(MessageModel::Broadcasting)
            .local_offsets(LocalOffsets::Memory)
            .consume_concurrently(never),
        other => return Err(format!("mode {other:?} is not known: {} are", MODES.join(", ")).into()),
    };
    Ok(Consumer::Pushed(consumer.start()?))
}

/// A listener that never returns, so that what is fetched stays.
fn never(_: &Batch) -> ConsumeStatus {
    loop {
        std::thread::park();
    }
}

/// How many of each name, those of a pool together.
fn threads() -> std::result::Result<String, Box<dyn std::error::Error>> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        let name = std::fs::read_to_string(task?.path().join("comm"))?;
        let name = name.trim().trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    let mut text = String::new();
    for (name, count) in &counts {
        let comma = if text.is_empty() { "" } else { "," };
        write!(text, "{comma}\"{name}\":{count}")?;
    }
    Ok(text)
}
