//! `rmq-consume-N`: takes messages, calls the listener, settles the verdicts.

pub(super) mod in_order;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::batch::Batch;
use super::claims::Finished;
use super::core::{Core, Item};
use super::direct::{Came, Direct};
use super::events::Event;
use super::figures::Consumed;
use super::listener::{Call, Code, Next, end_of};
use super::outside::Outside;
use super::process_queue::{Piece, ProcessQueue};
use super::pull_loop::PullEvent;
use super::readable::{inflate, make_readable};
use super::ready::Work as Ready;
use super::rebalance_loop::RebalanceEvent;
use super::run::Run;
use super::send_back::{Back, SendBack};
use super::slot::{Slot, Work};
use super::timer_loop::{Due, TimerEvent};
use super::trace;
use crate::client::{ConsumeStatus, Verdict, panic_text};
use crate::message::MessageView;
use crate::protocol::Inflater;
use crate::sync::Parker;

/// One consume thread, until its consumer stops or has too many.
pub(super) fn run(core: &Arc<Core>, slot: &Arc<Slot>, number: usize) {
    let Some(code) = core.code.get() else {
        // Stopped between being wanted and being started.
        core.ready.not_started(1);
        return slot.leave();
    };
    CONSUMING.set(Some(Arc::as_ptr(core) as usize));
    let parker = Parker::here();
    let mut worker = Worker {
        core,
        slot,
        number,
        code,
        listener: None,
        batch: Batch::of(slot.clone(), core.settings.consume_timeout),
        indices: Vec::new(),
        consumed: Arc::default(),
        pieces: Vec::new(),
        inflater: Inflater::default(),
    };
    while let Ready::Item(item) = core.ready.next(&parker) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| worker.work_on(&item))) {
            worker.recover(&item, panic_text(&*panic));
        }
    }
    let Worker { code, listener, .. } = worker;
    end_of(listener, &core.plain_group);
    code.end(&core.plain_group);
    slot.leave();
}

/// Whether the calling thread is inside a listener of this consumer.
pub(super) fn is_consuming_for(core: &Arc<Core>) -> bool {
    CONSUMING.get() == Some(Arc::as_ptr(core) as usize)
}

thread_local! {
    /// The consumer that this thread works for, by address; such a thread holds an `Arc` of it.
    static CONSUMING: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

struct Worker<'a> {
    core: &'a Arc<Core>,
    slot: &'a Arc<Slot>,
    number: usize,
    code: Code,
    listener: Option<Call>,
    batch: Batch,
    /// The places in the run of what is in the batch.
    indices: Vec<u32>,
    /// What this thread has done for the topic that it works on.
    consumed: Arc<Consumed>,
    /// In order: what was taken.
    pieces: Vec<Piece>,
    inflater: Inflater,
}

