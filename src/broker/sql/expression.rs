//! The parts of a filter, which of them may stand beside which, and what they amount to.

use std::cmp::Ordering;

use super::Incomparable;
use super::value::Value;

/// A part of a filter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Constant(Value<'static>),
    Property(String),
    Negative(Box<Expression>),
    Not(Box<Expression>),
    /// A property where a truth is wanted: false if it is there.
    Truth(String),
    /// As many as there are, so that a long chain is not a deep one.
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Equal(Box<Expression>, Box<Expression>),
    Size(Box<Expression>, Size, Box<Expression>),
    Between {
        of: Box<Expression>,
        low: Box<Expression>,
        high: Box<Expression>,
        not: bool,
    },
    In {
        property: String,
        texts: Vec<String>,
        not: bool,
    },
    Like {
        of: Box<Expression>,
        how: Like,
        text: String,
        not: bool,
    },
}

/// How two numbers stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
}

/// Where in a text another one is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Like {
    Contains,
    StartsWith,
    EndsWith,
}

/// Why two parts do not go together.
pub(super) type Problem = String;

type Find<'f, 'a> = &'f dyn Fn(&str) -> Option<&'a str>;

impl Size {
    /// The other side counts only if there is this one.
    fn of<'a>(
        self,
        value: &Value<'_>,
        other: &'a Expression,
        property: Find<'_, 'a>,
    ) -> Result<Value<'a>, Incomparable> {
        if value.is_null() {
            return Ok(Value::Null);
        }
        let other = other.value(property)?;
        if other.is_null() {
            return Ok(Value::Null);
        }
        Ok(Value::Bool(self.holds(value.compare_size(&other)?)))
    }

    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Greater => order.is_gt(),
            Self::GreaterEqual => order.is_ge(),
            Self::Less => order.is_lt(),
            Self::LessEqual => order.is_le(),
        }
    }
}

/// Putting parts together.
impl Expression {
    pub(super) fn not(self) -> Result<Self, Problem> {
        Ok(Self::Not(Box::new(self.truth()?)))
    }

    pub(super) fn equal(self, other: Self) -> Result<Self, Problem> {
        let is_null = |part: &Self| matches!(part, Self::Constant(value) if value.is_null());
        if is_null(&self) || is_null(&other) {
            return Err("NULL is not compared, but asked for: IS NULL".into());
        }
        if let (Self::Constant(Value::Bool(_)), Self::Constant(other)) = (&self, &other)
            && !matches!(other, Value::Bool(_))
        {
            return Err("a truth cannot be compared with what is none".into());
        }
        Ok(Self::Equal(Box::new(self), Box::new(other)))
    }

    pub(super) fn missing(self) -> Self {
        Self::Equal(Box::new(self), Box::new(Self::Constant(Value::Null)))
    }

    pub(super) fn size(self, size: Size, other: Self) -> Result<Self, Problem> {
        for part in [&self, &other] {
            part.check_size()?;
        }
        Ok(Self::Size(Box::new(self), size, Box::new(other)))
    }

    pub(super) fn between(self, low: Self, high: Self, not: bool) -> Result<Self, Problem> {
        if let (false, Self::Constant(low), Self::Constant(high)) = (not, &low, &high) {
            if low.is_null() || high.is_null() {
                return Err("NULL is no bound".into());
            }
            if high.compare(low).map_or(true, Ordering::is_lt) {
                return Err("the lower bound comes first".into());
            }
        }
        for part in [&self, &low, &high] {
            part.check_size()?;
        }
        Ok(Self::Between { of: Box::new(self), low: Box::new(low), high: Box::new(high), not })
    }

    pub(super) fn one_of(self, texts: Vec<String>, not: bool) -> Result<Self, Problem> {
        match self {
            Self::Property(property) => Ok(Self::In { property, texts, not }),
            _ => Err("IN asks about a property".into()),
        }
    }

    pub(super) fn like(self, how: Like, text: String, not: bool) -> Self {
        Self::Like { of: Box::new(self), how, text, not }
    }

