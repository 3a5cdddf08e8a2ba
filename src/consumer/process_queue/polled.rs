//! Handing messages to threads that poll.
//!
//! What is handed out is finished as far as the cache is concerned: it is neither charged nor counted any more. How far
//! the queue may be committed is another question, which the consumer answers: what the program was given last it may
//! still be working on. Taking and finishing is one step under the lock, so that a queue that is closed either has handed
//! a message out before, or keeps it for the next owner.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::{ProcessQueue, Runs, Settled};
use crate::consumer::offset::Offset;
use crate::consumer::run::Run;

/// How far a queue whose messages are polled may be committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Polled {
    start: Offset,
    /// One past the last message that was handed out.
    handed: Offset,
    /// The consumer has said that this may be committed.
    allowed: Offset,
    /// Without being told by the program.
    auto: bool,
}

/// Messages for a thread of the program.
#[derive(Debug)]
pub struct HandedOut {
    /// The run that they are in.
    pub run: Arc<Run>,
    /// Their places in it.
    pub range: Range<u32>,
    /// The run is used up.
    pub used_up: bool,
    /// The queue has more and belongs back on the ready list, with the birth of the oldest.
    pub more: Option<Instant>,
    /// What follows for the queue.
    pub settled: Settled,
}

impl ProcessQueue {
    /// Its messages are polled. With `auto`, what was handed out is committed without being asked to.
    #[must_use]
    pub fn polled(self, auto: bool) -> Self {
        let start = self.watermark();
        self.runs.lock().polled = Some(Polled { start, handed: start, allowed: start, auto });
        self
    }

    /// Its messages are polled, and the program commits. It goes on where `former` has ended, which is closed: what the
    /// program has got of that one and not committed, it has still got.
    #[must_use]
    pub fn instead_of(self, former: &Self) -> Self {
        let known = former.runs.lock().polled;
        self.runs.lock().polled = known;
        self
    }

    /// As [`instead_of`](Self::instead_of), but it begins where the broker has something to go on with. Nothing else of
    /// what is skipped is to be committed than what the program has.
    #[must_use]
    pub fn corrected_from(self, former: &Self) -> Self {
        let (begin, known) = (self.watermark(), former.runs.lock().polled);
        self.runs.lock().polled = known.map(|known| {
            let (handed, allowed) = (known.handed.min(begin), known.allowed.min(begin));
            let start = if handed > allowed { allowed } else { begin };
            Polled { start, handed, allowed, auto: false }
        });
        self
    }

    /// Hands out the rest of the oldest run, or what of it is below `limit`. `None` when there is nothing: then the
    /// queue is off the ready list.
    pub fn hand_out(&self, limit: Option<Offset>) -> Option<HandedOut> {
        let mut runs = self.runs.lock();
        runs.queued = false;
        if runs.closed {
            return None;
        }
        let run = runs.claimable.front()?.clone();
        let range = run.claims.claim(below(&run, limit)?)?;
        for index in range.clone() {
            run.claims.finish(index);
        }
        let used_up = run.claims.unclaimed() == 0;
        if used_up {
            runs.claimable.pop_front();
        }
        let settled = self.settle_locked(&mut runs);
        let handed = runs.watermark();
        if let Some(polled) = &mut runs.polled {
            polled.handed = handed;
        }
        let more = runs.oldest_claimable();
        runs.queued = more.is_some();
        Some(HandedOut { run, range, used_up, more, settled })
    }

    /// It is off the ready list, with whatever it has.
    pub fn step_aside(&self) {
        self.runs.lock().queued = false;
    }

    /// `Some`, with the birth of its oldest message, if it has some and now belongs on the ready list.
    pub fn step_back(&self) -> Option<Instant> {
        let mut runs = self.runs.lock();
        if runs.closed || runs.queued {
            return None;
        }
        let oldest = runs.oldest_claimable();
        runs.queued = oldest.is_some();
        oldest
    }

