//! The end of a handle: begun once, awaited by anybody, reported to all.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::ShutdownReport;

/// Where a client, producer or consumer is in its life.
#[derive(Debug, Default)]
pub(crate) struct Life {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Running,
    Stopping,
    Ended(ShutdownReport),
}

impl Life {
    pub(crate) fn is_running(&self) -> bool {
        matches!(*self.state.lock(), State::Running)
    }

    /// Whether the caller is the one who has to carry the end out.
    pub(crate) fn begin_end(&self) -> bool {
        let mut state = self.state.lock();
        let first = matches!(*state, State::Running);
        if first {
            *state = State::Stopping;
        }
        first
    }

    pub(crate) fn ended(&self, report: ShutdownReport) {
        *self.state.lock() = State::Ended(report);
        self.ended.notify_all();
    }

    /// The report, once there is one; `None` waits for ever.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Option<ShutdownReport> {
        let mut state = self.state.lock();
        loop {
            if let State::Ended(report) = &*state {
                return Some(report.clone());
            }
            match until {
                None => self.ended.wait(&mut state),
                Some(until) if Instant::now() >= until => return None,
                Some(until) => drop(self.ended.wait_until(&mut state, until)),
            }
        }
    }
}

/// A grace that can be added to a moment: nobody waits longer than a year.
pub(crate) fn bounded_grace(grace: Duration) -> Duration {
    grace.min(crate::clock::FAR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn one_ends_it_and_everybody_gets_the_report() {
        let life = Arc::new(Life::default());
        assert!(life.is_running() && life.begin_end() && !life.begin_end() && !life.is_running());
        assert_eq!(life.wait(Some(Instant::now())), None);
        let waiting = thread::spawn({
            let life = life.clone();
            move || life.wait(Some(Instant::now() + Duration::from_secs(10)))
        });
        let report = ShutdownReport { released: 3, ..ShutdownReport::default() };
        life.ended(report.clone());
        assert_eq!(waiting.join().unwrap(), Some(report.clone()));
        assert_eq!(life.wait(None), Some(report));
    }
}
