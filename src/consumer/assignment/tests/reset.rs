//! A queue that stays and goes on somewhere else.

use super::*;

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
