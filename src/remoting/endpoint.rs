//! One address: when it may be dialled, and when its silence means that nobody is there. Pure: time is an argument.
//!
//! ```text
//!        admit               opened
//! Idle ────────▶ Connecting ────────▶ Open ──▶ lost after 10 s or closed by us: Idle
//!  ▲                 │ failed          │
//!  │ until has come  ▼                 │ lost earlier
//!  └─ ─ ─ ─ ─ ─ ─ Backoff ◀────────────┘
//! ```

use std::time::{Duration, Instant};

use super::Cause;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// A connection that lived this long shows that the server is well: the next failure counts as the first.
const PROVEN: Duration = Duration::from_secs(10);

/// Whether an address may be dialled now.
#[derive(Debug)]
pub(crate) struct Endpoint {
    state: State,
    failures: u32,
}

#[derive(Debug, Clone)]
enum State {
    Idle,
    Connecting,
    Open { since: Instant },
    Backoff { until: Instant, cause: Cause },
}

/// What a caller that wants to send finds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Admission {
    /// The caller is the first: it has to see to it that somebody connects.
    Connect,
    /// A connection is there or on its way.
    Join,
    /// The last attempt failed a moment ago, because of this.
    Refuse(Cause),
}

impl Endpoint {
    pub(crate) fn new() -> Self {
        Self { state: State::Idle, failures: 0 }
    }

    /// Asks to send. `Connect` is said once and moves on to connecting.
    pub(crate) fn admit(&mut self, now: Instant) -> Admission {
        match &self.state {
            State::Connecting | State::Open { .. } => return Admission::Join,
            State::Backoff { until, cause } if now < *until => return Admission::Refuse(cause.clone()),
            State::Backoff { .. } | State::Idle => {}
        }
        self.state = State::Connecting;
        Admission::Connect
    }

    pub(crate) fn opened(&mut self, now: Instant) {
        self.state = State::Open { since: now };
    }

    /// The attempt failed, or the connection was lost. `jitter` in 0..1 spreads clients that lost the same server.
    pub(crate) fn failed(&mut self, now: Instant, cause: Cause, jitter: f64) {
        if let State::Open { since } = self.state
            && now.saturating_duration_since(since) >= PROVEN
        {
            // Most often an idle connection that the server closed: nothing speaks against dialling at once.
            return self.released();
        }
        let until = now + pause(self.failures, jitter);
        self.failures = self.failures.saturating_add(1);
        self.state = State::Backoff { until, cause };
    }

    /// We closed it ourselves: the next request may connect at once.
    pub(crate) fn released(&mut self) {
        *self = Self::new();
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }
}

/// 100 ms doubling to 3 s, ± 20 %.
fn pause(failures: u32, jitter: f64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1u32.checked_shl(failures.min(16)).unwrap_or(u32::MAX));
    doubled.min(LONGEST_PAUSE).mul_f64(0.8 + 0.4 * jitter.clamp(0.0, 1.0))
}

const SILENT: Duration = Duration::from_secs(10);
const FIRST_PROBE: Duration = Duration::from_secs(3);
const SECOND_PROBE: Duration = Duration::from_secs(5);

/// Finds out whether a silent connection is half-open: the peer is gone without a word.
///
/// Two probes, because closing makes a broker rebalance the whole group: a 3 s pause of its JVM must not be enough.
/// A peer that is gone is found within 18 s. A timed-out call alone never closes a connection.
#[derive(Debug, Default)]
pub(crate) struct Suspicion {
    stage: Stage,
}

#[derive(Debug, Default, Clone, Copy)]
enum Stage {
    #[default]
    Calm,
    First {
        at: Instant,
    },
    Second {
        first: Instant,
        at: Instant,
    },
}

/// What to do about a connection now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Suspect {
    /// Nothing; look again then, or when something new is waiting.
    Calm { look_again: Option<Instant> },
    /// Send a request that is answered at once, with this timeout; look again after it.
    Probe { timeout: Duration },
    /// A probe is out.
    Wait { look_again: Instant },
    /// Not a byte since the first probe.
    Close,
}

impl Suspicion {
    /// `heard`: when the last byte came; `waiting_since`: since when requests have been waiting without a break.
    pub(crate) fn step(&mut self, now: Instant, heard: Instant, waiting_since: Option<Instant>) -> Suspect {
        let first_probe = match self.stage {
            Stage::Calm => return self.calm(now, heard, waiting_since),
            Stage::First { at } => at,
            Stage::Second { first, .. } => first,
        };
        if heard > first_probe {
            self.stage = Stage::Calm;
            return self.calm(now, heard, waiting_since);
        }
        match self.stage {
            Stage::First { at } if now >= at + FIRST_PROBE => {
                self.stage = Stage::Second { first: at, at: now };
                Suspect::Probe { timeout: SECOND_PROBE }
            }
            Stage::Second { at, .. } if now >= at + SECOND_PROBE => Suspect::Close,
            Stage::Second { at, .. } => Suspect::Wait { look_again: at + SECOND_PROBE },
            _ => Suspect::Wait { look_again: first_probe + FIRST_PROBE },
        }
    }

