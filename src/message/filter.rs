use std::time::SystemTime;

/// Which messages of a topic a consumer wants: all, by tag, by an SQL92 expression over properties, or by a Java class.
///
/// A `&str` or `String` is a tag expression: `"created || paid"`, or `"*"` for all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Filter(pub(crate) FilterKind);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FilterKind {
    Tags(String),
    Sql(String),
    Class { name: String, source: String },
}

impl Filter {
    /// Every message.
    pub fn all() -> Self {
        Self::tags("*")
    }

    /// Messages with one of these tags, separated by `||`. Java: `MessageSelector.byTag`.
    pub fn tags(expression: impl Into<String>) -> Self {
        Self(FilterKind::Tags(expression.into()))
    }

    /// Messages whose properties satisfy an SQL92 expression, such as `amount > 10 AND color IS NOT NULL`.
    ///
    /// The broker evaluates it, if its `enablePropertyFilter` is on. It reads a property as a number of the kind that it
    /// is compared with: `amount > 10` does not find `10.5`, `amount > 10.0` does. Java: `MessageSelector.bySql`.
    pub fn sql(expression: impl Into<String>) -> Self {
        Self(FilterKind::Sql(expression.into()))
    }

    /// Messages that a Java class chooses, on brokers up to 4.2 with filter servers; the source is uploaded to them.
    pub fn java_class(class_name: impl Into<String>, source: impl Into<String>) -> Self {
        Self(FilterKind::Class { name: class_name.into(), source: source.into() })
    }
}

impl From<&str> for Filter {
    fn from(tags: &str) -> Self {
        Self::tags(tags)
    }
}

impl From<String> for Filter {
    fn from(tags: String) -> Self {
        Self::tags(tags)
    }
}

/// A place in a queue: where to start, where to seek to, what to reset to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConsumeFrom {
    /// The end of the queue: only what comes from now on. Java: `CONSUME_FROM_LAST_OFFSET`.
    LastOffset,
    /// The oldest message that is still there. Java: `CONSUME_FROM_FIRST_OFFSET`.
    FirstOffset,
    /// The first message that was stored at this time or later. Java: `CONSUME_FROM_TIMESTAMP`.
    Timestamp(SystemTime),
    /// Exactly this offset.
    Offset(i64),
    /// This many messages before the end of each queue.
    LastMessages(u64),
}

impl From<i64> for ConsumeFrom {
    fn from(offset: i64) -> Self {
        Self::Offset(offset)
    }
}

impl From<SystemTime> for ConsumeFrom {
    fn from(time: SystemTime) -> Self {
        Self::Timestamp(time)
    }
}
