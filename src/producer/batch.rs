//! Several messages in one frame.

use std::borrow::Cow;
use std::time::Instant;

use crate::client::property_string;
use crate::error::{Error, Result};
use crate::message::{Message, MessageQueue, properties};
use crate::protocol::record::{BatchElement, write_batch_element};

use super::SendReceipt;
use super::check::check_batch;
use super::core::Core;
use super::send::{Parcel, Stored, too_many_properties};

impl Core {
    /// Sends messages of one topic in one frame: all are stored, or none.
    pub(super) fn send_many(&self, messages: &[Message], deadline: Instant) -> Result<Vec<SendReceipt>> {
        self.check_open()?;
        let largest = self.settings.max_message_size;
        let first = check_batch(messages, largest)?;
        let topic = first.topic();
        let (mut ids, mut body) = (Vec::with_capacity(messages.len()), Vec::new());
        for message in messages {
            let id = match message.get(properties::UNIQ_KEY) {
                Some(id) => id.to_owned(),
                None => self.instance.new_message_id(),
            };
            let properties = property_string(message, Some(&id)).map_err(|_| too_many_properties(topic))?;
            let element = BatchElement {
                flag: message.flag_value(),
                body: message.body(),
                properties: properties.as_bytes(),
            };
            write_batch_element(&element, &mut body)
                .map_err(|error| Error::invalid_input(error.to_string()))?;
            ids.push(id);
        }
        if body.len() > largest {
            let text = format!(
                "the batch takes {} bytes, at most {largest} are allowed (max_message_size)",
                body.len()
            );
            return Err(Error::invalid_input(text).with_topic(topic));
        }
        let parcel = Parcel {
            name: topic,
            topic: self.instance.namespace().topic(topic),
            body: Cow::Owned(body),
            sys_flag: 0,
            flag: 0,
            // Brokers from 4.8 to 5.3 write these into every message, so neither id nor keys nor tags may be here.
            properties: wait_only(first),
            batch: true,
            target: first.target(),
            shard: first.shard(),
            born_millis: self.instance.clock().millis(),
        };
        let stored = self.deliver_traced(&parcel, messages, &ids, deadline)?;
        Ok(receipts(ids, &stored))
    }
}

fn wait_only(first: &Message) -> String {
    let mut bytes = Vec::new();
    let wait = if first.waits_for_store() { "true" } else { "false" };
    properties::push(&mut bytes, properties::WAIT, wait);
    // Both are ASCII.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The broker names the first offset and, joined by commas, the id of each message; of a batch that it keeps together
/// it names one id.
fn receipts(ids: Vec<String>, stored: &Stored) -> Vec<SendReceipt> {
    let answer = &stored.answer;
    let mut offset_ids = answer.msg_id.split(',');
    let one = answer.msg_id.split(',').next_back().unwrap_or_default();
    let queue: &MessageQueue = &stored.queue;
    let receipt = |(id, at): (String, i64)| SendReceipt {
        message_id: id,
        status: stored.status,
        queue: queue.clone(),
        queue_offset: answer.queue_offset.saturating_add(at),
        offset_message_id: offset_ids.next().unwrap_or(one).to_owned(),
        transaction_id: answer.transaction_id.clone(),
        recall_handle: None,
    };
    ids.into_iter().zip(0..).map(receipt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::producer::SendStatus;
    use crate::protocol::headers::SendAnswer;

    fn receipts_of(msg_id: &str) -> Vec<(String, i64, String)> {
        let answer = SendAnswer { msg_id: msg_id.into(), queue_offset: 7, ..SendAnswer::default() };
        let stored =
            Stored { queue: MessageQueue::new("orders", "broker-a", 1), status: SendStatus::SendOk, answer };
        receipts(vec!["a".into(), "b".into()], &stored)
            .into_iter()
            .map(|receipt| (receipt.message_id, receipt.queue_offset, receipt.offset_message_id))
            .collect()
    }

    #[test]
    fn each_message_has_its_own_receipt() {
        assert_eq!(receipts_of("X,Y"), [("a".into(), 7, "X".into()), ("b".into(), 8, "Y".into())]);
        assert_eq!(receipts_of("X"), [("a".into(), 7, "X".into()), ("b".into(), 8, "X".into())]);
    }

    #[test]
    fn the_batch_itself_only_says_whether_to_wait() {
        let message = Message::new("orders", "x").key("k").tag("t").wait_store_ok(false);
        assert_eq!(wait_only(&message).trim_end_matches('\u{2}'), "WAIT\u{1}false");
    }
}
