//! Records of sends, for the message trace.

use std::time::Instant;

use crate::client::Role;
use crate::client::trace::{Kind, Record, Sent, Tracer};
use crate::error::Result;
use crate::message::{Message, properties};

use super::SendStatus;
use super::core::Core;
use super::send::{Parcel, Stored};

impl Core {
    /// Sends a parcel with these messages, whose ids are given likewise, and leaves a record of each, whatever came of
    /// it. Costs nothing while traces are off.
    pub(super) fn deliver_traced(
        &self,
        parcel: &Parcel<'_>,
        messages: &[Message],
        ids: &[String],
        deadline: Instant,
    ) -> Result<Stored> {
        let Some(tracer) = self.tracer.as_ref().filter(|tracer| tracer.is_for(&parcel.topic)) else {
            return self.deliver(parcel, deadline);
        };
        let begun = Instant::now();
        let result = self.deliver(parcel, deadline);
        let millis = begun.elapsed().as_millis();
        match &result {
            Ok(stored) => self.trace_stored(tracer, parcel, messages, ids, stored, millis),
            Err(error) => {
                let server = error.attempts().last().map(|attempt| attempt.server.as_str());
                for (message, id) in messages.iter().zip(ids) {
                    tracer.add(Record::sent(&Sent {
                        broker: server,
                        ..self.record(parcel, message, id, millis)
                    }));
                }
            }
        }
        result
    }

    fn trace_stored(
        &self,
        tracer: &Tracer,
        parcel: &Parcel<'_>,
        messages: &[Message],
        ids: &[String],
        stored: &Stored,
        millis: u128,
    ) {
        let answer = &stored.answer;
        // The broker wants none.
        if answer.trace_on.as_deref() == Some("false") {
            return;
        }
        let master = self.instance.broker_address(stored.queue.broker_name(), Role::Master);
        let address = master.as_ref().map(|(address, _)| &**address);
        let mut offset_ids = answer.msg_id.split(',');
        for (message, id) in messages.iter().zip(ids) {
            tracer.add(Record::sent(&Sent {
                region: answer.msg_region.as_deref(),
                broker: address,
                offset_id: offset_ids.next(),
                success: stored.status == SendStatus::SendOk,
                ..self.record(parcel, message, id, millis)
            }));
        }
    }

    /// Of a message that was not stored.
    fn record<'a>(
        &'a self,
        parcel: &'a Parcel<'_>,
        message: &'a Message,
        id: &'a str,
        millis: u128,
    ) -> Sent<'a> {
        Sent {
            begun: parcel.born_millis,
            region: None,
            group: &self.settings.group,
            topic: parcel.name,
            id,
            tag: message.get(properties::TAGS),
            keys: message.get(properties::KEYS),
            broker: None,
            body_length: message.body().len(),
            millis,
            kind: if message.is_delayed() { Kind::Delayed } else { Kind::Normal },
            offset_id: None,
            success: false,
        }
    }
}
