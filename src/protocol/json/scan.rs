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
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                _ => return Some(*byte),
            }
        }
        None
    }

    /// Takes this byte if it comes next.
    pub fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes this byte.
    pub fn expect(&mut self, byte: u8) -> Result<(), DecodeError> {
        if self.eat(byte) { Ok(()) } else { Err(self.error(format!("`{}` expected", byte.escape_ascii()))) }
    }

    /// Makes sure that nothing follows.
    pub fn end(&mut self) -> Result<(), DecodeError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.error("text after the end")) }
    }

    /// Whether another element follows in an object or list that ends with `close`. Takes the comma before it, or the
    /// end. A comma before the end is forgiven.
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
    pub fn member(&mut self, first: &mut bool) -> Result<Option<Text<'a>>, DecodeError> {
        if !self.more(first, b'}')? {
            return Ok(None);
        }
        let name = if self.peek() == Some(b'"') { self.string()? } else { Text::plain(self.bare()?) };
        self.expect(b':')?;
        Ok(Some(name))
    }

    /// The next value, whatever it is.
    pub fn value(&mut self) -> Result<Raw<'a>, DecodeError> {
        match self.peek() {
            Some(b'"') => self.string().map(Raw::Text),
            Some(b'{' | b'[') => self.nested().map(Raw::Nested),
            _ => self.bare().map(Raw::Bare),
        }
    }

    /// A string, from its opening quote on.
    pub fn string(&mut self) -> Result<Text<'a>, DecodeError> {
        self.expect(b'"')?;
        let start = self.at;
        let escaped = self.skip_string()?;
        Ok(Text { raw: self.bytes.get(start..self.at - 1).unwrap_or_default(), escaped })
    }

    /// A number or word without quotes.
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

    /// An object or list, by counting brackets: no recursion, so depth costs nothing.
    fn nested(&mut self) -> Result<&'a [u8], DecodeError> {
        let start = self.at;
        let mut depth = 0usize;
        while let Some(byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => {
                    self.skip_string()?;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Ok(self.bytes.get(start..self.at).unwrap_or_default());
                    }
                }
                _ => {}
            }
        }
        Err(self.error("ends within an object or list"))
    }

    /// Goes behind the closing quote; says whether there were escapes.
    fn skip_string(&mut self) -> Result<bool, DecodeError> {
        let mut escaped = false;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            match rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
                Some(length) if rest.get(length) == Some(&b'"') => {
                    self.at += length + 1;
                    return Ok(escaped);
                }
                Some(length) => {
                    escaped = true;
                    self.at = (self.at + length + 2).min(self.bytes.len());
                }
                None => {
                    self.at = self.bytes.len();
                    return Err(self.error("ends within a string"));
                }
            }
        }
    }
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
mod tests {
    use super::*;

    fn members(text: &str) -> Result<Vec<(String, Raw<'_>)>, DecodeError> {
        let mut scanner = Scanner::new(text.as_bytes());
        let mut all = Vec::new();
        scanner.expect(b'{')?;
        let mut first = true;
        while let Some(name) = scanner.member(&mut first)? {
            all.push((name.decode().into_owned(), scanner.value()?));
        }
        scanner.end()?;
        Ok(all)
    }

    #[test]
    fn walks_over_members() {
        let all = members(r#" { "a" : 1, b:"x\"y" , "c":{"d":["}",{}]}, "e":null,} "#).unwrap();
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "e"]);
        assert_eq!(all[0].1.integer(), Some(1));
        assert_eq!(all[1].1.text().unwrap().decode(), "x\"y");
        assert_eq!(all[2].1, Raw::Nested(br#"{"d":["}",{}]}"#));
        assert_eq!(all[3].1.text(), None);
    }

    #[test]
    fn refuses_what_is_not_an_object() {
        for text in [
            "",
            "x",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1",
            "{\"a\":\"x}",
            "{\"a\":1}x",
            "{\"a\":1 \"b\":2}",
            "{\"a\":[}",
        ] {
            assert!(members(text).is_err(), "{text}");
        }
    }

    #[test]
    fn escapes() {
        for (raw, means) in [
            (r"a\nb\t\\\/\'", "a\nb\t\\/'"),
            (r"\u4E16\u754c", "世界"),
            (r"\ud83d\ude00!", "😀!"),
            (r"\ud83d!", "\u{fffd}!"),
            (r"\ud83d\u0041", "\u{fffd}A"),
            (r"\u12", "\u{fffd}12"),
            (r"\u+123", "\u{fffd}+123"),
        ] {
            assert_eq!(Text { raw: raw.as_bytes(), escaped: true }.decode(), means, "{raw}");
        }
    }
}
