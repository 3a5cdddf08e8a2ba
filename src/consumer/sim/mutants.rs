//! Mistakes that the library could make, each put in where the simulator passes something on. That each is found shows
//! that the checks can fail.

mod order;

use super::plan::Mode;
use super::stretch::Stretch;

/// One mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// A broker that did not take a message back counts as having taken it.
    SendBackFailureIgnored,
    /// A message is finished as soon as it is to be sent back.
    SendBackIsFinished,
    /// A message is finished as soon as a listener has it.
    ClaimedIsFinished,
    /// The answer to a pull of a former generation goes to the present one.
    GenerationNotCompared,
    /// The watermark of a queue is committed after it was reset.
    CommitAfterReset,
    /// Every broker counts as told from the moment it is connected.
    PullBeforeHeartbeat,
    /// A stored offset that could not be read is taken as 0.
    FailedReadIsZero,
    /// A stored offset that could not be read is taken as "none".
    FailedReadIsNone,
    /// A commit that failed counts as confirmed.
    FailedCommitIsDone,
    /// A queue is pulled for again while a pull is in flight.
    SecondPull,
    /// A queue that stopped for its limits does not hear that it may go on.
    NudgeLost,
    /// The time at which a queue is to go on is forgotten now and then.
    TimerLost,
    /// A message that waits for its next send-back is forgotten.
    RetryForgotten,
    /// Nobody hears that a connection was lost, so offsets are not committed again.
    LossNotNoticed,
    /// Messages that could not be read count as passed.
    BrokenBytesPassed,
    /// A broadcasting member writes down what it has fetched.
    WrittenBeforeListener,
    /// A broadcasting member does not wait for the disk.
    WriteNotAwaited,
    /// A broadcasting member finds the offsets of another one.
    FileOfAnother,
    /// Broadcasting members share the queues.
    BroadcastIsShared,
    /// With automatic commits, what a program has just got counts as done.
    AllowedAtOnce,
    /// What was fetched and not handed out is committed.
    FetchedIsCommitted,
    /// A queue that is made anew does not know of what the program still has of it.
    HandedOutIsForgotten,
    /// After a seek, the answer to the pull before it counts.
    SeekIgnoresPull,
    /// A program that chooses other queues is not heard.
    AssignForgotten,
    /// A program that does not know where a queue begins counts as one that has no offset of it.
    FailedStartIsNone,
    /// Locks are not renewed.
    LockNotRenewed,
    /// A lock is believed in for ever.
    BeliefNeverEnds,
    /// The lock of a broker whose connection was lost is believed in.
    LockLossNotNoticed,
    /// A refused renewal is not heeded.
    RefusalIgnored,
    /// Nobody hears that a broker has moved.
    MoveNotNoticed,
    /// A queue is unlocked while its listener runs.
    UnlockedBeforeListener,
    /// A queue is unlocked before its offset is stored.
    UnlockedBeforeCommit,
    /// A message that is to come again does not hold up those behind it.
    SuspendedIsPassed,
}

impl Mutant {
    /// In which mode it shows.
    pub(super) fn mode(self) -> Mode {
        match self {
            Self::WrittenBeforeListener
            | Self::WriteNotAwaited
            | Self::FileOfAnother
            | Self::BroadcastIsShared => Mode::Broadcasting,
            Self::AllowedAtOnce
            | Self::FetchedIsCommitted
            | Self::HandedOutIsForgotten
            | Self::SeekIgnoresPull
            | Self::AssignForgotten
            | Self::FailedStartIsNone => Mode::Polled,
            Self::LockNotRenewed
            | Self::BeliefNeverEnds
            | Self::LockLossNotNoticed
            | Self::RefusalIgnored
            | Self::MoveNotNoticed
            | Self::UnlockedBeforeListener
            | Self::UnlockedBeforeCommit
            | Self::SuspendedIsPassed => Mode::InOrder,
            _ => Mode::Concurrent,
        }
    }
}

