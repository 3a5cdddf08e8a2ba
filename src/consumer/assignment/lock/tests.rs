use std::time::SystemTime;

use super::super::tests::{at, policy};
use super::super::{COMMIT_TIME, LATE, LOST_SINCE};
use super::*;
use crate::consumer::stats::StartReason;
use crate::message::ConsumeFrom;

struct Case {
    now: Instant,
    queue: Assignment,
}

impl Case {
    fn asked(&self) -> Asked {
        Asked { at: self.now, by_wall: SystemTime::now(), losses: 0 }
    }

    fn locked(&mut self, answer: Result<bool, String>) -> Vec<Action> {
        let asked = self.asked();
        self.queue.locked(answer, asked, 0.5, self.now)
    }

    fn far(&self) -> Instant {
        self.now + FAR
    }

    fn by(&self) -> Instant {
        self.now + REVOKE_TIME_LOCKED
    }

    /// Drained, committed and unlocked.
    fn ends(&mut self, watermark: i64) {
        assert_eq!(self.queue.drained(self.now, at(watermark)), [Action::Commit(at(watermark))]);
        assert_eq!(self.queue.committed(Ok(()), self.now, at(watermark)), [Action::Unlock]);
        assert!(self.queue.is_leaving());
        assert_eq!(self.queue.unlocked(), released(watermark));
    }
}

fn locking() -> Case {
    let (queue, actions) = Assignment::new_locked(policy(ConsumeFrom::LastOffset));
    assert_eq!(actions, [Action::Lock]);
    Case { now: Instant::now(), queue }
}

/// A queue that is locked, and active at offset 10, which is stored.
fn active() -> Case {
    let mut case = locking();
    assert_eq!(case.locked(Ok(true)), [Action::Ask(Ask::Stored)]);
    let actions = case.queue.stored(Ok(Some(at(10))), case.now);
    assert_eq!(actions, [Action::Activate { start: at(10), reason: StartReason::Stored }]);
    assert!(case.queue.lock_asked().is_some());
    case
}

fn released(committed: i64) -> Vec<Action> {
    vec![Action::Release { committed: Some(at(committed)), failed: None }]
}

fn never_consumed() -> Vec<Action> {
    vec![Action::Release { committed: None, failed: None }]
}

#[test]
fn o3_the_offset_is_read_once_when_the_lock_is_granted() {
    let mut case = locking();
    assert_eq!(case.queue.stored(Ok(Some(at(3))), case.now), [], "nobody has asked");
    assert_eq!(case.locked(Ok(true)), [Action::Ask(Ask::Stored)]);
    assert_eq!(case.locked(Ok(true)), [], "a second answer changes nothing");
    assert_eq!(case.queue.stored(Err("lost".into()), case.now), []);
    case.now += Duration::from_millis(200);
    assert_eq!(case.queue.due(case.now, at(0)), [Action::Ask(Ask::Stored)]);
}

#[test]
fn a_refused_or_failed_lock_is_asked_for_again_ever_more_slowly() {
    for answer in [Ok(false), Err("timeout".to_owned())] {
        let mut case = locking();
        assert!(case.queue.is_at_first_try());
        for expected in [100, 200, 400, 800, 1000, 1000] {
            assert_eq!(case.locked(answer.clone()), []);
            assert_eq!(case.queue.deadline(), Some(case.now + Duration::from_millis(expected)));
            assert!(!case.queue.is_at_first_try() && case.queue.is_locking());
            case.now += Duration::from_millis(expected);
            assert_eq!(case.queue.due(case.now, at(0)), [Action::Lock]);
        }
        assert_eq!(case.locked(Ok(true)), [Action::Ask(Ask::Stored)]);
    }
}

#[test]
fn a_queue_that_goes_before_it_is_consumed_is_unlocked_if_it_may_be_locked() {
    let mut case = locking();
    assert_eq!(case.queue.unwant(case.by(), at(0)), [Action::Unlock], "the answer is still out");
    assert_eq!(case.locked(Ok(true)), []);
    assert_eq!(case.queue.unlocked(), never_consumed());

    let mut case = locking();
    case.locked(Ok(false));
    assert_eq!(case.queue.unwant(case.by(), at(0)), never_consumed());

    let mut case = locking();
    case.locked(Ok(true));
    assert_eq!(case.queue.shutdown(case.by(), Duration::from_secs(1)), [Action::Unlock]);
    assert_eq!(case.queue.deadline(), Some(case.by()));
    assert_eq!(case.queue.due(case.by(), at(0)), never_consumed(), "no answer");
}

