//! Which queues have messages to take, which consume threads are idle, and when one is woken.
//!
//! Waking a sleeping thread costs more than handling a hundred small messages, so wake-ups are rationed by the work
//! that is expected, with the age of the oldest message as the safety net. An idle thread stands on a stack (the one
//! that slept last is warm) and is parked on a flag of its own. It goes there under the same lock under which queues
//! are put on the list: either the putter sees it idle, or it sees the queue.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use crate::sync::{Arc, AtomicUsize, Mutex, Ordering, Parker};

/// The ready list of one consumer. `Q` stands for a queue.
pub struct Ready<Q> {
    state: Mutex<State<Q>>,
    /// Messages in runs that are not used up. For the wake rule, which needs no exact number; but it is 0 exactly when
    /// every message is taken, or somebody would look for ever.
    waiting: AtomicUsize,
}

struct State<Q> {
    queues: VecDeque<(Q, Instant)>,
    idle: Vec<Arc<Parker>>,
    threads: usize,
    wanted: usize,
    stopped: bool,
    /// How often all idle threads were woken for something that is not on the list.
    rouses: u64,
    /// The pull thread applies the rule again soon.
    watched: bool,
}

/// What a consume thread does next.
#[derive(Debug)]
pub enum Work<Q> {
    /// Takes messages of this queue, and puts it back if it has more.
    Item(Q),
    /// Ends: there are more threads than wanted, or the consumer stops.
    End,
}

/// What the wake rule decided.
#[derive(Debug)]
pub struct Rule {
    /// Look again within [`LOOK_AGAIN`]: there is work and somebody idle, and no reason yet to wake him.
    pub again: bool,
}

