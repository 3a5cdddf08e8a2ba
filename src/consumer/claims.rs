//! Which messages of one run are taken and which are done, without a lock.
//!
//! A worker claims with one atomic add and finishes with one atomic or. Closing must not lose the last finish, told
//! as a story: a worker finishes the last running message while the queue is being closed. If closing were a flag of
//! its own, the worker could set its bit, read the flag as "open" and go away, while the closer, having set the flag,
//! read the bits before that one was set: nobody would look again. So the flag is a bit in the same word: either the
//! closer's `fetch_or` comes first and the worker sees it in what its own returns, or the worker's comes first and the
//! closer sees the bit.

use std::ops::Range;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What finishing a message calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It was finished before; nothing happened.
    Already,
    /// Others in its word are open still.
    More,
    /// It completed a word, or the run is closed: lock the process queue and look.
    Look,
}

/// The claims on the messages of one run.
#[derive(Debug)]
pub struct Claims {
    cursor: Apart<AtomicU32>,
    done: Apart<Box<[AtomicU64]>>,
    /// How many were claimed when the run was closed; [`OPEN`] until then. Claims that lost the race against closing
    /// still move the cursor, so the cursor cannot tell.
    taken: AtomicU32,
    len: u32,
}

impl Claims {
    /// For a run of `len` messages.
    pub fn new(len: u32) -> Self {
        let words = len.div_ceil(PER_WORD);
        Self {
            cursor: Apart(AtomicU32::new(0)),
            done: Apart((0..words).map(|_| AtomicU64::new(0)).collect()),
            taken: AtomicU32::new(OPEN),
            len,
        }
    }

    /// How many messages the run has.
    #[allow(clippy::len_without_is_empty, reason = "a run is asked for that, not its claims")]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Takes up to `n` messages that nobody has taken; `None` when none is left or the run is closed.
    pub fn claim(&self, n: u32) -> Option<Range<u32>> {
        if self.cursor.0.load(Ordering::Relaxed) >= self.len {
            return None;
        }
        let first = self.cursor.0.fetch_add(n, Ordering::AcqRel);
        (first < self.len).then(|| first..self.len.min(first.saturating_add(n)))
    }

    /// Marks one message as finished.
    pub fn finish(&self, index: u32) -> Finished {
        let Some(word) = self.word(index) else { return Finished::Already };
        let bit = bit(index);
        let before = word.fetch_or(bit, Ordering::AcqRel);
        if before & bit != 0 {
            Finished::Already
        } else if before & CLOSED != 0 || before | bit == self.full(index / PER_WORD) {
            Finished::Look
        } else {
            Finished::More
        }
    }

    /// Ends claiming; called under the lock of the process queue. What is finished from now on answers
    /// [`Finished::Look`]. Whether messages were left that nobody can claim any more.
    pub fn close(&self) -> bool {
        // Claims before this are counted, later ones fail: CUT is beyond every length.
        let taken = self.cursor.0.fetch_or(CUT, Ordering::AcqRel);
        if taken < CUT {
            self.taken.store(taken.min(self.len), Ordering::Release);
        }
        for word in self.done.0.iter() {
            word.fetch_or(CLOSED, Ordering::AcqRel);
        }
        taken < self.len
    }

    /// How many were claimed, at most all.
    pub fn claimed(&self) -> u32 {
        match self.taken.load(Ordering::Acquire) {
            OPEN => self.cursor.0.load(Ordering::Acquire).min(self.len),
            taken => taken,
        }
    }

    /// How many nobody has claimed; none once closed.
    pub fn unclaimed(&self) -> u32 {
        self.len.saturating_sub(self.cursor.0.load(Ordering::Acquire))
    }

    /// How many are finished.
    pub fn finished(&self) -> u32 {
        self.done.0.iter().map(|word| (word.load(Ordering::Acquire) & !CLOSED).count_ones()).sum()
    }

    /// Whether this one is finished.
    pub fn is_finished(&self, index: u32) -> bool {
        self.word(index).is_some_and(|word| word.load(Ordering::Acquire) & bit(index) != 0)
    }

