//! Whether anybody looks after running calls: the timer, once a second, as long as there are any.
//!
//! A call that begins tells the timer, unless that is looking anyway; telling costs a wake-up, and calls are many.

use crate::sync::{AtomicBool, Ordering};

/// Whether the timer looks after the calls of one consumer.
#[derive(Debug)]
pub(super) struct Watched(AtomicBool);

impl Watched {
    pub(super) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// A call has begun. Whether the timer has to be told.
    #[inline]
    pub(super) fn begin(&self) -> bool {
        !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::AcqRel)
    }

    fn leave(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Whether nobody else has been told meanwhile.
    fn come_back(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// The consumers that the timer looks after. `C` stands for one.
#[derive(Debug)]
pub(super) struct Watching<C>(Vec<Entry<C>>);

#[derive(Debug)]
struct Entry<C> {
    consumer: C,
    /// No call was running at the last look, and that nobody looks was said.
    leaving: bool,
}

impl<C> Watching<C> {
    pub(super) fn add(&mut self, consumer: C) {
        self.0.push(Entry { consumer, leaving: false });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Looks at each; those without a call are left alone, but not before another look. Told as a story: a call begins,
    /// and sees that the timer is looking. The timer looks, does not see the call, since what one processor writes takes
    /// its time to reach the other, and says that it is not looking any more. Neither knows of the other. At the next
    /// look the call is seen.
    pub(super) fn look(&mut self, watched: impl Fn(&C) -> &Watched, is_busy: impl Fn(&C) -> bool) {
        self.0.retain_mut(|Entry { consumer, leaving }| {
            let was_leaving = std::mem::replace(leaving, false);
            match (is_busy(consumer), was_leaving) {
                (true, false) => true,
                // Unless it has told the timer itself.
                (true, true) => watched(consumer).come_back(),
                (false, true) => false,
                (false, false) => {
                    watched(consumer).leave();
                    *leaving = true;
                    true
                }
            }
        });
    }
}

impl<C> Default for Watching<C> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Consumer {
        watched: Watched,
        busy: Cell<bool>,
    }

    fn look(watching: &mut Watching<&Consumer>) {
        watching.look(|consumer| &consumer.watched, |consumer| consumer.busy.get());
    }

    fn consumer() -> Consumer {
        Consumer { watched: Watched::new(), busy: Cell::new(true) }
    }

    #[test]
    fn a_consumer_is_looked_after_while_it_has_calls_and_told_of_once() {
        let (consumer, mut watching) = (consumer(), Watching::default());
        assert!(consumer.watched.begin() && !consumer.watched.begin());
        watching.add(&consumer);
        (0..3).for_each(|_| look(&mut watching));
        assert!(!watching.is_empty() && !consumer.watched.begin());
        consumer.busy.set(false);
        (0..2).for_each(|_| look(&mut watching));
        assert!(watching.is_empty() && consumer.watched.begin());
    }

    #[test]
    fn a_call_that_was_not_seen_when_the_timer_left_is_seen_at_the_next_look() {
        let (consumer, mut watching) = (consumer(), Watching::default());
        assert!(consumer.watched.begin());
        watching.add(&consumer);
        consumer.busy.set(false);
        look(&mut watching);
        // It has begun and seen the flag as it was before; it tells nobody.
        consumer.busy.set(true);
        look(&mut watching);
        assert!(!watching.is_empty() && !consumer.watched.begin());
    }

    #[test]
    fn a_call_that_told_the_timer_itself_is_looked_after_once() {
        let (consumer, mut watching) = (consumer(), Watching::default());
        assert!(consumer.watched.begin());
        watching.add(&consumer);
        consumer.busy.set(false);
        look(&mut watching);
        consumer.busy.set(true);
        assert!(consumer.watched.begin());
        watching.add(&consumer);
        look(&mut watching);
        assert_eq!(watching.0.len(), 1);
    }
}
