//! JSON without a tree: slices of the text, one after the other.

use std::borrow::Cow;

use crate::protocol::DecodeError;

/// A cursor over JSON text that hands out slices and allocates nothing.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A value that is not taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw<'a> {
    /// What stands between the quotes of a string.
    Text(Text<'a>),
    /// A number, `true`, `false`, `null` or anything else without quotes.
    Bare(&'a [u8]),
    /// An object or a list, brackets included.
    Nested(&'a [u8]),
}

/// The inside of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    /// As it stands there.
    pub raw: &'a [u8],
    /// Whether there are escapes in it.
    pub escaped: bool,
}

impl<'a> Text<'a> {
    /// Text without escapes.
    pub fn plain(raw: &'a [u8]) -> Self {
        Self { raw, escaped: false }
    }

    /// What it means. Bytes that are not UTF-8 and lone surrogates become U+FFFD.
    pub fn decode(self) -> Cow<'a, str> {
        if self.escaped { Cow::Owned(unescape(self.raw)) } else { String::from_utf8_lossy(self.raw) }
    }
}

impl<'a> Raw<'a> {
    /// The text of a string, or of what stands there without quotes; nothing for `null`.
    pub fn text(self) -> Option<Text<'a>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Bare(b"null") => None,
            Self::Bare(raw) | Self::Nested(raw) => Some(Text::plain(raw)),
        }
    }

    /// The whole number it stands for, with or without quotes; `null` is 0, as for Java.
    pub fn integer(self) -> Option<i32> {
        let Some(text) = self.text() else { return Some(0) };
        std::str::from_utf8(text.raw).ok()?.parse().ok()
    }
}

impl<'a> Scanner<'a> {
    /// Starts at the beginning.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where it is.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next byte that is not white space, which stays where it is.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte > b' ' => Some(*byte),
            _ => self.skip_space(),
        }
    }

    /// Takes this byte if it comes next.
    #[inline]
    pub fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes this byte.
    #[inline]
    pub fn expect(&mut self, byte: u8) -> Result<(), DecodeError> {
        if self.eat(byte) { Ok(()) } else { Err(self.expected(byte)) }
    }

    /// Makes sure that nothing follows.
    pub fn end(&mut self) -> Result<(), DecodeError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.error("text after the end")) }
    }

    /// Whether another element follows in an object or list that ends with `close`. Takes the comma before it, or the
    /// end. A comma before the end is forgiven.
    #[inline]
    pub fn more(&mut self, first: &mut bool, close: u8) -> Result<bool, DecodeError> {
        if self.eat(close) {
            return Ok(false);
        }
        if !std::mem::take(first) {
            self.expect(b',')?;
            return Ok(!self.eat(close));
        }
        Ok(true)
    }

    /// The name of the next member of an object and its colon, or `None` at the end of the object.
    #[inline]
    pub fn member(&mut self, first: &mut bool) -> Result<Option<Text<'a>>, DecodeError> {
        if !self.more(first, b'}')? {
            return Ok(None);
        }
        let name = if self.peek() == Some(b'"') { self.string()? } else { Text::plain(self.bare()?) };
        self.expect(b':')?;
        Ok(Some(name))
    }

    /// The next value, whatever it is.
    #[inline]
    pub fn value(&mut self) -> Result<Raw<'a>, DecodeError> {
        match self.peek() {
            Some(b'"') => self.string().map(Raw::Text),
            Some(b'{' | b'[') => self.nested().map(Raw::Nested),
            _ => self.bare().map(Raw::Bare),
        }
    }

    /// A string, from its opening quote on.
    #[inline]
    pub fn string(&mut self) -> Result<Text<'a>, DecodeError> {
        self.expect(b'"')?;
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match find_quote(rest).and_then(|length| rest.split_at_checked(length)) {
            Some((raw, [b'"', ..])) => {
                self.at += raw.len() + 1;
                Ok(Text::plain(raw))
            }
            _ => self.escaped_string(rest),
        }
    }

    /// A number or word without quotes.
    #[inline]
    pub fn bare(&mut self) -> Result<&'a [u8], DecodeError> {
        self.peek();
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|byte| !is_bare(*byte)).unwrap_or(rest.len());
        match rest.split_at(length) {
            ([], _) => Err(self.error("a value expected")),
            (bare, _) => {
                self.at += length;
                Ok(bare)
            }
        }
    }

    /// An error at this place.
    pub fn error(&self, what: impl Into<Cow<'static, str>>) -> DecodeError {
        DecodeError::new(what).at(self.at)
    }

    #[cold]
    fn expected(&self, byte: u8) -> DecodeError {
        self.error(format!("`{}` expected", byte.escape_ascii()))
    }

    fn skip_space(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                _ => return Some(*byte),
            }
        }
        None
    }

    /// An object or list, by counting brackets: no recursion, so depth costs nothing.
    fn nested(&mut self) -> Result<&'a [u8], DecodeError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match nested_length(rest) {
            Some(length) => {
                self.at += length;
                Ok(rest.get(..length).unwrap_or_default())
            }
            None => {
                self.at = self.bytes.len();
                Err(self.error("ends within an object, a list or a string"))
            }
        }
    }

    /// A string with a backslash in it, or without an end.
    fn escaped_string(&mut self, rest: &'a [u8]) -> Result<Text<'a>, DecodeError> {
        let mut length = 0;
        loop {
            let tail = rest.get(length..).unwrap_or_default();
            let Some(step) = find_quote(tail) else {
                self.at = self.bytes.len();
                return Err(self.error("ends within a string"));
            };
            length += step;
            if tail.get(step) == Some(&b'"') {
                self.at += length + 1;
                return Ok(Text { raw: rest.get(..length).unwrap_or_default(), escaped: true });
            }
            // The backslash, and whatever it stands before.
            length += 2;
        }
    }
}

