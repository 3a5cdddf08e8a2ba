//! The JSON bodies of requests and answers, as tables: what a member is called on the wire is said once, here.
//!
//! Every body has `read(&[u8])` and `write() -> Vec<u8>`. Reading takes what every version of Java, Go and C++ clients
//! writes: unknown members are passed over, missing ones have the value that Java gives them. What is written is what
//! every version reads: members in Java's order, without those that are `None`.

mod config;
mod consumer;
mod heartbeat;
mod pop;
mod route;
mod stats;

use std::collections::BTreeMap;
use std::io::Write as _;

pub use config::*;
pub use consumer::*;
pub use heartbeat::*;
pub use pop::*;
pub use route::*;
pub use stats::*;

use super::DecodeError;
use super::json::{self, Key, Value, write};
use crate::message::MessageQueue;

/// A part of a body.
pub trait Json: Sized {
    /// Reads it from a value that is not null.
    ///
    /// # Errors
    /// When the value is of another kind.
    fn from_json(value: &Value<'_>) -> Result<Self, DecodeError>;

    /// Appends it.
    fn to_json(&self, out: &mut Vec<u8>);

    /// Whether its member is left out.
    fn is_none(&self) -> bool {
        false
    }
}

/// What can stand before the colon in a map.
pub trait JsonKey: Sized + Ord {
    /// Reads it.
    fn from_key(key: &Key<'_>) -> Option<Self>;

    /// Appends it.
    fn to_key(&self, out: &mut Vec<u8>);

    /// Reads an entry of a map that is written as a list, as brokers do for C++ clients.
    fn from_item<'v, 'a>(_item: &'v Value<'a>) -> Option<(Self, &'v Value<'a>)> {
        None
    }
}

/// Defines bodies: `field: type = "name"`, other names that are read as well after `|`, and after `or` what a missing
/// member stands for, unless that is the default of the type.
macro_rules! bodies {
    ($($(#[$meta:meta])* $name:ident {
        $($field:ident: $type:ty = $wire:literal $(| $alias:literal)* $(or $default:expr)?,)*
    })*) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(
                #[doc = concat!("`", $wire, "` on the wire.")]
                pub $field: $type,
            )*
        }

        impl $name {
            /// Reads a body.
            ///
            /// # Errors
            /// When it is not JSON, or a member is of another kind.
            pub fn read(body: &[u8]) -> Result<Self, $crate::protocol::DecodeError> {
                $crate::protocol::body::read(body)
                    .map_err(|error| error.within(stringify!($name)))
            }

            /// Writes a body.
            pub fn write(&self) -> Vec<u8> {
                let mut out = Vec::new();
                $crate::protocol::body::Json::to_json(self, &mut out);
                out
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: bodies!(@default $($default)?),)* }
            }
        }

        impl $crate::protocol::body::Json for $name {
            fn from_json(value: &$crate::protocol::json::Value<'_>) -> Result<Self, $crate::protocol::DecodeError> {
                $crate::protocol::body::expect_object(value)?;
                let mut read = Self::default();
                $(
                    if let Some(value) = $crate::protocol::body::member(value, &[$wire $(, $alias)*]) {
                        read.$field = $crate::protocol::body::Json::from_json(value)
                            .map_err(|error| error.within($wire))?;
                    }
                )*
                Ok(read)
            }

            fn to_json(&self, out: &mut Vec<u8>) {
                let mut first = true;
                $($crate::protocol::body::write_member(out, &mut first, $wire, &self.$field);)*
                out.extend_from_slice(if first { b"{}" } else { b"}" });
            }
        }
    )* };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
}

