//! Strict JSON out of parts.

use std::io::Write as _;

/// Appends a string with its quotes. Non-ASCII stays as it is, as all readers take UTF-8.
pub fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(length) = rest.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        let (plain, special) = rest.split_at(length);
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else { break };
        escape(out, *byte);
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Appends a number.
pub fn integer(out: &mut Vec<u8>, number: i64) {
    write!(out, "{number}").expect("a Vec takes all that is written");
}

/// Appends items with commas between them, in a pair of brackets.
pub fn sequence<T>(
    out: &mut Vec<u8>,
    brackets: &[u8; 2],
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    let [open, close] = *brackets;
    out.push(open);
    let start = out.len();
    for item in items {
        if out.len() > start {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(close);
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        8 => out.extend_from_slice(b"\\b"),
        12 => out.extend_from_slice(b"\\f"),
        _ => write!(out, "\\u{byte:04x}").expect("a Vec takes all that is written"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_string_is_read_back() {
        for text in
            ["", "plain", "a\"b\\c\n\r\t\u{8}\u{c}", "\u{0}\u{1}\u{2}\u{1f}\u{7f}", "世界 😀 \u{2028}"]
        {
            let mut out = Vec::new();
            string(&mut out, text);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
