//! What a process has used, and what a drain has seen.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::sync::OnceLock;

/// A moment: the time, and what this process has used until then.
#[derive(Clone, Copy)]
pub struct Mark {
    pub at: Instant,
    pub user: f64,
    pub system: f64,
    /// How often one of its threads has gone to sleep, to be woken later.
    pub sleeps: i64,
}

impl Mark {
    pub fn now() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process may ask for its own usage");
        let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        Self {
            at: Instant::now(),
            user: seconds(usage.user_time()),
            system: seconds(usage.system_time()),
            sleeps: usage.voluntary_context_switches(),
        }
    }
}

/// A number of `/proc/self/status`, in its unit (KiB for sizes).
pub fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Counts what is delivered, by the sequence number at the beginning of each body.
pub struct Tally {
    want: u64,
    /// A bit per message; those of the last word that are no message are set from the beginning.
    seen: Vec<AtomicU64>,
    /// Words with all bits set. Counting these instead of messages keeps the threads out of each other's way.
    full: AtomicU64,
    pub duplicates: AtomicU64,
    pub alien: AtomicU64,
    calls: Vec<Apart>,
    begun: AtomicBool,
    pub first: OnceLock<Mark>,
    /// When half, nine tenths and 99 of a hundred were there, and when all were.
    pub shares: [OnceLock<Mark>; 4],
}

impl Tally {
    pub fn new(want: u64) -> Self {
        Self {
            want,
            seen: (0..want.div_ceil(64)).map(|word| AtomicU64::new(!bits(want, word))).collect(),
            full: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            alien: AtomicU64::new(0),
            calls: (0..COUNTERS).map(|_| Apart::default()).collect(),
            begun: AtomicBool::new(false),
            first: OnceLock::new(),
            shares: Default::default(),
        }
    }

    /// By this thread.
    pub fn call(&self, thread: usize) {
        self.calls[thread % COUNTERS].0.fetch_add(1, Ordering::Relaxed);
        if !self.begun.load(Ordering::Relaxed) && !self.begun.swap(true, Ordering::AcqRel) {
            self.first.get_or_init(Mark::now);
        }
    }

    pub fn message(&self, body: &[u8]) {
        let number = body.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let Some((number, word)) =
            number.and_then(|number| Some((number, self.seen.get(number as usize / 64)?)))
        else {
            self.alien.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let bit = 1 << (number % 64);
        let before = word.fetch_or(bit, Ordering::AcqRel);
        if before & bit != 0 {
            let counter = if number < self.want { &self.duplicates } else { &self.alien };
            counter.fetch_add(1, Ordering::Relaxed);
        } else if before | bit == u64::MAX {
            self.filled();
        }
    }

    fn filled(&self) {
        let full = self.full.fetch_add(1, Ordering::AcqRel) + 1;
        for (mark, hundredths) in self.shares.iter().zip([50, 90, 99, 100]) {
            if full == (self.seen.len() as u64 * hundredths).div_ceil(100) {
                mark.get_or_init(Mark::now);
            }
        }
    }

    /// How many different messages have come.
    pub fn unique(&self) -> u64 {
        let here = |(word, seen): (u64, &AtomicU64)| {
            u64::from((seen.load(Ordering::Acquire) & bits(self.want, word)).count_ones())
        };
        (0..).zip(&self.seen).map(here).sum()
    }

    pub fn calls(&self) -> u64 {
        self.calls.iter().map(|calls| calls.0.load(Ordering::Relaxed)).sum()
    }

    pub fn is_complete(&self) -> bool {
        self.shares[3].get().is_some()
    }

    /// From the first message on.
    pub fn seconds(&self, share: usize) -> f64 {
        match (self.first.get(), self.shares[share].get()) {
            (Some(first), Some(mark)) => mark.at.duration_since(first.at).as_secs_f64(),
            _ => -1.0,
        }
    }
}

/// Which bits of this word stand for messages.
fn bits(want: u64, word: u64) -> u64 {
    let messages = want.saturating_sub(word * 64).min(64);
    if messages == 64 { u64::MAX } else { (1 << messages) - 1 }
}

const COUNTERS: usize = 64;

/// On a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Apart(AtomicU64);

/// Looks at a condition until it holds or the time is over.
pub fn until(timeout: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + timeout;
    while !holds() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}
