use std::sync::Arc as StdArc;
use std::time::Instant;

use super::*;
use crate::consumer::budget::OnRelease;
use crate::message::{Record, Source};

pub(super) fn at(wire: i64) -> Offset {
    Offset::new(wire).expect("tests use no negative offsets")
}

pub(super) fn budget() -> StdArc<Budget> {
    StdArc::new(Budget::new(1 << 20, StdArc::default(), OnRelease(Box::new(|| {}))))
}

pub(super) fn queue_with(limits: Limits, budget: &StdArc<Budget>) -> ProcessQueue {
    ProcessQueue::new(MessageQueue::new("t", "broker-a", 0), at(10), limits, budget.clone())
}

fn queue() -> ProcessQueue {
    queue_with(Limits { messages: 1000, bytes: 1 << 20, span: 2000 }, &budget())
}

/// A run of messages at these offsets, in a frame of 100 bytes, that covers everything below `next`.
pub(super) fn run(offsets: &[i64], next: i64) -> Run {
    let queue = MessageQueue::new("t", "broker-a", 0);
    let source = StdArc::new(Source { bytes: vec![0; 100], queue, namespace: None });
    let record = |offset: &i64| Record::empty(*offset, 0);
    Run::new(source, offsets.iter().map(record).collect(), at(next), Instant::now())
}

/// Takes everything there is, one message at a time.
fn take_all(queue: &ProcessQueue) -> Vec<(Arc<Run>, u32)> {
    let mut all = Vec::new();
    while let Some(taken) = queue.take(1) {
        all.push((taken.run, taken.range.start));
    }
    all
}

/// What a worker does after a successful call.
fn finish(queue: &ProcessQueue, message: &(Arc<Run>, u32)) -> Settled {
    match message.0.claims.finish(message.1) {
        crate::consumer::claims::Finished::Look => queue.settle(),
        _ => Settled::default(),
    }
}

#[test]
fn a_queue_that_waits_for_the_budget_is_told_when_its_own_frame_is_done_though_others_hold_it_all() {
    let budget = StdArc::new(Budget::new(100, StdArc::default(), OnRelease(Box::new(|| {}))));
    let queue = queue_with(Limits { messages: 1000, bytes: 1 << 20, span: 2000 }, &budget);
    budget.charge(1000);
    assert!(!queue.park_for_budget(), "it holds nothing: nothing to wait for");
    queue.push(run(&[10, 11], 12)).unwrap();
    assert!(queue.park_for_budget());
    let messages = take_all(&queue);
    assert!(!finish(&queue, &messages[0]).relieved);
    assert!(finish(&queue, &messages[1]).relieved && budget.is_exhausted());
    assert!(!queue.settle().relieved, "once");
}

#[test]
fn a_message_goes_back_once_at_a_time_and_not_when_it_is_finished() {
    let queue = queue();
    queue.push(run(&[10, 11], 12)).unwrap();
    let messages = take_all(&queue);
    let (run, first) = &messages[0];
    assert!(queue.send_back(run, *first) && !queue.send_back(run, *first));
    queue.close();
    finish(&queue, &messages[1]);
    assert!(queue.sent_back(run, *first).drained, "counted once");
    assert!(!queue.send_back(run, *first));
}

#[test]
fn a_look_at_the_watermark_does_not_swallow_that_a_parked_queue_may_go_on() {
    let queue = queue_with(Limits { messages: 8, bytes: 1 << 20, span: 2000 }, &budget());
    queue.push(run(&[10, 11, 12, 13, 14, 15, 16, 17], 18)).unwrap();
    assert!(queue.park());
    let messages = take_all(&queue);
    messages[..4].iter().for_each(|message| assert_eq!(finish(&queue, message), Settled::default()));
    assert_eq!(queue.exact_watermark(), at(14), "as for a commit");
    let settled: Vec<Settled> = messages[4..].iter().map(|message| finish(&queue, message)).collect();
    assert!(settled[3].relieved, "{settled:?}");
}

#[test]
fn the_watermark_is_the_first_unfinished_message_or_the_end_of_what_was_pulled() {
    // As Java's vectors for removing from its process queue: what is left → the offset that may be committed.
    let table: [(&[i64], i64, &[usize], i64); 6] = [
        (&[10, 11, 12], 13, &[1], 10),
        (&[10, 12], 13, &[0], 12),
        (&[12], 13, &[0], 13),
        (&[10, 11, 12], 13, &[0, 1, 2], 13),
        (&[10, 15], 16, &[0], 15),
        (&[10, 15], 40, &[0, 1], 40),
    ];
    for (offsets, next, done, expected) in table {
        let queue = queue();
        queue.push(run(offsets, next)).unwrap();
        let messages = take_all(&queue);
        for index in done {
            finish(&queue, &messages[*index]);
        }
        assert_eq!(queue.exact_watermark(), at(expected), "{offsets:?} without {done:?}");
    }
}