pub(super) const LOW: u64 = 0x0101_0101_0101_0101;
pub(super) const HIGH: u64 = LOW << 7;

/// Where the first quote or backslash is; eight bytes at a time, as strings are most of a header.
#[inline]
pub fn find_quote(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let hits = zeros(word ^ (LOW * b'"' as u64)) | zeros(word ^ (LOW * b'\\' as u64));
        if hits != 0 {
            return Some(index * 8 + hits.trailing_zeros() as usize / 8);
        }
    }
    let found = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    Some(words.len() * 8 + found)
}

/// The whole number that these digits are.
pub fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || digits.len() > 18 {
        // Too long for arithmetic without checks.
        return std::str::from_utf8(text).ok()?.parse().ok();
    }
    let mut number = 0;
    for digit in digits {
        number = number * 10 + i64::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    Some(if digits.len() < text.len() { -number } else { number })
}

/// How long the object or list is that begins here. Eight bytes without bracket or backslash only change whether we
/// are in a string, by the number of their quotes.
pub fn nested_length(bytes: &[u8]) -> Option<usize> {
    let mut state = Nesting { depth: 0, in_string: false, escaped: false };
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, bytes) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*bytes);
        // `{ [` and `} ]` differ in one bit; so do `\` and `|`, which then takes the long way too.
        let folded = word & (LOW * 0xDF);
        let special = zeros(folded ^ (LOW * b'[' as u64))
            | zeros(folded ^ (LOW * b']' as u64))
            | zeros(folded ^ (LOW * b'\\' as u64));
        if special == 0 && !state.escaped {
            let quotes = word ^ (LOW * b'"' as u64);
            // Exact for every byte, unlike `zeros`, since they are counted.
            let quotes = !(((quotes & !HIGH) + !HIGH) | quotes) & HIGH;
            state.in_string ^= quotes.count_ones() % 2 == 1;
        } else if let Some(length) = state.end(bytes) {
            return Some(index * 8 + length);
        }
    }
    state.end(rest).map(|length| words.len() * 8 + length)
}

struct Nesting {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Where the outermost bracket closes, if it does within these bytes.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        for (index, byte) in bytes.iter().enumerate() {
            if std::mem::take(&mut self.escaped) {
                continue;
            }
            match byte {
                b'"' => self.in_string = !self.in_string,
                b'\\' => self.escaped = self.in_string,
                b'{' | b'[' if !self.in_string => self.depth += 1,
                b'}' | b']' if !self.in_string => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(index + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Marks the top bit of bytes that are zero. Marks above the lowest one may be wrong; the lowest, and that there is
/// none, is always right.
#[inline]
pub(super) fn zeros(word: u64) -> u64 {
    word.wrapping_sub(LOW) & !word & HIGH
}

fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'_' | b'$' | b'@')
}

fn unescape(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let mut out = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let mut chars = after.chars();
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let (decoded, used) = unicode(chars.as_str());
                out.push(decoded);
                chars = chars.as_str().get(used..).unwrap_or_default().chars();
            }
            Some(other) => out.push(other),
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out
}

/// The character after `\u`, and how long its text is: 4, or 10 for a pair of surrogates.
fn unicode(text: &str) -> (char, usize) {
    let unit = |from: usize| {
        let digits = text.get(from..from + 4)?;
        if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            u16::from_str_radix(digits, 16).ok()
        } else {
            None
        }
    };
    let Some(first) = unit(0) else { return (char::REPLACEMENT_CHARACTER, 0) };
    if let Some(char) = char::from_u32(u32::from(first)) {
        return (char, 4);
    }
    let second = if text.get(4..6) == Some("\\u") { unit(6) } else { None };
    match char::decode_utf16([first, second.unwrap_or(0)]).next() {
        Some(Ok(char)) => (char, 10),
        _ => (char::REPLACEMENT_CHARACTER, 4),
    }
}

#[cfg(test)]
mod tests;
