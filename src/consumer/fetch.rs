//! The next step of one queue's fetching: pull, wait until a time, or park until something frees it.
//!
//! Pure: `rmq-pull` owns one [`Fetch`] for each attached queue, tells it what happened, and does what it says. At
//! most one pull is in flight, because only [`Fetch::step`] says `Pull`, and not while it is `InFlight`.

use std::time::{Duration, Instant};

use super::offset::Offset;
use super::process_queue::{Limits, Load};

/// How the fetching of one queue stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing hinders the next pull.
    Ready,
    /// The broker has the pull.
    InFlight {
        /// Since when.
        since: Instant,
    },
    /// Until a time.
    Waiting {
        /// When it goes on.
        until: Instant,
        /// Why.
        why: Pause,
    },
    /// Until somebody nudges it.
    Parked {
        /// Why.
        why: Pause,
    },
}

/// Why nothing is in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The limits of the queue.
    FlowControl,
    /// The budget of the client.
    CacheLimit,
    /// The consumer is suspended.
    Suspended,
    /// No address of the broker is known.
    NoRoute,
    /// The broker has not confirmed the present subscription.
    NoHeartbeat,
    /// The pull interval.
    Interval,
    /// The broker asked to be left alone for a moment.
    Busy,
    /// Attempts fail.
    Failing(String),
}

/// What the surroundings look like at one moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What the queue holds.
    pub load: Load,
    /// What it may hold.
    pub limits: &'a Limits,
    /// The client holds as much as it may.
    pub cache_full: bool,
    /// The consumer is suspended.
    pub suspended: bool,
    /// An address of the broker is known.
    pub routed: bool,
    /// The broker has confirmed the present subscription.
    pub told: bool,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send a pull from this offset, for so many messages if not the usual number.
    Pull {
        /// The offset.
        from: Offset,
        /// One message at a time, to get past broken bytes.
        single: bool,
    },
    /// Come back at this time.
    WakeAt(Instant),
    /// Whoever ends the reason nudges.
    Park(Pause),
    /// A nudge that changes nothing.
    Nothing,
}

/// What an answer, or its absence, meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Messages, or none that match: go on here.
    Advanced(Offset),
    /// The broker has nothing new; it held the pull as long as it may.
    Nothing(Offset),
    /// Nothing new, but the broker does not hold pulls until there is: so does a slave.
    NotHeld,
    /// The broker does not know the subscription, or an older one (24, 25, 26–28).
    NotTold,
    /// The broker asks for a short pause (215).
    FlowControl,
    /// The bytes of the next message could not be read; go on from there, one by one.
    Unreadable(Offset, String),
    /// Anything else: a code, a timeout, a lost connection.
    Failed(String),
}

/// The fetching of one queue.
#[derive(Debug)]
pub struct Fetch {
    state: State,
    next: Offset,
    interval: Duration,
    failures: u32,
    unreadable: u32,
    /// How often in a row the broker did not know the subscription; forgotten with the next success.
    untold: u32,
}

impl Fetch {
    /// Begins at `start`; `interval` is waited after each answer with messages.
    pub fn new(start: Offset, interval: Duration) -> Self {
        Self { state: State::Ready, next: start, interval, failures: 0, unreadable: 0, untold: 0 }
    }

    /// How it stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The offset of the next pull.
    pub fn next(&self) -> Offset {
        self.next
    }

    /// How many attempts have failed in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Why it is not pulling; `None` while a pull is in flight or about to be.
    pub fn pause(&self) -> Option<&Pause> {
        match &self.state {
            State::Waiting { why, .. } | State::Parked { why } => Some(why),
            State::Ready | State::InFlight { .. } => None,
        }
    }

    /// Decides the next step. Called after each event and for each nudge; more nudges than needed do no harm.
    pub fn step(&mut self, view: &View<'_>, now: Instant) -> Step {
        match &self.state {
            State::InFlight { .. } => return Step::Nothing,
            State::Waiting { until, .. } if *until > now => return Step::WakeAt(*until),
            State::Ready | State::Waiting { .. } | State::Parked { .. } => {}
        }
        match self.hindrance(view) {
            Some(why) => {
                self.state = State::Parked { why: why.clone() };
                Step::Park(why)
            }
            None => {
                self.state = State::InFlight { since: now };
                Step::Pull { from: self.next, single: self.unreadable > 0 }
            }
        }
    }

