use super::*;

pub(super) fn at(wire: i64) -> Offset {
    Offset::new(wire).unwrap()
}

pub(super) fn policy(from: ConsumeFrom) -> Policy {
    Policy { from, is_retry_topic: false, asks_program: false, by_hand: false }
}

struct Case {
    now: Instant,
    queue: Assignment,
}

/// A queue that is active at offset 10, which is stored.
fn active() -> Case {
    let now = Instant::now();
    let (mut queue, actions) = Assignment::new(policy(ConsumeFrom::LastOffset), false, now);
    assert_eq!(actions, [Action::Ask(Ask::Stored)]);
    let actions = queue.stored(Ok(Some(at(10))), now);
    assert_eq!(actions, [Action::Activate { start: at(10), reason: StartReason::Stored }]);
    Case { now, queue }
}

fn released(committed: i64) -> Vec<Action> {
    vec![Action::Release { committed: Some(at(committed)), failed: None }]
}

#[test]
fn each_setting_finds_its_start_and_commits_it() {
    let time = SystemTime::now();
    let table = [
        (ConsumeFrom::LastOffset, Some(Ask::Max), 100, 100),
        (ConsumeFrom::FirstOffset, Some(Ask::Min), 7, 7),
        (ConsumeFrom::Timestamp(time), Some(Ask::Time(time)), 42, 42),
        (ConsumeFrom::LastMessages(30), Some(Ask::Max), 100, 70),
        (ConsumeFrom::LastMessages(300), Some(Ask::Max), 100, 0),
        (ConsumeFrom::Offset(55), None, 0, 55),
    ];
    for (from, ask, answer, start) in table {
        let now = Instant::now();
        let (mut queue, _) = Assignment::new(policy(from), false, now);
        let mut actions = queue.stored(Ok(None), now);
        if let Some(ask) = ask {
            assert_eq!(actions, [Action::Ask(ask)]);
            actions = queue.resolved(Ok(at(answer)), now);
        }
        let reason = StartReason::ConsumeFrom(from);
        assert_eq!(
            actions,
            [Action::Activate { start: at(start), reason }, Action::Commit(at(start))],
            "{from:?}"
        );
    }
}

/// While a queue is young, a broker answers so for a group that has nothing stored.
#[test]
fn a_start_at_zero_is_committed_even_if_it_seems_to_be_stored() {
    let now = Instant::now();
    let (mut queue, _) = Assignment::new(policy(ConsumeFrom::LastOffset), false, now);
    let activate = Action::Activate { start: Offset::ZERO, reason: StartReason::Stored };
    assert_eq!(queue.stored(Ok(Some(Offset::ZERO)), now), [activate, Action::Commit(Offset::ZERO)]);
    queue.committed(Ok(()), now, Offset::ZERO);
    assert_eq!(queue.acked(), Some(Offset::ZERO));
    assert_eq!(queue.commit_due(Offset::ZERO), []);
}

#[test]
fn d4_a_retry_topic_starts_at_its_beginning_whatever_the_setting_says() {
    let now = Instant::now();
    let policy = Policy { is_retry_topic: true, ..policy(ConsumeFrom::LastOffset) };
    let (mut queue, _) = Assignment::new(policy, false, now);
    let actions = queue.stored(Ok(None), now);
    assert_eq!(actions[0], Action::Activate { start: Offset::ZERO, reason: StartReason::RetryTopic });
}

#[test]
fn o1_a_failed_read_is_not_no_offset() {
    let mut now = Instant::now();
    let (mut queue, _) = Assignment::new(policy(ConsumeFrom::FirstOffset), false, now);
    for expected in [200, 400, 800, 1600, 3200, 5000, 5000] {
        assert_eq!(queue.stored(Err("timeout".into()), now), []);
        assert_eq!(queue.deadline(), Some(now + Duration::from_millis(expected)));
        now += Duration::from_millis(expected);
        assert_eq!(queue.due(now, Offset::ZERO), [Action::Ask(Ask::Stored)]);
    }
    assert!(matches!(queue.stored(Ok(Some(at(3))), now)[0], Action::Activate { .. }));
}

