//! Where a queue starts, and who is asked for it.

use super::*;

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