/// Defines enums that go by name on the wire, in Java's order: some clients write the number instead.
macro_rules! wire_enums {
    ($($(#[$meta:meta])* $type:ident { $($(#[$doc:meta])* $variant:ident = $wire:literal,)* })*) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[$doc])* $variant,)*
            /// Nothing, or something that is not known here.
            #[default]
            Unknown,
        }

        impl $type {
            const ALL: &[(&'static str, Self)] = &[$(($wire, Self::$variant),)*];

            /// The name on the wire.
            pub fn name(self) -> Option<&'static str> {
                Self::ALL.iter().find(|(_, own)| *own == self).map(|(name, _)| *name)
            }

            /// The value of that name, in any case.
            pub fn from_name(name: &str) -> Self {
                Self::ALL.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map_or(Self::Unknown, |(_, own)| *own)
            }
        }

        impl $crate::protocol::body::Json for $type {
            fn from_json(value: &$crate::protocol::json::Value<'_>) -> Result<Self, $crate::protocol::DecodeError> {
                if let Some(number) = value.as_i64() {
                    let known = usize::try_from(number).ok().and_then(|number| Self::ALL.get(number));
                    return Ok(known.map_or(Self::Unknown, |(_, own)| *own));
                }
                Ok(value.as_str().map_or(Self::Unknown, Self::from_name))
            }

            fn to_json(&self, out: &mut Vec<u8>) {
                match self.name() {
                    Some(name) => $crate::protocol::json::write::string(out, name),
                    None => out.extend_from_slice(b"null"),
                }
            }

            fn is_none(&self) -> bool {
                *self == Self::Unknown
            }
        }
    )* };
}

use {bodies, wire_enums};

fn read<T: Json>(body: &[u8]) -> Result<T, DecodeError> {
    T::from_json(&json::parse(body)?)
}

fn expect_object(value: &Value<'_>) -> Result<(), DecodeError> {
    if matches!(value, Value::Object(_)) { Ok(()) } else { Err(DecodeError::new("not an object")) }
}

/// The member under the first of these names that is there and not null.
fn member<'v, 'a>(value: &'v Value<'a>, names: &[&str]) -> Option<&'v Value<'a>> {
    names.iter().find_map(|name| value.get(name).filter(|value| **value != Value::Null))
}

fn write_member(out: &mut Vec<u8>, first: &mut bool, name: &str, value: &impl Json) {
    if value.is_none() {
        return;
    }
    out.push(if std::mem::take(first) { b'{' } else { b',' });
    write::string(out, name);
    out.push(b':');
    value.to_json(out);
}

fn wrong(kind: &'static str) -> DecodeError {
    DecodeError::new(kind)
}

impl Json for String {
    fn from_json(value: &Value<'_>) -> Result<Self, DecodeError> {
        match value {
            Value::String(text) => Ok(text.to_string()),
            Value::Number(text) => Ok((*text).to_owned()),
            Value::Bool(value) => Ok(value.to_string()),
            _ => Err(wrong("not a text")),
        }
    }

    fn to_json(&self, out: &mut Vec<u8>) {
        write::string(out, self);
    }
}

impl Json for bool {
    fn from_json(value: &Value<'_>) -> Result<Self, DecodeError> {
        value.as_bool().ok_or_else(|| wrong("neither true nor false"))
    }

    fn to_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if *self { b"true" } else { b"false" });
    }
}

impl Json for i64 {
    fn from_json(value: &Value<'_>) -> Result<Self, DecodeError> {
        value.as_i64().ok_or_else(|| wrong("not a whole number"))
    }

    fn to_json(&self, out: &mut Vec<u8>) {
        write::integer(out, *self);
    }
}

impl Json for i32 {
    fn from_json(value: &Value<'_>) -> Result<Self, DecodeError> {
        value
            .as_i64()
            .and_then(|number| number.try_into().ok())
            .ok_or_else(|| wrong("not a number of 32 bits"))
    }

    fn to_json(&self, out: &mut Vec<u8>) {
        write::integer(out, (*self).into());
    }
}

impl Json for f64 {
    fn from_json(value: &Value<'_>) -> Result<Self, DecodeError> {
        value.as_f64().ok_or_else(|| wrong("not a number"))
    }

    fn to_json(&self, out: &mut Vec<u8>) {
        if self.is_finite() {
            write!(out, "{self:?}").expect("a Vec takes all that is written");
        } else {
            out.extend_from_slice(b"null");
        }
    }
}

impl<T: Json> Json for Option<T> {
    fn from_json(value: &Value<'_>) -> Result<Self, DecodeError> {
        T::from_json(value).map(Some)
    }

