use std::borrow::Cow;

use super::scan::{Raw, Scanner};
use super::write;
use crate::protocol::DecodeError;

/// How deep values may lie in each other. RocketMQ's lie at most six deep.
const DEEPEST: u32 = 64;

/// How many values there may be in all: some bytes of text become a value of 32 bytes.
const MOST: u32 = 4_000_000;

/// A value, which borrows from the text what it can.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`, or a reference to another part of the text, which is not followed.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it stands there.
    Number(&'a str),
    /// A text.
    String(Cow<'a, str>),
    /// A list.
    Array(Vec<Value<'a>>),
    /// An object, in the order of the text.
    Object(Vec<(Key<'a>, Value<'a>)>),
}

/// What stands before the colon.
#[derive(Clone, Debug, PartialEq)]
pub enum Key<'a> {
    /// A text, with quotes or without.
    Text(Cow<'a, str>),
    /// A number without quotes.
    Integer(i64),
    /// An object.
    Object(Value<'a>),
}

/// Reads one value, and makes sure that nothing follows.
///
/// # Errors
/// When the text is not JSON even with all that RocketMQ gets wrong about it, or nests too deep.
pub fn parse(text: &[u8]) -> Result<Value<'_>, DecodeError> {
    parse_at_most(text, MOST)
}

fn parse_at_most(text: &[u8], most: u32) -> Result<Value<'_>, DecodeError> {
    let mut parser = Parser { scanner: Scanner::new(text), left: most };
    let value = parser.value(DEEPEST)?;
    parser.scanner.end()?;
    Ok(value)
}

impl<'a> Value<'a> {
    /// The member of an object with this name; of two the last.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        let Self::Object(members) = self else { return None };
        members
            .iter()
            .rev()
            .find(|(key, _)| matches!(key, Key::Text(text) if text == name))
            .map(|(_, value)| value)
    }

    /// A text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number, which may be written as a text, or like `5.0` or `1e3`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(text) => integer(text),
            Self::String(text) => integer(text.trim()),
            _ => None,
        }
    }

    /// A number, which may be written as a text.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(text) => text.parse().ok(),
            Self::String(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        }
    }

    /// A truth value, which may be written as a text or as 0 or 1.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Self::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
            Self::Number("1") => Some(true),
            Self::Number("0") => Some(false),
            _ => None,
        }
    }

    /// Appends the value as every version reads it: numbers as keys get quotes, objects as keys stay objects.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Self::Number(text) => out.extend_from_slice(text.as_bytes()),
            Self::String(text) => write::string(out, text),
            Self::Array(items) => write::sequence(out, b"[]", items, |out, item| item.write(out)),
            Self::Object(members) => write::sequence(out, b"{}", members, |out, (key, value)| {
                key.write(out);
                out.push(b':');
                value.write(out);
            }),
        }
    }
}

impl<'a> Key<'a> {
    /// A whole number, with quotes or without.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Text(text) => integer(text.trim()),
            Self::Object(_) => None,
        }
    }

    /// A text; a number as it would be written.
    pub fn to_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Integer(number) => Some(Cow::Owned(number.to_string())),
            Self::Object(_) => None,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => write::string(out, text),
            Self::Integer(number) => write::string(out, &number.to_string()),
            Self::Object(value) => value.write(out),
        }
    }
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    left: u32,
}

impl<'a> Parser<'a> {
    fn value(&mut self, depth: u32) -> Result<Value<'a>, DecodeError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| self.scanner.error("too many values"))?;
        match self.scanner.peek() {
            Some(b'{') => self.object(self.deeper(depth)?),
            Some(b'[') => self.array(self.deeper(depth)?),
            Some(b'"') => Ok(Value::String(self.scanner.string()?.decode())),
            _ => {
                let start = self.scanner.position();
                let bare = self.scanner.bare()?;
                word(bare).ok_or_else(|| DecodeError::new("neither a value nor a number").at(start))
            }
        }
    }

    fn array(&mut self, depth: u32) -> Result<Value<'a>, DecodeError> {
        self.scanner.expect(b'[')?;
        let (mut items, mut first) = (Vec::new(), true);
        while self.scanner.more(&mut first, b']')? {
            items.push(self.value(depth)?);
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self, depth: u32) -> Result<Value<'a>, DecodeError> {
        self.scanner.expect(b'{')?;
        let (mut members, mut first) = (Vec::new(), true);
        while self.scanner.more(&mut first, b'}')? {
            let key = self.key(depth)?;
            self.scanner.expect(b':')?;
            members.push((key, self.value(depth)?));
        }
        Ok(match &*members {
            [(Key::Text(name), _)] if name == "$ref" => Value::Null,
            _ => Value::Object(members),
        })
    }

    fn key(&mut self, depth: u32) -> Result<Key<'a>, DecodeError> {
        if self.scanner.peek() == Some(b'{') {
            return self.value(depth).map(Key::Object);
        }
        Ok(match self.scanner.value()? {
            Raw::Text(text) => Key::Text(text.decode()),
            Raw::Bare(bare) | Raw::Nested(bare) => match std::str::from_utf8(bare).ok().map(str::parse) {
                Some(Ok(number)) => Key::Integer(number),
                _ => Key::Text(String::from_utf8_lossy(bare)),
            },
        })
    }

    fn deeper(&self, depth: u32) -> Result<u32, DecodeError> {
        depth.checked_sub(1).ok_or_else(|| self.scanner.error("too many values within each other"))
    }
}

fn word(bare: &[u8]) -> Option<Value<'_>> {
    match bare {
        // Java's answer where a rate cannot be told.
        b"null" | b"NaN" | b"Infinity" | b"-Infinity" => Some(Value::Null),
        b"true" => Some(Value::Bool(true)),
        b"false" => Some(Value::Bool(false)),
        _ => {
            let text = std::str::from_utf8(bare).ok()?;
            let plain = text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'));
            let number = plain && text.parse::<f64>().is_ok_and(f64::is_finite);
            // Strict readers would not take a plus or a point at the edge, so that we must not write it again.
            let strict = text.strip_prefix('-').unwrap_or(text);
            let strict = strict.starts_with(|c: char| c.is_ascii_digit()) && !strict.ends_with('.');
            if number && strict { Some(Value::Number(text)) } else { None }
        }
    }
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        // Within what a float can tell apart.
        let whole = number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0;
        if whole { Some(number as i64) } else { None }
    })
}

#[cfg(test)]
mod tests;
