//! The header fields of all requests and answers, from one table: what a field is called on the wire is said once, here.
//!
//! An `Option` may be missing. `bname` is the name of the broker that a request is for; old clients do not send it.

use super::json::write::decimal;
use super::{DecodeError, Fields};

/// A set of header fields.
pub trait Header: Sized {
    /// Adds the fields to those of a command.
    fn write(&self, fields: &mut Fields);

    /// Reads the fields out of those of a command.
    ///
    /// # Errors
    /// When one is missing that must be there, or is not of its type.
    fn read(fields: &Fields) -> Result<Self, DecodeError>;
}

/// A type that a field can have; on the wire all are texts.
trait Value: Sized {
    fn write(&self, name: &'static str, fields: &mut Fields);
    fn read(name: &'static str, text: Option<&str>) -> Result<Self, DecodeError>;
}

impl Value for String {
    #[inline]
    fn write(&self, name: &'static str, fields: &mut Fields) {
        fields.set(name, self.as_str());
    }

    #[inline]
    fn read(name: &'static str, text: Option<&str>) -> Result<Self, DecodeError> {
        text.map(String::from).ok_or_else(|| missing(name))
    }
}

impl Value for bool {
    #[inline]
    fn write(&self, name: &'static str, fields: &mut Fields) {
        fields.set(name, if *self { "true" } else { "false" });
    }

    /// As in Java, anything but `true` is `false`.
    #[inline]
    fn read(name: &'static str, text: Option<&str>) -> Result<Self, DecodeError> {
        text.map(|text| text.eq_ignore_ascii_case("true")).ok_or_else(|| missing(name))
    }
}

macro_rules! numbers {
    ($($type:ty)*) => { $(
        impl Value for $type {
            #[inline]
            fn write(&self, name: &'static str, fields: &mut Fields) {
                let mut digits = [0; 20];
                let digits = decimal(i64::from(*self), &mut digits);
                fields.set(name, std::str::from_utf8(digits).expect("digits are ASCII"));
            }

            #[inline]
            fn read(name: &'static str, text: Option<&str>) -> Result<Self, DecodeError> {
                let text = text.filter(|text| !text.is_empty()).ok_or_else(|| missing(name))?;
                text.parse().map_err(|_| DecodeError::new(format!("field {name}: {text:?} is not a number")))
            }
        }
    )* };
}

numbers!(i32 i64);

impl<T: Value> Value for Option<T> {
    #[inline]
    fn write(&self, name: &'static str, fields: &mut Fields) {
        if let Some(value) = self {
            value.write(name, fields);
        }
    }

    /// An empty text is nothing: in the binary encoding Java cannot tell the two apart.
    #[inline]
    fn read(name: &'static str, text: Option<&str>) -> Result<Self, DecodeError> {
        match text {
            None | Some("") => Ok(None),
            Some(text) => T::read(name, Some(text)).map(Some),
        }
    }
}

fn missing(name: &'static str) -> DecodeError {
    DecodeError::new(format!("field {name} is missing"))
}

macro_rules! headers {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $type:ty = $wire:literal,)* })*) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $(
                #[doc = concat!("`", $wire, "` on the wire.")]
                pub $field: $type,
            )*
        }

        impl Header for $name {
            fn write(&self, fields: &mut Fields) {
                fields.reserve(const { [$($wire),*].len() });
                $(Value::write(&self.$field, $wire, fields);)*
            }

            fn read(fields: &Fields) -> Result<Self, DecodeError> {
                Ok(Self { $($field: Value::read($wire, fields.get($wire))?,)* })
            }
        }
    )* };
}

// Below the macro, in which they are written.
mod administration;
mod clients;
mod name_server;
mod pop;
mod pulling;
mod sending;

pub use administration::*;
pub use clients::*;
pub use name_server::*;
pub use pop::*;
pub use pulling::*;
pub use sending::*;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back() {
        let header = SearchOffset {
            topic: "t".into(),
            queue_id: 3,
            timestamp: -1,
            boundary_type: Some("LOWER".into()),
            bname: None,
        };
        let mut fields = Fields::default();
        header.write(&mut fields);
        let written: Vec<_> = fields.iter().collect();
        assert_eq!(
            written,
            [("topic", "t"), ("queueId", "3"), ("timestamp", "-1"), ("boundaryType", "LOWER")]
        );
        assert_eq!(SearchOffset::read(&fields), Ok(header));
    }

    #[test]
    fn says_which_field_is_wrong() {
        let fields = Fields::from_iter([("topic", "t"), ("queueId", " 3")]);
        assert_eq!(
            QueueStart::read(&fields).unwrap_err().to_string(),
            "field queueId: \" 3\" is not a number"
        );
        let fields = Fields::from_iter([("topic", "t"), ("queueId", "")]);
        assert_eq!(QueueStart::read(&fields).unwrap_err().to_string(), "field queueId is missing");
    }

    #[test]
    fn reads_what_java_reads() {
        let fields = Fields::from_iter([
            ("topic", "t"),
            ("group", "g"),
            ("timestamp", "+5"),
            ("isForce", "TRUE"),
            ("queueId", ""),
        ]);
        let reset = ResetOffset::read(&fields).unwrap();
        assert_eq!((reset.timestamp, reset.is_force, reset.queue_id), (5, true, None));
    }
}