/// The order of a hand-over: drained, committed, unlocked.
#[test]
fn l6_a_revoked_queue_is_committed_once_when_it_is_drained_and_then_unlocked() {
    let mut case = active();
    assert_eq!(case.queue.unwant(case.by(), at(12)), [Action::Close], "nobody else can read the offset");
    assert!(case.queue.is_leaving());
    case.ends(14);
    let mut case = active();
    assert_eq!(case.queue.shutdown(case.by(), Duration::from_secs(1)), [Action::Close]);
    case.ends(14);
}

#[test]
fn a_queue_without_news_is_unlocked_at_once() {
    let mut case = active();
    case.queue.unwant(case.by(), at(10));
    assert_eq!(case.queue.drained(case.now, at(10)), [Action::Unlock]);
    assert_eq!(case.queue.unlocked(), released(10));
}

#[test]
fn a_queue_whose_listener_still_runs_is_never_unlocked() {
    let mut case = active();
    case.queue.unwant(case.by(), at(10));
    case.now = case.by();
    assert_eq!(case.queue.due(case.now, at(11)), [Action::Commit(at(11))]);
    assert_eq!(case.queue.committed(Ok(()), case.now, at(11)), released(11));
}

#[test]
fn a_commit_that_fails_does_not_keep_the_queue_locked() {
    let mut case = active();
    case.queue.shutdown(case.by(), Duration::from_secs(1));
    case.queue.drained(case.now, at(11));
    case.now = case.queue.deadline().unwrap();
    assert_eq!(case.queue.committed(Err("busy".into()), case.now, at(11)), [Action::Unlock]);
    let failed = Some("busy".to_owned());
    assert_eq!(case.queue.unlocked(), [Action::Release { committed: Some(at(10)), failed }]);
}

#[test]
fn a_connection_that_is_lost_before_the_unlock_is_answered_is_told() {
    let mut case = active();
    case.queue.shutdown(case.by(), COMMIT_TIME);
    assert_eq!(case.queue.drained(case.now, at(12)), [Action::Commit(at(12))]);
    assert_eq!(case.queue.committed(Ok(()), case.now, at(12)), [Action::Unlock]);
    case.queue.connection_lost(true, case.now);
    let failed = Some(LOST_SINCE.to_owned());
    assert_eq!(case.queue.unlocked(), [Action::Release { committed: Some(at(12)), failed }]);
}

#[test]
fn a_lock_that_has_to_wait_is_asked_for_when_it_may() {
    let mut case = locking();
    let later = case.now + LATE;
    case.queue.lock_later(later);
    assert_eq!(case.queue.deadline(), Some(later));
    assert!(case.locked(Ok(true)).is_empty(), "nothing was asked");
    case.queue.lock_now(case.now);
    assert_eq!(case.queue.due(case.now, at(0)), [Action::Lock]);
}

#[test]
fn a_queue_that_another_member_has_is_not_committed_and_locked_anew() {
    for late in [false, true] {
        let mut case = active();
        let actions = if late {
            let asked = case.asked();
            case.queue.lock_regained(asked, true, false, case.far(), at(12))
        } else {
            case.queue.lock_refused(case.far())
        };
        assert_eq!(actions, [Action::Forfeit, Action::Close]);
        assert_eq!(case.queue.commit_due(at(12)), []);
        assert_eq!(case.queue.due(case.now + Duration::from_secs(3600), at(12)), [], "a listener still runs");
        assert_eq!(case.queue.drained(case.now, at(13)), [Action::LetGo, Action::Lock]);
        assert_eq!(case.locked(Ok(true)), [Action::Ask(Ask::Stored)]);
        let actions = case.queue.stored(Ok(Some(at(20))), case.now);
        assert_eq!(actions, [Action::Activate { start: at(20), reason: StartReason::Stored }]);
    }
}

