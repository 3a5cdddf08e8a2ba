//! The filters that consumer groups have told the broker, ready to be asked: SQL92 and classes.

use std::collections::HashMap;
use std::sync::Arc;

use super::classes::Class;
use super::sql::{Dialect, Sql};
use crate::protocol::body::SubscriptionData;

/// One for each group and topic, of the newest subscription.
#[derive(Debug, Default)]
pub(crate) struct Filters {
    known: HashMap<(String, String), Filter>,
    classes: HashMap<(String, String), Class>,
}

/// A filter with the version of its subscription.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) version: i64,
    pub(crate) sql: Arc<Sql>,
    text: String,
}

impl Filters {
    /// A heartbeat has brought this one. One that cannot be read takes the place of the one before it, too: the
    /// group's pulls are told that there is none, instead of getting what it no longer wants.
    pub(crate) fn register(&mut self, group: &str, subscription: &SubscriptionData, dialect: Dialect) {
        let key = (group.to_owned(), subscription.topic.clone());
        let (version, text) = (subscription.sub_version, &subscription.sub_string);
        match self.known.get_mut(&key) {
            Some(known) if version <= known.version => return,
            Some(known) if known.text == *text => {
                known.version = version;
                return;
            }
            _ => {}
        }
        match Sql::parse(text, dialect) {
            Ok(sql) => {
                let filter = Filter { version, sql: Arc::new(sql), text: text.clone() };
                self.known.insert(key, filter);
            }
            Err(error) => {
                log::warn!("the filter `{text}` of group {group} cannot be read: {error}");
                self.known.remove(&key);
            }
        }
    }

    pub(crate) fn get(&self, group: &str, topic: &str) -> Option<&Filter> {
        self.known.get(&(group.to_owned(), topic.to_owned()))
    }

    pub(crate) fn register_class(&mut self, group: String, topic: String, class: Class) {
        self.classes.insert((group, topic), class);
    }

    pub(crate) fn class(&self, group: &str, topic: &str) -> Option<&Class> {
        self.classes.get(&(group.to_owned(), topic.to_owned()))
    }

    /// Filter servers keep nothing over a restart.
    pub(crate) fn forget_classes(&mut self) {
        self.classes.clear();
    }

    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.classes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_counts_even_if_it_cannot_be_read() {
        let mut filters = Filters::default();
        let mut told = |version, text: &str| {
            let subscription = SubscriptionData {
                topic: "t".into(),
                sub_string: text.into(),
                sub_version: version,
                ..SubscriptionData::default()
            };
            filters.register("g", &subscription, Dialect::New);
            filters.get("g", "t").map(|filter| (filter.version, filter.text.clone()))
        };
        assert_eq!(told(5, "a = 1"), Some((5, "a = 1".into())));
        assert_eq!(told(4, "a = 2"), Some((5, "a = 1".into())));
        assert_eq!(told(6, "a = 1"), Some((6, "a = 1".into())));
        assert_eq!(told(7, "a ="), None);
        assert_eq!(told(7, "a = 3"), Some((7, "a = 3".into())));
    }
}
