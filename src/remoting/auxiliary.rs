//! `rmq-aux`: threads for what may hang, there only while there is something to do.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// An idle thread ends after this.
const IDLE: Duration = Duration::from_secs(10);
/// So many jobs may hang before the next one has to wait.
const MOST_THREADS: usize = 8;

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs that may hang: look-ups of hosts, files, user code that finds name servers.
///
/// A job that hangs holds nothing up: the next one gets another thread. Nobody joins these threads, for the same
/// reason; they end when they are idle, or after [`close`](Self::close) with the job in hand.
#[derive(Clone)]
pub(crate) struct Aux(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    idle: Duration,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Aux {
    pub(crate) fn new() -> Self {
        Self::with_idle(IDLE)
    }

    fn with_idle(idle: Duration) -> Self {
        Self(Arc::new(Shared { state: Mutex::new(State::default()), work: Condvar::new(), idle }))
    }

    /// Runs `job` soon, on an idle thread or a new one. After `close` it is dropped.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.state.lock();
        if state.closed {
            return;
        }
        state.jobs.push_back(Box::new(job));
        if state.idle >= state.jobs.len() {
            self.0.work.notify_one();
        } else if state.threads < MOST_THREADS {
            state.threads += 1;
            drop(state);
            self.spawn();
        }
    }

    /// Lets idle threads end now and drops jobs that have not begun.
    pub(crate) fn close(&self) {
        let mut state = self.0.state.lock();
        state.closed = true;
        let jobs = std::mem::take(&mut state.jobs);
        self.0.work.notify_all();
        drop(state);
        drop(jobs);
    }

    /// Threads at present.
    pub(crate) fn threads(&self) -> usize {
        self.0.state.lock().threads
    }

    fn spawn(&self) {
        let shared = self.0.clone();
        if let Err(e) = thread::Builder::new().name("rmq-aux".to_owned()).spawn(move || shared.work_off()) {
            // The jobs stay for the next thread; whoever waits for one has a deadline.
            log::error!("cannot start thread rmq-aux: {e}");
            self.0.state.lock().threads -= 1;
        }
    }
}

impl Shared {
    fn work_off(&self) {
        while let Some(job) = self.next() {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                log::error!("a job on rmq-aux panicked");
            }
        }
    }

    /// The next job; none when it is time to end.
    fn next(&self) -> Option<Job> {
        let until = Instant::now() + self.idle;
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            let late = !state.closed && self.work.wait_until(&mut state, until).timed_out();
            state.idle -= 1;
            if (late || state.closed) && state.jobs.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{bounded, unbounded};

    const SOON: Duration = Duration::from_secs(10);

    fn wait_for(what: &str, condition: impl Fn() -> bool) {
        let until = Instant::now() + SOON;
        while !condition() {
            assert!(Instant::now() < until, "{what}");
            thread::yield_now();
        }
    }

    #[test]
    fn a_hanging_job_holds_nothing_up() {
        let aux = Aux::new();
        let (release, hang) = bounded::<()>(0);
        let (done, finished) = unbounded();
        aux.run(move || _ = hang.recv());
        for i in 0..3 {
            let done = done.clone();
            aux.run(move || _ = done.send(i));
            assert_eq!(finished.recv_timeout(SOON), Ok(i));
        }
        aux.close();
        drop(release);
        wait_for("the threads end", || aux.threads() == 0);
    }

    #[test]
    fn an_idle_thread_ends_and_the_next_job_gets_another() {
        let aux = Aux::with_idle(Duration::from_millis(1));
        let (done, finished) = unbounded();
        for i in 0..3 {
            let done = done.clone();
            aux.run(move || _ = done.send(i));
            assert_eq!(finished.recv_timeout(SOON), Ok(i));
            wait_for("the thread ends", || aux.threads() == 0);
        }
    }

    #[test]
    fn a_panic_costs_one_job() {
        let aux = Aux::new();
        let (done, finished) = unbounded();
        aux.run(|| panic!("on purpose"));
        aux.run(move || _ = done.send(thread::current().name().map(str::to_owned)));
        assert_eq!(finished.recv_timeout(SOON), Ok(Some("rmq-aux".to_owned())));
        aux.close();
        wait_for("the threads end", || aux.threads() == 0);
        aux.run(|| unreachable!("dropped"));
        assert_eq!(aux.threads(), 0);
    }
}
