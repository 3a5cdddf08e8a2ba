//! A producer that never rests for long.

use crate::scenarios::{SOON, eventually, pause, producer, until_acknowledged};
use rocketmq_sync::{Client, Message};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Sends the numbers from 0 on.
#[derive(Default)]
pub struct Traffic {
    state: Mutex<Sending>,
    changed: Condvar,
}

#[derive(Default)]
struct Sending {
    /// How many were acknowledged.
    sent: u64,
    /// It pauses when that many are.
    limit: Option<u64>,
    ended: bool,
}

impl Traffic {
    pub fn run(&self, client: &Client, topic: &str) {
        let producer = producer(client);
        while let Some(number) = self.next() {
            let message = Message::new(topic, number.to_string());
            until_acknowledged(|| producer.send(&message).map(drop));
            self.change(|sending| sending.sent = number + 1);
            pause(Duration::from_millis(2));
        }
    }

    pub fn sent(&self) -> u64 {
        self.state.lock().expect("no panic under the lock").sent
    }

    pub fn wait_for(&self, sent: u64) {
        eventually(SOON, "sending goes on", || self.sent() >= sent);
    }

    /// Sends so many more, and then nothing until it is resumed; returns how many were sent in all.
    pub fn pause_after(&self, more: u64) -> u64 {
        // One more may be on its way.
        let limit = self.sent() + 1 + more;
        self.change(|sending| sending.limit = Some(limit));
        self.wait_for(limit);
        limit
    }

    pub fn resume(&self) {
        self.change(|sending| sending.limit = None);
    }

    /// It ends when this is dropped, also because a check has failed: a scope waits for its threads.
    pub fn until_dropped(&self) -> impl Drop {
        End(self)
    }

    /// The next number, when it is time for it.
    fn next(&self) -> Option<u64> {
        let state = self.state.lock().expect("no panic under the lock");
        let paused =
            |state: &mut Sending| !state.ended && state.limit.is_some_and(|limit| state.sent >= limit);
        let state = self.changed.wait_while(state, paused).expect("no panic under the lock");
        (!state.ended).then_some(state.sent)
    }

    fn change(&self, change: impl FnOnce(&mut Sending)) {
        change(&mut self.state.lock().expect("no panic under the lock"));
        self.changed.notify_all();
    }
}

struct End<'a>(&'a Traffic);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.change(|sending| sending.ended = true);
    }
}