#[test]
fn filtered_offsets_count_as_finished_also_when_nothing_is_left() {
    let queue = queue();
    assert_eq!(queue.watermark(), at(10));
    assert!(queue.push(run(&[], 50)).unwrap().is_none(), "nothing to take");
    assert_eq!(queue.watermark(), at(50));
    queue.push(run(&[60], 70)).unwrap();
    assert_eq!(queue.watermark(), at(60), "what the broker left out before the first message is passed too");
    queue.push(run(&[], 90)).unwrap();
    let messages = take_all(&queue);
    assert!(finish(&queue, &messages[0]).idle);
    assert_eq!(queue.watermark(), at(90));
}

#[test]
fn a_finished_run_behind_a_stuck_one_gives_its_memory_back_but_does_not_move_the_watermark() {
    let budget = budget();
    let queue = queue_with(Limits { messages: 100, bytes: 1 << 20, span: 100 }, &budget);
    for first in [10, 12, 14, 16] {
        queue.push(run(&[first, first + 1], first + 2)).unwrap();
    }
    let messages = take_all(&queue);
    assert_eq!((messages.len(), budget.used()), (8, 400));
    for message in &messages[2..8] {
        finish(&queue, message);
    }
    assert_eq!((queue.watermark(), budget.used()), (at(10), 100));
    assert_eq!(queue.load(), Load { messages: 2, bytes: 100, span: 8 });
    assert_eq!(queue.runs.lock().slots.len(), 2, "finished neighbours merge");
    finish(&queue, &messages[0]);
    assert!(finish(&queue, &messages[1]).idle);
    assert_eq!((queue.watermark(), budget.used()), (at(18), 0));
}

#[test]
fn the_span_counts_from_the_oldest_unfinished_message() {
    let queue = queue_with(Limits { messages: 1000, bytes: 1 << 20, span: 6 }, &budget());
    queue.push(run(&[10, 11, 12, 13], 14)).unwrap();
    let messages = take_all(&queue);
    messages[..2].iter().for_each(|message| {
        finish(&queue, message);
    });
    messages[3..].iter().for_each(|message| {
        finish(&queue, message);
    });
    assert_eq!(queue.load().span, 2);
    queue.push(run(&[20, 21, 22, 23], 24)).unwrap();
    take_all(&queue).iter().for_each(|message| {
        finish(&queue, message);
    });
    assert_eq!(queue.load(), Load { messages: 1, bytes: 100, span: 6 });
    assert!(queue.park(), "one stuck message stops the pulls at the span limit");
    assert!(finish(&queue, &messages[2]).relieved);
}

#[test]
fn a_parked_queue_goes_on_at_three_quarters_of_its_limit_and_is_told_once() {
    let queue = queue_with(Limits { messages: 8, bytes: 1 << 20, span: 100 }, &budget());
    for first in [10, 14] {
        queue.push(run(&[first, first + 1, first + 2, first + 3], first + 4)).unwrap();
    }
    assert!(queue.park());
    let messages = take_all(&queue);
    let relieved: Vec<bool> = messages
        .iter()
        .map(|message| {
            finish(&queue, message);
            queue.settle().relieved
        })
        .collect();
    assert_eq!(relieved, [false, true, false, false, false, false, false, false]);
    assert!(!queue.park(), "below the limit there is no reason to park");
}

#[test]
fn a_queue_is_on_the_ready_list_once() {
    let queue = queue();
    assert!(queue.push(run(&[10, 11], 12)).unwrap().is_some());
    assert!(queue.push(run(&[12], 13)).unwrap().is_none(), "it is there already");
    let taken = queue.take(1).unwrap();
    assert!(taken.more.is_some(), "the taker puts it back");
    assert!(queue.push(run(&[13], 14)).unwrap().is_none());
    while queue.take(8).unwrap().more.is_some() {}
    assert!(queue.take(1).is_none());
    assert!(queue.push(run(&[14], 15)).unwrap().is_some());
}

#[test]
fn a_batch_never_spans_two_pulls() {
    let queue = queue();
    queue.push(run(&[10, 11, 12], 13)).unwrap();
    queue.push(run(&[13], 14)).unwrap();
    let ranges: Vec<_> = std::iter::from_fn(|| queue.take(2)).map(|taken| taken.range).collect();
    assert_eq!(ranges, [0..2, 2..3, 0..1]);
}

