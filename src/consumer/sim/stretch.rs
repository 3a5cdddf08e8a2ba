//! Which seeds are run, and how long.
//!
//! | variable | what |
//! |---|---|
//! | `ROCKETMQ_SIM_SEEDS` | so many seeds |
//! | `ROCKETMQ_SIM_SECONDS` | as many seeds as can be run in that time |
//! | `ROCKETMQ_SIM_FIRST` | the first seed, 0 by default, so that a run can go on where another ended |
//! | `ROCKETMQ_SIM_FAILURES` | goes on until so many have failed; 1 by default |

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::mutants::Mutant;
use super::{Failure, simulate};

/// Seeds that are run one after the other.
pub(super) struct Stretch {
    first: u64,
    seeds: u64,
    time: Option<Duration>,
    failures: usize,
    /// Somebody said how long it is to be.
    pub(super) was_asked_for: bool,
}

/// What became of it.
pub(super) struct Done {
    first: u64,
    runs: u64,
    steps: u64,
    took: Duration,
    pub(super) failures: Vec<Failure>,
}

impl Stretch {
    pub(super) fn from_environment() -> Self {
        let (seeds, seconds) = (number("ROCKETMQ_SIM_SEEDS"), number("ROCKETMQ_SIM_SECONDS"));
        Self {
            first: number("ROCKETMQ_SIM_FIRST").unwrap_or(0),
            seeds: seeds.unwrap_or(if seconds.is_some() { u64::MAX } else { SEEDS }),
            time: seconds.map(Duration::from_secs),
            failures: number("ROCKETMQ_SIM_FAILURES").unwrap_or(1) as usize,
            was_asked_for: seeds.or(seconds).is_some(),
        }
    }

    /// Runs seeds on two threads.
    pub(super) fn run(&self, mutant: Option<Mutant>) -> Done {
        let began = Instant::now();
        let (next, runs, steps) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let failures = Mutex::new(Vec::new());
        let work = || {
            while failures.lock().len() < self.failures && self.time.is_none_or(|time| began.elapsed() < time)
            {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= self.seeds {
                    break;
                }
                match simulate(self.first.wrapping_add(at), mutant, SHOWN) {
                    Ok(took) => drop(steps.fetch_add(took, Ordering::Relaxed)),
                    Err(failure) => failures.lock().push(failure),
                }
                runs.fetch_add(1, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(work);
            work();
            other.join().expect("a run does not panic");
        });
        Done {
            first: self.first,
            runs: runs.into_inner(),
            steps: steps.into_inner(),
            took: began.elapsed(),
            failures: failures.into_inner(),
        }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, runs, steps, took) = (self.first, self.runs, self.steps, self.took);
        let failed: Vec<u64> = self.failures.iter().map(|failure| failure.seed).collect();
        write!(f, "simulated {runs} seeds from {first} on, {steps} steps, in {took:.1?}; failed: {failed:?}")
    }
}

pub(super) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, and not {text:?}")))
}

/// Runs unless somebody says something else.
const SEEDS: u64 = 3000;
/// Lines that are shown of a failing run among many.
const SHOWN: usize = 100;
