//! The table of `rmq-pull`: one entry for each process queue that is fetched for.
//!
//! It knows no thread and no socket: events go in by its methods, and what follows goes out by [`Outside`].

mod entry;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::entry::Entry;
use super::answer::{Pulled, Taken};
use super::events::Event;
use super::failure::Failure;
use super::fetch::{Fetch, LOST_AFTER, Outcome, Step};
use super::outside::Outside;
use super::process_queue::ProcessQueue;
use super::rebalance_loop::RebalanceEvent;
use super::stats::Waiting;
use super::timer_loop::{Due, TimerEvent};
use crate::client::MASTER;

pub(super) use self::entry::generation;

/// All queues of a client that are fetched for.
pub(super) struct Pulls<S: Outside> {
    sink: S::Sink,
    /// In the order of generations, so that a simulated run can be repeated.
    table: BTreeMap<u64, Entry<S>>,
    /// Those whose topic was not subscribed when they came.
    homeless: BTreeMap<u64, (Arc<S>, Arc<ProcessQueue>)>,
    /// The consumers that something was put on the ready list of.
    touched: Vec<Arc<S>>,
    /// Who is worked for: after a panic, that queue is rebuilt.
    at: Option<u64>,
    checking: bool,
}

impl<S: Outside> Pulls<S> {
    /// Answers come back through `sink`.
    pub(super) fn new(sink: S::Sink) -> Self {
        Self {
            sink,
            table: BTreeMap::new(),
            homeless: BTreeMap::new(),
            touched: Vec::new(),
            at: None,
            checking: false,
        }
    }

    /// Fetches for this one from now on.
    pub(super) fn attach(&mut self, core: Arc<S>, queue: Arc<ProcessQueue>) {
        let id = queue.id();
        let Some(subscription) = core.subscription(queue.queue().topic()) else {
            // Unsubscribed a moment ago: the revocation is on its way, unless it is subscribed again before that.
            queue.facts.set_waiting(Some(Waiting::NoHeartbeat), core.now());
            self.homeless.insert(id, (core, queue));
            return;
        };
        let fetch = Fetch::new(queue.watermark(), core.settings().pull_interval);
        self.at = Some(id);
        let fetched = core.totals().fetched.of(queue.queue().shared_topic());
        let entry = Entry {
            core,
            queue,
            fetch,
            subscription,
            fetched,
            suggested: MASTER,
            shunned_until: None,
            asked: None,
            turn: 0,
            alarm: None,
        };
        if !self.checking {
            self.checking = true;
            entry.core.post_timer(TimerEvent::At(entry.core.now() + CHECK_EVERY, Due::Check));
        }
        self.table.insert(id, entry);
        self.resume(id);
        self.advance(id);
    }

    /// Not for this one any more.
    pub(super) fn detach(&mut self, id: u64) {
        self.table.remove(&id);
        self.homeless.remove(&id);
    }

    /// Something that this one may have waited for has happened.
    pub(super) fn nudge(&mut self, id: u64) {
        self.at = Some(id);
        self.advance(id);
    }

    /// A route, a heartbeat or a resume: any queue may have waited for it.
    pub(super) fn hurry_all(&mut self) {
        for (core, queue) in std::mem::take(&mut self.homeless).into_values() {
            self.attach(core, queue);
        }
        self.table.values_mut().for_each(|entry| entry.fetch.hurry());
        self.advance_all();
    }

    /// The next step of every queue.
    pub(super) fn advance_all(&mut self) {
        let ids: Vec<u64> = self.table.keys().copied().collect();
        for id in ids {
            self.nudge(id);
        }
    }

    /// The pull with this tag has failed: what a user can act on. The answer follows.
    pub(super) fn failed(&self, tag: u64, failure: Failure) {
        if let Some(entry) = self.table.get(&generation(tag)) {
            entry.queue.facts.set_failure(Some(failure));
        }
    }

    /// The answer to the pull with this tag. An answer of an older generation finds nobody, and neither does the answer
    /// to a pull that was given up.
    pub(super) fn answered(&mut self, tag: u64, answer: Result<Pulled, String>) {
        let id = generation(tag);
        if self.table.get(&id).is_none_or(|entry| entry.tag() != tag) {
            return;
        }
        self.at = Some(id);
        self.take_answer(id, answer);
        self.advance(id);
    }

    /// The pause of this one may be over.
    pub(super) fn resume(&mut self, id: u64) {
        let Some(entry) = self.table.get(&id) else { return };
        if let Some(oldest) = entry.queue.resume(entry.core.now()) {
            let core = entry.core.clone();
            core.ready(&entry.queue, oldest);
            self.look_after(core);
        }
    }