#[test]
fn a_queue_that_another_member_has_goes_without_commit_and_unlock() {
    let not_stored = [Action::Release { committed: Some(at(10)), failed: Some(TAKEN.to_owned()) }];
    for (watermark, told) in [(10, released(10).as_slice()), (13, &not_stored)] {
        let mut case = active();
        case.queue.lock_refused(case.far());
        assert_eq!(case.queue.unwant(case.by(), at(10)), []);
        assert_eq!(case.queue.drained(case.now, at(watermark)), told);

        let mut case = active();
        case.queue.unwant(case.by(), at(10));
        assert_eq!(case.queue.lock_refused(case.far()), [Action::Forfeit]);
        assert_eq!(case.queue.drained(case.now, at(watermark)), told);
    }

    let mut case = active();
    case.queue.connection_lost(true, case.now);
    case.queue.lock_refused(case.far());
    case.queue.unwant(case.by(), at(10));
    assert_eq!(case.queue.drained(case.now, at(10)), not_stored, "the connection was lost before");

    let mut case = active();
    case.queue.unwant(case.by(), at(12));
    case.queue.drained(case.now, at(13));
    assert_eq!(case.queue.lock_refused(case.far()), not_stored);
}

#[test]
fn a_lock_that_had_only_run_out_goes_on() {
    let mut case = active();
    let asked = case.asked();
    assert_eq!(case.queue.lock_regained(asked, false, false, case.far(), at(12)), [Action::Extend(asked)]);
    assert_eq!(case.queue.commit_due(at(12)), [Action::Commit(at(12))]);
}

#[test]
fn after_a_lost_connection_the_stored_offset_decides_whether_it_goes_on() {
    for (held, goes_on) in
        [(Some(10), true), (Some(12), true), (Some(7), true), (None, true), (Some(13), false)]
    {
        let mut case = active();
        case.queue.connection_lost(true, case.now);
        assert_eq!(case.queue.doubt_commits(), [], "not before the lock is certain");
        assert_eq!(case.queue.commit_due(at(12)), []);
        let asked = case.asked();
        let actions = case.queue.lock_regained(asked, false, true, case.far(), at(12));
        assert_eq!(actions, [Action::Ask(Ask::Stored)]);
        assert_eq!(case.queue.commit_due(at(12)), [], "not before the broker has answered");
        let actions = case.queue.stored(Ok(held.map(at)), case.now);
        if goes_on {
            assert_eq!(actions, [Action::Extend(asked)], "{held:?}");
            let news = held != Some(12);
            assert_eq!(case.queue.commit_due(at(12)).is_empty(), !news, "{held:?}");
        } else {
            assert_eq!(actions, [Action::Forfeit, Action::Close], "another member is further");
            assert_eq!(case.queue.drained(case.now, at(12)), [Action::LetGo, Action::Lock]);
        }
    }
}

#[test]
fn a_question_that_is_not_answered_is_asked_again() {
    let mut case = active();
    case.queue.connection_lost(true, case.now);
    let asked = case.asked();
    case.queue.lock_regained(asked, false, true, case.far(), at(10));
    assert_eq!(case.queue.stored(Err("lost".into()), case.now), []);
    assert_eq!(case.queue.commit_due(at(10)), [Action::Ask(Ask::Stored)]);
    assert_eq!(case.queue.stored(Ok(Some(at(10))), case.now), [Action::Extend(asked)]);
}

#[test]
fn an_answer_from_before_the_connection_was_lost_once_more_does_not_count() {
    let mut case = active();
    case.queue.connection_lost(true, case.now);
    let asked = case.asked();
    case.queue.lock_regained(asked, false, true, case.far(), at(10));
    case.queue.connection_lost(true, case.now);
    assert_eq!(case.queue.stored(Ok(Some(at(10))), case.now), []);
    let actions = case.queue.lock_regained(asked, false, true, case.far(), at(10));
    assert_eq!(actions, [Action::Ask(Ask::Stored)]);
}