    /// Everything that was handed out may be committed. Returns up to where that is, `None` if it is where the queue
    /// began; and whether nothing is left in the cache.
    pub fn allow_all(&self) -> (Option<Offset>, bool) {
        let mut runs = self.runs.lock();
        self.sweep(&mut runs);
        let (watermark, idle) = (runs.watermark(), runs.slots.is_empty());
        let Some(polled) = &mut runs.polled else { return (None, idle) };
        polled.allowed = watermark;
        ((watermark != polled.start).then_some(watermark), idle)
    }

    /// The program says itself how far it is.
    pub fn allow(&self, offset: Offset) {
        if let Some(polled) = &mut self.runs.lock().polled {
            polled.allowed = offset;
        }
    }

    /// Up to where it may be committed. Looks at the runs first, so that it is exact.
    pub fn committable(&self) -> Offset {
        let mut runs = self.runs.lock();
        self.sweep(&mut runs);
        runs.committable()
    }

    /// Whether something was handed out that only the program may commit, and has not.
    pub fn waits_for_commit(&self) -> bool {
        self.runs.lock().polled.is_some_and(|polled| !polled.auto && polled.handed > polled.allowed)
    }

    /// Where it goes on, if it is made anew. What a program has got that commits itself does not come again. Otherwise
    /// what it has got last does: nobody could tell any more when it is done with that.
    pub fn polled_position(&self) -> Option<Offset> {
        let polled = self.runs.lock().polled?;
        let may_be_at_work = polled.auto && polled.handed > polled.allowed;
        Some(if may_be_at_work { polled.allowed } else { self.exact_watermark() })
    }
}

impl Runs {
    fn committable(&self) -> Offset {
        match &self.polled {
            // Between the messages that were handed out lies what the filter left out: that needs nobody's word.
            Some(polled) if !(polled.auto && (self.closed || polled.handed <= polled.allowed)) => {
                polled.allowed
            }
            _ => self.watermark(),
        }
    }
}