fn found(mutant: Mutant, promises: &[u32]) {
    let mut done = Stretch::from_environment().run(Some(mutant));
    let found = done.failures.pop().expect("the simulator notices");
    let named = promises.iter().any(|promise| found.what.starts_with(&format!("promise {promise}:")));
    assert!(named, "{mutant:?} was found for another reason: {found:?}");
}

#[test]
fn finds_that_a_failed_send_back_is_ignored() {
    found(Mutant::SendBackFailureIgnored, &[1]);
}

#[test]
fn finds_that_a_message_counts_as_finished_before_it_is_sent_back() {
    found(Mutant::SendBackIsFinished, &[1]);
}

#[test]
fn finds_that_a_message_counts_as_finished_before_its_listener_returns() {
    found(Mutant::ClaimedIsFinished, &[1]);
}

#[test]
fn finds_that_the_generation_of_an_answer_is_not_compared() {
    // A wrong answer moves the offset, or ends a pull that is still in flight.
    found(Mutant::GenerationNotCompared, &[1, 2, 3]);
}

#[test]
fn finds_that_a_queue_is_committed_after_a_reset() {
    found(Mutant::CommitAfterReset, &[1]);
}

#[test]
fn finds_that_a_broker_is_asked_before_it_is_told() {
    found(Mutant::PullBeforeHeartbeat, &[12]);
}

#[test]
fn finds_that_a_failed_read_is_taken_as_zero() {
    found(Mutant::FailedReadIsZero, &[2]);
}

#[test]
fn finds_that_a_failed_read_is_taken_as_none() {
    found(Mutant::FailedReadIsNone, &[2]);
}

#[test]
fn finds_that_a_failed_commit_counts() {
    found(Mutant::FailedCommitIsDone, &[4, 7]);
}

#[test]
fn finds_that_two_pulls_are_in_flight() {
    found(Mutant::SecondPull, &[3]);
}

#[test]
fn finds_that_a_relieved_queue_is_not_told() {
    found(Mutant::NudgeLost, &[4]);
}

#[test]
fn finds_that_a_timer_is_lost() {
    found(Mutant::TimerLost, &[4]);
}

#[test]
fn finds_that_a_waiting_message_is_forgotten() {
    found(Mutant::RetryForgotten, &[4]);
}

#[test]
fn finds_that_a_lost_connection_is_not_noticed() {
    // The broker is left behind, or a member leaves that takes an old confirmation for a present one.
    found(Mutant::LossNotNoticed, &[4, 7]);
}

#[test]
fn finds_that_unreadable_messages_are_passed() {
    // It is seen in the next commit, or before that in the next pull.
    found(Mutant::BrokenBytesPassed, &[1, 2]);
}

#[test]
fn finds_that_local_offsets_are_written_before_the_listener_ended() {
    found(Mutant::WrittenBeforeListener, &[1]);
}

#[test]
fn finds_that_a_write_is_not_awaited() {
    found(Mutant::WriteNotAwaited, &[7]);
}

#[test]
fn finds_that_a_member_has_the_local_offsets_of_another() {
    found(Mutant::FileOfAnother, &[1]);
}

#[test]
fn finds_that_broadcasting_members_share_queues() {
    found(Mutant::BroadcastIsShared, &[4]);
}

#[test]
fn finds_that_messages_are_committed_while_a_program_works_on_them() {
    found(Mutant::AllowedAtOnce, &[1]);
}

#[test]
fn finds_that_messages_are_committed_before_they_are_handed_out() {
    found(Mutant::FetchedIsCommitted, &[1]);
}

#[test]
fn finds_that_a_queue_made_anew_forgets_what_was_handed_out() {
    found(Mutant::HandedOutIsForgotten, &[1]);
}

#[test]
fn finds_that_a_seek_ignores_a_pull_in_flight() {
    found(Mutant::SeekIgnoresPull, &[1, 2, 3]);
}

#[test]
fn finds_that_queues_are_read_that_a_program_has_given_up() {
    found(Mutant::AssignForgotten, &[3]);
}

#[test]
fn finds_that_a_failed_look_up_of_a_start_is_taken_as_none() {
    found(Mutant::FailedStartIsNone, &[2]);
}