    /// Every ten seconds: repairs a queue that stands still without its reason. Nothing should be found here.
    pub(super) fn check(&mut self) {
        let ids: Vec<u64> = self.table.keys().copied().collect();
        self.checking = !ids.is_empty();
        for id in ids {
            self.at = Some(id);
            let Some(entry) = self.table.get_mut(&id) else { continue };
            let now = entry.core.now();
            if entry.queue.is_closed() {
                continue;
            }
            // A test may move the clock past a pull that the broker holds in real time.
            if entry.fetch.is_lost(now) && !entry.core.is_moved_by_hand() {
                log::error!("the answer to a pull of {} was lost", entry.queue.queue());
                let since = LOST_AFTER;
                let reason = Waiting::Failing("the answer to a pull was lost".into());
                entry.core.emit(Event::QueueStalled { queue: entry.queue.queue().clone(), reason, since });
                entry.turn = entry.turn.wrapping_add(1);
                entry.ended(Outcome::Failed("the answer to a pull was lost".into()), now);
            }
            self.resume(id);
            self.advance(id);
        }
        if let Some(entry) = self.table.values().next() {
            entry.core.post_timer(TimerEvent::At(entry.core.now() + CHECK_EVERY, Due::Check));
        }
    }

    /// Applies the wake rule of each consumer that has something to take. Whether to look again soon.
    pub(super) fn wake(&mut self) -> bool {
        self.touched.retain(|core| core.wake());
        !self.touched.is_empty()
    }

    /// Something was put on the ready list of this one.
    pub(super) fn look_after(&mut self, core: Arc<S>) {
        if !self.touched.iter().any(|known| Arc::ptr_eq(known, &core)) {
            self.touched.push(core);
        }
    }

    /// What the answer to the present pull of this one is tagged with.
    #[cfg(all(test, not(loom)))]
    pub(super) fn tag(&self, id: u64) -> Option<u64> {
        self.table.get(&id).map(Entry::tag)
    }

    /// How the fetching for this one stands.
    #[cfg(all(test, not(loom)))]
    pub(super) fn state(&self, id: u64) -> Option<&super::fetch::State> {
        self.table.get(&id).map(|entry| entry.fetch.state())
    }

    /// By what the answer to the pull of this one is filtered.
    #[cfg(all(test, not(loom)))]
    pub(super) fn filter(&self, id: u64) -> Option<&Arc<crate::message::Subscription>> {
        self.table.get(&id).map(|entry| &entry.subscription)
    }

    /// Nobody is worked for.
    pub(super) fn begin(&mut self) {
        self.at = None;
    }

    /// The work since `begin` has panicked: gives up the queue that it was for, so that it is rebuilt.
    pub(super) fn give_up(&mut self, panic: String) {
        if let Some(entry) = self.at.and_then(|id| self.table.remove(&id)) {
            entry.core.emit(Event::ThreadRestarted { thread: "rmq-pull".into(), panic });
            entry.core.post_rebalance(RebalanceEvent::Rebuild(entry.queue.id()));
        }
    }

    /// Carries out the next step of one queue.
    fn advance(&mut self, id: u64) {
        let Some(entry) = self.table.get_mut(&id) else { return };
        while let Some(step) = entry.step() {
            match step {
                Step::Nothing => {}
                Step::WakeAt(at) => {
                    if entry.alarm.replace(at) != Some(at) {
                        entry.core.post_timer(TimerEvent::At(at, Due::Pull(id)));
                    }
                }
                Step::Park(why) => entry.park(&why),
                Step::Pull { from, single } => {
                    if !entry.pull(from, single, &self.sink) {
                        // Now it waits, as after a pull that failed.
                        continue;
                    }
                }
            }
            return;
        }
    }

    fn take_answer(&mut self, id: u64, answer: Result<Pulled, String>) {
        let Some(entry) = self.table.get_mut(&id) else { return };
        let (now, mut touched) = (entry.core.now(), None);
        let taken = match answer {
            Ok(pulled) => entry.take_in(pulled, now),
            Err(error) => Taken::Outcome(Outcome::Failed(error)),
        };
        let outcome = match taken {
            Taken::Outcome(outcome) => outcome,
            // The broker may have held it since before the filter was changed: what it left out by the old one would
            // count as finished. It is asked for again, by the new one.
            Taken::Found(..) if entry.is_asked_by_an_old_filter() => Outcome::Nothing(entry.fetch.next()),
            Taken::Found(run, outcome) => {
                let came = run.len() as usize;
                match entry.queue.push(*run) {
                    Err(_closed) => return,
                    Ok(None) if came == 0 => entry.core.passed(),
                    Ok(None) => {}
                    Ok(Some(oldest)) => entry.core.ready(&entry.queue, oldest),
                }
                if came > 0 {
                    entry.core.came(came);
                    entry.core.totals().pulled.fetch_add(came as u64, Ordering::Relaxed);
                    touched = Some(entry.core.clone());
                }
                outcome
            }
            Taken::Elsewhere(correction) => {
                let from = entry.fetch.next();
                let event = RebalanceEvent::Corrected { id, from, correction };
                entry.core.post_rebalance(event);
                self.table.remove(&id);
                return;
            }
        };
        entry.ended(outcome, now);
        if let Some(core) = touched {
            self.look_after(core);
        }
    }
}

const CHECK_EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
