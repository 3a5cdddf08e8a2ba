//! Finding messages by key: their unique id, or one of the words of `KEYS`.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;

use super::store::Store;
use crate::message::properties as names;
use crate::protocol::StoredMessage;

/// The most that one question is answered with.
const MOST: usize = 64;

/// An index that is brought up to date when somebody asks, so that it costs nothing while nobody does.
///
/// Like a real broker's it knows hashes only; the messages are looked at before they are handed out.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// Everything before this position is in the index.
    upto: u64,
    positions: HashMap<u64, Vec<u64>>,
}

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) topic: &'a str,
    pub(crate) key: &'a str,
    /// When it was stored, in ms.
    pub(crate) stored: (i64, i64),
    pub(crate) most: usize,
}

impl Keys {
    /// The records of the messages that are wanted, the newest first.
    pub(crate) fn find(&mut self, store: &Store, wanted: &Wanted<'_>) -> Vec<Vec<u8>> {
        self.catch_up(store);
        let positions = self.positions.get(&hash(wanted.topic, wanted.key));
        let newest_first = positions.into_iter().flatten().rev();
        let records = newest_first.filter_map(|position| store.record_at(*position));
        records.filter(|record| is_wanted(record, wanted)).take(wanted.most.min(MOST)).collect()
    }

    fn catch_up(&mut self, store: &Store) {
        while let Some(record) = store.record_at(self.upto) {
            if let Ok(message) = StoredMessage::decode(&record) {
                for key in keys(&message.properties) {
                    self.positions.entry(hash(&message.topic, key)).or_default().push(self.upto);
                }
            }
            self.upto += record.len() as u64;
        }
    }
}

fn keys(properties: &[u8]) -> impl Iterator<Item = &str> {
    let words = names::find_str(properties, names::KEYS).unwrap_or_default().split(' ');
    words.filter(|word| !word.is_empty()).chain(names::find_str(properties, names::UNIQ_KEY))
}

fn is_wanted(record: &[u8], wanted: &Wanted<'_>) -> bool {
    let times: RangeInclusive<i64> = wanted.stored.0..=wanted.stored.1;
    StoredMessage::decode(record).is_ok_and(|message| {
        message.topic == wanted.topic
            && times.contains(&message.store_timestamp)
            && keys(&message.properties).any(|key| key == wanted.key)
    })
}

fn hash(topic: &str, key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (topic, key).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::super::store::Memory;
    use super::*;
    use crate::protocol::EncodeError;
    use std::io;
    use std::sync::Arc;

    fn put(store: &mut Store, topic: &'static str, time: i64, properties: &'static str) {
        let mut message = StoredMessage {
            topic: topic.into(),
            store_timestamp: time,
            properties: properties.as_bytes().into(),
            ..StoredMessage::default()
        };
        let encode = |queue_offset, position: u64, out: &mut Vec<u8>| {
            (message.queue_offset, message.physical_offset) = (queue_offset, position as i64);
            message.encode(out).map_err(|error: EncodeError| io::Error::other(error))
        };
        store.append(topic, 0, 0, encode).unwrap();
    }

    #[test]
    fn each_word_and_the_id_find_a_message_in_its_time() {
        let mut store = Store::new(Arc::new(Memory));
        let mut keys = Keys::default();
        put(&mut store, "t", 10, "KEYS\u{1}a b\u{2}UNIQ_KEY\u{1}id1\u{2}");
        put(&mut store, "u", 10, "KEYS\u{1}a\u{2}");
        let find = |keys: &mut Keys, store: &Store, key: &str, from: i64| {
            let found = keys.find(store, &Wanted { topic: "t", key, stored: (from, i64::MAX), most: 10 });
            found.iter().map(|record| StoredMessage::decode(record).unwrap().queue_offset).collect::<Vec<_>>()
        };
        assert_eq!([find(&mut keys, &store, "a", 0), find(&mut keys, &store, "id1", 0)], [[0], [0]]);
        assert!(find(&mut keys, &store, "a b", 0).is_empty() && find(&mut keys, &store, "a", 11).is_empty());
        put(&mut store, "t", 20, "KEYS\u{1}b\u{2}");
        assert_eq!(find(&mut keys, &store, "b", 0), [1, 0], "the newest first");
        let one = Wanted { topic: "t", key: "b", stored: (0, 100), most: 1 };
        assert_eq!(keys.find(&store, &one).len(), 1);
    }
}