    /// As a part of which a truth is wanted.
    pub(super) fn truth(self) -> Result<Self, Problem> {
        match self {
            Self::Property(property) => Ok(Self::Truth(property)),
            part if part.is_truth() => Ok(part),
            _ => Err("a number or a text is neither true nor false".into()),
        }
    }

    fn check_size(&self) -> Result<(), Problem> {
        let may_be_number = match self {
            Self::Constant(value) => value.is_number(),
            part => !part.is_truth(),
        };
        if may_be_number { Ok(()) } else { Err("only numbers have a size to compare".into()) }
    }

    fn is_truth(&self) -> bool {
        match self {
            Self::Constant(value) => matches!(value, Value::Bool(_) | Value::Null),
            Self::Property(_) | Self::Negative(_) => false,
            _ => true,
        }
    }
}

/// Asking.
impl Expression {
    pub(super) fn value<'a>(&'a self, property: Find<'_, 'a>) -> Result<Value<'a>, Incomparable> {
        let text = |name: &str| property(name).map_or(Value::Null, |text| Value::Text(text.into()));
        Ok(match self {
            Self::Constant(value) => value.borrowed(),
            Self::Property(name) => text(name),
            Self::Negative(part) => part.value(property)?.negated(),
            Self::Not(part) => match part.value(property)? {
                Value::Bool(truth) => Value::Bool(!truth),
                _ => Value::Null,
            },
            Self::Truth(name) => property(name).map_or(Value::Null, |_| Value::Bool(false)),
            Self::And(parts) => all_or_any(parts, false, property)?,
            Self::Or(parts) => all_or_any(parts, true, property)?,
            Self::Equal(a, b) => equal(&a.value(property)?, &b.value(property)?)?,
            Self::Size(a, size, b) => size.of(&a.value(property)?, b, property)?,
            Self::Between { of, low, high, not } => {
                let of = of.value(property)?;
                let (below, above) =
                    if *not { (Size::Less, Size::Greater) } else { (Size::GreaterEqual, Size::LessEqual) };
                match (below.of(&of, low, property)?, not) {
                    (first @ Value::Bool(truth), decisive) if truth == *decisive => first,
                    (first, decisive) => match above.of(&of, high, property)? {
                        second @ Value::Bool(truth) if truth == *decisive => second,
                        second if first.is_null() || second.is_null() => Value::Null,
                        _ => Value::Bool(!decisive),
                    },
                }
            }
            Self::In { property: name, texts, not } => match property(name) {
                Some(text) => Value::Bool(texts.iter().any(|one| one == text) != *not),
                None => Value::Null,
            },
            // Nothing is in nothing, and that is not even looked at.
            Self::Like { text, .. } if text.is_empty() => Value::Bool(false),
            Self::Like { of, how, text, not } => Value::Bool(match of.value(property)? {
                Value::Text(whole) => how.holds(&whole, text) != *not,
                _ => false,
            }),
        })
    }
}

impl Like {
    fn holds(self, whole: &str, part: &str) -> bool {
        match self {
            Self::Contains => whole.contains(part),
            Self::StartsWith => whole.starts_with(part),
            Self::EndsWith => whole.ends_with(part),
        }
    }
}

/// `AND` ends with the first part that is false, `OR` with the first that is true: `decisive`.
fn all_or_any<'a>(
    parts: &'a [Expression],
    decisive: bool,
    property: Find<'_, 'a>,
) -> Result<Value<'a>, Incomparable> {
    let mut unknown = false;
    for part in parts {
        match part.value(property)? {
            Value::Bool(truth) if truth == decisive => return Ok(Value::Bool(decisive)),
            Value::Bool(_) => {}
            _ => unknown = true,
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(!decisive) })
}

/// Not the same both ways round: nothing is unknown to equal something, and something does not equal nothing.
fn equal(a: &Value<'_>, b: &Value<'_>) -> Result<Value<'static>, Incomparable> {
    Ok(match (a.is_null(), b.is_null()) {
        (true, true) => Value::Bool(true),
        (true, false) => Value::Null,
        (false, true) => Value::Bool(false),
        (false, false) => Value::Bool(a.compare(b)?.is_eq()),
    })
}
