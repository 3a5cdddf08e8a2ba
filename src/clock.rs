//! Time as the loops see it: the machine's, or one that a test moves by hand.
//!
//! What waits for a protocol reason (heartbeats, routes, commits, retries, leases, delay levels) asks a [`Clock`];
//! what waits for a socket (connect, request deadlines, long polls) uses real time and never comes here.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select};
use parking_lot::Mutex;

/// A source of time; clones share it.
///
/// A manual clock starts at the real time and stands still until [`advance`](Clock::advance) moves it: sixteen
/// retries over 4 h 46 min pass in milliseconds.
#[derive(Clone)]
pub struct Clock {
    manual: Option<Arc<Manual>>,
}

#[cfg_attr(
    not(any(feature = "broker", feature = "testing", test)),
    allow(dead_code, reason = "a clock is moved by tests, and by the embedded broker for them")
)]
impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self { manual: None }
    }

    /// A clock that stands still until it is moved.
    pub fn manual() -> Self {
        Self {
            manual: Some(Arc::new(Manual {
                base: Instant::now(),
                base_system: SystemTime::now(),
                advanced: AtomicU64::new(0),
                listeners: Mutex::new(Vec::new()),
            })),
        }
    }

    /// The time of day by this clock.
    pub fn now(&self) -> SystemTime {
        match &self.manual {
            None => SystemTime::now(),
            Some(manual) => manual.base_system + manual.advanced(),
        }
    }

    /// Moves a manual clock forward and wakes whatever waits on it. A system clock cannot be moved: the call does
    /// nothing there but log a warning.
    pub fn advance(&self, by: Duration) {
        match &self.manual {
            None => log::warn!("a system clock cannot be moved; the call to advance({by:?}) was ignored"),
            Some(manual) => manual.advance(by),
        }
    }

    /// Whether this clock is moved by hand.
    pub(crate) fn is_manual(&self) -> bool {
        self.manual.is_some()
    }

    /// The present moment, to be compared with deadlines made from earlier ones.
    pub(crate) fn instant(&self) -> Instant {
        match &self.manual {
            None => Instant::now(),
            Some(manual) => manual.base + manual.advanced(),
        }
    }

    /// Milliseconds since 1970, as the wire has them.
    pub(crate) fn millis(&self) -> i64 {
        millis_of(self.now())
    }

    /// Calls `wake` after each move of a manual clock for as long as the result is kept; `wake` must neither block
    /// nor move the clock.
    pub(crate) fn on_advance(&self, wake: impl Fn() + Send + Sync + 'static) -> Ticks {
        let listener: Listener = Arc::new(wake);
        if let Some(manual) = &self.manual {
            manual.listeners.lock().push(Arc::downgrade(&listener));
        }
        Ticks { _listener: listener }
    }

    /// A way of waiting on channels until a moment of this clock, one for each loop.
    pub(crate) fn waiter(&self) -> Waiter {
        let (tick, ticks) = bounded(1);
        // A full channel already holds a tick that was not looked at yet.
        let registration = self.on_advance(move || {
            let _ = Sender::try_send(&tick, ());
        });
        Waiter { clock: self.clone(), ticks, _registration: registration }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.manual {
            None => f.write_str("Clock::system()"),
            Some(manual) => write!(f, "Clock::manual(+{:?})", manual.advanced()),
        }
    }
}

/// A registration with [`Clock::on_advance`].
#[must_use]
pub(crate) struct Ticks {
    _listener: Listener,
}

impl fmt::Debug for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticks")
    }
}

/// Waits on a channel until a moment of a [`Clock`], whichever kind that is.
#[derive(Debug)]
pub(crate) struct Waiter {
    clock: Clock,
    ticks: Receiver<()>,
    _registration: Ticks,
}

