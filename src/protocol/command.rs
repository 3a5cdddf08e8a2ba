//! One command, and the fields of its header.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use super::{DecodeError, Header, RequestCode, ResponseCode};

/// The version that our commands carry: that of RocketMQ 4.9.8. Name servers answer it in strict JSON, brokers honour
/// `maxReconsumeTimes`, and no server sends it `GO_AWAY`.
pub const VERSION: i32 = 409;

/// The language of the sender, as a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Language(pub u8);

/// By number.
const LANGUAGES: [&str; 14] = [
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS",
    "RUST", "NODE_JS",
];

impl Language {
    /// Java, also where nothing is said.
    pub const JAVA: Self = Self(0);
    /// C++: asks for some bodies in another form.
    pub const CPP: Self = Self(1);
    /// Any other.
    pub const OTHER: Self = Self(7);
    /// Go.
    pub const GO: Self = Self(9);
    /// Rust.
    pub const RUST: Self = Self(12);
    /// What an unknown name is read as; Java reads null.
    pub const UNKNOWN: Self = Self(u8::MAX);

    /// The name in JSON headers.
    pub fn name(self) -> Option<&'static str> {
        LANGUAGES.get(usize::from(self.0)).copied()
    }

    /// The language of that name, or [`UNKNOWN`](Self::UNKNOWN).
    pub fn from_name(name: &str) -> Self {
        LANGUAGES
            .iter()
            .zip(0..)
            .find(|(known, _)| **known == name)
            .map_or(Self::UNKNOWN, |(_, number)| Self(number))
    }
}

impl fmt::Debug for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Language({})", self.0),
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One command: a request, or the answer to one.
#[derive(Clone, PartialEq, Eq)]
pub struct RemotingCommand {
    /// Of a request: what is asked. Of an answer: what came of it.
    pub code: i32,
    /// The language of the sender.
    pub language: Language,
    /// The version of the sender.
    pub version: i32,
    /// Joins an answer to its request, within one connection and direction.
    pub opaque: i32,
    /// Bit 0: an answer. Bit 1: no answer is wanted.
    pub flag: i32,
    /// A text for people; says nothing about success.
    pub remark: Option<String>,
    /// The header fields.
    pub fields: Fields,
    /// The body.
    pub body: Vec<u8>,
}

impl RemotingCommand {
    /// Flag of an answer.
    pub const RESPONSE: i32 = 1;
    /// Flag of a command that gets no answer.
    pub const ONEWAY: i32 = 2;

    /// A request without fields. The opaque is set by who sends it.
    pub fn request(code: RequestCode) -> Self {
        Self::new(code.0, 0, 0)
    }

    /// A request with a header.
    pub fn with_header(code: RequestCode, header: &impl Header) -> Self {
        let mut command = Self::request(code);
        header.write(&mut command.fields);
        command
    }

    /// An answer.
    pub fn response(code: ResponseCode, opaque: i32) -> Self {
        Self::new(code.0, opaque, Self::RESPONSE)
    }

    /// Marks the request as one that gets no answer.
    pub fn oneway(mut self) -> Self {
        self.flag |= Self::ONEWAY;
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    /// Sets the remark.
    pub fn remark(mut self, remark: impl Into<String>) -> Self {
        self.remark = Some(remark.into());
        self
    }

    /// Adds the fields of a header.
    pub fn header_fields(mut self, header: &impl Header) -> Self {
        header.write(&mut self.fields);
        self
    }

    /// Sets one field.
    pub fn field(mut self, name: impl Into<Cow<'static, str>>, value: impl AsRef<str>) -> Self {
        self.fields.set(name, value);
        self
    }

    /// Whether this answers a request.
    pub fn is_response(&self) -> bool {
        self.flag & Self::RESPONSE != 0
    }

    /// Whether no answer is wanted.
    pub fn is_oneway(&self) -> bool {
        self.flag & Self::ONEWAY != 0
    }

    /// The code as that of a request.
    pub fn request_code(&self) -> RequestCode {
        RequestCode(self.code)
    }

    /// The code as that of an answer.
    pub fn response_code(&self) -> ResponseCode {
        ResponseCode(self.code)
    }

    /// The fields as a header.
    ///
    /// # Errors
    /// When a field is missing or not of its type.
    pub fn header<H: Header>(&self) -> Result<H, DecodeError> {
        H::read(&self.fields)
    }

    fn new(code: i32, opaque: i32, flag: i32) -> Self {
        Self {
            code,
            language: Language::RUST,
            version: VERSION,
            opaque,
            flag,
            remark: None,
            fields: Fields::default(),
            body: Vec::new(),
        }
    }
}

/// Without the body, which may be long and is private.
impl fmt::Debug for RemotingCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code: &dyn fmt::Debug =
            if self.is_response() { &self.response_code() } else { &self.request_code() };
        f.debug_struct("RemotingCommand")
            .field("code", code)
            .field("language", &self.language)
            .field("version", &self.version)
            .field("opaque", &self.opaque)
            .field("flag", &self.flag)
            .field("remark", &self.remark)
            .field("fields", &self.fields)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish()
    }
}

