//! Tags: their hash codes, and what a consumer's filter says about them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::filter::{Filter, FilterKind};
use super::properties;

/// `String.hashCode` of Java: brokers compare tags by this number alone.
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The code of a message's tag in the index of a broker: 0 without a tag.
pub fn code_of(properties: &[u8]) -> i32 {
    properties::find_str(properties, properties::TAGS).map_or(0, java_hash)
}

/// How a subscription chooses messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubscriptionKind {
    /// By tag.
    Tag,
    /// By an expression over properties, on the broker.
    Sql92,
    /// By a Java class, on a filter server.
    Class,
}

impl SubscriptionKind {
    /// The `expressionType` of the wire. Class filters are tag subscriptions with a mark.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tag | Self::Class => "TAG",
            Self::Sql92 => "SQL92",
        }
    }
}

/// What a consumer wants of one topic, as it is told to brokers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The topic.
    pub topic: String,
    /// The text of the filter: tags, an SQL92 expression, or the name of a class.
    pub expression: String,
    /// How the text is meant.
    pub kind: SubscriptionKind,
    /// The tags of a tag filter; empty for all messages.
    pub tags: BTreeSet<String>,
    /// The hash codes of the tags.
    pub codes: BTreeSet<i32>,
    /// Time of creation in ms: brokers keep the subscription with the greatest.
    pub version: i64,
    /// The source of a class filter.
    pub source: Option<Arc<str>>,
}

impl Subscription {
    /// Reads a filter, or says in a few words why it cannot be meant.
    pub fn parse(topic: impl Into<String>, filter: &Filter, version: i64) -> Result<Self, String> {
        let (expression, kind, source) = match &filter.0 {
            FilterKind::Tags(text) => (text, SubscriptionKind::Tag, None),
            FilterKind::Sql(text) => (text, SubscriptionKind::Sql92, None),
            FilterKind::Class { name, source } => (name, SubscriptionKind::Class, Some(source)),
        };
        let mut parsed = Self {
            topic: topic.into(),
            expression: expression.clone(),
            kind,
            tags: BTreeSet::new(),
            codes: BTreeSet::new(),
            version,
            source: source.map(|source| source.as_str().into()),
        };
        match kind {
            SubscriptionKind::Tag => parsed.read_tags()?,
            _ if expression.trim().is_empty() => return Err("the filter is empty".into()),
            _ => {}
        }
        Ok(parsed)
    }

    /// Whether a message with this tag is wanted, by the text of the tag. Always, unless this is a tag filter.
    pub fn matches_tag(&self, tag: Option<&str>) -> bool {
        self.matches_tag_bytes(tag.map(str::as_bytes))
    }

    /// [`matches_tag`](Self::matches_tag) on the property string of a message, without allocation.
    pub fn matches(&self, properties: &[u8]) -> bool {
        self.takes_all() || self.matches_tag_bytes(properties::find(properties, properties::TAGS))
    }

    /// Whether no message is left out by its tag, so that it need not be looked for.
    pub fn takes_all(&self) -> bool {
        self.kind != SubscriptionKind::Tag || self.tags.is_empty()
    }

    fn matches_tag_bytes(&self, tag: Option<&[u8]>) -> bool {
        self.takes_all() || tag.is_some_and(|tag| self.has_tag(tag))
    }

    fn has_tag(&self, tag: &[u8]) -> bool {
        // Nearly all sets have one to three members: comparing is faster there than searching the tree.
        if self.tags.len() <= 8 {
            self.tags.iter().any(|own| own.as_bytes() == tag)
        } else {
            std::str::from_utf8(tag).is_ok_and(|tag| self.tags.contains(tag))
        }
    }

    fn read_tags(&mut self) -> Result<(), String> {
        if self.expression.is_empty() || self.expression == "*" {
            self.expression = "*".into();
            return Ok(());
        }
        self.tags = self
            .expression
            .split("||")
            .map(str::trim)
            .filter(|tag| !tag.is_empty())
            .map(String::from)
            .collect();
        if self.tags.is_empty() {
            return Err(format!("the filter `{}` names no tag", self.expression));
        }
        self.codes = self.tags.iter().map(|tag| java_hash(tag)).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(filter: impl Into<Filter>) -> Subscription {
        Subscription::parse("t", &filter.into(), 1).unwrap()
    }

    #[test]
    fn hashes_as_java_does() {
        for (tag, code) in [
            ("TagA", 2598919),
            ("TagB", 2598920),
            ("标签", 857175),
            ("😀", 1772899),
            ("tag-1", 110118590),
            ("TAG_Alpha_longer_name", -1004440101),
            ("", 0),
        ] {
            assert_eq!(java_hash(tag), code, "{tag}");
        }
    }

    #[test]
    fn splits_at_double_bars() {
        let subscription = parse(" a || b||  ");
        assert_eq!(subscription.expression, " a || b||  ");
        assert_eq!(Vec::from_iter(&subscription.tags), ["a", "b"]);
        assert_eq!(Vec::from_iter(subscription.codes.iter().copied()), [97, 98]);
        assert!(subscription.matches_tag(Some("a")));
        assert!(!subscription.matches_tag(Some("c")));
        assert!(!subscription.matches_tag(None));
    }

    #[test]
    fn a_star_or_nothing_takes_all() {
        for text in ["*", ""] {
            let subscription = parse(text);
            assert_eq!(subscription.expression, "*");
            assert!(subscription.matches_tag(None) && subscription.matches(b"TAGS\x01x\x02"));
        }
    }

    #[test]
    fn separators_alone_are_a_mistake() {
        assert!(Subscription::parse("t", &Filter::tags("||"), 1).unwrap_err().contains("names no tag"));
        assert!(Subscription::parse("t", &Filter::sql(" "), 1).unwrap_err().contains("empty"));
    }

    #[test]
    fn equal_hash_codes_are_told_apart() {
        assert_eq!(java_hash("Aa"), java_hash("BB"));
        let subscription = parse("Aa");
        assert!(subscription.matches(b"TAGS\x01Aa\x02") && !subscription.matches(b"TAGS\x01BB\x02"));
    }

    #[test]
    fn many_tags() {
        let text = (0..50).map(|n| format!("t{n}")).collect::<Vec<_>>().join("||");
        let subscription = parse(text.as_str());
        assert!(subscription.matches_tag(Some("t49")) && !subscription.matches_tag(Some("t50")));
    }

    #[test]
    fn sql_and_class_filters_are_for_the_server() {
        let sql = parse(Filter::sql("a > 1"));
        assert!(sql.tags.is_empty() && sql.matches_tag(None) && sql.kind.name() == "SQL92");
        let class = parse(Filter::java_class("a.B", "class B {}"));
        assert_eq!((class.expression.as_str(), class.kind), ("a.B", SubscriptionKind::Class));
    }
}