    fn calm(&mut self, now: Instant, heard: Instant, waiting_since: Option<Instant>) -> Suspect {
        let Some(waiting) = waiting_since else { return Suspect::Calm { look_again: None } };
        let due = heard.max(waiting) + SILENT;
        if now < due {
            return Suspect::Calm { look_again: Some(due) };
        }
        self.stage = Stage::First { at: now };
        Suspect::Probe { timeout: FIRST_PROBE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn refused(endpoint: &mut Endpoint, now: Instant) -> bool {
        matches!(endpoint.admit(now), Admission::Refuse(_))
    }

    #[test]
    fn one_caller_connects_the_others_join() {
        let now = Instant::now();
        let mut endpoint = Endpoint::new();
        assert_eq!(endpoint.admit(now), Admission::Connect);
        assert_eq!(endpoint.admit(now), Admission::Join);
        assert!(!endpoint.is_open());
        endpoint.opened(now);
        assert!(endpoint.is_open());
        assert_eq!(endpoint.admit(now), Admission::Join);
    }

    #[test]
    fn pauses_double_up_to_three_seconds() {
        let mut now = Instant::now();
        let mut endpoint = Endpoint::new();
        for expected in [100, 200, 400, 800, 1600, 3000, 3000, 3000] {
            assert_eq!(endpoint.admit(now), Admission::Connect);
            endpoint.failed(now, "refused".into(), 0.5);
            assert_eq!(endpoint.admit(now + ms(expected - 1)), Admission::Refuse("refused".into()));
            now += ms(expected);
        }
    }

    #[test]
    fn a_pause_is_spread_by_a_fifth() {
        assert_eq!(pause(0, 0.0), ms(80));
        assert_eq!(pause(0, 1.0), ms(120));
        assert_eq!(pause(4_000_000, 1.0), ms(3600));
    }

    #[test]
    fn a_connection_that_lived_is_dialled_again_at_once() {
        let now = Instant::now();
        let mut endpoint = Endpoint::new();
        endpoint.admit(now);
        endpoint.opened(now);
        endpoint.failed(now + PROVEN, "reset".into(), 0.5);
        assert_eq!(endpoint.admit(now + PROVEN), Admission::Connect);
        endpoint.failed(now + PROVEN, "refused".into(), 0.5);
        assert!(refused(&mut endpoint, now + PROVEN + ms(99)), "the count began anew");
        assert!(!refused(&mut endpoint, now + PROVEN + ms(100)));
    }

    #[test]
    fn a_server_that_accepts_and_hangs_up_is_not_hammered() {
        let mut now = Instant::now();
        let mut endpoint = Endpoint::new();
        for pause in [100, 200, 400] {
            assert_eq!(endpoint.admit(now), Admission::Connect);
            endpoint.opened(now);
            endpoint.failed(now, "reset".into(), 0.5);
            assert!(refused(&mut endpoint, now + ms(pause - 1)));
            now += ms(pause);
        }
    }

    #[test]
    fn silence_alone_is_no_suspicion() {
        let now = Instant::now();
        let mut suspicion = Suspicion::default();
        assert_eq!(suspicion.step(now + ms(60_000), now, None), Suspect::Calm { look_again: None });
        // A request after a minute of idleness has its ten seconds, too.
        let asked = now + ms(60_000);
        assert_eq!(
            suspicion.step(asked + ms(1), now, Some(asked)),
            Suspect::Calm { look_again: Some(asked + SILENT) }
        );
    }

    #[test]
    fn two_probes_without_a_byte_close() {
        let now = Instant::now();
        let mut suspicion = Suspicion::default();
        let first = now + SILENT;
        assert_eq!(suspicion.step(first, now, Some(now)), Suspect::Probe { timeout: ms(3000) });
        assert_eq!(
            suspicion.step(first + ms(1), now, Some(now)),
            Suspect::Wait { look_again: first + ms(3000) }
        );
        let second = first + ms(3000);
        assert_eq!(suspicion.step(second, now, None), Suspect::Probe { timeout: ms(5000) });
        assert_eq!(
            suspicion.step(second + ms(4999), now, None),
            Suspect::Wait { look_again: now + ms(18_000) }
        );
        assert_eq!(suspicion.step(now + ms(18_000), now, None), Suspect::Close);
    }

    #[test]
    fn a_byte_after_a_probe_calms() {
        let now = Instant::now();
        let mut suspicion = Suspicion::default();
        suspicion.step(now + SILENT, now, Some(now));
        let heard = now + SILENT + ms(2500);
        assert_eq!(
            suspicion.step(heard, heard, Some(now)),
            Suspect::Calm { look_again: Some(heard + SILENT) }
        );
        assert_eq!(suspicion.step(heard + SILENT, heard, Some(now)), Suspect::Probe { timeout: ms(3000) });
    }
}