    /// Takes in how the pull in flight ended. `jitter` is between 0 and 1.
    pub fn ended(&mut self, outcome: Outcome, now: Instant, jitter: f64) {
        let pause = match outcome {
            Outcome::Advanced(next) => {
                self.succeeded(next);
                (!self.interval.is_zero()).then_some((self.interval, Pause::Interval))
            }
            Outcome::Nothing(next) => {
                self.succeeded(next);
                None
            }
            Outcome::NotHeld => {
                self.succeeded(self.next);
                Some((ERROR_DELAY, Pause::Interval))
            }
            Outcome::NotTold => {
                // A heartbeat is on its way; its success nudges. The time is for the case that it gets lost.
                self.untold = self.untold.saturating_add(1);
                Some((ERROR_DELAY, Pause::NoHeartbeat))
            }
            Outcome::FlowControl => Some((FLOW_CONTROL_DELAY.mul_f64(1.0 + jitter / 2.0), Pause::Busy)),
            Outcome::Unreadable(from, why) => {
                self.next = from;
                self.unreadable += 1;
                let delay = if self.unreadable <= UNREADABLE_TRIES { ERROR_DELAY } else { STUCK_DELAY };
                Some((delay, Pause::Failing(why)))
            }
            Outcome::Failed(why) => {
                self.failures += 1;
                let delay = if self.failures < FAILURES_UNTIL_SLOW { ERROR_DELAY } else { STUCK_DELAY };
                Some((delay.mul_f64(1.0 + jitter / 5.0), Pause::Failing(why)))
            }
        };
        self.state = match pause {
            None => State::Ready,
            Some((delay, why)) => State::Waiting { until: now + delay, why },
        };
    }

    /// The pull could not even be sent: its connection is not there. Counts as a failure.
    pub fn not_sent(&mut self, why: String, now: Instant, jitter: f64) {
        self.ended(Outcome::Failed(why), now, jitter);
    }

    /// The answer to the pull in flight does not matter any more: the next step may be another pull.
    pub fn abandon(&mut self) {
        if let State::InFlight { .. } = self.state {
            self.state = State::Ready;
        }
    }

    /// What it waited for may have come (a route, a connection, a heartbeat): a wait for failures or for a heartbeat
    /// ends now. A pull interval does not, nor the wait for a heartbeat if the last one has not helped: a broker that
    /// lacks the group itself takes every heartbeat and refuses every pull.
    pub fn hurry(&mut self) {
        let ends = match &self.state {
            State::Waiting { why: Pause::Failing(_), .. } => true,
            State::Waiting { why: Pause::NoHeartbeat, .. } => self.untold <= 1,
            _ => false,
        };
        if ends {
            self.state = State::Ready;
        }
    }

    /// The pull in flight is overdue beyond anything the network allows: take it as failed.
    pub fn is_lost(&self, now: Instant) -> bool {
        matches!(self.state, State::InFlight { since } if now.saturating_duration_since(since) > LOST_AFTER)
    }

    fn succeeded(&mut self, next: Offset) {
        self.next = next;
        self.failures = 0;
        self.unreadable = 0;
        self.untold = 0;
    }

    fn hindrance(&self, view: &View<'_>) -> Option<Pause> {
        if view.suspended {
            Some(Pause::Suspended)
        } else if view.load.exceeds(view.limits) {
            Some(Pause::FlowControl)
        } else if view.cache_full && view.load.bytes > 0 {
            // A queue without a cached frame may always pull one.
            Some(Pause::CacheLimit)
        } else if !view.routed {
            Some(Pause::NoRoute)
        } else if !view.told {
            Some(Pause::NoHeartbeat)
        } else {
            None
        }
    }
}

/// Which offset a queue goes on at after the broker has answered that the one asked for does not exist (21).
///
/// Brokers up to 4.9.3 say "the beginning" to an offset beyond the end of a queue that begins at 0; the end is right:
/// there is nothing to be read again.
pub fn corrected(asked: Offset, suggested: Offset, min: Offset, max: Offset) -> Correction {
    if asked > max {
        Correction::Moved(max)
    } else if asked < min {
        Correction::Moved(min)
    } else {
        Correction::Reset(suggested)
    }
}

/// Where a queue goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// The offset did not exist.
    Moved(Offset),
    /// It does exist: an operator has reset the group.
    Reset(Offset),
}

/// After an error, as the Java client.
pub const ERROR_DELAY: Duration = Duration::from_secs(1);
/// After so many errors in a row, and for bytes that stay unreadable.
pub const STUCK_DELAY: Duration = Duration::from_secs(30);
/// Errors in a row until it slows down.
pub const FAILURES_UNTIL_SLOW: u32 = 30;
const FLOW_CONTROL_DELAY: Duration = Duration::from_millis(20);
const UNREADABLE_TRIES: u32 = 3;
/// A pull has a deadline of 30 s: past this its answer was lost inside this process. A thread that gets no time for a
/// while may still have to take it.
pub const LOST_AFTER: Duration = Duration::from_secs(33);

#[cfg(test)]
mod tests;