#[test]
fn a_message_that_is_sent_back_is_finished_when_the_broker_says_so() {
    let queue = queue();
    queue.push(run(&[10, 11], 12)).unwrap();
    let messages = take_all(&queue);
    queue.send_back(&messages[0].0, 0);
    finish(&queue, &messages[1]);
    assert_eq!(queue.exact_watermark(), at(10), "not yet confirmed");
    assert!(queue.sent_back(&messages[0].0, 0).idle);
    assert_eq!(queue.watermark(), at(12));
}

#[test]
fn a_message_that_no_broker_takes_comes_again_with_its_count() {
    let queue = queue();
    queue.push(run(&[10], 11)).unwrap();
    let messages = take_all(&queue);
    queue.send_back(&messages[0].0, 0);
    assert!(!queue.wait_for_retry().idle);
    let retry = Retry { run: messages[0].0.clone(), index: 0, times: 3 };
    assert!(queue.retry(retry).is_some());
    let taken = queue.take(1).unwrap();
    assert_eq!((taken.range, taken.retried), (0..1, Some(3)));
    finish(&queue, &messages[0]);
    assert_eq!(queue.watermark(), at(11));
}

#[test]
fn what_was_finished_behind_a_message_that_nobody_takes_is_repeated() {
    let queue = queue();
    queue.push(run(&[10, 11, 12, 13], 14)).unwrap();
    queue.push(run(&[14], 15)).unwrap();
    let messages = take_all(&queue);
    queue.send_back(&messages[1].0, 1);
    for finished in [0, 2, 4] {
        finish(&queue, &messages[finished]);
    }
    finish(&queue, &messages[3]);
    queue.wait_for_retry();
    assert!(queue.close().0.drained);
    let left = queue.left();
    assert_eq!((queue.watermark(), left.running.len(), left.untouched, left.repeated), (at(11), 0, 1, 3));
}

#[test]
fn a_stopped_queue_goes_on_though_each_run_has_a_message_that_stays_in_its_listener() {
    let queue = queue_with(Limits { messages: 8, bytes: 1 << 20, span: 100 }, &budget());
    for first in [10, 14] {
        queue.push(run(&[first, first + 1, first + 2, first + 3], first + 4)).unwrap();
    }
    assert!(queue.park());
    let messages = take_all(&queue);
    assert!(!queue.settle_if_stopped().relieved);
    for index in [1, 2, 3, 5, 6, 7] {
        assert_eq!(finish(&queue, &messages[index]), Settled::default(), "no run is complete");
    }
    assert!(queue.settle_if_stopped().relieved);
    assert!(!queue.settle_if_stopped().relieved, "said once");
}

#[test]
fn a_closed_queue_is_drained_when_nothing_runs_and_nothing_is_unconfirmed() {
    let queue = queue();
    queue.push(run(&[10, 11, 12, 13], 14)).unwrap();
    let (a, b) = (queue.take(1).unwrap(), queue.take(1).unwrap());
    assert!(!queue.close().0.drained);
    assert!(queue.take(1).is_none() && queue.push(run(&[14], 15)).is_err());
    let left = queue.left();
    assert_eq!((left.running, left.untouched), (vec![at(10), at(11)], 2));
    assert!(!finish(&queue, &(a.run, a.range.start)).drained);
    queue.send_back(&b.run, b.range.start);
    assert!(!queue.settle().drained, "the send-back is out");
    assert!(queue.sent_back(&b.run, b.range.start).drained);
    assert_eq!(queue.watermark(), at(12));
}

#[test]
fn a_message_that_waits_for_its_retry_does_not_hold_up_closing_and_is_not_passed() {
    let queue = queue();
    queue.push(run(&[10, 11], 12)).unwrap();
    let messages = take_all(&queue);
    queue.send_back(&messages[0].0, 0);
    queue.wait_for_retry();
    finish(&queue, &messages[1]);
    assert!(queue.close().0.drained);
    let left = queue.left();
    assert_eq!((left.running, left.untouched), (vec![], 1), "no listener has it");
    assert_eq!(queue.exact_watermark(), at(10));
    assert!(queue.retry(Retry { run: messages[0].0.clone(), index: 0, times: 1 }).is_none());
    assert!(!queue.send_back_again());
}

#[test]
fn closing_an_idle_queue_drains_it_at_once() {
    assert!(queue().close().0.drained);
}

#[test]
fn dropping_a_queue_gives_its_bytes_back() {
    let budget = budget();
    let queue = queue_with(Limits { messages: 1, bytes: 1, span: 1 }, &budget);
    queue.push(run(&[10], 11)).unwrap();
    assert_eq!(budget.used(), 100);
    drop(queue);
    assert_eq!(budget.used(), 0);
}
