//! Consuming a queue in order: one batch after the other, each under the lock of the queue's broker.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Worker, make_readable};
use crate::client::{ConsumeStatus, Verdict};
use crate::clock::later;
use crate::consumer::claims::Finished;
use crate::consumer::core::Item;
use crate::consumer::order::{Fate, Judgement, judge};
use crate::consumer::outside::Outside;
use crate::consumer::process_queue::{Piece, ProcessQueue, Took};
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::send_back::{Back, SendBack};
use crate::consumer::slot::Work;
use crate::consumer::timer_loop::{Due, TimerEvent};
use crate::message::MessageView;

impl Worker<'_> {
    /// Works on the queue until it has nothing more, has to wait, or others have waited for long enough.
    pub(super) fn consume_in_order(&mut self, queue: &Arc<ProcessQueue>) {
        self.batch.set_queue(&self.core.instance.namespace().strip_queue(queue.queue()));
        self.consumed = self.slot.counts.by_topic.of(queue.queue().shared_topic());
        queue.facts.last_consume.store(self.core.instance.clock().millis(), Ordering::Relaxed);
        let begun = self.slot.nanos(Instant::now());
        let (mut now, mut messages) = (begun, 0);
        let (mut turn_begun, mut of_turn) = (begun, 0);
        loop {
            match self.take_in_order(queue) {
                Took::Nothing => break,
                Took::NoLock => {
                    self.core.renew_locks(queue.queue().shared_broker_name());
                    break;
                }
                Took::Batch => {}
            }
            let some = u32::try_from(self.pieces.len()).unwrap_or(u32::MAX);
            (messages, of_turn) = (messages + some, of_turn + some);
            let goes_on;
            (now, goes_on) = self.call_in_order(queue, now);
            if !goes_on {
                break;
            }
            if of_turn >= TURN_MESSAGES || now.saturating_sub(turn_begun) >= TURN_NANOS {
                if self.core.ready.is_waited_for() {
                    self.give_up_turn(queue);
                    break;
                }
                (turn_begun, of_turn) = (now, 0);
            }
        }
        if messages > 0 {
            self.core.note_listener_time(Duration::from_nanos(now.saturating_sub(begun)), messages);
        }
        self.pieces.clear();
        self.slot.put_down();
        self.batch.clear();
    }

    fn take_in_order(&mut self, queue: &ProcessQueue) -> Took {
        let core = self.core;
        let wall = core.instance.clock().now();
        queue.take_in_order(core.settings.consume_batch_size, core.now(), wall, &mut self.pieces)
    }

    /// Another queue gets the thread; this one goes to the end of the list.
    fn give_up_turn(&self, queue: &Arc<ProcessQueue>) {
        if let Some(oldest) = queue.end_turn() {
            self.core.ready.put(Item::Queue(queue.clone()), oldest);
            self.core.wake_in_passing();
        }
    }

    /// One listener call with what was taken; times are nanoseconds of the slot. When it ended, and whether the queue goes on at once.
    fn call_in_order(&mut self, queue: &Arc<ProcessQueue>, now: u64) -> (u64, bool) {
        let Some(first) = self.pieces.first().cloned() else { return (now, true) };
        let unreadable = self.fill_in_order(queue);
        let (mut ended, mut verdict) = (now, Verdict::from(()));
        if !self.batch.is_empty() {
            let range = first.index..first.index + u32::try_from(self.batch.len()).unwrap_or(0);
            self.slot.take_up(Work { queue: queue.clone(), run: first.run.clone(), retried: first.times });
            // Late or not, the answer counts: nothing else has been done with the messages.
            (verdict, _, ended) = self.listen_timed(range, self.slot.nanos(first.run.born()), now);
        }
        (ended, self.settle_in_order(queue, &verdict, unreadable))
    }

    /// The batch of what was taken, inflated, and the places of messages that cannot be read.
    fn fill_in_order(&mut self, queue: &ProcessQueue) -> Vec<usize> {
        self.batch.clear();
        let mut unreadable = Vec::new();
        for place in 0..self.pieces.len() {
            let Piece { run, index, times } = self.pieces[place].clone();
            let Some(mut view) = run.view(index) else { continue };
            if let Some(times) = times {
                view.set_reconsume_times(times);
            }
            match make_readable(&mut self.inflater, &run, index, &mut view) {
                Ok(()) => self.batch.messages_mut().push(view),
                Err(problem) => {
                    let id = view.message_id();
                    log::error!(
                        "message {id} of {} cannot be read and becomes a dead letter: {problem}",
                        queue.queue()
                    );
                    unreadable.push(place);
                }
            }
        }
        unreadable
    }

    /// What follows from the answers. Whether the queue goes on at once.
    fn settle_in_order(
        &mut self,
        queue: &Arc<ProcessQueue>,
        verdict: &Verdict,
        unreadable: Vec<usize>,
    ) -> bool {
        let answers = self.answers(verdict, &unreadable);
        if let Some(error) = verdict.error() {
            let ids: Vec<&str> = self.batch.iter().map(MessageView::message_id).collect();
            log::warn!("messages {} of {} failed: {error}", ids.join(", "), queue.queue());
        }
        let pieces = std::mem::take(&mut self.pieces);
        let total = pieces.len() as u64;
        let Concluded { accepted, goes_on } = conclude(self.core, queue, pieces, &answers);
        self.consumed.add(accepted, total - accepted - unreadable.len() as u64);
        goes_on
    }

    /// The answer to each message that was taken, with its reconsume count.
    fn answers(&mut self, verdict: &Verdict, unreadable: &[usize]) -> Vec<(ConsumeStatus, u32)> {
        let mut answers = Vec::with_capacity(self.pieces.len());
        let mut in_batch = 0;
        for place in 0..self.pieces.len() {
            if unreadable.contains(&place) {
                let piece = &self.pieces[place];
                let stored = || piece.run.view(piece.index).map_or(0, |view| view.reconsume_times());
                answers.push((ConsumeStatus::DeadLetter, piece.times.unwrap_or_else(stored)));
                continue;
            }
            let status = self.batch.answer_at(in_batch).unwrap_or(verdict.status());
            answers.push((status, self.batch.get(in_batch).map_or(0, MessageView::reconsume_times)));
            in_batch += 1;
        }
        answers
    }
}

