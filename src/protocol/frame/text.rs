use std::ops::ControlFlow;

use super::{Head, Part};
use crate::protocol::json::scan::{Raw, Scanner, find_quote, nested_length};
use crate::protocol::json::write;
use crate::protocol::{DecodeError, Language, RemotingCommand};

/// Writes a JSON header. `extFields` is always there: Java clients read fields of some answers without looking.
pub(super) fn write(command: &RemotingCommand, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"code\":");
    write::integer(out, command.code.into());
    out.extend_from_slice(b",\"extFields\":{");
    for (index, (name, value)) in command.fields.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write::string(out, name);
        out.push(b':');
        write::string(out, value);
    }
    out.extend_from_slice(b"},\"flag\":");
    write::integer(out, command.flag.into());
    out.extend_from_slice(b",\"language\":");
    // A number out of Java's range would be an exception there.
    write::string(out, command.language.name().unwrap_or("OTHER"));
    out.extend_from_slice(b",\"opaque\":");
    write::integer(out, command.opaque.into());
    if let Some(remark) = &command.remark {
        out.extend_from_slice(b",\"remark\":");
        write::string(out, remark);
    }
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    write::integer(out, command.version.into());
    out.push(b'}');
}

/// Reads a header as Java writes it: no white space, no escapes in names, nothing unexpected. `None` if it is
/// otherwise, or wrong; [`walk`] takes care of that.
///
/// Every frame passes here on the thread that serves all sockets.
pub(super) fn quick_head(header: &[u8]) -> Option<Head> {
    let (mut code, mut opaque, mut flag) = (None, None, None);
    let mut rest = header.strip_prefix(b"{")?;
    loop {
        let (name, after) = quick_string(rest)?;
        rest = after.strip_prefix(b":")?;
        rest = match rest.first()? {
            b'"' => quick_string(rest)?.1,
            b'{' | b'[' => rest.get(nested_length(rest)?..)?,
            _ => {
                let (number, after) = quick_integer(rest)?;
                match name {
                    b"code" => code = Some(number),
                    b"opaque" => opaque = Some(number),
                    b"flag" => flag = Some(number),
                    _ => {}
                }
                if let (Some(code), Some(opaque), Some(flag)) = (code, opaque, flag) {
                    return Some(Head { code, opaque, flag });
                }
                after
            }
        };
        rest = rest.strip_prefix(b",")?;
    }
}

/// Shows every member of a header and of its fields, as text: whether it is one of the fields, its name, its value.
/// `None` under the same conditions as [`quick_head`], or if the visitor has had enough.
pub(super) fn quick_walk<'a>(
    header: &'a [u8],
    mut visit: impl FnMut(bool, &'a [u8], &'a [u8]) -> Option<()>,
) -> Option<()> {
    let mut rest = header.strip_prefix(b"{")?;
    let mut within_fields = false;
    loop {
        let (name, after) = quick_string(rest)?;
        let value = after.strip_prefix(b":")?;
        rest = match value.split_first()? {
            (b'"', _) => {
                let (value, after) = quick_string(value)?;
                visit(within_fields, name, value)?;
                after
            }
            (b'{', fields) if !within_fields && name == b"extFields" => {
                within_fields = true;
                if fields.first() != Some(&b'}') {
                    rest = fields;
                    continue;
                }
                fields
            }
            _ => {
                let digits = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
                let (value, after) =
                    value.split_at_checked(value.iter().take_while(|byte| digits(byte)).count())?;
                visit(within_fields, name, value)?;
                after
            }
        };
        if within_fields && let Some(after) = rest.strip_prefix(b"}") {
            within_fields = false;
            rest = after;
        }
        rest = match rest.split_first()? {
            (b',', after) => after,
            (b'}', after) if !within_fields => return after.is_empty().then_some(()),
            _ => return None,
        };
    }
}

/// The inside of the string that begins here, and what comes after it.
#[inline]
fn quick_string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let (inside, after) = text.split_at_checked(find_quote(text)?)?;
    Some((inside, after.strip_prefix(b"\"")?))
}

/// The number that begins here.
#[inline]
fn quick_integer(text: &[u8]) -> Option<(i32, &[u8])> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let length = digits.iter().take(11).take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 {
        return None;
    }
    let (digits_only, after) = digits.split_at_checked(length)?;
    let number = digits_only.iter().fold(0i64, |number, digit| number * 10 + i64::from(digit - b'0'));
    let number = if digits.len() < text.len() { -number } else { number };
    Some((i32::try_from(number).ok()?, after))
}

pub(super) fn walk<'a>(
    header: &'a [u8],
    fields: bool,
    mut visit: impl FnMut(Part<'a>) -> Result<ControlFlow<()>, DecodeError>,
) -> Result<(), DecodeError> {
    let mut scanner = Scanner::new(header);
    scanner.expect(b'{')?;
    let mut first = true;
    while let Some(name) = scanner.member(&mut first)? {
        if name.raw == b"extFields" && fields && scanner.peek() == Some(b'{') {
            walk_fields(&mut scanner, &mut visit)?;
            continue;
        }
        let value = scanner.value()?;
        let integer = || value.integer().ok_or_else(|| scanner.error("not a number"));
        let part = match name.raw {
            b"code" => Part::Code(integer()?),
            b"opaque" => Part::Opaque(integer()?),
            b"flag" => Part::Flag(integer()?),
            b"version" => Part::Version(integer()?),
            b"language" => Part::Language(language(value)),
            b"remark" => match value.text() {
                // The binary encoding cannot tell an empty remark from none, so neither do we.
                Some(text) if !text.raw.is_empty() => Part::Remark(text),
                _ => continue,
            },
            _ => continue,
        };
        if visit(part)?.is_break() {
            return Ok(());
        }
    }
    scanner.end()
}

fn walk_fields<'a>(
    scanner: &mut Scanner<'a>,
    visit: &mut impl FnMut(Part<'a>) -> Result<ControlFlow<()>, DecodeError>,
) -> Result<(), DecodeError> {
    scanner.expect(b'{')?;
    let mut first = true;
    while let Some(name) = scanner.member(&mut first)? {
        if let Some(value) = scanner.value()?.text() {
            let _ = visit(Part::Field(name, value))?;
        }
    }
    Ok(())
}

/// By name or by ordinal.
fn language(value: Raw<'_>) -> Language {
    match value.text() {
        None => Language::UNKNOWN,
        Some(text) => match std::str::from_utf8(text.raw) {
            Ok(name) => name.parse().map_or_else(|_| Language::from_name(name), Language),
            Err(_) => Language::UNKNOWN,
        },
    }
}
