//! Programs that commit themselves, go where they want, or keep their offsets.

use super::*;

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
    let Case { now, mut queue } = by_hand(false);
    queue.commit_by_hand(at(7));
    queue.committed(Ok(()), now, at(7));
    queue.go_to(at(12), StartReason::Seek);
    queue.connection_lost(true, now);
    assert_eq!(queue.doubt_commits(), [Action::Ask(Ask::Stored)]);
    queue.stored(Ok(Some(at(7))), now);
    assert_eq!(queue.commit_due(at(12)), [], "the program has not said that it is so far");
    assert_eq!(queue.commit_due(at(13)), [Action::Commit(at(13))]);
}

#[test]
fn a_commit_that_is_out_when_the_program_goes_elsewhere_is_awaited_and_none_follows_it() {
    for refused in [false, true] {
        let Case { now, mut queue } = by_hand(false);
        queue.commit_by_hand(at(7));
        queue.go_to(at(12), StartReason::Seek);
        queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
        assert_eq!(queue.drained(now, at(12)), [], "7 is still out");
        let answer = if refused { Err("busy".to_owned()) } else { Ok(()) };
        let over = Action::Release { committed: None, failed: answer.clone().err() };
        assert_eq!(queue.committed(answer, now, at(12)), [over]);
    }
    let Case { now, mut queue } = by_hand(false);
    queue.commit_by_hand(at(7));
    queue.go_to(at(12), StartReason::Seek);
    queue.unwant(now + REVOKE_TIME, at(12));
    assert_eq!(queue.committed(Ok(()), now, at(12)), [], "it waits for what the program does");
    let none = Action::Release { committed: None, failed: None };
    assert_eq!(queue.drained(now, at(12)), [none]);
}

#[test]
fn an_operator_counts_more_than_a_commit_that_is_out_when_the_program_goes_elsewhere() {
    let Case { now, mut queue } = by_hand(false);
    queue.commit_by_hand(at(7));
    queue.go_to(at(12), StartReason::Seek);
    queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
    queue.drained(now, at(12));
    assert_eq!(queue.reset(at(3), StartReason::Reset, now + REVOKE_TIME), []);
    assert_eq!(queue.committed(Ok(()), now, at(12)), [Action::Commit(at(3))]);
    assert_eq!(queue.committed(Ok(()), now, at(12)), released(3));
}

#[test]
fn a_polled_queue_that_is_made_anew_keeps_what_was_said_and_stored() {
    let Case { now, mut queue } = by_hand(false);
    let anew = [Action::Close, Action::Renew];
    assert_eq!(queue.renew(), anew);
    assert_eq!(queue.commit_due(at(5)), [], "the program has said nothing");
    assert_eq!(queue.commit_by_hand(at(7)), [Action::Commit(at(7))]);
    assert_eq!(queue.renew(), anew);
    queue.committed(Ok(()), now, at(7));
    assert_eq!((queue.acked(), queue.commit_due(at(7))), (Some(at(7)), vec![]));
    queue.commit_by_hand(at(9));
    assert_eq!(queue.renew(), anew);
    queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
    assert_eq!(queue.drained(now, at(9)), [], "9 is still out");
    assert_eq!(queue.renew(), [], "it is going already");
    assert_eq!(queue.committed(Ok(()), now, at(9)), released(9));
}

#[test]
fn where_an_operator_has_sent_a_queue_it_goes_though_it_is_to_be_made_anew() {
    let Case { now, mut queue } = by_hand(false);
    assert!(!queue.is_sent_elsewhere());
    queue.reset(at(1), StartReason::Reset, now + REVOKE_TIME);
    queue.drained(now, at(5));
    assert_eq!(queue.renew(), []);
    assert!(queue.is_sent_elsewhere(), "no answer to an earlier pull counts either");
    let start = Action::Activate { start: at(1), reason: StartReason::Reset };
    assert_eq!(queue.committed(Ok(()), now, at(5)), [start]);
}

#[test]
fn what_is_committed_after_a_correction_is_what_the_program_had_said() {
    let Case { now, mut queue } = by_hand(false);
    queue.correct(at(8), now + REVOKE_TIME, at(5));
    assert_eq!(queue.commit_due(at(5)), [], "nothing");
    assert_eq!(queue.commit_by_hand(at(8)), [Action::Commit(at(8))]);
    queue.committed(Err("busy".into()), now, at(8));
    assert_eq!(queue.commit_due(at(8)), [Action::Commit(at(8))]);
}

#[test]
fn a_correction_is_not_committed_for_a_program_that_commits_and_a_reset_is() {
    let Case { now, mut queue } = by_hand(false);
    let moved = queue.correct(at(8), now + REVOKE_TIME, at(5));
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
    assert_eq!(queue.correct(at(5), now, at(7)), []);
    assert!(is_over(&queue.drained(now, at(7))));
    let (now, mut queue) = leaving();
    assert_eq!(queue.drained(now, at(7)), [Action::Commit(at(7))]);
    assert!(is_over(&queue.correct(at(5), now, at(7))));
    let Case { now, mut queue } = by_hand(false);
    queue.commit_by_hand(at(7));
    queue.unwant(now + REVOKE_TIME, at(7));
    queue.committed(Err("lost".into()), now, at(7));
    assert_eq!(queue.drained(now, at(7)), [Action::Ask(Ask::Stored)]);
    assert!(is_over(&queue.correct(at(5), now, at(7))));
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
