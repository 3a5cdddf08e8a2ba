//! The life of a consumer behind its handle, and how it ends.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use parking_lot::{Condvar, Mutex};

use crate::client::{Client, Life, MemberKind, ShutdownReport, bounded_grace, on_library_thread};
use crate::consumer::core::Core;
use crate::consumer::lock_loop::{self, LockEvent};
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::consumer::worker;
use crate::error::{Error, Result};
use crate::remoting::ReplySink;

/// What the handle, its stoppers and the client hold.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(in crate::consumer) core: Arc<Core>,
    pub(in crate::consumer) client: Client,
    pub(in crate::consumer) life: Life,
    threads: Mutex<Threads>,
    /// A consume thread says so when it has ended.
    ended: (Sender<()>, Receiver<()>),
    stopping: (Mutex<bool>, Condvar),
}

#[derive(Debug, Default)]
struct Threads {
    /// Consume threads that have not said that they have ended.
    running: usize,
    handles: Vec<JoinHandle<()>>,
    lock: Option<JoinHandle<()>>,
    background: Option<JoinHandle<()>>,
    /// They are joined now: who comes too late with a new one starts none.
    over: bool,
}

impl Inner {
    pub(in crate::consumer) fn new(core: Arc<Core>, client: Client) -> Self {
        Self {
            core,
            client,
            life: Life::default(),
            threads: Mutex::default(),
            ended: unbounded(),
            stopping: Default::default(),
        }
    }

    /// Starts consume threads.
    pub(super) fn start_threads(&self, n: usize) -> Result<()> {
        let mut threads = self.threads.lock();
        self.forget_ended(&mut threads);
        if threads.over {
            self.core.ready.not_started(n);
            return Err(Error::closed("the consumer"));
        }
        for left in (1..=n).rev() {
            let (number, slot) = self.core.slot_for_thread();
            let (core, ended, mine) = (self.core.clone(), self.ended.0.clone(), slot.clone());
            let body = move || {
                worker::run(&core, &mine, number);
                // Nobody counts any more once the shutdown has given up waiting.
                let _ = ended.send(());
            };
            let thread = self.core.instance.spawn(slot.name(), body).map_err(|error| {
                slot.leave();
                self.core.ready.not_started(left);
                Error::io(format!("cannot start thread {}", slot.name()), error)
            })?;
            threads.running += 1;
            threads.handles.push(thread);
        }
        Ok(())
    }

    /// Of threads that come and go, nothing is kept.
    fn forget_ended(&self, threads: &mut Threads) {
        while self.ended.1.try_recv().is_ok() {
            threads.running -= 1;
        }
        let handles = std::mem::take(&mut threads.handles);
        let (ended, running): (Vec<_>, _) = handles.into_iter().partition(JoinHandle::is_finished);
        threads.handles = running;
        ended.into_iter().for_each(|thread| self.join_consume_thread(thread));
    }

    /// Starts the thread that renews the locks of the queues.
    pub(super) fn start_lock_thread(&self, events: Receiver<LockEvent>) -> Result<()> {
        let (core, waiter) = (self.core.clone(), self.core.instance.clock().waiter());
        let answers = self.core.lock.clone();
        let sink = ReplySink::new(move |tag, answer| {
            if let Some(answers) = &answers {
                drop(answers.send(LockEvent::Answer(tag, answer)));
            }
        });
        let body = move || lock_loop::run(&core, &waiter, &events, sink);
        let mut threads = self.threads.lock();
        if threads.over {
            return Err(Error::closed("the consumer"));
        }
        let thread = self.core.instance.spawn("rmq-lock", body);
        threads.lock = Some(thread.map_err(|error| Error::io("cannot start thread rmq-lock", error))?);
        Ok(())
    }

    pub(super) fn set_threads(&self, n: usize) -> Result<()> {
        let missing = self.core.ready.resize(n);
        self.start_threads(missing)
    }

    pub(super) fn wait(&self) {
        let (stopping, changed) = &self.stopping;
        let mut stopping = stopping.lock();
        while !*stopping {
            changed.wait(&mut stopping);
        }
    }

    /// # Errors
    /// After the shutdown.
    pub(in crate::consumer) fn check_open(&self) -> Result<()> {
        if self.life.is_running() { Ok(()) } else { Err(Error::closed("the consumer")) }
    }

    /// Its handle is dropped.
    pub(in crate::consumer) fn dropped(this: &Arc<Self>) {
        if !this.life.is_running() {
            return;
        }
        if thread::panicking() || worker::is_consuming_for(&this.core) {
            return this.stop(DROP_GRACE);
        }
        let report = Self::shutdown(this, DROP_GRACE);
        if !report.is_clean() && !report.in_background {
            log::warn!("consumer {} was dropped: {report}", this.core.plain_group);
        }
    }

    pub(in crate::consumer) fn shutdown(this: &Arc<Self>, grace: Duration) -> ShutdownReport {
        let grace = bounded_grace(grace);
        // It would wait for the thread that it runs on.
        if worker::is_consuming_for(&this.core) || on_rmq_loop() {
            this.stop(grace);
            return ShutdownReport::requested();
        }
        if this.begin() {
            return this.end(grace);
        }
        // Somebody else has begun; that one keeps to its own grace.
        let until = Instant::now().checked_add(grace + MOMENT);
        let report = this.life.wait(until).unwrap_or_else(ShutdownReport::requested);
        this.join_background();
        this.forget_ended(&mut this.threads.lock());
        report
    }

