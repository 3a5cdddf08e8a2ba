use std::time::{Duration, Instant, SystemTime};

use super::super::tests::{at, budget, queue_with, run};
use super::*;
use crate::consumer::losses::Losses;
use crate::consumer::process_queue::Limits;

struct Case {
    queue: ProcessQueue,
    now: Instant,
    wall: SystemTime,
    losses: Losses,
    batch: Vec<Piece>,
}

const LIMITS: Limits = Limits { messages: 1000, bytes: 1 << 20, span: usize::MAX };

impl Case {
    fn new(with_lock: bool) -> Self {
        let (now, wall) = (Instant::now(), SystemTime::now());
        let losses = Losses::default();
        let asked = Asked { at: now, by_wall: wall, losses: 0 };
        let lease = with_lock.then(|| Lease::new(asked, losses.clone()));
        let queue = queue_with(LIMITS, &budget()).in_order(lease);
        Self { queue, now, wall, losses, batch: Vec::new() }
    }

    fn unlocked() -> Self {
        Self::new(false)
    }

    fn locked() -> Self {
        Self::new(true)
    }

    fn asked(&self) -> Asked {
        Asked { at: self.now, by_wall: self.wall, losses: self.losses.count() }
    }

    fn push(&self, offsets: &[i64], next: i64) -> bool {
        self.queue.push(run(offsets, next)).is_ok_and(|came| came.is_some())
    }

    fn take(&mut self, most: u32) -> Took {
        self.queue.take_in_order(most, self.now, self.wall, &mut self.batch)
    }

    /// The offsets of the batch, each with its count.
    fn batch(&self) -> Vec<(i64, Option<u32>)> {
        self.batch.iter().map(|piece| (piece.run.offset_of(piece.index).wire(), piece.times)).collect()
    }

    fn finish(&self) {
        self.batch.iter().for_each(|piece| {
            let _ = piece.run.claims.finish(piece.index);
        });
        self.queue.settle();
    }

    fn again(&self, times: u32) -> Vec<Piece> {
        self.batch.iter().map(|piece| Piece { times: Some(times), ..piece.clone() }).collect()
    }
}

#[test]
fn one_thread_has_the_queue_until_there_is_nothing_more() {
    let mut case = Case::unlocked();
    assert!(case.push(&[10, 11], 12));
    assert!(!case.push(&[12], 13), "it is on the list already");
    assert_eq!(case.take(1), Took::Batch);
    assert!(!case.push(&[13], 14), "a thread has it");
    case.finish();
    assert_eq!(case.queue.end_turn(), Some(case.batch[0].run.born()));
    assert!(!case.push(&[14], 15), "it is on the list again");
    while case.take(1) == Took::Batch {
        case.finish();
    }
    assert_eq!((case.take(1), case.queue.watermark()), (Took::Nothing, at(15)));
    assert!(case.push(&[15], 16));
}

#[test]
fn a_batch_spans_pulls() {
    let mut case = Case::unlocked();
    case.push(&[10, 12], 13);
    case.push(&[13], 20);
    case.push(&[20, 21], 22);
    case.take(4);
    assert_eq!(case.batch(), [(10, None), (12, None), (13, None), (20, None)]);
    case.finish();
    case.take(4);
    assert_eq!(case.batch(), [(21, None)]);
}

#[test]
fn what_comes_again_comes_before_all_others_and_not_before_its_time() {
    let mut case = Case::unlocked();
    case.push(&[10, 11, 12], 13);
    case.take(2);
    let until = case.now + Duration::from_secs(1);
    case.queue.pause(case.again(1), until);
    assert!(!case.push(&[13], 14), "it waits");
    assert_eq!(case.queue.resume(case.now), None);
    assert!(case.queue.resume(until).is_some());
    assert_eq!(case.queue.resume(until), None, "once");
    case.take(3);
    assert_eq!(case.batch(), [(10, Some(1)), (11, Some(1)), (12, None)]);
    case.queue.pause(case.again(2), until);
    case.queue.resume(until);
    case.take(1);
    case.finish();
    assert_eq!((case.batch(), case.queue.watermark()), (vec![(10, Some(2))], at(11)));
}

#[test]
fn a_dead_letter_is_waited_for() {
    let mut case = Case::unlocked();
    case.push(&[10, 11], 12);
    case.take(1);
    let piece = case.batch[0].clone();
    assert!(case.queue.send_back(&piece.run, piece.index));
    case.queue.pause(Vec::new(), case.now);
    assert_eq!(case.queue.resume(case.now), None, "nobody has it yet");
    case.queue.sent_back(&piece.run, piece.index);
    assert!(case.queue.handed_over(case.now).is_some());
    case.take(1);
    assert_eq!((case.batch(), case.queue.watermark()), (vec![(11, None)], at(11)));
}

#[test]
fn a_dead_letter_that_nobody_takes_is_seen_again_in_its_place() {
    let mut case = Case::unlocked();
    case.push(&[10, 11, 12], 13);
    case.take(3);
    let dead = case.batch[1].clone();
    case.batch[0].run.claims.finish(0);
    case.queue.send_back(&dead.run, dead.index);
    case.queue.pause(case.again(1).split_off(2), case.now);
    case.queue.wait_for_retry();
    assert_eq!(case.queue.resume(case.now), None);
    let retry = Retry { run: dead.run, index: dead.index, times: 5 };
    assert!(case.queue.retry_in_order(retry, case.now).is_some());
    case.take(3);
    assert_eq!(case.batch(), [(11, Some(5)), (12, Some(1))]);
}

#[test]
fn nothing_starts_without_the_lock() {
    let mut case = Case::locked();
    case.push(&[10, 11], 12);
    assert_eq!(case.take(1), Took::Batch);
    case.finish();
    case.losses.add();
    assert_eq!(case.take(1), Took::NoLock);
    assert!(!case.push(&[12], 13), "nobody could take it");
    assert!(case.queue.extend_lease(case.asked()).is_some());
    assert_eq!(case.queue.extend_lease(case.asked()), None, "once");
    assert_eq!(case.take(1), Took::Batch);
    case.now += Duration::from_secs(30);
    case.wall += Duration::from_secs(30);
    assert_eq!(case.take(1), Took::NoLock);
}

#[test]
fn a_closed_queue_is_drained_when_its_one_call_is_over_however_it_ended() {
    for accepted in [true, false] {
        let mut case = Case::locked();
        case.push(&[10, 11], 12);
        case.take(1);
        assert!(!case.queue.close().0.drained);
        let settled = if accepted {
            case.finish();
            case.queue.settle()
        } else {
            case.queue.pause(case.again(1), case.now)
        };
        assert!(settled.drained);
        assert_eq!((case.take(1), case.queue.resume(case.now)), (Took::Nothing, None));
        assert_eq!(case.queue.watermark(), at(if accepted { 11 } else { 10 }));
        let left = case.queue.left();
        assert_eq!((left.running.len(), left.untouched), (0, if accepted { 1 } else { 2 }));
    }
}

#[test]
fn a_waiting_queue_is_closed_at_once() {
    let mut case = Case::unlocked();
    case.push(&[10], 11);
    case.take(1);
    case.queue.pause(case.again(1), case.now + Duration::from_secs(30));
    assert!(case.queue.close().0.drained);
}