impl Waiter {
    /// The clock it waits on.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The next item of `channel`, or `Timeout` once the clock has reached `deadline`; `None` waits for ever.
    ///
    /// # Errors
    /// `Timeout` as said, `Disconnected` when nobody is left who could send.
    pub(crate) fn recv_deadline<T>(
        &self,
        channel: &Receiver<T>,
        deadline: Option<Instant>,
    ) -> Result<T, RecvTimeoutError> {
        let Some(deadline) = deadline else {
            return channel.recv().map_err(|_| RecvTimeoutError::Disconnected);
        };
        if !self.clock.is_manual() {
            return channel.recv_deadline(deadline);
        }
        loop {
            if let Ok(item) = channel.try_recv() {
                return Ok(item);
            }
            if self.clock.instant() >= deadline {
                return Err(RecvTimeoutError::Timeout);
            }
            select! {
                recv(channel) -> item => return item.map_err(|_| RecvTimeoutError::Disconnected),
                // The clock moved: look at the deadline again. The registration keeps the sender alive.
                recv(self.ticks) -> _ => {}
            }
        }
    }
}

/// `after` from now. What is too far ahead to be expressed is as good as for ever: in thirty years.
pub(crate) fn from_now(after: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(after).unwrap_or_else(|| now + Duration::from_secs(30 * 365 * 86_400))
}

/// Longer than anybody waits, and short enough to be added to any moment.
pub(crate) const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// So much later; a time too long to be expressed is no limit.
pub(crate) fn later(now: Instant, by: Duration) -> Instant {
    now.checked_add(by).unwrap_or(now + FAR)
}

/// Milliseconds since 1970; times before it are negative.
pub(crate) fn millis_of(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
    }
}

type Listener = Arc<dyn Fn() + Send + Sync>;

struct Manual {
    base: Instant,
    base_system: SystemTime,
    /// Nanoseconds: 584 years are enough for any test.
    advanced: AtomicU64,
    listeners: Mutex<Vec<Weak<dyn Fn() + Send + Sync>>>,
}

#[cfg_attr(
    not(any(feature = "broker", feature = "testing", test)),
    allow(dead_code, reason = "a clock is moved by tests, and by the embedded broker for them")
)]
impl Manual {
    fn advanced(&self) -> Duration {
        Duration::from_nanos(self.advanced.load(Ordering::SeqCst))
    }

    fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.advanced.fetch_add(nanos, Ordering::SeqCst);
        let mut listeners: Vec<Listener> = Vec::new();
        // Called without the lock, since a listener may register or drop others.
        self.listeners.lock().retain(|listener| listener.upgrade().map(|l| listeners.push(l)).is_some());
        for listener in listeners {
            listener();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::unbounded;
    use std::thread;

    #[test]
    fn a_manual_clock_stands_still_until_it_is_moved() {
        let clock = Clock::manual();
        let (instant, time) = (clock.instant(), clock.now());
        clock.clone().advance(Duration::from_secs(3600));
        assert_eq!(clock.instant() - instant, Duration::from_secs(3600));
        assert_eq!(clock.now(), time + Duration::from_secs(3600));
    }

    #[test]
    fn moving_the_clock_ends_a_wait_and_an_item_does_too() {
        let clock = Clock::manual();
        let waiter = clock.waiter();
        let (send, receive) = unbounded::<u8>();
        let deadline = clock.instant() + Duration::from_secs(20);
        let waiting = thread::spawn(move || {
            (waiter.recv_deadline(&receive, Some(deadline)), waiter.recv_deadline(&receive, Some(deadline)))
        });
        send.send(7).unwrap();
        clock.advance(Duration::from_secs(20));
        assert_eq!(waiting.join().unwrap(), (Ok(7), Err(RecvTimeoutError::Timeout)));
    }

    #[test]
    fn a_dropped_waiter_is_forgotten() {
        let clock = Clock::manual();
        drop(clock.waiter());
        clock.advance(Duration::from_secs(1));
        assert!(clock.manual.as_ref().unwrap().listeners.lock().is_empty());
    }
}
