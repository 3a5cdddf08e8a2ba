//! A server that answers, delays, forgets and cuts at random, and many threads that ask: every request has exactly one
//! outcome, and no answer goes to the wrong one.

use super::*;
use crate::remoting::jitter::Jitter;
use std::collections::HashMap;

#[test]
fn every_request_has_exactly_one_outcome() {
    let mut held: Vec<(Peer, RemotingCommand)> = Vec::new();
    let mut dice = Jitter::new();
    let served = serve(move |peer, command| match (dice.next() * 100.0) as u32 {
        0 => peer.close(),
        1 => {
            let bytes = bytes_of(&answer_to(&command));
            peer.send_bytes(&bytes[..bytes.len() - 1]);
            peer.close_after_flush();
        }
        2..12 => {} // forgotten
        12..40 => held.push((peer.clone(), command)),
        _ => {
            peer.send(&answer_to(&command));
            for (peer, command) in held.drain(..).rev() {
                peer.send(&answer_to(&command));
            }
        }
    });
    let client = client();
    let end = Instant::now() + SOON;
    // Who was cut off waits before it connects again: on a busy machine a round may pass without an answer.
    while ask_from_many_threads(&client, &served.address) == 0 {
        assert!(Instant::now() < end, "none is answered");
    }
    assert_eq!(client.stats().pending, 0);
}

/// How many were answered.
fn ask_from_many_threads(client: &Remoting, address: &str) -> u64 {
    const THREADS: u64 = 4;
    const EACH: u64 = 1500;
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|t| scope.spawn(move || ask_and_count(client, address, t, EACH))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

fn ask_and_count(client: &Remoting, address: &str, thread: u64, each: u64) -> u64 {
    let (sink, outcomes) = outcomes();
    let mut dice = Jitter::new();
    for tag in 0..each {
        let deadline = Instant::now() + Duration::from_micros((dice.next() * 20_000.0) as u64);
        let body = format!("{thread}/{tag}");
        match (dice.next() * 4.0) as u32 {
            0 => client.queue(address, request(&body), deadline, sink.reply(tag)),
            1 => sink.reply(tag).send(client.call(address, request(&body), deadline)),
            _ => client.invoke(address, request(&body), deadline, sink.reply(tag)),
        }
        if tag % 8 == 0 {
            client.flush();
        }
    }
    client.flush();
    let mut seen = HashMap::new();
    let mut answered = 0;
    for _ in 0..each {
        let (tag, outcome) = outcomes.recv_timeout(SOON).expect("an outcome is missing");
        *seen.entry(tag).or_insert(0) += 1;
        if let Ok(frame) = outcome {
            assert_eq!(text(&frame), format!("{thread}/{tag}"), "somebody else's answer");
            answered += 1;
        }
    }
    assert!(seen.len() as u64 == each && seen.values().all(|n| *n == 1), "an outcome came twice");
    assert!(outcomes.try_recv().is_err());
    answered
}
