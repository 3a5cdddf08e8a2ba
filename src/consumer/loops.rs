//! The three threads that all consumers of a client share: `rmq-pull`, `rmq-timer`, `rmq-rebalance`.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::budget::{Budget, OnRelease};
use super::pull_loop::{PullEvent, PullLoop};
use super::rebalance_loop::{RebalanceEvent, RebalanceLoop};
use super::timer_loop::{self, TimerEvent};
use crate::client::Instance;
use crate::error::{Error, Result};
use crate::remoting::ReplySink;

/// One set for each client, from its first consumer to its end.
///
/// The channels have no bound of their own; what can be in them is bounded by what there is: an answer and a nudge for
/// each queue, a verdict for each cached message, a wake-up for each thing that wakes.
#[derive(Debug)]
pub(crate) struct Loops {
    pull: Sender<PullEvent>,
    timer: Sender<TimerEvent>,
    rebalance: Sender<RebalanceEvent>,
    budget: Arc<Budget>,
}

impl Loops {
    /// Starts the threads. They end with the client.
    pub(super) fn start(instance: &Arc<Instance>) -> Result<Arc<Self>> {
        let (pull, pulls) = unbounded();
        let (timer, timers) = unbounded();
        let (rebalance, rebalances) = unbounded();
        let freed = pull.clone();
        let on_release = OnRelease(Box::new(move || drop(freed.send(PullEvent::CacheFreed))));
        let limit = instance.config().cache_limit;
        let budget = Arc::new(Budget::new(limit, instance.cached_bytes().clone(), on_release));
        let loops = Self { pull, timer, rebalance, budget };
        let threads = loops.spawn(instance, pulls, timers, rebalances)?;
        let (pull, timer, rebalance) = (loops.pull.clone(), loops.timer.clone(), loops.rebalance.clone());
        instance.on_last_shutdown(Box::new(move |_| {
            // The consumers have ended; whatever these still hold is not needed any more.
            drop(rebalance.send(RebalanceEvent::Stop));
            drop(pull.send(PullEvent::Stop));
            drop(timer.send(TimerEvent::Stop));
            for thread in threads {
                let name = thread.thread().name().unwrap_or_default().to_owned();
                if thread.join().is_err() {
                    log::error!("thread {name} panicked");
                }
            }
        }));
        Ok(Arc::new(loops))
    }

    fn spawn(
        &self,
        instance: &Arc<Instance>,
        pulls: Receiver<PullEvent>,
        timers: Receiver<TimerEvent>,
        rebalances: Receiver<RebalanceEvent>,
    ) -> Result<Vec<JoinHandle<()>>> {
        let (answers, backs) = (self.pull.clone(), self.pull.clone());
        let pull_loop = PullLoop::new(
            instance.clone(),
            pulls,
            ReplySink::new(move |id, answer| drop(answers.send(PullEvent::Answer(id, answer)))),
            ReplySink::new(move |id, answer| drop(backs.send(PullEvent::BackAnswer(id, answer)))),
        );
        let answers = self.rebalance.clone();
        let sink = ReplySink::new(move |tag, answer| drop(answers.send(RebalanceEvent::Answer(tag, answer))));
        let rebalance_loop = RebalanceLoop::new(instance.clock().waiter(), rebalances, sink);
        let (waiter, due) = (instance.clock().waiter(), self.pull.clone());

        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            instance
                .spawn(name, body)
                .map_err(|error| Error::io(format!("cannot start thread {name}"), error))
        };
        Ok(vec![
            spawn("rmq-pull", Box::new(move || pull_loop.run()))?,
            spawn("rmq-rebalance", Box::new(move || rebalance_loop.run()))?,
            spawn("rmq-timer", Box::new(move || timer_loop::run(&waiter, &timers, &due)))?,
        ])
    }

    pub(super) fn pull(&self) -> &Sender<PullEvent> {
        &self.pull
    }

    pub(super) fn timer(&self) -> &Sender<TimerEvent> {
        &self.timer
    }

    pub(super) fn rebalance(&self) -> &Sender<RebalanceEvent> {
        &self.rebalance
    }

    pub(super) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }
}
