//! Records of listener calls and polls, for the message trace.

use std::time::Duration;

use super::batch::Batch;
use super::core::Core;
use crate::client::trace::{Consumed, Consuming, Record};
use crate::client::{ConsumeStatus, Verdict};
use crate::message::{MessageView, properties};

/// A traced call that is running.
#[derive(Debug)]
pub(super) struct Traced {
    call: String,
}

/// Before a listener call. `None`, at no cost, while traces are off.
pub(super) fn before(core: &Core, batch: &Batch) -> Option<Traced> {
    let tracer = core.tracer.as_ref().filter(|tracer| tracer.is_for(batch.queue().topic()))?;
    let (call, begins) = (core.instance.new_message_id(), core.instance.clock().millis());
    for message in batch.iter().filter(|message| is_wanted(message)) {
        tracer.add(begun(core, message, &call, begins));
    }
    Some(Traced { call })
}

/// A poll has given these messages to the program; what it makes of them nobody knows. As with Java, they count as
/// consumed.
pub(super) fn handed_out(core: &Core, topic: &str, messages: &[MessageView]) {
    let Some(tracer) = core.tracer.as_ref().filter(|tracer| tracer.is_for(topic)) else { return };
    let (call, now) = (core.instance.new_message_id(), core.instance.clock().millis());
    for message in messages.iter().filter(|message| is_wanted(message)) {
        tracer.add(begun(core, message, &call, now));
        tracer.add(Record::consumed(&Consumed {
            call: &call,
            id: message.message_id(),
            millis: 0,
            success: true,
            keys: message.property(properties::KEYS),
            outcome: SUCCESS,
            ended: now,
            group: &core.plain_group,
        }));
    }
}

fn begun(core: &Core, message: &MessageView, call: &str, begins: i64) -> Record {
    Record::consuming(&Consuming {
        begins,
        region: message.property(properties::MSG_REGION),
        group: &core.plain_group,
        call,
        id: message.message_id(),
        reconsume_times: message.reconsume_times(),
        keys: message.property(properties::KEYS),
    })
}

/// After it. `late`: it took longer than the consume timeout, and unless messages come in order, they were sent back.
pub(super) fn after(
    core: &Core,
    traced: &Traced,
    batch: &mut Batch,
    verdict: &Verdict,
    took: Duration,
    late: bool,
) {
    let Some(tracer) = &core.tracer else { return };
    let ended = core.instance.clock().millis();
    let lost = late && core.settings.order.is_none();
    let millis = took.as_millis() / (batch.len().max(1) as u128);
    for place in 0..batch.len() {
        let answer = batch.answer_at(place);
        let Some(message) = batch.get(place).filter(|message| is_wanted(message)) else { continue };
        let success = !lost && answer.unwrap_or(verdict.status()) == ConsumeStatus::Success;
        let outcome = match (success, late) {
            (_, true) => TOO_LATE,
            (true, _) => SUCCESS,
            _ if answer.is_none() && verdict.error().is_some() => FAILED,
            _ => LATER,
        };
        tracer.add(Record::consumed(&Consumed {
            call: &traced.call,
            id: message.message_id(),
            millis,
            success,
            keys: message.property(properties::KEYS),
            outcome,
            ended,
            group: &core.plain_group,
        }));
    }
}

/// Brokers may be told to have no traces.
fn is_wanted(message: &MessageView) -> bool {
    message.property(properties::TRACE_ON) != Some("false")
}

/// The ordinals of Java's `ConsumeReturnType`.
const SUCCESS: u8 = 0;
const TOO_LATE: u8 = 1;
const FAILED: u8 = 2;
const LATER: u8 = 4;