/// How many messages of the run are next and below the limit.
fn below(run: &Run, limit: Option<Offset>) -> Option<u32> {
    let claimed = run.claims.claimed();
    let until = match limit {
        None => run.len(),
        Some(limit) => {
            let below = (claimed..run.len()).take_while(|index| run.offset_of(*index) < limit).count();
            claimed + u32::try_from(below).unwrap_or(u32::MAX)
        }
    };
    (until > claimed).then(|| until - claimed)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::consumer::outside::stub::Stub;
    use crate::consumer::process_queue::Limits;
    use crate::message::{MessageQueue, Record, Source};

    fn at(wire: i64) -> Offset {
        Offset::new(wire).expect("not negative")
    }

    /// Holds 10, 12, 14 in a run that covers all below 20.
    fn queue(auto: bool) -> ProcessQueue {
        let limits = Limits { messages: 10, bytes: 1 << 20, span: 100 };
        let name = MessageQueue::new("orders", "broker-a", 0);
        let queue = ProcessQueue::new(name.clone(), at(10), limits, Stub::new().budget_for_test());
        let queue = queue.polled(auto);
        let source = Arc::new(Source { bytes: vec![0; 100], queue: name, namespace: None });
        let record = |queue_offset| Record::empty(queue_offset, 10);
        let run = Run::new(source, [10, 12, 14].map(record).into(), at(20), Instant::now());
        assert!(queue.push(run).expect("it is open").is_some());
        queue
    }

    #[test]
    fn what_is_handed_out_is_no_load_and_not_committable_before_somebody_says_so() {
        for auto in [true, false] {
            let queue = queue(auto);
            let handed = queue.hand_out(None).unwrap();
            assert_eq!((handed.range, handed.used_up, handed.more), (0..3, true, None));
            assert_eq!((queue.load().messages, queue.load().bytes), (0, 0));
            assert_eq!((queue.watermark(), queue.committable()), (at(20), at(10)));
            assert_eq!(queue.waits_for_commit(), !auto);
            assert_eq!(queue.allow_all(), (Some(at(20)), true));
            assert_eq!(queue.committable(), at(20));
            assert!(!queue.waits_for_commit() && queue.hand_out(None).is_none());
        }
    }

    #[test]
    fn a_limit_cuts_a_run_and_the_rest_stays() {
        let queue = queue(true);
        assert_eq!(queue.hand_out(Some(at(14))).unwrap().range, 0..2);
        assert_eq!(queue.watermark(), at(14));
        assert!(queue.hand_out(Some(at(14))).is_none());
        assert!(queue.step_back().is_some(), "it has one more");
        assert!(queue.step_back().is_none(), "and is on the list now");
        assert_eq!(queue.hand_out(None).unwrap().range, 2..3);
        assert_eq!(queue.allow_all().0, Some(at(20)));
    }

    #[test]
    fn a_closed_queue_hands_out_nothing_and_what_it_has_handed_out_is_committed_if_it_may() {
        for (auto, committable) in [(true, at(14)), (false, at(10))] {
            let queue = queue(auto);
            queue.hand_out(Some(at(14))).unwrap();
            let (settled, _) = queue.close();
            assert!(settled.drained && queue.hand_out(None).is_none() && queue.step_back().is_none());
            assert_eq!(queue.committable(), committable);
        }
    }

    /// Another one of the same queue, which begins there.
    fn next(begin: i64) -> ProcessQueue {
        let limits = Limits { messages: 10, bytes: 1 << 20, span: 100 };
        let name = MessageQueue::new("orders", "broker-a", 0);
        ProcessQueue::new(name, at(begin), limits, Stub::new().budget_for_test())
    }

    #[test]
    fn one_made_anew_knows_what_the_program_has_and_what_it_has_said() {
        let former = queue(false);
        former.hand_out(Some(at(14))).unwrap();
        former.close();
        assert_eq!(former.polled_position(), Some(at(14)), "that does not come again");
        let anew = next(14).instead_of(&former);
        assert_eq!((anew.committable(), anew.waits_for_commit()), (at(10), true));
        anew.allow(at(12));
        assert_eq!((anew.committable(), anew.waits_for_commit()), (at(12), true));
        assert_eq!(anew.allow_all().0, Some(at(14)));
        assert_eq!((anew.committable(), anew.waits_for_commit()), (at(14), false));
        let once_more = next(14).instead_of(&anew);
        assert_eq!(once_more.allow_all().0, Some(at(14)), "which may not be stored yet");
    }

    #[test]
    fn what_comes_again_of_one_made_anew_is_not_done() {
        let former = queue(true);
        former.hand_out(Some(at(12))).unwrap();
        former.allow_all();
        former.hand_out(Some(at(14))).unwrap();
        former.close();
        assert_eq!(former.polled_position(), Some(at(12)));
        assert_eq!(next(12).polled(true).committable(), at(12));
    }

    #[test]
    fn a_correction_leaves_the_program_what_it_has() {
        // Where it goes on; what it has said before; what may be committed then, and once it has said that all is done.
        for (begin, said, committable, all) in [
            (12, None, 10, Some(12)),
            (30, None, 10, Some(30)),
            (12, Some(14), 12, None),
            (30, Some(14), 14, None),
        ] {
            let former = queue(false);
            former.hand_out(Some(at(14))).unwrap();
            said.into_iter().for_each(|said| former.allow(at(said)));
            former.close();
            let corrected = next(begin).corrected_from(&former);
            assert_eq!(corrected.committable(), at(committable), "{begin} {said:?}");
            assert_eq!(corrected.waits_for_commit(), said.is_none());
            assert_eq!(corrected.allow_all().0, all.map(at), "{begin} {said:?}");
        }
    }

    #[test]
    fn what_the_filter_left_out_needs_nobodys_word() {
        let source = |queue: &ProcessQueue| {
            Arc::new(Source { bytes: Vec::new(), queue: queue.queue().clone(), namespace: None })
        };
        for (auto, committable) in [(true, at(30)), (false, at(20))] {
            let queue = queue(auto);
            queue.hand_out(None);
            queue.allow_all();
            let nothing = Run::new(source(&queue), Box::new([]), at(30), Instant::now());
            assert_eq!(queue.push(nothing).unwrap(), None);
            assert_eq!(queue.committable(), committable);
        }
    }
}
