//! What a seed decides about a run before it begins.

use std::sync::Arc;
use std::time::Duration;

use super::rng::Rng;
use crate::consumer::allocate::averagely;
use crate::consumer::settings::{MessageModel, OffsetIllegal, Settings};
use crate::message::ConsumeFrom;

/// How messages are consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Concurrent,
    InOrder,
    /// As broadcasting; offsets are the member's own.
    Broadcasting,
    /// By programs that poll.
    Polled,
}

/// One run: how large it is, and how rough.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) brokers: usize,
    /// Queues on each broker, by topic.
    pub(super) topics: Vec<(&'static str, usize)>,
    /// Members at the beginning, and at most at once.
    pub(super) members: usize,
    pub(super) most_members: usize,
    pub(super) messages: usize,
    /// How long the trouble lasts.
    pub(super) rough: Duration,
    /// Between two things that happen to it.
    pub(super) pause: Duration,
    /// Of a thousand requests, how many come to nothing.
    pub(super) drop: u64,
    /// Of a thousand, how many are refused.
    pub(super) refuse: u64,
    /// Of a thousand, how many are slow.
    pub(super) slow: u64,
    /// Of a thousand listener calls, how many end badly, last long, never end.
    pub(super) bad_calls: u64,
    pub(super) long_calls: u64,
    pub(super) endless_calls: u64,
    pub(super) settings: Settings,
    /// Programs poll: whether what they get is committed without their word.
    pub(super) polled: Option<bool>,
    /// They choose their queues themselves.
    pub(super) assigns: bool,
    /// They keep their offsets themselves.
    pub(super) own_offsets: bool,
    pub(super) cache: usize,
    /// Broadcasting: where members may run, one on each at a time.
    pub(super) machines: usize,
    /// Brokers move.
    pub(super) moves: bool,
    /// In order: brokers forget locks while their connections stay.
    pub(super) forgets_locks: bool,
}

impl Plan {
    /// Whether failed messages come back by way of a retry topic.
    pub(super) fn has_retries(&self) -> bool {
        !self.settings.is_broadcasting() && self.polled.is_none()
    }

    /// One in this mode, or in any.
    pub(super) fn new(rng: &mut Rng, mode: Option<Mode>) -> Self {
        let any = rng.weighted(&[
            (6, Mode::Concurrent),
            (4, Mode::InOrder),
            (1, Mode::Broadcasting),
            (2, Mode::Polled),
        ]);
        let brokers = rng.between(1, 2) as usize;
        let mut topics = vec![("orders", rng.between(1, 3) as usize)];
        if rng.chance(300) {
            topics.push(("bills", 1));
        }
        // Some runs are calm but for one kind of trouble, which a storm of everything would hide.
        let mut trouble = |most: u64| if rng.chance(500) { 0 } else { rng.between(1, most) };
        let (drop, refuse, slow) = (trouble(60), trouble(150), trouble(300));
        let (bad_calls, long_calls, endless_calls) = (trouble(400), trouble(50), trouble(15));
        let plan = Self {
            brokers,
            topics,
            members: rng.between(1, 3) as usize,
            most_members: rng.between(2, 4) as usize,
            messages: rng.between(10, 50) as usize,
            rough: rng.millis(1500, 9000),
            pause: rng.millis(30, 600),
            drop,
            refuse,
            slow,
            bad_calls,
            long_calls,
            endless_calls,
            cache: if rng.chance(300) { rng.between(300, 3000) as usize } else { 1 << 20 },
            settings: settings(rng),
            polled: None,
            assigns: false,
            own_offsets: false,
            machines: 1,
            moves: false,
            forgets_locks: false,
        };
        match mode.unwrap_or(any) {
            Mode::Concurrent => plan,
            Mode::InOrder => plan.in_order(rng),
            Mode::Broadcasting => plan.broadcasting(),
            Mode::Polled => plan.polled(rng.chance(400)),
        }
    }

    /// Decides with a stream of its own what else there is in this run.
    pub(super) fn widen(mut self, rng: &mut Rng) -> Self {
        self.forgets_locks = rng.chance(400) && self.settings.order.is_some();
        let machines = rng.between(2, 3);
        let members = rng.between(1, machines);
        if rng.chance(600) && self.settings.is_broadcasting() {
            self = self.on_machines(machines as usize, members as usize);
        }
        self.assigns = rng.chance(500) && self.polled.is_some();
        self.own_offsets = rng.chance(400) && self.polled.is_some();
        self.moves = rng.chance(250);
        self
    }
}

fn settings(rng: &mut Rng) -> Settings {
    let consume_from = if rng.chance(250) { ConsumeFrom::LastOffset } else { ConsumeFrom::FirstOffset };
    Settings {
        message_model: MessageModel::Clustering,
        order: None,
        consume_from,
        allocate: Arc::new(averagely),
        consume_threads: rng.between(1, 3) as usize,
        consume_batch_size: rng.between(1, 3) as u32,
        consume_timeout: rng.millis(1000, 4000),
        max_reconsume_times: rng.between(0, 3) as u32,
        delay_levels: (1..=6).map(|level| DELAY_STEP * level).collect(),
        pull_batch_size: rng.between(1, 8) as i32,
        pull_batch_bytes: 1 << 18,
        pull_interval: if rng.chance(150) { rng.millis(1, 50) } else { Duration::ZERO },
        pull_threshold_messages: rng.between(2, 20) as usize,
        pull_threshold_bytes: if rng.chance(300) { rng.between(200, 2000) as usize } else { 1 << 20 },
        max_span: rng.between(4, 40) as usize,
        commit_interval: rng.millis(300, 3000),
        offset_illegal: OffsetIllegal::Nearest,
    }
}

/// A delay level of the model broker is so many of these.
pub(super) const DELAY_STEP: Duration = Duration::from_millis(100);