#[test]
fn a_queue_of_a_live_member_waits_for_its_last_commit() {
    let now = Instant::now();
    let (mut queue, actions) = Assignment::new(policy(ConsumeFrom::LastOffset), true, now);
    assert_eq!(actions, []);
    assert_eq!(queue.due(now, Offset::ZERO), []);
    assert_eq!(queue.due(now + SETTLE, Offset::ZERO), [Action::Ask(Ask::Stored)]);
}

#[test]
fn commits_go_forward_one_at_a_time_and_only_for_news() {
    let Case { now, mut queue } = active();
    assert_eq!(queue.commit_due(at(10)), []);
    assert_eq!(queue.commit_due(at(12)), [Action::Commit(at(12))]);
    assert_eq!(queue.commit_due(at(15)), [], "one is out");
    queue.committed(Ok(()), now, at(15));
    assert_eq!(queue.commit_due(at(11)), [], "never backwards");
    assert_eq!(queue.commit_due(at(15)), [Action::Commit(at(15))]);
    queue.committed(Err("lost".into()), now, at(15));
    assert_eq!(queue.commit_due(at(15)), [Action::Commit(at(15))], "a failed one is repeated");
}

#[test]
fn o10_a_restarted_broker_gets_the_offset_again() {
    let Case { now, mut queue } = active();
    assert_eq!(queue.commit_due(at(10)), []);
    assert_eq!(queue.doubt_commits(), [Action::Ask(Ask::Stored)]);
    assert_eq!(queue.doubt_commits(), [], "it is asked already");
    assert_eq!(queue.commit_due(at(11)), [], "not before it has answered");
    assert_eq!(queue.stored(Err("busy".into()), now), []);
    assert_eq!(queue.commit_due(at(11)), [Action::Ask(Ask::Stored)]);
    assert_eq!(queue.stored(Ok(Some(at(7))), now), []);
    assert_eq!(queue.commit_due(at(11)), [Action::Commit(at(11))]);
}

#[test]
fn a_commit_without_an_answer_that_is_stored_late_is_made_good() {
    let Case { now, mut queue } = active();
    queue.commit_due(at(12));
    queue.committed(Err("lost".into()), now, at(15));
    assert_eq!(queue.commit_due(at(15)), [Action::Commit(at(15))]);
    queue.committed(Ok(()), now, at(15));
    assert_eq!(queue.deadline(), Some(now + LATE));
    assert_eq!(queue.due(now + LATE, at(15)), [Action::Ask(Ask::Stored)]);
    assert_eq!(queue.deadline(), None);
    assert_eq!(queue.stored(Ok(Some(at(12))), now + LATE), [], "the older one came after the newer");
    assert_eq!(queue.commit_due(at(15)), [Action::Commit(at(15))]);
}

#[test]
fn what_a_lost_broker_has_confirmed_is_not_relied_on() {
    let Case { now, mut queue } = active();
    queue.doubt_confirmed();
    assert_eq!(queue.commit_due(at(11)), [], "when it is back");
    assert_eq!(queue.doubt_commits(), [Action::Ask(Ask::Stored)]);
    queue.doubt_confirmed();
    assert_eq!(queue.stored(Ok(Some(at(10))), now), [], "asked before it was lost again");
    assert_eq!(queue.commit_due(at(11)), []);
    queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
    assert_eq!(queue.drained(now, at(10)), [Action::Commit(at(10))], "or the end would not be clean");
}

#[test]
fn what_was_confirmed_before_a_connection_was_lost_in_the_end_is_committed_again() {
    let Case { now, mut queue } = active();
    queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
    queue.doubt_confirmed();
    assert_eq!(queue.drained(now, at(10)), [Action::Commit(at(10))]);
}

#[test]
fn whoever_was_away_does_not_take_back_what_the_next_owner_committed() {
    let Case { now, mut queue } = active();
    queue.doubt_commits();
    queue.stored(Ok(Some(at(24))), now);
    assert_eq!(queue.commit_due(at(16)), []);
    assert_eq!(queue.unwant(now + REVOKE_TIME, at(16)), [Action::Close]);
    assert_eq!(queue.drained(now, at(17)), released(24));
}

#[test]
fn a_queue_that_goes_while_its_broker_is_doubted_is_committed_only_over_what_was_left_there() {
    for (held, last) in [(at(10), vec![Action::Commit(at(14))]), (at(24), released(10))] {
        let Case { now, mut queue } = active();
        queue.doubt_commits();
        assert_eq!(queue.unwant(now + REVOKE_TIME, at(12)), [Action::Close]);
        assert_eq!(queue.drained(now, at(14)), [Action::Ask(Ask::Stored)]);
        assert_eq!(queue.stored(Ok(Some(held)), now), last);
    }
}