impl<Q> Ready<Q> {
    /// For `threads` consume threads, which are all taken to be awake until they ask for work.
    pub fn new(threads: usize) -> Self {
        Self {
            state: Mutex::new(State {
                queues: VecDeque::new(),
                idle: Vec::with_capacity(threads),
                threads,
                wanted: threads,
                stopped: false,
                rouses: 0,
                watched: false,
            }),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Puts a queue at the end of the list; wakes nobody. After the stop nobody is to take it any more.
    pub fn put(&self, queue: Q, oldest: Instant) {
        let mut state = self.state.lock();
        if !state.stopped {
            state.queues.push_back((queue, oldest));
        }
    }

    /// Messages that came.
    pub fn came(&self, messages: usize) {
        self.waiting.fetch_add(messages, Ordering::Relaxed);
    }

    /// Messages whose run is used up: all of them are taken.
    pub fn went(&self, messages: usize) {
        self.waiting.fetch_sub(messages, Ordering::Relaxed);
    }

    /// Wakes one idle thread if the work that waits is worth it: nobody is awake, or those who are would need more
    /// than [`WORTH`] each, or the oldest message has waited for [`LOOK_AGAIN`].
    pub fn wake(&self, now: Instant, listener_time: Duration) -> Rule {
        let mut state = self.state.lock();
        let rule = self.apply(&mut state, now, listener_time);
        state.watched = rule.0.again;
        drop(state);
        rule.1.iter().for_each(|parker| parker.unpark());
        rule.0
    }

    /// As [`wake`](Self::wake), for those who cannot look again themselves: a consume thread that puts a queue back.
    /// `again` then asks them to tell the pull thread, unless that looks anyway. Told as a story: all threads are busy
    /// when the pull thread looks, so it stops looking; one of them becomes idle while another holds the only queue;
    /// that one puts it back, too little and too young to wake anybody for, and turns to a listener that takes hours.
    pub fn wake_in_passing(&self, now: Instant, listener_time: Duration) -> Rule {
        let mut state = self.state.lock();
        let (rule, woken) = self.apply(&mut state, now, listener_time);
        let again = rule.again && !state.watched;
        state.watched |= again;
        drop(state);
        woken.iter().for_each(|parker| parker.unpark());
        Rule { again }
    }

    fn apply(
        &self,
        state: &mut State<Q>,
        now: Instant,
        listener_time: Duration,
    ) -> (Rule, Option<Arc<Parker>>) {
        if state.idle.is_empty() {
            return (Rule { again: false }, None);
        }
        let waiting = self.waiting.load(Ordering::Relaxed);
        let Some(oldest) = state.queues.iter().map(|(_, born)| *born).min() else {
            // A thread that holds a queue may be about to put it back, and then turn to a listener that takes long.
            return (Rule { again: waiting > 0 }, None);
        };
        let awake = state.threads.saturating_sub(state.idle.len());
        let work = listener_time.as_nanos().saturating_mul(waiting as u128);
        let worth = WORTH.as_nanos() * (awake as u128 + 1);
        let woken = (awake == 0 || work > worth || now.saturating_duration_since(oldest) >= LOOK_AGAIN)
            .then(|| state.idle.pop())
            .flatten();
        (Rule { again: !state.idle.is_empty() }, woken)
    }

    /// The next work of the calling consume thread; sleeps while there is none.
    pub fn next(&self, me: &Arc<Parker>) -> Work<Q> {
        loop {
            {
                let mut state = self.state.lock();
                if state.stopped || state.threads > state.wanted {
                    state.threads -= 1;
                    return Work::End;
                }
                if let Some((queue, _)) = state.queues.pop_front() {
                    return Work::Item(queue);
                }
                state.idle.push(me.clone());
            }
            me.park();
        }
    }

    /// Whether a queue waits for a thread.
    pub fn is_waited_for(&self) -> bool {
        !self.state.lock().queues.is_empty()
    }

    /// The next work, if there is any, for threads of the program. They are not counted, and so never "awake": whoever
    /// of them sleeps is woken for every queue.
    pub fn try_next(&self) -> Option<Q> {
        self.state.lock().queues.pop_front().map(|(queue, _)| queue)
    }

    /// A number for [`wait`](Self::wait), to be read before whatever else the caller looks at.
    pub fn rouses(&self) -> u64 {
        self.state.lock().rouses
    }

    /// Whether [`stop`](Self::stop) was called.
    pub fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// Sleeps until there is something on the list, or [`rouse`](Self::rouse) was called since `rouses`, at the longest
    /// until the deadline. May also return for nothing.
    pub fn wait(&self, me: &Arc<Parker>, rouses: u64, deadline: Option<Instant>) {
        {
            let mut state = self.state.lock();
            if state.stopped || !state.queues.is_empty() || state.rouses != rouses {
                return;
            }
            state.idle.push(me.clone());
        }
        match deadline {
            Some(deadline) => me.park_until(deadline),
            None => me.park(),
        }
        // Whoever was woken for a queue at the very moment when its time was over looks at the list once more.
        self.state.lock().idle.retain(|idle| !Arc::ptr_eq(idle, me));
    }

    /// Wakes everybody: something has changed that is not on the list.
    pub fn rouse(&self) {
        let mut state = self.state.lock();
        state.rouses += 1;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        for parker in idle {
            parker.unpark();
        }
    }

    /// How many threads there are and how many of them are idle.
    pub fn threads(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.threads, state.idle.len())
    }

    /// Sets how many threads there are to be. Returns how many must be started.
    pub fn resize(&self, wanted: usize) -> usize {
        let mut state = self.state.lock();
        state.wanted = wanted;
        let missing = wanted.saturating_sub(state.threads);
        state.threads += missing;
        // Those over the number find out when they ask for work.
        let surplus = state.threads.saturating_sub(wanted).min(state.idle.len());
        let from = state.idle.len() - surplus;
        let woken = state.idle.split_off(from);
        drop(state);
        for parker in woken {
            parker.unpark();
        }
        missing
    }

    /// So many threads that were counted could not be started.
    pub fn not_started(&self, threads: usize) {
        let mut state = self.state.lock();
        state.threads = state.threads.saturating_sub(threads);
    }

    /// Ends all threads once they have finished what they hold. Nothing more is taken.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.queues.clear();
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        for parker in idle {
            parker.unpark();
        }
    }
}

impl<Q> fmt::Debug for Ready<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (threads, idle) = self.threads();
        write!(f, "Ready({threads} threads, {idle} idle)")
    }
}

/// Expected listener time for which another thread is worth waking; a wake-up costs about 16 µs.
const WORTH: Duration = Duration::from_micros(100);
/// The longest that a message waits while a thread is idle.
pub const LOOK_AGAIN: Duration = Duration::from_millis(1);

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
