use super::*;
use crate::consumer::outside::stub::Stub;
use crate::protocol::{PullOffsets, ResponseCode};

#[test]
fn a_queue_that_came_while_its_topic_was_not_subscribed_is_fetched_for_once_it_is() {
    let core = Stub::new();
    let queue = core.queue();
    let mut pulls = Pulls::<Stub>::new(());
    core.subscribe(false);
    pulls.attach(core.clone(), queue.clone());
    assert!(core.take_sent().is_empty() && queue.facts.waiting().is_some());
    pulls.hurry_all();
    core.subscribe(true);
    pulls.hurry_all();
    assert_eq!(core.take_sent(), [queue.id()]);
    let other = core.queue();
    core.subscribe(false);
    pulls.attach(core.clone(), other.clone());
    pulls.detach(other.id());
    core.subscribe(true);
    pulls.hurry_all();
    assert!(core.take_sent().is_empty(), "given up");
}

#[test]
fn a_topic_that_was_given_up_is_not_asked_for_any_more() {
    let core = Stub::new();
    let queue = core.queue();
    let mut pulls = Pulls::<Stub>::new(());
    pulls.attach(core.clone(), queue.clone());
    assert_eq!(core.take_sent(), [queue.id()]);
    core.subscribe(false);
    pulls.answered(queue.id(), Err("busy".into()));
    pulls.hurry_all();
    assert!(core.take_sent().is_empty() && queue.facts.waiting().is_some());
    core.subscribe(true);
    pulls.hurry_all();
    assert_eq!(core.take_sent(), [queue.id()]);
}

#[test]
fn what_an_old_filter_left_out_does_not_count_as_finished() {
    let core = Stub::new();
    let queue = core.queue();
    let mut pulls = Pulls::<Stub>::new(());
    pulls.attach(core.clone(), queue.clone());
    pulls.answered(queue.id(), Ok(nothing_until(5)));
    assert_eq!(queue.watermark().wire(), 5);
    core.change_filter();
    pulls.answered(queue.id(), Ok(nothing_until(9)));
    assert_eq!(queue.watermark().wire(), 5, "asked for again");
    pulls.answered(queue.id(), Ok(nothing_until(9)));
    assert_eq!(queue.watermark().wire(), 9);
    assert_eq!(core.take_sent().len(), 4);
}

#[test]
fn a_pull_that_is_held_with_an_old_filter_is_not_waited_for() {
    let core = Stub::new();
    let queue = core.queue();
    let mut pulls = Pulls::<Stub>::new(());
    pulls.attach(core.clone(), queue.clone());
    pulls.hurry_all();
    assert_eq!(core.take_sent().len(), 1);
    core.change_filter();
    pulls.hurry_all();
    let [tag] = core.take_sent()[..] else { panic!("one pull by the new filter") };
    pulls.hurry_all();
    pulls.answered(queue.id(), Ok(nothing_until(9)));
    assert!(core.take_sent().is_empty() && queue.watermark().wire() == 0, "nobody waits for that answer");
    pulls.answered(tag, Ok(nothing_until(4)));
    assert_eq!((queue.watermark().wire(), core.take_sent()), (4, vec![tag]));
}

#[test]
fn a_queue_that_waits_asks_the_timer_once_however_often_it_is_nudged() {
    let core = Stub::new();
    let queue = core.queue();
    let mut pulls = Pulls::<Stub>::new(());
    pulls.attach(core.clone(), queue.clone());
    pulls.answered(queue.id(), Err("no".into()));
    let timers = core.timers();
    (0..100).for_each(|_| pulls.nudge(queue.id()));
    assert_eq!(core.timers(), timers);
}

/// The answer that there is nothing for the filter until then, of a queue that ends at 9.
fn nothing_until(next: i64) -> Pulled {
    suggesting(ResponseCode::PULL_RETRY_IMMEDIATELY, next, 9, 0)
}

/// The answer that suggests this broker for the next pull.
fn suggesting(code: ResponseCode, next: i64, end: i64, id: i64) -> Pulled {
    let offsets = PullOffsets {
        next_begin_offset: next,
        max_offset: end,
        suggest_which_broker_id: id,
        ..PullOffsets::default()
    };
    Pulled { code, offsets: Some(offsets), remark: None, bytes: Vec::new(), body: 0..0 }
}

fn refused() -> Pulled {
    Pulled { code: ResponseCode::TOPIC_NOT_EXIST, offsets: None, remark: None, bytes: Vec::new(), body: 0..0 }
}

const RETRY: ResponseCode = ResponseCode::PULL_RETRY_IMMEDIATELY;

#[test]
fn what_a_suggested_slave_does_not_serve_the_master_does_at_once() {
    for from_slave in [Ok(refused()), Err("cut".into()), Ok(suggesting(RETRY, 1, 1, 1))] {
        let (core, mut pulls) = (Stub::new(), Pulls::<Stub>::new(()));
        let queue = core.queue();
        core.with_slave(true);
        pulls.attach(core.clone(), queue.clone());
        assert!(!core.asked_the_slave(), "nothing was suggested");
        pulls.answered(queue.id(), Ok(suggesting(RETRY, 2, 9, 1)));
        assert!(core.asked_the_slave());
        pulls.answered(queue.id(), from_slave);
        assert!(!core.asked_the_slave());
        assert_eq!(core.take_sent().len(), 3, "at once");
        pulls.answered(queue.id(), Ok(suggesting(RETRY, 3, 9, 1)));
        assert!(!core.asked_the_slave(), "left alone for a while");
        assert_eq!(core.take_sent().len(), 1);
    }
}

#[test]
fn at_the_end_of_a_slave_the_master_is_asked_and_the_slave_is_not_left_alone() {
    let (core, mut pulls) = (Stub::new(), Pulls::<Stub>::new(()));
    let queue = core.queue();
    core.with_slave(true);
    pulls.attach(core.clone(), queue.clone());
    pulls.answered(queue.id(), Ok(suggesting(RETRY, 2, 9, 1)));
    pulls.answered(queue.id(), Ok(suggesting(RETRY, 2, 2, 0)));
    assert!(!core.asked_the_slave());
    pulls.answered(queue.id(), Ok(suggesting(RETRY, 3, 9, 1)));
    assert!(core.asked_the_slave());
    assert_eq!(core.take_sent().len(), 4);
}

#[test]
fn a_slave_that_does_not_know_the_subscription_is_not_waited_for() {
    let (core, mut pulls) = (Stub::new(), Pulls::<Stub>::new(()));
    let queue = core.queue();
    core.with_slave(false);
    pulls.attach(core.clone(), queue.clone());
    pulls.answered(queue.id(), Ok(suggesting(RETRY, 2, 9, 1)));
    assert_eq!((core.take_sent().len(), core.asked_the_slave()), (2, false));
}

#[test]
fn a_slave_that_stands_in_for_its_master_is_asked_once_a_second_at_its_end() {
    let (core, mut pulls) = (Stub::new(), Pulls::<Stub>::new(()));
    let queue = core.queue();
    pulls.attach(core.clone(), queue.clone());
    pulls.answered(queue.id(), Ok(suggesting(RETRY, 2, 2, 0)));
    pulls.answered(queue.id(), Ok(suggesting(RETRY, 2, 2, 0)));
    assert_eq!(core.take_sent().len(), 2);
    assert_eq!(pulls.table.values().next().map(|entry| entry.fetch.failures()), Some(0));
}
