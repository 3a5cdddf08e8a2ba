//! From text to words, one at a time: whatever follows a complete filter is never looked at.

use super::{Dialect, SqlError};

/// One word of a filter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Word(Word),
    Name(String),
    Text(String),
    /// A whole number as it is written, without the `L`.
    Whole(String),
    /// A number with a point or an exponent.
    Fraction(String),
    /// `( ) , + - = <> > >= < <=`.
    Sign(&'static str),
    End,
}

/// Words that cannot be names. They may be written in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Not,
    And,
    Or,
    Between,
    In,
    True,
    False,
    Null,
    Is,
    Contains,
    StartsWith,
    EndsWith,
}

const WORDS: [(&str, Word); 9] = [
    ("NOT", Word::Not),
    ("AND", Word::And),
    ("OR", Word::Or),
    ("BETWEEN", Word::Between),
    ("IN", Word::In),
    ("TRUE", Word::True),
    ("FALSE", Word::False),
    ("NULL", Word::Null),
    ("IS", Word::Is),
];
const NEW_WORDS: [(&str, Word); 3] =
    [("CONTAINS", Word::Contains), ("STARTSWITH", Word::StartsWith), ("ENDSWITH", Word::EndsWith)];
/// The longer of two that begin alike comes first.
const SIGNS: [&str; 11] = ["<>", ">=", "<=", "(", ")", ",", "+", "-", "=", ">", "<"];

/// What is left of a text.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    dialect: Dialect,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str, dialect: Dialect) -> Self {
        Self { text, at: 0, dialect }
    }

    /// The next word, and where it begins.
    pub(super) fn next(&mut self) -> Result<(Token, usize), SqlError> {
        self.skip_space();
        let (at, rest) = (self.at, self.rest());
        let (token, length) = match rest.bytes().next() {
            None => (Token::End, 0),
            Some(b'\'') => text(rest).ok_or_else(|| self.error(at, "a text without its end"))?,
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$') => name(rest, self.dialect),
            Some(b'0'..=b'9' | b'.') => number(rest).ok_or_else(|| self.error(at, "a lone `.`"))?,
            Some(_) => sign(rest).ok_or_else(|| {
                let found = rest.chars().next().map_or_else(String::new, |c| c.escape_debug().collect());
                self.error(at, format!("`{found}` means nothing here"))
            })?,
        };
        self.at += length;
        Ok((token, at))
    }

    /// A mistake at this place.
    pub(super) fn error(&self, at: usize, problem: impl Into<String>) -> SqlError {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.rsplit('\n').next().unwrap_or(before);
        SqlError {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            problem: problem.into(),
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Blanks and comments. A comment that begins with `--` counts only if its line ends.
    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']).len();
            let rest = rest.get(blanks..).unwrap_or("");
            let comment = match rest.get(..2) {
                Some("--") => rest.find(['\n', '\r']).map(|end| end + 1),
                Some("/*") => rest.get(2..).and_then(|inner| inner.find("*/")).map(|end| end + 4),
                _ => None,
            };
            self.at += blanks + comment.unwrap_or(0);
            if comment.is_none() {
                return;
            }
        }
    }
}

/// `'it''s'` is `it's`.
fn text(rest: &str) -> Option<(Token, usize)> {
    let mut value = String::new();
    let mut at = 1;
    loop {
        let part = rest.get(at..)?;
        let quote = part.find('\'')?;
        value.push_str(part.get(..quote)?);
        at += quote + 1;
        if !rest.get(at..)?.starts_with('\'') {
            return Some((Token::Text(value), at));
        }
        value.push('\'');
        at += 1;
    }
}

fn name(rest: &str, dialect: Dialect) -> (Token, usize) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    let length = rest.bytes().take_while(|byte| is_part(byte)).count();
    let name = rest.get(..length).unwrap_or(rest);
    let new: &[_] = if dialect == Dialect::New { &NEW_WORDS } else { &[] };
    let word = WORDS.iter().chain(new).find(|(text, _)| text.eq_ignore_ascii_case(name));
    (word.map_or_else(|| Token::Name(name.to_owned()), |(_, word)| Token::Word(*word)), length)
}

/// `5`, `5L`, `5.`, `.5`, `5.5e-3`, `5e3`. A whole number that begins with 0 is 0, and what follows the next word.
fn number(rest: &str) -> Option<(Token, usize)> {
    let digits =
        |from: usize| rest.get(from..).map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let byte = |at: usize| rest.as_bytes().get(at).copied();
    let before = digits(0);
    let mut end = before;
    if byte(end) == Some(b'.') {
        let after = digits(end + 1);
        if before + after == 0 {
            return None;
        }
        end += 1 + after;
    }
    let sign = usize::from(matches!(byte(end + 1), Some(b'+' | b'-')));
    if matches!(byte(end), Some(b'e' | b'E')) && digits(end + 1 + sign) > 0 {
        end += 1 + sign + digits(end + 1 + sign);
    }
    if end > before {
        return Some((Token::Fraction(rest.get(..end)?.to_owned()), end));
    }
    if byte(0) == Some(b'0') {
        return Some((Token::Whole("0".to_owned()), 1));
    }
    let suffix = usize::from(matches!(byte(end), Some(b'l' | b'L')));
    Some((Token::Whole(rest.get(..end)?.to_owned()), end + suffix))
}

fn sign(rest: &str) -> Option<(Token, usize)> {
    let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
    Some((Token::Sign(sign), sign.len()))
}