/// What became of a batch.
pub(in crate::consumer) struct Concluded {
    /// Messages that are finished.
    pub(in crate::consumer) accepted: u64,
    /// The queue does not wait for anything.
    pub(in crate::consumer) goes_on: bool,
}

/// Carries out what follows from the answers to what was taken, each with the reconsume count of its message. Unless
/// the queue goes on at once, the calling thread is through with it.
pub(in crate::consumer) fn conclude<S: Outside>(
    core: &Arc<S>,
    queue: &Arc<ProcessQueue>,
    pieces: Vec<Piece>,
    answers: &[(ConsumeStatus, u32)],
) -> Concluded {
    let settings = core.settings();
    let usual_pause = settings.order.as_ref().map_or(Duration::ZERO, |order| order.suspend_time);
    let Judgement { fates, pause } = judge(answers, settings.max_reconsume_times, usual_pause);
    let (mut accepted, mut look) = (0, false);
    let (mut handed_over, mut again) = (Vec::new(), Vec::new());
    for ((piece, fate), (_, times)) in pieces.into_iter().zip(fates).zip(answers) {
        match fate {
            Fate::Done => {
                accepted += 1;
                look |= piece.run.claims.finish(piece.index) == Finished::Look;
            }
            Fate::HandOver(back) => handed_over.push((piece, back, *times)),
            Fate::Again(more) => again.push(Piece { times: Some(times.saturating_add(more)), ..piece }),
        }
    }
    if look {
        core.settled(queue, queue.settle());
    }
    let goes_on = handed_over.is_empty() && again.is_empty();
    if !goes_on {
        wait(core, queue, handed_over, again, pause);
    }
    Concluded { accepted, goes_on }
}

/// The queue waits, for a time and until a broker has what is handed over. It does so before anybody is asked: the
/// answer may come before this returns.
fn wait<S: Outside>(
    core: &Arc<S>,
    queue: &Arc<ProcessQueue>,
    handed_over: Vec<(Piece, Back, u32)>,
    again: Vec<Piece>,
    pause: Option<Duration>,
) {
    let now = core.now();
    let until = pause.map_or(now, |pause| later(now, pause));
    let begun: Vec<_> =
        handed_over.into_iter().filter(|(one, ..)| queue.send_back(&one.run, one.index)).collect();
    let nothing_to_wait_for = begun.is_empty();
    core.settled(queue, queue.pause(again, until));
    for (Piece { run, index, .. }, back, times) in begun {
        let what = SendBack { core: core.clone(), queue: queue.clone(), run, index, back, times };
        core.post_pull(PullEvent::SendBack(what));
    }
    if pause.is_some() || nothing_to_wait_for {
        core.post_timer(TimerEvent::At(until, Due::Resume(queue.id())));
    }
}

/// After so many messages, or after so long, a queue that others wait for the thread of goes to the end of the list.
pub(in crate::consumer) const TURN_MESSAGES: u32 = 32;
pub(in crate::consumer) const TURN_NANOS: u64 = 10_000_000;