    /// Ends it in the background.
    pub(in crate::consumer) fn stop(self: &Arc<Self>, grace: Duration) {
        if !self.begin() {
            return;
        }
        let this = self.clone();
        let thread = thread::Builder::new().name("rmq-shutdown".into());
        match thread.spawn(move || drop(this.end(grace))) {
            Ok(thread) => self.threads.lock().background = Some(thread),
            Err(error) => {
                log::error!(
                    "cannot start thread rmq-shutdown, consumer {} goes on: {error}",
                    self.core.plain_group
                );
                self.life.ended(ShutdownReport::requested());
            }
        }
    }

    fn begin(&self) -> bool {
        let first = self.life.begin_end();
        if first {
            *self.stopping.0.lock() = true;
            self.stopping.1.notify_all();
            if self.core.polling.is_some() {
                // Whoever polls hears of it now, and gets nothing more.
                self.core.ready.stop();
            }
        }
        first
    }

    /// Everything in order. Called once.
    fn end(&self, grace: Duration) -> ShutdownReport {
        let began = Instant::now();
        // Kept for the network; the rest of the time belongs to the listeners.
        let reserve = (grace / 3).min(Duration::from_secs(2));
        let busy = self.busy();
        let (done, reports) = bounded(1);
        let now = self.core.now();
        self.core.post_rebalance(RebalanceEvent::Shutdown {
            core: self.core.clone(),
            listeners: now + grace.saturating_sub(reserve),
            end: now + grace,
            done,
        });
        let mut report = reports.recv_deadline(began + grace).unwrap_or_else(|_| self.unfinished());
        report.finished = busy.saturating_sub(self.busy()) as u64;

        // Last of what brokers hear, since it makes them tell the other members.
        let goodbye = (began + grace).max(Instant::now() + Duration::from_millis(50));
        self.say_goodbye(goodbye);
        self.core.code.end(&self.core.plain_group);
        self.join_consume_threads(Instant::now());
        self.join_lock_thread();
        if let Some(local) = &self.core.local {
            local.close();
        }
        self.core.events.close();
        report.without(self.core.instance.namespace());
        report.elapsed = began.elapsed();
        log::info!("consumer {}: {report}", self.core.plain_group);
        self.life.ended(report.clone());
        self.client.release(MOMENT);
        report
    }

    /// Whoever was no member of the group has nobody to say it to.
    fn say_goodbye(&self, deadline: Instant) {
        let (instance, group) = (&self.core.instance, &self.core.group);
        if !self.core.is_member() {
            return instance.unregister(MemberKind::Consumer, group);
        }
        let left = instance.leave(MemberKind::Consumer, group, deadline);
        for problem in left.recv_deadline(deadline).unwrap_or_default() {
            log::debug!("{} was not told that {group} leaves: {}", problem.server, problem.detail);
        }
    }

    /// What is known when the loop did not answer by the end of the grace.
    fn unfinished(&self) -> ShutdownReport {
        let mut report = ShutdownReport::default();
        for process in self.core.owned() {
            let queue = process.queue();
            let left = process.left();
            report.abandoned.extend(left.running.iter().map(|offset| (queue.clone(), offset.wire())));
            report.uncommitted.push((queue.clone(), "not confirmed within the grace".into()));
        }
        report
    }

    fn busy(&self) -> usize {
        self.core.slots().iter().filter(|slot| slot.is_busy()).count()
    }

    /// Idle threads end at once, on a busy machine in a moment. One inside a listener is left alone: it ends when the
    /// listener returns.
    fn join_consume_threads(&self, now: Instant) {
        self.core.ready.stop();
        let (running, handles) = {
            let mut threads = self.threads.lock();
            threads.over = true;
            (threads.running, std::mem::take(&mut threads.handles))
        };
        let mut ended = 0;
        while ended < running {
            let all_inside = running - ended <= self.busy();
            let time = if all_inside { JOIN_TIME } else { MOMENT };
            if self.ended.1.recv_deadline(now + time).is_err() {
                break;
            }
            ended += 1;
        }
        for slot in self.core.slots().iter().filter(|slot| slot.is_busy()) {
            let running = slot.running(self.core.now());
            let message = running.and_then(|running| running.work.run.view(running.range.start));
            if let Some(message) = message {
                log::warn!("{} is still in the listener with message {}", slot.name(), message.message_id());
            }
        }
        let all = ended >= running;
        let (ended, inside): (Vec<_>, _) =
            handles.into_iter().partition(|thread| all || thread.is_finished());
        ended.into_iter().for_each(|thread| self.join_consume_thread(thread));
        // Joined by whoever asks for the report once more, if their listeners have returned by then.
        self.threads.lock().handles = inside;
    }

    fn join_consume_thread(&self, thread: JoinHandle<()>) {
        if thread.join().is_err() {
            log::error!("a consume thread of {} panicked", self.core.plain_group);
        }
    }

    /// It never waits for anything but its channel.
    fn join_lock_thread(&self) {
        if let Some(lock) = &self.core.lock {
            drop(lock.send(LockEvent::Stop));
        }
        let thread = self.threads.lock().lock.take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            log::error!("the lock thread of {} panicked", self.core.plain_group);
        }
    }

    fn join_background(&self) {
        let background = self.threads.lock().background.take();
        if let Some(thread) = background
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            log::error!("the shutdown of {} panicked", self.core.plain_group);
        }
    }
}

/// Whether this is a thread that a shutdown may need: it must not wait for itself.
fn on_rmq_loop() -> bool {
    on_library_thread() && thread::current().name().is_none_or(|name| !name.starts_with("rmq-consume-"))
}

const DROP_GRACE: Duration = Duration::from_secs(2);
/// What a shutdown may take beyond its grace.
const MOMENT: Duration = Duration::from_millis(500);
const JOIN_TIME: Duration = Duration::from_millis(100);
