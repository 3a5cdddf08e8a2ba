//! The text of one trace. Fields end with byte 1, a record with byte 2; what is missing is the text `null`, as Java
//! writes it: its readers do not take an empty last field.

use std::fmt::Write;

/// One record, and by what it can be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Its text, with its end.
    pub(super) text: String,
    /// The id of the message.
    pub(super) id: String,
    /// Its keys, separated by spaces.
    pub(super) keys: Option<String>,
}

/// A message that was sent, or could not be.
#[derive(Debug, Clone)]
pub(crate) struct Sent<'a> {
    /// Milliseconds since 1970.
    pub(crate) begun: i64,
    pub(crate) region: Option<&'a str>,
    /// Group and topic as the program knows them.
    pub(crate) group: &'a str,
    pub(crate) topic: &'a str,
    pub(crate) id: &'a str,
    pub(crate) tag: Option<&'a str>,
    pub(crate) keys: Option<&'a str>,
    /// The address of the broker.
    pub(crate) broker: Option<&'a str>,
    pub(crate) body_length: usize,
    pub(crate) millis: u128,
    pub(crate) kind: Kind,
    pub(crate) offset_id: Option<&'a str>,
    pub(crate) success: bool,
}

/// As the ordinals of Java's `MessageType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal = 0,
    Delayed = 3,
}

/// A listener is about to get a message.
#[derive(Debug, Clone)]
pub(crate) struct Consuming<'a> {
    /// Milliseconds since 1970.
    pub(crate) begins: i64,
    pub(crate) region: Option<&'a str>,
    pub(crate) group: &'a str,
    /// Joins the records before and after one listener call.
    pub(crate) call: &'a str,
    pub(crate) id: &'a str,
    pub(crate) reconsume_times: u32,
    pub(crate) keys: Option<&'a str>,
}

/// A listener has returned.
#[derive(Debug, Clone)]
pub(crate) struct Consumed<'a> {
    pub(crate) call: &'a str,
    pub(crate) id: &'a str,
    /// The share of this message in the time of the call.
    pub(crate) millis: u128,
    pub(crate) success: bool,
    pub(crate) keys: Option<&'a str>,
    /// Java's `ConsumeReturnType`: 0 success, 1 too late, 2 an error or a panic, 4 later.
    pub(crate) outcome: u8,
    /// Milliseconds since 1970.
    pub(crate) ended: i64,
    pub(crate) group: &'a str,
}

impl Record {
    pub(crate) fn sent(of: &Sent<'_>) -> Self {
        let fields: [&dyn std::fmt::Display; 14] = [
            &"Pub",
            &of.begun,
            &or_null(of.region),
            &of.group,
            &of.topic,
            &of.id,
            &or_null(of.tag),
            &or_null(of.keys),
            &or_null(of.broker),
            &of.body_length,
            &of.millis,
            &(of.kind as u8),
            &or_null(of.offset_id),
            &of.success,
        ];
        Record::new(&fields, of.id, of.keys)
    }

    pub(crate) fn consuming(of: &Consuming<'_>) -> Self {
        let fields: [&dyn std::fmt::Display; 8] = [
            &"SubBefore",
            &of.begins,
            &or_null(of.region),
            &of.group,
            &of.call,
            &of.id,
            &of.reconsume_times,
            &or_null(of.keys),
        ];
        Record::new(&fields, of.id, of.keys)
    }

    pub(crate) fn consumed(of: &Consumed<'_>) -> Self {
        let fields: [&dyn std::fmt::Display; 9] = [
            &"SubAfter",
            &of.call,
            &of.id,
            &of.millis,
            &of.success,
            &or_null(of.keys),
            &of.outcome,
            &of.ended,
            &of.group,
        ];
        Record::new(&fields, of.id, of.keys)
    }

    /// About how many bytes it takes here.
    pub(super) fn len(&self) -> usize {
        self.text.len() + self.id.len() + self.keys.as_ref().map_or(0, String::len)
    }

    fn new(fields: &[&dyn std::fmt::Display], id: &str, keys: Option<&str>) -> Self {
        let mut text = String::with_capacity(256);
        for (at, field) in fields.iter().enumerate() {
            let end = if at + 1 == fields.len() { RECORD_END } else { FIELD_END };
            // Writing to a string cannot fail.
            let _ = write!(text, "{field}{end}");
        }
        Record { text, id: id.to_owned(), keys: keys.map(str::to_owned) }
    }
}

fn or_null(text: Option<&str>) -> &str {
    text.filter(|text| !text.is_empty()).unwrap_or("null")
}

const FIELD_END: char = '\u{1}';
const RECORD_END: char = '\u{2}';