#[test]
fn a_consumer_that_stops_while_its_broker_is_doubted_commits_in_any_case() {
    let Case { now, mut queue } = active();
    queue.doubt_commits();
    queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
    assert_eq!(queue.drained(now, at(10)), [Action::Commit(at(10))]);
}

#[test]
fn revoking_commits_at_once_and_again_only_if_the_broker_still_holds_that() {
    for (held, last) in [(Some(at(12)), vec![Action::Commit(at(14))]), (Some(at(20)), released(12))] {
        let Case { now, mut queue } = active();
        let actions = queue.unwant(now + REVOKE_TIME, at(12));
        assert_eq!(actions, [Action::Close, Action::Commit(at(12))]);
        queue.committed(Ok(()), now, at(12));
        assert_eq!(queue.drained(now, at(14)), [Action::Ask(Ask::Stored)]);
        assert_eq!(queue.stored(Ok(held), now), last);
        if held == Some(at(12)) {
            assert_eq!(queue.committed(Ok(()), now, at(14)), released(14));
        }
    }
}

#[test]
fn a_first_commit_that_failed_is_not_taken_for_somebody_elses() {
    let Case { now, mut queue } = active();
    queue.unwant(now + REVOKE_TIME, at(12));
    queue.committed(Err("busy".into()), now, at(12));
    assert_eq!(queue.drained(now, at(14)), [Action::Ask(Ask::Stored)]);
    assert_eq!(queue.stored(Ok(Some(at(10))), now), [Action::Commit(at(14))], "10 is what we left there");
    assert_eq!(queue.committed(Ok(()), now, at(14)), released(14));
}

#[test]
fn a_first_commit_that_failed_is_not_repeated_over_what_a_new_owner_committed() {
    let Case { now, mut queue } = active();
    queue.unwant(now + REVOKE_TIME, at(12));
    queue.committed(Err("busy".into()), now, at(12));
    assert_eq!(queue.drained(now, at(12)), [Action::Ask(Ask::Stored)]);
    assert_eq!(queue.stored(Ok(Some(at(20))), now), released(10));
}

#[test]
fn a_first_commit_that_had_to_wait_may_be_of_more_than_at_first() {
    let Case { now, mut queue } = active();
    queue.commit_due(at(11));
    assert_eq!(queue.unwant(now + REVOKE_TIME, at(12)), [Action::Close], "11 is still out");
    assert_eq!(queue.committed(Ok(()), now, at(13)), [Action::Commit(at(13))]);
    assert_eq!(queue.committed(Ok(()), now, at(13)), []);
    assert_eq!(queue.drained(now, at(15)), [Action::Ask(Ask::Stored)]);
    assert_eq!(queue.stored(Ok(Some(at(13))), now), [Action::Commit(at(15))]);
}

#[test]
fn revoking_an_idle_queue_has_nothing_to_do() {
    let Case { now, mut queue } = active();
    assert_eq!(queue.unwant(now + REVOKE_TIME, at(10)), [Action::Close]);
    assert!(queue.is_leaving());
    assert_eq!(queue.drained(now, at(10)), released(10));
}

#[test]
fn a_commit_on_its_way_is_waited_for_before_the_last_one() {
    let Case { now, mut queue } = active();
    queue.commit_due(at(12));
    assert_eq!(queue.shutdown(now + REVOKE_TIME, COMMIT_TIME), [Action::Close]);
    assert_eq!(queue.drained(now, at(15)), [], "12 is still out");
    assert_eq!(queue.committed(Ok(()), now, at(15)), [Action::Commit(at(15))]);
    assert_eq!(queue.committed(Ok(()), now, at(15)), released(15));
}

#[test]
fn a_listener_that_does_not_end_is_left_behind_and_its_offset_not_passed() {
    let Case { now, mut queue } = active();
    queue.unwant(now + REVOKE_TIME, at(10));
    assert_eq!(queue.due(now, at(10)), []);
    assert_eq!(queue.due(now + REVOKE_TIME, at(10)), released(10));
    assert_eq!(queue.drained(now + REVOKE_TIME * 2, at(11)), [], "too late");
}

