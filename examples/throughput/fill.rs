//! Sends messages whose bodies begin with their sequence number.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rocketmq_sync::{Message, Producer};

use crate::Outcome;
use crate::args::Args;
use crate::meter::Mark;

pub fn run(args: &Args) -> Outcome {
    let topic = args.text("topic")?;
    let count: u64 = args.number("count", 100_000)?;
    let size: usize = args.number("size", 128)?.max(8);
    let batch: u64 = args.number("batch", 32)?.max(1);
    let lanes: usize = args.number("lanes", 4)?;
    let producer = Producer::builder("throughput_fill")
        .name_servers(args.text("namesrv")?)
        .send_timeout(Duration::from_secs(10))
        .start()?;
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let begun = Mark::now();
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    let from = next.fetch_add(batch, Ordering::Relaxed);
                    if from >= count {
                        break;
                    }
                    let messages: Vec<Message> = (from..count.min(from + batch))
                        .map(|number| {
                            let mut body = vec![b'x'; size];
                            body[..8].copy_from_slice(&number.to_be_bytes());
                            Message::new(topic, body).tag("bench")
                        })
                        .collect();
                    let sent = match messages.as_slice() {
                        [one] => producer.send(one).map(drop),
                        many => producer.send_batch(many).map(drop),
                    };
                    if let Err(error) = sent
                        && failed.fetch_add(messages.len() as u64, Ordering::Relaxed) == 0
                    {
                        eprintln!("throughput: {error}");
                    }
                }
            });
        }
    });
    let end = Mark::now();
    let (failed, seconds) = (failed.into_inner(), end.at.duration_since(begun.at).as_secs_f64());
    let sent = count - failed;
    let cpu = end.user - begun.user + end.system - begun.system;
    println!(
        "{{\"op\":\"fill\",\"topic\":\"{topic}\",\"sent\":{sent},\"failed\":{failed},\"size\":{size},\"batch\":{batch},\
         \"seconds\":{seconds:.3},\"msgs_per_s\":{:.0},\"cpu_user_s\":{:.3},\"cpu_sys_s\":{:.3},\"cpu_s_per_million\":{:.3}}}",
        sent as f64 / seconds,
        end.user - begun.user,
        end.system - begun.system,
        cpu / (sent.max(1) as f64 / 1e6),
    );
    Ok(failed == 0)
}
