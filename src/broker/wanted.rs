//! Which messages of a queue a pull wants.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::classes::Class;
use super::sql::Sql;
use super::store::{Entry, Store};
use crate::message::MessageQueue;
use crate::protocol::StoredMessage;
use crate::protocol::body::SubscriptionData;

/// Compiled from a subscription; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    All,
    /// By the hash of the tag, which is in the index.
    Tags(Arc<BTreeSet<i32>>),
    /// By the properties, which are in the log.
    Sql(Arc<Sql>),
    /// By whatever a closure sees in the message.
    Class(Class, MessageQueue),
}

impl Wanted {
    /// By the tags of a subscription.
    pub(crate) fn by_tags(subscription: &SubscriptionData) -> Self {
        if subscription.class_filter_mode || subscription.sub_string == "*" {
            return Self::All;
        }
        Self::Tags(Arc::new(subscription.code_set.iter().copied().collect()))
    }

    pub(crate) fn takes(&self, entry: Entry, store: &Store) -> bool {
        match self {
            Self::All => true,
            // As in Java, the stored 64 bits are cut to 32.
            Self::Tags(codes) => codes.contains(&(entry.tag as i32)),
            Self::Sql(sql) => read(entry, store).is_some_and(|record| {
                StoredMessage::decode(&record).is_ok_and(|message| sql.matches(&message.properties))
            }),
            Self::Class(class, queue) => read(entry, store).is_some_and(|record| class.takes(record, queue)),
        }
    }
}

fn read(entry: Entry, store: &Store) -> Option<Vec<u8>> {
    let mut record = Vec::new();
    store.read(entry, &mut record).ok()?;
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::super::store::Memory;
    use super::*;

    #[test]
    fn tags_are_told_apart_by_hash() {
        let store = Store::new(Arc::new(Memory));
        let wanted = |text: &str, codes: &[i32]| {
            Wanted::by_tags(&SubscriptionData {
                sub_string: text.into(),
                code_set: codes.to_vec(),
                ..SubscriptionData::default()
            })
        };
        let takes = |wanted: &Wanted, tag| wanted.takes(Entry { position: 0, size: 0, tag }, &store);
        assert!(takes(&wanted("*", &[]), 5));
        let some = wanted("a || b", &[97, 98]);
        assert!(takes(&some, 97) && !takes(&some, 99) && !takes(&some, 0));
        assert!(takes(&some, (1 << 32) + 98), "the upper half is not looked at");
    }
}
