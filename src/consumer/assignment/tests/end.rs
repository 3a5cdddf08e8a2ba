//! A queue that goes to another member or ends with its consumer, and its last commit.

use super::*;

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
fn what_a_doubted_broker_has_lost_of_a_queue_that_goes_is_committed_again() {
    for early in [true, false] {
        let Case { now, mut queue } = active();
        if early {
            queue.connection_lost(true, now);
        }
        assert_eq!(queue.unwant(now + REVOKE_TIME, at(10)), [Action::Close]);
        if !early {
            queue.connection_lost(true, now);
        }
        assert_eq!(
            queue.drained(now, at(10)),
            [Action::Ask(Ask::Stored)],
            "nothing was finished, but 10 may be gone"
        );
        match early {
            true => {
                assert_eq!(queue.stored(Ok(None), now), [Action::Commit(at(10))]);
                assert_eq!(queue.committed(Ok(()), now, at(10)), released(10));
            }
            false => {
                let over = queue.due(now + REVOKE_TIME, at(10));
                assert!(matches!(over[..], [Action::Release { failed: Some(_), .. }]), "not told: {over:?}");
            }
        }
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
fn what_was_never_consumed_is_released_without_a_commit() {
    let now = Instant::now();
    let (mut queue, _) = Assignment::new(policy(ConsumeFrom::LastOffset), false, now);
    let none = vec![Action::Release { committed: None, failed: None }];
    assert_eq!(queue.unwant(now, Offset::ZERO), none);
    assert_eq!(queue.stored(Ok(Some(at(1))), now), [], "an answer that comes too late changes nothing");
}