/// The header fields of a command: texts under names, in the order in which they were set or read.
///
/// A name occurs once. Two sets of fields are equal when the same names have the same values, in any order: Java
/// writes them in the order of a hash table.
///
/// The texts stand one behind the other: a request has a dozen of them, and every pull is one.
#[derive(Clone, Default)]
pub struct Fields {
    entries: Vec<Entry>,
    text: String,
}

#[derive(Clone)]
struct Entry {
    name: Name,
    value: Range<usize>,
}

#[derive(Clone)]
enum Name {
    Known(&'static str),
    Text(Range<usize>),
}

impl Fields {
    /// The value under a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.entries.get(self.position(name)?).map(|entry| self.value_of(entry))
    }

    /// Sets a value, in place of an older one.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl AsRef<str>) {
        let name = name.into();
        let known = self.position(&name);
        let value = self.take_up(value.as_ref());
        if let Some(entry) = known.and_then(|index| self.entries.get_mut(index)) {
            entry.value = value;
            return;
        }
        let name = match name {
            Cow::Borrowed(name) => Name::Known(name),
            Cow::Owned(name) => Name::Text(self.take_up(&name)),
        };
        self.entries.push(Entry { name, value });
    }

    /// Removes a value and returns it.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        let entry = self.entries.remove(self.position(name)?);
        Some(self.value_of(&entry).to_owned())
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|entry| (self.name_of(entry), self.value_of(entry)))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Makes room for so many more of usual length.
    pub(super) fn reserve(&mut self, fields: usize) {
        self.entries.reserve(fields);
        self.text.reserve(fields * 16);
    }

    /// For decoders: of two fields with one name the last counts, which `remove_duplicates` sees to once,
    /// so that a frame full of fields does not cost its square.
    pub(super) fn push_unchecked(&mut self, name: &str, value: &str) {
        let (name, value) = (Name::Text(self.take_up(name)), self.take_up(value));
        self.entries.push(Entry { name, value });
    }

    pub(super) fn remove_duplicates(&mut self) {
        let mut keep = self.last_of_each_name();
        self.entries.retain(|_| keep.pop().unwrap_or(true));
    }

    /// Of each entry, from the last to the first, whether its name has not come yet.
    fn last_of_each_name(&self) -> Vec<bool> {
        let names = self.entries.iter().map(|entry| self.name_of(entry));
        if self.len() <= 32 {
            let earlier = |index: usize, name| names.clone().skip(index + 1).all(|other| other != name);
            return names.clone().enumerate().map(|(index, name)| earlier(index, name)).rev().collect();
        }
        let mut seen = HashSet::new();
        names.rev().map(|name| seen.insert(name)).collect()
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| self.name_of(entry) == name)
    }

    fn name_of<'a>(&'a self, entry: &'a Entry) -> &'a str {
        match &entry.name {
            Name::Known(name) => name,
            Name::Text(range) => self.text.get(range.clone()).unwrap_or_default(),
        }
    }

    fn value_of(&self, entry: &Entry) -> &str {
        self.text.get(entry.value.clone()).unwrap_or_default()
    }

    fn take_up(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(name, value)| other.get(name) == Some(value))
    }
}

impl Eq for Fields {}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = |name: &str| matches!(name, "Signature" | "SecurityToken");
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (name, if secret(name) { "***" } else { value })))
            .finish()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Fields {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(fields: I) -> Self {
        let mut all = Self::default();
        for (name, value) in fields {
            all.set(name.to_owned(), value);
        }
        all
    }
}
