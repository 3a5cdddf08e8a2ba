//! The filters of RocketMQ over message properties, which it calls SQL92: read, checked and evaluated as real brokers
//! do it, their oddities included, so that what works here works there.
//!
//! * Properties are text. A comparison with a number reads the property as a number of the literal's kind; if that
//!   fails, the message does not match, whatever else the filter says.
//! * A property that is missing makes a comparison neither true nor false, and only what is true matches.
//! * `NOT` binds tighter than a comparison: `NOT a = 1` is `(NOT a) = 1`, which never holds.
//! * What follows a complete filter is not read.
//!
//! Pure: text in, an answer for a string of properties out. Nesting is limited, since the text comes from outside.

mod expression;
mod parser;
mod token;
mod value;

use std::fmt;

use crate::message::properties;
use expression::Expression;
use value::Value;

/// Which words of the language a broker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// RocketMQ 4.x.
    Old,
    /// RocketMQ 5.x: `CONTAINS`, `STARTSWITH` and `ENDSWITH` too.
    New,
}

/// A filter, ready to be asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sql {
    expression: Expression,
}

/// Why a text is not a filter, with the place of it, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SqlError {
    line: usize,
    column: usize,
    problem: String,
}

/// The message cannot be compared as the filter wants it. Ends the evaluation, under a `NOT` or an `OR` as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Incomparable;

impl Sql {
    /// # Errors
    /// The text is not a filter.
    pub(crate) fn parse(text: &str, dialect: Dialect) -> Result<Self, SqlError> {
        parser::parse(text, dialect).map(|expression| Self { expression })
    }

    /// Whether a message with these properties is wanted.
    pub(crate) fn matches(&self, properties: &[u8]) -> bool {
        self.outcome(&|name| properties::find_str(properties, name)) == Ok(Some(true))
    }

    /// True, false, or unknown.
    fn outcome<'a>(
        &'a self,
        property: &dyn Fn(&str) -> Option<&'a str>,
    ) -> Result<Option<bool>, Incomparable> {
        self.expression.value(property).map(|value| match value {
            Value::Bool(truth) => Some(truth),
            _ => None,
        })
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {}, column {}", self.problem, self.line, self.column)
    }
}

#[cfg(test)]
mod tests;