#[test]
fn a_connection_that_is_lost_before_the_start_means_to_lock_again() {
    let mut case = locking();
    case.locked(Ok(true));
    case.queue.connection_lost(true, case.now);
    assert_eq!(case.queue.stored(Ok(Some(at(3))), case.now), [], "it was read without the lock");
    assert!(case.queue.is_locking());
    case.now = case.queue.deadline().unwrap();
    assert_eq!(case.queue.due(case.now, at(0)), [Action::Lock]);
}

#[test]
fn whoever_goes_after_a_lost_connection_commits_only_over_what_it_left_there() {
    for (held, last) in [(10, vec![Action::Commit(at(14))]), (24, vec![Action::Unlock])] {
        for lost_first in [true, false] {
            let mut case = active();
            if lost_first {
                case.queue.connection_lost(true, case.now);
            }
            assert_eq!(case.queue.unwant(case.by(), at(12)), [Action::Close]);
            if !lost_first {
                case.queue.connection_lost(true, case.now);
            }
            assert_eq!(case.queue.drained(case.now, at(14)), [Action::Ask(Ask::Stored)]);
            assert_eq!(case.queue.stored(Ok(Some(at(held))), case.now), last);
        }
    }
}

#[test]
fn who_stops_after_a_lost_connection_looks_whether_the_broker_still_holds_what_it_had_confirmed() {
    let short = "it is at 12, of another member, and 14 was reached";
    for (lost_first, held, after) in [
        (true, Ok(Some(at(14))), Ok(())),
        (true, Ok(Some(at(12))), Err(Some(short))),
        (true, Ok(Some(at(3))), Err(None)),
        (true, Ok(None), Err(None)),
        (false, Ok(None), Err(None)),
        (true, Err("lost".to_owned()), Err(Some("the broker did not tell"))),
    ] {
        let mut case = active();
        if lost_first {
            case.queue.connection_lost(true, case.now);
        }
        assert_eq!(case.queue.shutdown(case.by(), COMMIT_TIME), [Action::Close]);
        if !lost_first {
            case.queue.connection_lost(true, case.now);
        }
        assert_eq!(case.queue.drained(case.now, at(14)), [Action::Ask(Ask::Stored)]);
        let mut actions = case.queue.stored(held.clone(), case.now);
        if held.is_err() {
            assert_eq!(actions, [], "it is asked again, as long as there is time");
            let again = case.queue.deadline().unwrap();
            assert_eq!(case.queue.due(again, at(14)), [Action::Ask(Ask::Stored)]);
            case.now += COMMIT_TIME;
            actions = case.queue.stored(held.clone(), case.now);
        }
        if after == Err(None) {
            assert_eq!(actions, [Action::Commit(at(14))], "{held:?}");
            continue;
        }
        assert_eq!(actions, [Action::Unlock], "{held:?}");
        let ended = case.queue.unlocked();
        let [Action::Release { failed, .. }] = ended.as_slice() else { panic!("{ended:?}") };
        let why = failed.as_deref().unwrap_or_default();
        assert!(after.err().flatten().map_or(failed.is_none(), |text| why.starts_with(text)), "{failed:?}");
    }
}

#[test]
fn what_was_confirmed_before_a_lost_connection_is_committed_again_if_it_is_gone() {
    let mut case = active();
    case.queue.connection_lost(true, case.now);
    assert_eq!(case.queue.shutdown(case.by(), COMMIT_TIME), [Action::Close]);
    assert_eq!(case.queue.drained(case.now, at(10)), [Action::Ask(Ask::Stored)], "nothing is new");
    assert_eq!(case.queue.stored(Ok(None), case.now), [Action::Commit(at(10))]);
    assert_eq!(case.queue.committed(Ok(()), case.now, at(10)), [Action::Unlock]);
}

#[test]
fn a_reset_or_rebuilt_queue_keeps_its_lock_and_waits_for_its_listener() {
    let mut case = active();
    let actions = case.queue.reset(at(3), StartReason::Reset, case.far());
    assert_eq!(actions, [Action::Close, Action::Commit(at(3))]);
    case.queue.committed(Ok(()), case.now, at(12));
    assert_eq!(case.queue.due(case.now + Duration::from_secs(3600), at(12)), []);
    let start = Action::Activate { start: at(3), reason: StartReason::Reset };
    assert_eq!(case.queue.drained(case.now, at(12)), [start]);

    let mut case = active();
    assert_eq!(case.queue.rebuild(case.far()), [Action::Close]);
    assert_eq!(case.queue.drained(case.now, at(11)), [Action::Commit(at(11))]);
    assert!(case.queue.deadline().unwrap() < case.now + Duration::from_secs(10));
    let start = Action::Activate { start: at(11), reason: StartReason::Rebuilt };
    assert_eq!(case.queue.committed(Ok(()), case.now, at(11)), [start]);
}