impl Worker<'_> {
    fn work_on(&mut self, item: &Item) {
        match item {
            Item::Queue(queue) if self.core.settings.order.is_some() => self.consume_in_order(queue),
            Item::Queue(queue) => self.consume(queue),
            Item::Direct(direct) => self.consume_directly(direct),
            // Asked of threads that poll only.
            Item::Question(_) => {}
        }
    }

    /// A panic outside of the listener is a bug, ours or that of the program's logger. It costs the queue that was
    /// worked on, which is rebuilt; the thread goes on.
    fn recover(&mut self, item: &Item, panic: &str) {
        log::error!("{} panicked and goes on: {panic}", self.slot.name());
        let thread = self.slot.name().to_owned();
        self.core.emit(Event::ThreadRestarted { thread, panic: panic.to_owned() });
        self.slot.end();
        self.slot.put_down();
        self.pieces.clear();
        self.indices.clear();
        self.batch.clear();
        if let Item::Queue(queue) = item {
            queue.let_go();
            // It may be on its way out already, and wait for just this.
            self.core.settled(queue, queue.settle());
            self.core.post_rebalance(RebalanceEvent::Rebuild(queue.id()));
        }
    }

    /// Takes a run and works on it until it is used up.
    fn consume(&mut self, queue: &Arc<ProcessQueue>) {
        let size = self.core.settings.consume_batch_size;
        let Some(taken) = queue.take(size) else { return };
        if let Some(oldest) = taken.more {
            self.core.ready.put(Item::Queue(queue.clone()), oldest);
            self.core.wake_in_passing();
        }
        let run = taken.run;
        self.slot.take_up(Work { queue: queue.clone(), run: run.clone(), retried: taken.retried });
        self.batch.set_queue(&self.core.instance.namespace().strip_queue(queue.queue()));
        self.consumed = self.slot.counts.by_topic.of(queue.queue().shared_topic());
        queue.facts.last_consume.store(self.core.instance.clock().millis(), Ordering::Relaxed);

        let begun = self.slot.nanos(Instant::now());
        let born = self.slot.nanos(run.born());
        let mut now = begun;
        let mut messages = 0;
        let mut range = taken.range;
        loop {
            messages += range.end - range.start;
            let last = range.end == run.len();
            if last && taken.retried.is_none() {
                // Before the call, which may take hours: nobody needs to look after messages that nobody can take.
                self.core.ready.went(run.len() as usize);
                if range.start > 0 {
                    // The same goes for the rest of the run, which may be all that keeps the queue from pulling.
                    self.core.settled(queue, queue.settle_if_stopped());
                }
            }
            now = self.call(queue, &run, range.clone(), taken.retried, born, now);
            if last || taken.retried.is_some() {
                break;
            }
            match run.claims.claim(size) {
                Some(next) => range = next,
                None => break,
            }
        }
        self.core.settled(queue, queue.settle_if_stopped());
        self.core.note_listener_time(Duration::from_nanos(now.saturating_sub(begun)), messages);
        self.slot.put_down();
        self.batch.clear();
    }

    /// One listener call, and what follows from it. `now` is when the last one ended; returns when this one did. Times
    /// are nanoseconds of the slot.
    fn call(
        &mut self,
        queue: &Arc<ProcessQueue>,
        run: &Arc<Run>,
        range: Range<u32>,
        retried: Option<u32>,
        born: u64,
        now: u64,
    ) -> u64 {
        self.fill(queue, run, range.clone(), retried);
        if self.batch.is_empty() {
            return now;
        }
        let (verdict, in_time, ended) = self.listen_timed(range, born, now);
        if in_time {
            self.settle(queue, run, &verdict, retried);
        } else {
            // The timer has begun to send the messages back.
            self.consumed.add(0, self.batch.len() as u64);
            log::warn!("a listener for {} returned after its time was over", queue.queue());
            self.accept_late(queue, run, &verdict);
        }
        ended
    }

    /// Calls the listener with the batch, so that others see since when. Its verdict, whether it came in time, and
    /// when.
    fn listen_timed(&mut self, range: Range<u32>, born: u64, now: u64) -> (Verdict, bool, u64) {
        let core = self.core;
        let clock = core.instance.clock();
        let by_clock = if clock.is_manual() { self.slot.nanos(clock.instant()) } else { now };
        self.slot.begin(&range, now, by_clock);
        if core.watched.begin() {
            core.post_timer(TimerEvent::Watch(core.clone()));
        }
        let traced = trace::before(core, &self.batch);
        let verdict = self.listen();
        let ended = self.slot.nanos(Instant::now());
        let took = ended.saturating_sub(now);
        self.slot.counts.listener_time.record_alone(took);
        self.consumed.took(took);
        core.timing.took(Duration::from_nanos(took));
        self.slot.counts.wait_time.record_alone(now.saturating_sub(born));
        let in_time = self.slot.end();
        if let Some(traced) = traced {
            trace::after(core, &traced, &mut self.batch, &verdict, Duration::from_nanos(took), !in_time);
        }
        (verdict, in_time, ended)
    }

    /// The batch of these messages, inflated. One that cannot be read is a dead letter at once: trying again cannot
    /// help.
    fn fill(&mut self, queue: &Arc<ProcessQueue>, run: &Arc<Run>, range: Range<u32>, retried: Option<u32>) {
        self.indices.clear();
        for index in range {
            let Some(view) = self.batch.put(self.indices.len(), run, index) else { continue };
            if let Some(times) = retried {
                view.set_reconsume_times(times);
            }
            let Err(problem) = make_readable(&mut self.inflater, run, index, view) else {
                self.indices.push(index);
                continue;
            };
            let (id, queue_name, times) = (view.message_id(), queue.queue(), view.reconsume_times());
            log::error!("message {id} of {queue_name} cannot be read and becomes a dead letter: {problem}");
            self.send_back(queue, run, index, Back::DeadLetter, times);
        }
        self.batch.keep(self.indices.len());
    }

    /// Runs the user's code. A panic counts as "later".
    fn listen(&mut self) -> Verdict {
        self.call_listener().unwrap_or_else(|text| Verdict::failed(format!("panic: {text}")))
    }

    /// # Errors
    /// The text of its panic.
    fn call_listener(&mut self) -> Result<Verdict, String> {
        let Worker { core, number, code, listener, batch, .. } = self;
        let called = catch_unwind(AssertUnwindSafe(|| {
            let listener = listener.get_or_insert_with(|| code.listener.make(*number));
            Next::new(batch, &code.hooks, listener).run()
        }));
        called.map_err(|panic| {
            let text = panic_text(&*panic).to_owned();
            log::error!("the listener of {} panicked: {text}", core.plain_group);
            // What is left of it may be in pieces: it is made anew for the next call. Its end is user code as well.
            end_of(listener.take(), &core.plain_group);
            if let Some(first) = batch.first() {
                core.emit(Event::ListenerPanicked { message: first.detached(), panic: text.clone() });
            }
            text
        })
    }

    /// One message for an operator, with the listener of this thread.
    fn consume_directly(&mut self, direct: &Direct) {
        self.core.directs.fetch_sub(1, Ordering::Relaxed);
        let begun = Instant::now();
        let mut view = direct.message.clone();
        let came = match inflate(&mut self.inflater, &mut view) {
            Err(error) => Came::Unreadable(error.to_string()),
            Ok(()) => {
                self.batch.clear();
                self.batch.set_queue(&direct.queue);
                self.batch.messages_mut().push(view);
                match self.call_listener() {
                    Err(panic) => Came::Panicked(panic),
                    Ok(verdict) => {
                        let status = self.batch.answer_at(0).unwrap_or(verdict.status());
                        Came::Back(verdict, status)
                    }
                }
            }
        };
        self.batch.clear();
        direct.answer(came, begun.elapsed(), self.core.settings.order.is_some());
    }

    fn settle(&mut self, queue: &Arc<ProcessQueue>, run: &Arc<Run>, verdict: &Verdict, retried: Option<u32>) {
        let (mut succeeded, mut failed, mut look) = (0, 0, false);
        for place in 0..self.indices.len() {
            let index = self.indices[place];
            let status = self.batch.answer_at(place).unwrap_or(verdict.status());
            if status == ConsumeStatus::Success {
                succeeded += 1;
                look |= run.claims.finish(index) == Finished::Look;
                continue;
            }
            failed += 1;
            let times = retried.unwrap_or_else(|| self.batch[place].reconsume_times());
            let back = Back::of(status, &self.core.settings.delay_levels);
            self.send_back(queue, run, index, back, times);
        }
        if failed > 0
            && let Some(error) = verdict.error()
        {
            let ids: Vec<&str> = self.batch.iter().map(MessageView::message_id).collect();
            log::warn!("messages {} of {} failed: {error}", ids.join(", "), queue.queue());
        }
        self.consumed.add(succeeded, failed);
        if look {
            self.core.settled(queue, queue.settle());
        }
    }

    /// Whatever was accepted does not have to go back, as long as no broker has it.
    fn accept_late(&mut self, queue: &Arc<ProcessQueue>, run: &Arc<Run>, verdict: &Verdict) {
        for place in 0..self.indices.len() {
            if self.batch.answer_at(place).unwrap_or(verdict.status()) == ConsumeStatus::Success {
                let accepted = Due::AcceptedLate(queue.id(), run.offset_of(self.indices[place]));
                self.core.post_timer(TimerEvent::At(self.core.now(), accepted));
            }
        }
    }

    fn send_back(&self, queue: &Arc<ProcessQueue>, run: &Arc<Run>, index: u32, back: Back, times: u32) {
        if queue.send_back(run, index) {
            self.core.post_pull(PullEvent::SendBack(SendBack {
                core: self.core.clone(),
                queue: queue.clone(),
                run: run.clone(),
                index,
                back,
                times,
            }));
        }
    }
}
