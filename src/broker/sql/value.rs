//! What a part of a filter amounts to for one message, and how two such values compare.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::Incomparable;

/// A value. The kinds of numbers are told apart, since a property is read as the kind of the number beside it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// Missing, or neither true nor false.
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(Cow<'a, str>),
}

impl Value<'_> {
    /// The same without owning its text.
    pub(super) fn borrowed(&self) -> Value<'_> {
        match self {
            Value::Text(text) => Value::Text(Cow::Borrowed(text)),
            other => other.clone(),
        }
    }

    pub(super) fn is_null(&self) -> bool {
        *self == Value::Null
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Value::Int(_) | Value::Long(_) | Value::Double(_))
    }

    /// What is no number has no negative.
    pub(super) fn negated(self) -> Self {
        match self {
            Value::Int(n) => Value::Int(n.wrapping_neg()),
            Value::Long(n) => Value::Long(n.wrapping_neg()),
            Value::Double(n) => Value::Double(-n),
            _ => Value::Null,
        }
    }

    /// The order of two values, of which neither is `Null`. Kinds that have nothing to do with each other come out as
    /// "less", which is "not equal".
    pub(super) fn compare(&self, other: &Value<'_>) -> Result<Ordering, Incomparable> {
        use Value::{Bool, Double, Int, Long, Text};
        Ok(match (self, other) {
            (Bool(a), Bool(b)) => a.cmp(b),
            (Text(a), Text(b)) => a.cmp(b),
            (Int(a), Int(b)) => a.cmp(b),
            (Long(a), Long(b)) => a.cmp(b),
            (Int(a), Long(b)) => i64::from(*a).cmp(b),
            (Long(a), Int(b)) => a.cmp(&i64::from(*b)),
            (Double(a), Double(b)) => a.total_cmp(b),
            (Int(a), Double(b)) => f64::from(*a).total_cmp(b),
            (Double(a), Int(b)) => a.total_cmp(&f64::from(*b)),
            (Long(a), Double(b)) => long_as_double(*a).total_cmp(b),
            (Double(a), Long(b)) => a.total_cmp(&long_as_double(*b)),
            (Text(a), Int(b)) => read::<i32>(a)?.cmp(b),
            (Int(a), Text(b)) => a.cmp(&read(b)?),
            (Text(a), Long(b)) => read::<i64>(a)?.cmp(b),
            (Long(a), Text(b)) => a.cmp(&read(b)?),
            (Text(a), Double(b)) => read_double(a)?.total_cmp(b),
            (Double(a), Text(b)) => a.total_cmp(&read_double(b)?),
            (Text(a), Bool(b)) => a.eq_ignore_ascii_case("true").cmp(b),
            // The other way round real brokers fail.
            (Bool(_), Text(_)) => return Err(Incomparable),
            _ => Ordering::Less,
        })
    }

    /// As [`compare`](Self::compare), but two texts are compared as numbers: there is no "greater" among words.
    pub(super) fn compare_size(&self, other: &Value<'_>) -> Result<Ordering, Incomparable> {
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => Ok(read_double(a)?.total_cmp(&read_double(b)?)),
            _ => self.compare(other),
        }
    }
}

fn read<T: std::str::FromStr>(text: &str) -> Result<T, Incomparable> {
    text.parse().map_err(|_| Incomparable)
}

/// A number with a fraction as Java reads one, but for its hexadecimal form.
fn read_double(text: &str) -> Result<f64, Incomparable> {
    let text = text.trim_matches(|c| c <= ' ');
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let size = match unsigned {
        "NaN" => return Ok(f64::NAN),
        "Infinity" => f64::INFINITY,
        _ if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') => return Err(Incomparable),
        _ => read(unsigned.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(unsigned))?,
    };
    Ok(if negative { -size } else { size })
}

#[allow(clippy::cast_precision_loss, reason = "as Java converts them")]
fn long_as_double(n: i64) -> f64 {
    n as f64
}
