//! What the threads around one ordered queue may do at the same time: a consume thread, the lock thread, the pull thread,
//! the timer.

use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::consumer::budget::{Budget, OnRelease};
use crate::consumer::losses::Losses;
use crate::consumer::offset::Offset;
use crate::consumer::process_queue::Limits;
use crate::message::{MessageQueue, Record, Source};

struct Case {
    queue: crate::sync::Arc<ProcessQueue>,
    now: Instant,
    wall: SystemTime,
    losses: Losses,
}

impl Case {
    /// Holds so many messages and is on the ready list.
    fn new(messages: i64) -> Self {
        let (now, wall, losses) = (Instant::now(), SystemTime::now(), Losses::default());
        let asked = Asked { at: now, by_wall: wall, losses: 0 };
        let limits = Limits { messages: 10, bytes: 1 << 20, span: usize::MAX };
        let budget = Budget::new(1 << 20, Arc::default(), OnRelease(Box::new(|| {})));
        let queue = ProcessQueue::new(name(), Offset::ZERO, limits, Arc::new(budget));
        let queue = crate::sync::Arc::new(queue.in_order(Some(Lease::new(asked, losses.clone()))));
        assert!(queue.push(run(0, messages)).is_ok_and(|came| came.is_some()));
        Self { queue, now, wall, losses }
    }

    /// Takes as a consume thread does, until there is nothing: how many, and why it stopped.
    fn consume(queue: &ProcessQueue, now: Instant, wall: SystemTime) -> (usize, Took) {
        let (mut batch, mut taken) = (Vec::new(), 0);
        loop {
            match queue.take_in_order(1, now, wall, &mut batch) {
                Took::Batch => taken += batch.len(),
                end => return (taken, end),
            }
            for piece in &batch {
                let _ = piece.run.claims.finish(piece.index);
            }
        }
    }
}

fn name() -> MessageQueue {
    MessageQueue::new("t", "broker-a", 0)
}

fn run(first: i64, messages: i64) -> Run {
    let source = Arc::new(Source { bytes: Vec::new(), queue: name(), namespace: None });
    let record = |queue_offset| Record::empty(queue_offset, 0);
    let next = Offset::new(first + messages).expect("not negative");
    Run::new(source, (first..first + messages).map(record).collect(), next, Instant::now())
}

/// A consume thread that looked at the clock when the belief had ended, and the lock thread, which had looked a moment
/// before.
#[test]
fn loom_a_queue_without_its_lock_goes_on_when_it_is_renewed() {
    loom::model(|| {
        let Case { queue, now, wall, .. } = Case::new(1);
        let other = queue.clone();
        let consuming = loom::thread::spawn(move || {
            let late = Duration::from_secs(30);
            Case::consume(&other, now + late, wall + late)
        });
        let after = Duration::from_secs(26);
        let asked = Asked { at: now + after, by_wall: wall + after, losses: 0 };
        let renewed = queue.renew_lease(asked, now + Duration::from_secs(29));
        let listed = renewed.is_some_and(|(_, oldest)| oldest.is_some());
        let (taken, why) = consuming.join().expect("it does not panic");
        assert!(taken == 1 || listed, "{why:?}, and nobody puts it on the list");
        assert!(!(taken == 1 && listed), "it is on the list with nothing");
    });
}

#[test]
fn loom_a_queue_in_doubt_goes_on_when_that_is_settled() {
    loom::model(|| {
        let Case { queue, now, wall, losses } = Case::new(1);
        losses.add();
        let other = queue.clone();
        let consuming = loom::thread::spawn(move || Case::consume(&other, now, wall));
        let listed = queue.extend_lease(Asked { at: now, by_wall: wall, losses: 1 }).is_some();
        let (taken, why) = consuming.join().expect("it does not panic");
        assert!((taken == 1) != listed, "{why:?}, taken {taken}, listed {listed}");
    });
}

#[test]
fn loom_what_comes_while_a_thread_leaves_an_ordered_queue_is_not_left_lying() {
    loom::model(|| {
        let Case { queue, now, wall, .. } = Case::new(1);
        let other = queue.clone();
        let consuming = loom::thread::spawn(move || Case::consume(&other, now, wall));
        let listed = queue.push(run(1, 1)).is_ok_and(|came| came.is_some());
        let (taken, _) = consuming.join().expect("it does not panic");
        assert!((taken == 2) != listed, "taken {taken}, listed {listed}");
    });
}

#[test]
fn loom_a_pause_is_ended_by_one() {
    loom::model(|| {
        let Case { queue, now, wall, .. } = Case::new(2);
        let mut batch = Vec::new();
        assert_eq!(queue.take_in_order(1, now, wall, &mut batch), Took::Batch);
        let piece = batch.remove(0);
        assert!(queue.send_back(&piece.run, piece.index));
        let other = queue.clone();
        let pulling = loom::thread::spawn(move || {
            other.sent_back(&piece.run, piece.index);
            other.handed_over(now).is_some()
        });
        queue.pause(Vec::new(), now);
        let resumed = queue.resume(now).is_some();
        let handed_over = pulling.join().expect("it does not panic");
        assert!(resumed != handed_over, "resumed {resumed}, handed over {handed_over}");
    });
}

/// Whoever gives the lock back does so when no listener can begin any more.
#[test]
fn loom_nothing_begins_once_the_lock_was_given_up() {
    loom::model(|| {
        let Case { queue, now, wall, .. } = Case::new(1);
        let other = queue.clone();
        let consuming = loom::thread::spawn(move || Case::consume(&other, now, wall));
        queue.lose_lease();
        let untouched = queue.left().untouched;
        consuming.join().expect("it does not panic");
        assert_eq!(queue.left().untouched, untouched, "it began after the lock had been given up");
    });
}
