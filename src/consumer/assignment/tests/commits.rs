//! Commits of a queue that is consumed, and doubts about those that were confirmed.

use super::*;

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
    queue.connection_lost(true, now);
    assert_eq!(queue.commit_due(at(11)), [], "when it is back");
    assert_eq!(queue.doubt_commits(), [Action::Ask(Ask::Stored)]);
    queue.connection_lost(true, now);
    assert_eq!(queue.stored(Ok(Some(at(10))), now), [], "asked before it was lost again");
    assert_eq!(queue.commit_due(at(11)), []);
    queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
    assert_eq!(queue.drained(now, at(10)), [Action::Commit(at(10))], "or the end would not be clean");
}

#[test]
fn what_was_confirmed_before_a_connection_was_lost_in_the_end_is_committed_again() {
    let Case { now, mut queue } = active();
    queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
    queue.connection_lost(true, now);
    assert_eq!(queue.drained(now, at(10)), [Action::Commit(at(10))]);
}
