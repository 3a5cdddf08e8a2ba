//! What the answer to a pull means. Pure.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::fetch::{self, Correction, Outcome};
use super::offset::Offset;
use super::run::Run;
use super::settings::OffsetIllegal;
use super::sift::{Asked, Sifted, sift};
use crate::message::{MessageQueue, Source, Subscription};
use crate::protocol::{DecodeError, Frame, PullOffsets, ResponseCode};

/// The answer to a pull, taken apart as far as its head.
#[derive(Debug, Clone)]
pub(crate) struct Pulled {
    pub(crate) code: ResponseCode,
    /// Where the queue stands; only with the codes that are not refusals.
    pub(crate) offsets: Option<PullOffsets>,
    pub(crate) remark: Option<String>,
    /// The messages are in a part of these.
    pub(crate) bytes: Vec<u8>,
    pub(crate) body: Range<usize>,
}

impl Pulled {
    /// # Errors
    /// The head makes no sense.
    pub(crate) fn of(frame: Frame) -> Result<Self, DecodeError> {
        let answer = frame.pull_answer()?;
        let body = frame.body_range();
        Ok(Self {
            code: answer.code,
            offsets: answer.offsets,
            remark: answer.remark,
            bytes: frame.into_bytes(),
            body,
        })
    }
}

/// What was asked.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) from: Offset,
    pub(crate) queue: &'a MessageQueue,
    pub(crate) subscription: &'a Subscription,
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) offset_illegal: OffsetIllegal,
}

/// What an answer meant.
#[derive(Debug)]
pub(crate) enum Taken {
    Found(Box<Run>, Outcome),
    Outcome(Outcome),
    /// The offset that was asked for is not the one to go on with.
    Elsewhere(Correction),
}

/// Takes an answer in. `now` is when it came, by the machine's clock.
pub(crate) fn take_in(pulled: Pulled, question: &Question<'_>, now: Instant) -> Taken {
    let Some(offsets) = pulled.offsets else {
        return Taken::Outcome(refused(pulled.code, pulled.remark));
    };
    match pulled.code {
        ResponseCode::SUCCESS => found(pulled, offsets, question, now),
        ResponseCode::PULL_NOT_FOUND | ResponseCode::PULL_RETRY_IMMEDIATELY => {
            nothing(pulled.code, offsets, question, now)
        }
        ResponseCode::PULL_OFFSET_MOVED => moved(offsets, pulled.remark.as_deref(), question),
        code => Taken::Outcome(refused(code, pulled.remark)),
    }
}

fn found(pulled: Pulled, offsets: PullOffsets, question: &Question<'_>, now: Instant) -> Taken {
    let Some(next) = Offset::new(offsets.next_begin_offset) else {
        return Taken::Outcome(Outcome::Failed("the broker says to go on at a negative offset".into()));
    };
    let sifted = sift(
        pulled.bytes,
        pulled.body,
        question.queue,
        question.namespace.clone(),
        question.subscription,
        Asked { from: question.from, next, offset_delta: offsets.offset_delta },
        now,
    );
    match sifted {
        Err(problem) => Taken::Outcome(Outcome::Failed(problem)),
        Ok(Sifted { run, broken: None }) => Taken::Found(Box::new(run), Outcome::Advanced(next)),
        Ok(Sifted { run, broken: Some(problem) }) => {
            let at = run.next();
            let problem = format!("the message at offset {at} cannot be read: {problem}");
            log::error!("{}: {problem}", question.queue);
            Taken::Found(Box::new(run), Outcome::Unreadable(at, problem))
        }
    }
}

/// Nothing, or nothing that matches: what was passed over counts as finished.
fn nothing(code: ResponseCode, offsets: PullOffsets, question: &Question<'_>, now: Instant) -> Taken {
    let from = question.from;
    let next = Offset::new(offsets.next_begin_offset).unwrap_or(from).max(from);
    if code == ResponseCode::PULL_RETRY_IMMEDIATELY && next == from {
        // So says a slave at its end, or one that is behind its master. At once it would say the same again.
        let end = offsets.max_offset;
        if end == from.wire() {
            return Taken::Outcome(Outcome::NotHeld);
        }
        return Taken::Outcome(Outcome::Failed(format!("it has not got offset {from} yet, but up to {end}")));
    }
    let source = Source { bytes: Vec::new(), queue: question.queue.clone(), namespace: None };
    let run = Run::new(Arc::new(source), Box::new([]), next, now);
    Taken::Found(Box::new(run), Outcome::Nothing(next))
}