#[test]
fn a_commit_that_fails_is_repeated_while_time_lasts_and_then_reported() {
    let Case { mut now, mut queue } = active();
    queue.shutdown(now + Duration::from_secs(1), COMMIT_TIME);
    assert_eq!(queue.drained(now, at(11)), [Action::Commit(at(11))]);
    let end = queue.deadline().unwrap();
    loop {
        let actions = queue.committed(Err("busy".into()), now, at(11));
        if let [Action::Release { committed, failed }] = actions.as_slice() {
            assert_eq!((*committed, failed.as_deref()), (Some(at(10)), Some("busy")));
            break;
        }
        now = queue.deadline().unwrap();
        assert!(now < end);
        assert_eq!(queue.due(now, at(11)), [Action::Commit(at(11))]);
    }
}

#[test]
fn what_is_finished_while_the_last_commit_is_out_is_committed_too() {
    let Case { now, mut queue } = active();
    queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
    assert_eq!(
        queue.due(now + REVOKE_TIME, at(11)),
        [Action::Commit(at(11))],
        "a send-back is not confirmed"
    );
    assert_eq!(queue.committed(Ok(()), now + REVOKE_TIME, at(14)), [Action::Commit(at(14))]);
    let late = queue.committed(Ok(()), now + REVOKE_TIME + COMMIT_TIME, at(15));
    let failed = Some("time was over when 15 was reached".to_owned());
    assert_eq!(late, [Action::Release { committed: Some(at(14)), failed }]);
}

#[test]
fn a_reset_drops_what_was_pulled_and_goes_on_there_still_owned() {
    for confirmed_first in [true, false] {
        let Case { now, mut queue } = active();
        let actions = queue.reset(at(3), StartReason::Reset, now + REVOKE_TIME);
        assert_eq!(actions, [Action::Close, Action::Commit(at(3))], "backwards, since it was asked for");
        assert_eq!(queue.commit_due(at(12)), [], "nothing of the old is committed any more");
        assert!(!queue.is_leaving());
        let actions = if confirmed_first {
            assert_eq!(queue.committed(Ok(()), now, at(12)), [], "a listener still runs");
            queue.drained(now, at(12))
        } else {
            assert_eq!(queue.drained(now, at(12)), []);
            queue.committed(Ok(()), now, at(12))
        };
        assert_eq!(actions, [Action::Activate { start: at(3), reason: StartReason::Reset }]);
    }
}

#[test]
fn a_reset_waits_for_the_commit_that_is_out() {
    let Case { now, mut queue } = active();
    queue.commit_due(at(12));
    assert_eq!(queue.reset(at(3), StartReason::Reset, now + REVOKE_TIME), [Action::Close]);
    assert_eq!(queue.committed(Ok(()), now, at(14)), [Action::Commit(at(3))]);
    assert_eq!(queue.reset(at(5), StartReason::Reset, now + REVOKE_TIME), []);
    assert_eq!(queue.committed(Ok(()), now, at(14)), [Action::Commit(at(5))]);
    assert_eq!(queue.committed(Ok(()), now, at(14)), []);
    let start = Action::Activate { start: at(5), reason: StartReason::Reset };
    assert_eq!(queue.drained(now, at(14)), [start]);
}

#[test]
fn a_reset_of_a_queue_that_is_given_up_counts_at_once() {
    let commit = [Action::Commit(at(3))];
    let by = Instant::now() + REVOKE_TIME;
    let reset = |queue: &mut Assignment| queue.reset(at(3), StartReason::Reset, by);
    for (before, verifying) in [(true, false), (false, false), (false, true)] {
        let Case { now, mut queue } = active();
        if before {
            reset(&mut queue);
            assert_eq!(queue.unwant(by, at(12)), [], "it is on its way");
        } else {
            queue.unwant(by, at(12));
            queue.committed(Ok(()), now, at(12));
            if verifying {
                assert_eq!(queue.drained(now, at(14)), [Action::Ask(Ask::Stored)]);
            }
            assert_eq!(reset(&mut queue), commit);
            assert_eq!(queue.stored(Ok(Some(at(12))), now), [], "nothing else is committed");
        }
        assert_eq!(queue.drained(now, at(14)), []);
        assert_eq!(queue.committed(Ok(()), now, at(14)), released(3));
    }
}