#[test]
fn a_reset_after_a_regained_lock_is_not_taken_for_another_member() {
    let mut case = active();
    case.queue.connection_lost(true, case.now);
    let asked = case.asked();
    let regained = |case: &mut Case| case.queue.lock_regained(asked, false, true, case.far(), at(10));
    assert_eq!(regained(&mut case), [Action::Ask(Ask::Stored)]);
    case.queue.reset(at(20), StartReason::Reset, case.far());
    case.queue.committed(Ok(()), case.now, at(10));
    let start = Action::Activate { start: at(20), reason: StartReason::Reset };
    assert_eq!(case.queue.drained(case.now, at(10)), [start]);
    assert_eq!(case.queue.stored(Ok(Some(at(20))), case.now), [], "it was asked in another life");
    assert_eq!(case.queue.doubt_commits(), [], "the lock is not certain");
    let actions = case.queue.lock_regained(asked, false, true, case.far(), at(20));
    assert_eq!(actions, [Action::Ask(Ask::Stored)]);
    assert_eq!(case.queue.stored(Ok(Some(at(20))), case.now), [Action::Extend(asked)]);
}

/// A renewal on its way while the queue goes may lock it once more; one while it is locked anew locks what is wanted.
#[test]
fn only_a_queue_that_is_being_unlocked_is_unlocked_again() {
    let mut case = active();
    assert!(!case.queue.is_unlocking());
    case.queue.unwant(case.by(), at(12));
    case.ends(12);
    let mut case = active();
    case.queue.unwant(case.by(), at(10));
    assert_eq!(case.queue.drained(case.now, at(10)), [Action::Unlock]);
    assert!(case.queue.is_unlocking());
    let mut case = active();
    case.queue.lock_refused(case.far());
    assert_eq!(case.queue.drained(case.now, at(10)), [Action::LetGo, Action::Lock]);
    assert!(!case.queue.is_unlocking());
}

#[test]
fn a_reset_queue_that_goes_is_not_unlocked_before_its_listener_has_ended() {
    let reset = |case: &mut Case| case.queue.reset(at(3), StartReason::Reset, case.far());
    for reset_first in [true, false] {
        let mut case = active();
        if reset_first {
            assert_eq!(reset(&mut case), [Action::Close, Action::Commit(at(3))]);
            assert_eq!(case.queue.unwant(case.by(), at(12)), []);
        } else {
            case.queue.unwant(case.by(), at(12));
            case.queue.connection_lost(true, case.now);
            assert_eq!(reset(&mut case), [Action::Commit(at(3))]);
        }
        assert_eq!(case.queue.committed(Ok(()), case.now, at(12)), []);
        assert_eq!(case.queue.drained(case.now, at(12)), [Action::Unlock]);
        assert_eq!(case.queue.unlocked(), released(3));
    }
}

#[test]
fn a_queue_that_begins_after_a_lost_connection_does_so_with_the_lock_from_before_it() {
    let mut case = locking();
    let asked = case.asked();
    case.queue.locked(Ok(true), asked, 0.5, case.now);
    let target = case.queue.reset(at(3), StartReason::Reset, case.far());
    assert_eq!(target, [Action::Commit(at(3))]);
    case.queue.connection_lost(true, case.now);
    let begins = case.queue.committed(Ok(()), case.now, at(3));
    assert_eq!(begins, [Action::Activate { start: at(3), reason: StartReason::Reset }]);
    assert_eq!(case.queue.lock_asked(), Some(asked), "by which it is doubted");
}

#[test]
fn a_reset_is_left_to_who_has_the_queue() {
    let mut case = locking();
    assert_eq!(case.queue.reset(at(3), StartReason::Reset, case.far()), []);
    assert!(case.queue.is_locking());
}
