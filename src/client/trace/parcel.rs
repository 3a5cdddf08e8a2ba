//! Many records in one message, as many as may be.

use std::collections::HashSet;

use super::records::Record;

/// The content of a message that holds traces.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parcel {
    pub(super) body: String,
    /// What it is found by, separated by spaces: the ids and keys of the messages in it.
    pub(super) keys: String,
    pub(super) records: u64,
}

/// Shares the records out among as few messages as their limits allow.
pub(super) fn parcels(records: Vec<Record>) -> Vec<Parcel> {
    let mut full = Vec::new();
    let (mut parcel, mut seen) = (Parcel::default(), HashSet::new());
    for record in records {
        let words = words(&record);
        let more: usize = words.iter().filter(|word| !seen.contains(**word)).map(|word| word.len() + 1).sum();
        let fits =
            parcel.body.len() + record.text.len() <= LONGEST_BODY && parcel.keys.len() + more <= LONGEST_KEYS;
        if !fits && parcel.records > 0 {
            full.push(std::mem::take(&mut parcel));
            seen.clear();
        }
        for word in words {
            if seen.insert(word.to_owned()) {
                if !parcel.keys.is_empty() {
                    parcel.keys.push(' ');
                }
                parcel.keys.push_str(word);
            }
        }
        parcel.body.push_str(&record.text);
        parcel.records += 1;
    }
    if parcel.records > 0 {
        full.push(parcel);
    }
    full
}

/// Keys that are too long to go with any message are left out: by its id it is found all the same.
fn words(record: &Record) -> Vec<&str> {
    let keys = record.keys.as_deref().unwrap_or_default();
    let keys = if record.id.len() + keys.len() < LONGEST_KEYS { keys } else { "" };
    [record.id.as_str()].into_iter().chain(keys.split(' ').filter(|key| !key.is_empty())).collect()
}

/// Java's limit is 128,000.
pub(super) const LONGEST_BODY: usize = 128_000;
/// Well below the 32,767 bytes of all properties together.
pub(super) const LONGEST_KEYS: usize = 24_000;