#[test]
fn a_reset_queue_of_a_consumer_that_stops_waits_for_its_listeners() {
    let Case { now, mut queue } = active();
    queue.reset(at(3), StartReason::Reset, now + REVOKE_TIME);
    assert_eq!(queue.shutdown(now + REVOKE_TIME, COMMIT_TIME), []);
    assert_eq!(queue.committed(Ok(()), now, at(12)), []);
    assert_eq!(queue.drained(now, at(12)), released(3));
}

#[test]
fn a_reset_that_the_broker_did_not_confirm_is_committed_with_the_next_progress() {
    let Case { mut now, mut queue } = active();
    queue.reset(at(3), StartReason::Reset, now + REVOKE_TIME);
    queue.drained(now, at(12));
    now = queue.deadline().unwrap();
    let actions = queue.committed(Err("busy".into()), now, at(12));
    assert_eq!(actions[0], Action::Activate { start: at(3), reason: StartReason::Reset });
    queue.committed(Err("busy".into()), now, at(3));
    assert_eq!(queue.commit_due(at(4)), [Action::Commit(at(4))], "or a restart would pass over 4 to 10");
}

#[test]
fn a_rebuilt_queue_goes_on_at_its_watermark() {
    let Case { now, mut queue } = active();
    assert_eq!(queue.rebuild(now + REVOKE_TIME), [Action::Close]);
    assert_eq!(queue.drained(now, at(11)), [Action::Commit(at(11))]);
    let actions = queue.committed(Ok(()), now, at(11));
    assert_eq!(actions, [Action::Activate { start: at(11), reason: StartReason::Rebuilt }]);
}

#[test]
fn what_was_never_consumed_is_released_without_a_commit() {
    let now = Instant::now();
    let (mut queue, _) = Assignment::new(policy(ConsumeFrom::LastOffset), false, now);
    let none = vec![Action::Release { committed: None, failed: None }];
    assert_eq!(queue.unwant(now, Offset::ZERO), none);
    assert_eq!(queue.stored(Ok(Some(at(1))), now), [], "an answer that comes too late changes nothing");
}

/// As [`active`], of a program that commits itself.
fn by_hand(asks_program: bool) -> Case {
    let now = Instant::now();
    let policy = Policy { by_hand: true, asks_program, ..policy(ConsumeFrom::FirstOffset) };
    let (mut queue, actions) = Assignment::new(policy, false, now);
    if asks_program {
        assert_eq!(actions, [Action::Ask(Ask::Program)]);
        return Case { now, queue };
    }
    assert_eq!(queue.stored(Ok(None), now), [Action::Ask(Ask::Min)]);
    let activated = queue.resolved(Ok(at(5)), now);
    assert!(matches!(activated[..], [Action::Activate { .. }]), "and no commit: {activated:?}");
    Case { now, queue }
}

#[test]
fn nothing_is_committed_that_the_program_did_not_ask_for() {
    let Case { now, mut queue } = by_hand(false);
    assert_eq!(queue.commit_due(at(5)), []);
    assert_eq!(queue.commit_by_hand(at(9)), [Action::Commit(at(9))]);
    assert_eq!(queue.commit_by_hand(at(12)), [], "one is out");
    queue.committed(Ok(()), now, at(9));
    assert_eq!(queue.commit_due(at(9)), []);
    assert_eq!(queue.commit_by_hand(at(7)), [Action::Commit(at(7))], "backwards, since it says so");
    queue.committed(Ok(()), now, at(7));
    queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
    assert_eq!(queue.drained(now, at(7)), released(7));
}

#[test]
fn a_program_that_commits_nothing_leaves_nothing_behind() {
    let Case { now, mut queue } = by_hand(false);
    assert_eq!(queue.unwant(now + REVOKE_TIME, at(5)), [Action::Close]);
    let none = vec![Action::Release { committed: None, failed: None }];
    assert_eq!(queue.due(now + REVOKE_TIME, at(5)), none);
}

