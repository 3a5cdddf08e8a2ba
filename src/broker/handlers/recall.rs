//! Taking back a message whose delivery time has not come.

use super::super::put::number;
use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::settings::REGION;
use super::super::state::State;
use crate::message::properties as names;
use crate::protocol::headers::{RecallMessage, RecallMessageAnswer};
use crate::protocol::{ResponseCode, StoredMessage};

/// The letters of base64 as it is used in addresses.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// 370.
pub(crate) fn recall(state: &mut State, request: &Request) -> Handled {
    let header: RecallMessage = request.header()?;
    let illegal = || Refusal::new(ResponseCode::ILLEGAL_OPERATION, "recall failed, handle is invalid");
    let handle = Handle::parse(&header.recall_handle).ok_or_else(illegal)?;
    if handle.topic != header.topic || handle.broker != state.settings.name {
        return Err(illegal());
    }
    if !state.topics.contains_key(&handle.topic) {
        return Err(Refusal::no_topic(&handle.topic));
    }
    let waiting = state.delays.timers_at(handle.due).find(|offset| {
        let of = state.timer_message(*offset);
        of.is_some_and(|(topic, id)| topic == handle.topic && id == handle.unique_id)
    });
    let Some(offset) = waiting else {
        return Err(Refusal::new(
            ResponseCode::ILLEGAL_OPERATION,
            "recall failed, no such message is waiting",
        ));
    };
    state.delays.remove_timer(handle.due, offset);
    Answer::header(&RecallMessageAnswer { msg_id: handle.unique_id, msg_region: Some(REGION.to_owned()) })
}

/// What a producer is given to take a message back with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) topic: String,
    pub(crate) broker: String,
    /// When it is due, in ms.
    pub(crate) due: i64,
    pub(crate) unique_id: String,
}

impl Handle {
    fn parse(text: &str) -> Option<Self> {
        let plain = String::from_utf8(decode(text)?).ok()?;
        let [version, topic, broker, time, unique_id] =
            plain.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let due = time.parse::<i64>().ok()?.checked_sub(1)?;
        let [topic, broker, unique_id] = [topic, broker, unique_id].map(str::to_owned);
        (version == "v1").then_some(Self { topic, broker, due, unique_id })
    }
}

impl std::fmt::Display for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { topic, broker, due, unique_id } = self;
        // Real brokers add one to the time, and so do we, lest somebody reads it.
        f.write_str(&encode(format!("v1 {topic} {broker} {} {unique_id}", due.saturating_add(1)).as_bytes()))
    }
}

impl State {
    /// The topic and the unique id of a message in the timer topic.
    fn timer_message(&self, offset: i64) -> Option<(String, String)> {
        let entry = self.store.entry(super::super::delay::TIMER_TOPIC, 0, offset)?;
        let mut record = Vec::new();
        self.store.read(entry, &mut record).ok()?;
        let message = StoredMessage::decode(&record).ok()?;
        let property = |name| names::find_str(&message.properties, name).map(str::to_owned);
        debug_assert_eq!(number(&message.properties, names::TIMER_OUT_MS), Some(entry.tag));
        Some((property(names::REAL_TOPIC)?, property(names::UNIQ_KEY)?))
    }
}

fn encode(bytes: &[u8]) -> String {
    let letter = |n: u32| char::from(LETTERS[(n & 63) as usize]);
    let group = |chunk: &[u8]| {
        let bits = chunk.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        (0..=chunk.len()).map(|i| letter(bits >> (18 - 6 * i))).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let numbers = group.iter().map(|byte| LETTERS.iter().position(|letter| letter == byte));
        let numbers = numbers.collect::<Option<Vec<usize>>>()?;
        let bits = numbers.iter().fold(0, |bits, number| bits << 6 | number) << (6 * (4 - numbers.len()));
        let bytes = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
        out.extend_from_slice(bytes.get(..numbers.len().checked_sub(1).filter(|n| *n > 0)?)?);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handle_of_a_real_broker() {
        let text = "djEgY2FwLW9yZGVycyBicm9rZXItYSAxNzk1OTc0MzIzMDAxIEZEMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAyNkJB\
                    NTVGRkQyQjI3OTQwMTZBQjIwMDBD";
        let handle = Handle {
            topic: "cap-orders".into(),
            broker: "broker-a".into(),
            due: 1_795_974_323_000,
            unique_id: "FD0000000000000000000000000000026BA55FFD2B2794016AB2000C".into(),
        };
        assert_eq!(Handle::parse(text), Some(Handle { ..handle }));
        assert_eq!(Handle::parse(text).unwrap().to_string(), text);
    }

    #[test]
    fn what_is_no_handle() {
        for text in ["", "====", "A", "djEg", "!!!!", "w7Y", &encode(b"v1 t b x id"), &encode(b"v2 t b 1 id")]
        {
            assert_eq!(Handle::parse(text), None, "{text}");
        }
        for length in 0..20 {
            let bytes: Vec<u8> = (0..length).map(|n: u8| n.wrapping_mul(37)).collect();
            assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
    }
}