fn moved(offsets: PullOffsets, remark: Option<&str>, question: &Question<'_>) -> Taken {
    let wire = |offset| Offset::new(offset).unwrap_or(Offset::ZERO);
    let (min, max) = (wire(offsets.min_offset), wire(offsets.max_offset));
    let asked = question.from;
    let suggested = wire(offsets.next_begin_offset);
    let correction = match remark {
        // Told once: what is not followed now is lost, also where the offset asked for does not exist anyway.
        Some(RESET) => Correction::Reset(suggested),
        _ => fetch::corrected(asked, suggested, min, max),
    };
    let correction = match (correction, question.offset_illegal) {
        (Correction::Moved(_), OffsetIllegal::FirstOffset) => Correction::Moved(min),
        (Correction::Moved(_), OffsetIllegal::LastOffset) => Correction::Moved(max),
        (Correction::Moved(_), OffsetIllegal::Suspend) => {
            let problem = format!("offset {asked} does not exist (the queue has {min} to {max})");
            return Taken::Outcome(Outcome::Unreadable(asked, problem));
        }
        (correction, _) => correction,
    };
    // Going there at once would be going round in a circle.
    if matches!(correction, Correction::Moved(to) | Correction::Reset(to) if to == asked) {
        let problem = format!("the broker says that offset {asked} does not exist, and to go on there");
        return Taken::Outcome(Outcome::Failed(problem));
    }
    Taken::Elsewhere(correction)
}

/// Java: `GetMessageStatus.OFFSET_RESET`. Brokers that know no reset by the answer to a pull do not say it.
const RESET: &str = "OFFSET_RESET";

fn refused(code: ResponseCode, remark: Option<String>) -> Outcome {
    match code {
        ResponseCode::SUBSCRIPTION_NOT_EXIST
        | ResponseCode::SUBSCRIPTION_NOT_LATEST
        | ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST
        | ResponseCode::FILTER_DATA_NOT_EXIST
        | ResponseCode::FILTER_DATA_NOT_LATEST => Outcome::NotTold,
        ResponseCode::FLOW_CONTROL => Outcome::FlowControl,
        code => Outcome::Failed(format!("answered {code} {}", remark.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Filter;

    #[test]
    fn o12_a_reset_is_one_wherever_the_queue_begins_and_ends() {
        let queue = MessageQueue::new("orders", "broker-a", 0);
        let subscription = Subscription::parse("orders", &Filter::all(), 1).unwrap();
        let moved = |from, remark: &str, offset_illegal| {
            let from = Offset::new(from).unwrap();
            let question = Question {
                from,
                queue: &queue,
                subscription: &subscription,
                namespace: None,
                offset_illegal,
            };
            let offsets =
                PullOffsets { next_begin_offset: 20, min_offset: 20, max_offset: 30, ..Default::default() };
            match super::moved(offsets, Some(remark), &question) {
                Taken::Elsewhere(correction) => Some(correction),
                _ => None,
            }
        };
        let at = |offset| Offset::new(offset).unwrap();
        for from in [5, 25, 40] {
            for policy in [OffsetIllegal::Nearest, OffsetIllegal::LastOffset, OffsetIllegal::Suspend] {
                assert_eq!(moved(from, RESET, policy), Some(Correction::Reset(at(20))), "{from} {policy:?}");
            }
        }
        let (low, high) = ("OFFSET_TOO_SMALL", "OFFSET_OVERFLOW_BADLY");
        assert_eq!(moved(5, low, OffsetIllegal::LastOffset), Some(Correction::Moved(at(30))));
        assert_eq!(moved(40, high, OffsetIllegal::Nearest), Some(Correction::Moved(at(30))));
        assert_eq!(moved(40, high, OffsetIllegal::FirstOffset), Some(Correction::Moved(at(20))));
        assert_eq!(moved(40, high, OffsetIllegal::Suspend), None);
    }

    #[test]
    fn a_broker_that_sends_a_pull_round_in_a_circle_is_not_followed() {
        let queue = MessageQueue::new("orders", "broker-a", 0);
        let subscription = Subscription::parse("orders", &Filter::all(), 1).unwrap();
        let question = Question {
            from: Offset::new(50).unwrap(),
            queue: &queue,
            subscription: &subscription,
            namespace: None,
            offset_illegal: OffsetIllegal::Nearest,
        };
        let told = |next_begin_offset| PullOffsets {
            next_begin_offset,
            min_offset: 0,
            max_offset: 100,
            suggest_which_broker_id: 0,
            offset_delta: 0,
        };
        assert!(matches!(moved(told(50), None, &question), Taken::Outcome(Outcome::Failed(_))));
        assert!(matches!(moved(told(7), None, &question), Taken::Elsewhere(Correction::Reset(_))));
    }
}