    /// The first one that is not finished; `None` when all are.
    pub fn first_open(&self) -> Option<u32> {
        for (word, at) in self.done.0.iter().zip((0..).step_by(PER_WORD as usize)) {
            let open = at + word.load(Ordering::Acquire).trailing_ones().min(PER_WORD);
            if open < self.len.min(at + PER_WORD) {
                return Some(open);
            }
        }
        None
    }

    fn word(&self, index: u32) -> Option<&AtomicU64> {
        (index < self.len).then(|| self.done.0.get((index / PER_WORD) as usize)).flatten()
    }

    /// The word with all its messages done.
    fn full(&self, word: u32) -> u64 {
        let messages = (self.len - word * PER_WORD).min(PER_WORD);
        (1 << messages) - 1
    }
}

fn bit(index: u32) -> u64 {
    1 << (index % PER_WORD)
}

/// Bit 63 is taken by [`CLOSED`].
const PER_WORD: u32 = 63;
const CLOSED: u64 = 1 << 63;
/// Beyond every length: a frame of 16 MiB holds fewer than 2^18 messages.
const CUT: u32 = 1 << 31;
const OPEN: u32 = u32::MAX;

/// On a cache line of its own: claiming and finishing go on side by side.
#[derive(Debug)]
#[repr(align(64))]
struct Apart<T>(T);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn claims_come_in_order_and_end() {
        let claims = Claims::new(5);
        assert_eq!(claims.claim(2), Some(0..2));
        assert_eq!(claims.claim(2), Some(2..4));
        assert_eq!(claims.claim(2), Some(4..5));
        assert_eq!(claims.claim(2), None);
        assert_eq!((claims.claimed(), claims.unclaimed()), (5, 0));
    }

    #[test]
    fn the_watermark_is_the_first_open_message_over_words() {
        let claims = Claims::new(130);
        for index in 0..130 {
            assert_eq!(claims.first_open(), Some(index));
            let looks = matches!(index, 62 | 125 | 129);
            assert_eq!(claims.finish(index), if looks { Finished::Look } else { Finished::More }, "{index}");
        }
        assert_eq!(claims.first_open(), None);
        assert_eq!(claims.finished(), 130);
        assert_eq!(claims.finish(7), Finished::Already);
        assert_eq!(claims.finish(130), Finished::Already, "not a message of this run");
    }

    #[test]
    fn after_closing_nothing_is_claimed_and_each_finish_looks() {
        let claims = Claims::new(10);
        claims.claim(3);
        assert!(claims.close());
        assert!(!claims.close(), "said once");
        assert_eq!((claims.claim(1), claims.claimed(), claims.unclaimed()), (None, 3, 0));
        assert_eq!(claims.finish(0), Finished::Look);
        assert_eq!(claims.finish(0), Finished::Already);
        assert_eq!((claims.finished(), claims.first_open()), (1, Some(1)));
        claims.claim(1);
        assert_eq!(claims.claimed(), 3, "a claim after the cut is not counted");
    }

    #[test]
    fn an_empty_run_has_nothing_open() {
        let claims = Claims::new(0);
        assert_eq!((claims.claim(1), claims.first_open(), claims.unclaimed()), (None, None, 0));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::Arc;

    #[test]
    fn loom_each_message_is_claimed_once() {
        loom::model(|| {
            let claims = Arc::new(Claims::new(3));
            let other = claims.clone();
            let thread = loom::thread::spawn(move || other.claim(2));
            let (a, b) = (claims.claim(2), thread.join().unwrap());
            let mut all: Vec<u32> = [a, b].into_iter().flatten().flatten().collect();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2]);
        });
    }

    #[test]
    fn loom_closing_never_loses_the_last_finish() {
        loom::model(|| {
            let claims = Arc::new(Claims::new(2));
            let other = claims.clone();
            let worker = loom::thread::spawn(move || match other.claim(1) {
                None => None,
                Some(range) => Some(other.finish(range.start)),
            });
            claims.close();
            let drained_at_close = claims.finished() == claims.claimed();
            match worker.join().unwrap() {
                // Cut before the claim: nothing ran.
                None => assert!(drained_at_close),
                // Either the closer saw it finished, or the worker was told to look.
                Some(finished) => assert!(drained_at_close || finished == Finished::Look),
            }
        });
    }
}