    fn to_json(&self, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.to_json(out),
            None => out.extend_from_slice(b"null"),
        }
    }

    fn is_none(&self) -> bool {
        self.is_none()
    }
}

impl<T: Json> Json for Vec<T> {
    fn from_json(value: &Value<'_>) -> Result<Self, DecodeError> {
        let Value::Array(items) = value else { return Err(wrong("not a list")) };
        items.iter().filter(|item| **item != Value::Null).map(T::from_json).collect()
    }

    fn to_json(&self, out: &mut Vec<u8>) {
        write::sequence(out, b"[]", self, |out, item| item.to_json(out));
    }
}

impl<K: JsonKey, V: Json> Json for BTreeMap<K, V> {
    fn from_json(value: &Value<'_>) -> Result<Self, DecodeError> {
        let mut map = Self::new();
        let mut add = |key: Option<K>, value: &Value<'_>| -> Result<(), DecodeError> {
            let key = key.ok_or_else(|| wrong("a key of the wrong kind"))?;
            if *value != Value::Null {
                map.insert(key, V::from_json(value)?);
            }
            Ok(())
        };
        match value {
            Value::Object(members) => {
                members.iter().try_for_each(|(key, value)| add(K::from_key(key), value))?
            }
            Value::Array(items) => items.iter().try_for_each(|item| match K::from_item(item) {
                Some((key, value)) => add(Some(key), value),
                None => Err(wrong("a list in place of a map")),
            })?,
            _ => return Err(wrong("not a map")),
        }
        Ok(map)
    }

    fn to_json(&self, out: &mut Vec<u8>) {
        let members = self.iter().filter(|(_, value)| !value.is_none());
        write::sequence(out, b"{}", members, |out, (key, value)| {
            key.to_key(out);
            out.push(b':');
            value.to_json(out);
        });
    }
}

impl JsonKey for String {
    fn from_key(key: &Key<'_>) -> Option<Self> {
        key.to_text().map(|text| text.into_owned())
    }

    fn to_key(&self, out: &mut Vec<u8>) {
        write::string(out, self);
    }
}

macro_rules! integer_keys {
    ($($type:ty)*) => { $(
        impl JsonKey for $type {
            fn from_key(key: &Key<'_>) -> Option<Self> {
                key.as_i64()?.try_into().ok()
            }

            /// With quotes, as strict readers want it and Java takes it.
            fn to_key(&self, out: &mut Vec<u8>) {
                write::string(out, &self.to_string());
            }
        }
    )* };
}

integer_keys!(i32 i64);

impl Json for MessageQueue {
    fn from_json(value: &Value<'_>) -> Result<Self, DecodeError> {
        expect_object(value)?;
        let text = |name| member(value, &[name]).map_or(Ok(String::new()), String::from_json);
        let queue_id = member(value, &["queueId"]).map_or(Ok(0), i32::from_json)?;
        Ok(Self::new(text("topic")?, text("brokerName")?, queue_id))
    }

    /// Exactly this text is what Go clients look for.
    fn to_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"brokerName\":");
        write::string(out, self.broker_name());
        out.extend_from_slice(b",\"queueId\":");
        write::integer(out, self.queue_id().into());
        out.extend_from_slice(b",\"topic\":");
        write::string(out, self.topic());
        out.push(b'}');
    }
}

impl JsonKey for MessageQueue {
    /// An object, or its text as a string.
    fn from_key(key: &Key<'_>) -> Option<Self> {
        match key {
            Key::Object(value) => Self::from_json(value).ok(),
            Key::Text(text) if text.trim_start().starts_with('{') => read(text.as_bytes()).ok(),
            _ => None,
        }
    }

    fn to_key(&self, out: &mut Vec<u8>) {
        self.to_json(out);
    }

    fn from_item<'v, 'a>(item: &'v Value<'a>) -> Option<(Self, &'v Value<'a>)> {
        Some((Self::from_json(item).ok()?, item.get("offset")?))
    }
}

#[cfg(test)]
mod tests;
