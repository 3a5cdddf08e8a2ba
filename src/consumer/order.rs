//! What becomes of the messages of a batch that is consumed in order. Pure.

use std::time::Duration;

use super::send_back::Back;
use crate::client::ConsumeStatus;

/// What becomes of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is finished.
    Done,
    /// A broker is to hold it as a dead letter; the queue waits for its word.
    HandOver(Back),
    /// It comes again, and its reconsume count grows by so much.
    Again(u32),
}

/// What becomes of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// Of each message, in order.
    pub(super) fates: Vec<Fate>,
    /// How long the queue waits, if it does.
    pub(super) pause: Option<Duration>,
}

/// Decides by the answers, each with the reconsume count of its message. The first message that is neither accepted
/// nor given up comes again, and so does all that follows it, whatever was answered there: nothing overtakes.
pub(super) fn judge(answers: &[(ConsumeStatus, u32)], most_times: u32, usual_pause: Duration) -> Judgement {
    let mut pause = None;
    let mut fates = Vec::with_capacity(answers.len());
    for (status, times) in answers {
        let wait = match status {
            ConsumeStatus::ReconsumeAfter(wish) => Some(*wish),
            ConsumeStatus::ReconsumeLater => Some(usual_pause),
            ConsumeStatus::Success | ConsumeStatus::DeadLetter => None,
        };
        let fate = match (status, wait) {
            _ if pause.is_some() => Fate::Again(u32::from(wait.is_some())),
            (ConsumeStatus::DeadLetter, _) => Fate::HandOver(Back::DeadLetter),
            (_, None) => Fate::Done,
            (_, Some(_)) if *times >= most_times => Fate::HandOver(Back::Exhausted),
            (_, Some(wait)) => {
                pause = Some(wait.max(SHORTEST_PAUSE));
                Fate::Again(1)
            }
        };
        fates.push(fate);
    }
    Judgement { fates, pause }
}

/// As the Java client, which also knows a longest one: a listener that wishes more than 30 s gets it here.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use ConsumeStatus::{DeadLetter, ReconsumeAfter, ReconsumeLater, Success};
    use Fate::{Again, Done, HandOver};

    const USUAL: Duration = Duration::from_secs(1);

    fn judged(answers: &[(ConsumeStatus, u32)], most: u32) -> (Vec<Fate>, Option<Duration>) {
        let Judgement { fates, pause } = judge(answers, most, USUAL);
        (fates, pause)
    }

    #[test]
    fn l5_each_answer_at_each_count_has_one_outcome() {
        let table = [
            (Success, 0, Done, None),
            (Success, 9, Done, None),
            (ReconsumeLater, 0, Again(1), Some(USUAL)),
            (ReconsumeLater, 1, Again(1), Some(USUAL)),
            (ReconsumeLater, 2, HandOver(Back::Exhausted), None),
            (ReconsumeLater, 3, HandOver(Back::Exhausted), None),
            (ReconsumeAfter(USUAL * 5), 1, Again(1), Some(USUAL * 5)),
            (ReconsumeAfter(USUAL * 5), 2, HandOver(Back::Exhausted), None),
            (DeadLetter, 0, HandOver(Back::DeadLetter), None),
            (DeadLetter, 2, HandOver(Back::DeadLetter), None),
        ];
        for (status, times, fate, pause) in table {
            assert_eq!(judged(&[(status, times)], 2), (vec![fate], pause), "{status:?} after {times}");
        }
    }

    #[test]
    fn what_follows_the_first_that_comes_again_comes_again_too() {
        let answers = [(Success, 0), (DeadLetter, 0), (Success, 0), (ReconsumeAfter(USUAL * 2), 0)];
        let rest = [(Success, 0), (DeadLetter, 0), (ReconsumeLater, 7)];
        let (fates, pause) = judged(&[&answers[..], &rest[..]].concat(), 7);
        let expected = [Done, HandOver(Back::DeadLetter), Done, Again(1), Again(0), Again(0), Again(1)];
        assert_eq!((fates.as_slice(), pause), (&expected[..], Some(USUAL * 2)));
    }

    #[test]
    fn a_pause_is_as_long_as_was_wished_but_not_too_short() {
        for (wish, pause) in [(Duration::ZERO, SHORTEST_PAUSE), (USUAL * 3600, USUAL * 3600)] {
            assert_eq!(judged(&[(ReconsumeAfter(wish), 0)], 1).1, Some(pause));
        }
    }

    #[test]
    fn without_a_limit_a_message_comes_again_for_ever() {
        assert_eq!(judged(&[(ReconsumeLater, 1_000_000)], u32::MAX).0, [Again(1)]);
    }
}