#[test]
fn what_a_program_commits_when_its_queue_goes_counts_if_nobody_else_has_committed() {
    for (held, last) in [
        (None, vec![Action::Commit(at(9))]),
        (Some(at(30)), vec![Action::Release { committed: None, failed: None }]),
    ] {
        let Case { now, mut queue } = by_hand(false);
        queue.unwant(now + REVOKE_TIME, at(5));
        assert_eq!(queue.drained(now, at(9)), [Action::Ask(Ask::Stored)]);
        assert_eq!(queue.stored(Ok(held), now), last);
    }
}

#[test]
fn a_program_that_goes_elsewhere_is_there_at_once() {
    let Case { now, mut queue } = active();
    queue.commit_due(at(12));
    let there = |to| Action::Activate { start: at(to), reason: StartReason::Seek };
    assert_eq!(queue.go_to(at(3), StartReason::Seek), [Action::Close, there(3)], "12 is still out");
    assert_eq!(queue.drained(now, at(12)), []);
    queue.committed(Ok(()), now, at(3));
    assert_eq!(queue.commit_due(at(3)), [Action::Commit(at(3))], "12 is no longer what it is compared with");
    queue.committed(Ok(()), now, at(3));
    assert_eq!(queue.go_to(at(50), StartReason::Seek), [Action::Close, there(50), Action::Commit(at(50))]);
    let Case { mut queue, .. } = by_hand(false);
    assert_eq!(queue.go_to(at(3), StartReason::Seek), [Action::Close, there(3)]);
    assert_eq!(queue.commit_due(at(3)), []);
}

#[test]
fn a_lost_connection_does_not_commit_where_a_program_went() {
    for reason in [StartReason::Seek, StartReason::Rebuilt] {
        let Case { now, mut queue } = by_hand(false);
        queue.commit_by_hand(at(7));
        queue.committed(Ok(()), now, at(7));
        queue.go_to(at(12), reason);
        queue.doubt_confirmed();
        assert_eq!(queue.doubt_commits(), [Action::Ask(Ask::Stored)]);
        queue.stored(Ok(Some(at(7))), now);
        assert_eq!(queue.commit_due(at(12)), [], "the program has not said that it is so far");
        assert_eq!(queue.commit_due(at(13)), [Action::Commit(at(13))]);
    }
}

#[test]
fn a_correction_is_not_committed_for_a_program_that_commits_and_a_reset_is() {
    let Case { now, mut queue } = by_hand(false);
    let moved = queue.reset(at(8), StartReason::Corrected, now + REVOKE_TIME);
    let start = Action::Activate { start: at(8), reason: StartReason::Corrected };
    assert_eq!(moved, [Action::Close, start]);
    let reset = queue.reset(at(1), StartReason::Reset, now + REVOKE_TIME);
    assert_eq!(reset, [Action::Close, Action::Commit(at(1))]);
}

#[test]
fn what_a_leaving_program_committed_is_not_sent_once_the_broker_has_lost_it() {
    let leaving = || {
        let Case { now, mut queue } = by_hand(false);
        queue.commit_by_hand(at(7));
        queue.committed(Err("lost".into()), now, at(7));
        queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
        (now, queue)
    };
    let is_over = |actions: &[Action]| matches!(actions, [Action::Release { failed: Some(_), .. }]);
    let (now, mut queue) = leaving();
    assert_eq!(queue.reset(at(5), StartReason::Corrected, now), []);
    assert!(is_over(&queue.drained(now, at(7))));
    let (now, mut queue) = leaving();
    assert_eq!(queue.drained(now, at(7)), [Action::Commit(at(7))]);
    assert!(is_over(&queue.reset(at(5), StartReason::Corrected, now)));
}

#[test]
fn the_program_is_asked_first_and_again_if_it_fails() {
    let Case { now, mut queue } = by_hand(true);
    assert!(!queue.is_at_first_try(), "nobody waits for a program that may never poll");
    assert_eq!(queue.told(Err("database".into()), now), []);
    let then = queue.deadline().unwrap();
    assert_eq!(queue.due(then, Offset::ZERO), [Action::Ask(Ask::Program)]);
    assert_eq!(queue.stored(Ok(Some(at(2))), then), [], "nobody has asked for that");
    let start = Action::Activate { start: at(77), reason: StartReason::StartOffset };
    assert_eq!(queue.told(Ok(Some(at(77))), then), [start]);
    let Case { now, mut queue } = by_hand(true);
    assert_eq!(queue.told(Ok(None), now), [Action::Ask(Ask::Stored)]);
}
