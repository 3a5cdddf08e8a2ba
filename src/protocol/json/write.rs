//! Strict JSON out of parts.

use std::io::Write as _;

use super::scan::{HIGH, LOW, zeros};

/// Appends a string with its quotes. Non-ASCII stays as it is, as all readers take UTF-8.
pub fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(length) = find_special(rest) {
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
    out.extend_from_slice(decimal(number, &mut [0; 20]));
}

/// The digits of a number. The formatting of the standard library costs several times as much, and a header has a dozen
/// numbers.
pub fn decimal(number: i64, buffer: &mut [u8; 20]) -> &[u8] {
    let (mut rest, mut start) = (number.unsigned_abs(), buffer.len());
    for slot in buffer.iter_mut().rev() {
        start -= 1;
        // Less than ten.
        *slot = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        start -= 1;
        buffer[start] = b'-';
    }
    &buffer[start..]
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

/// Where the first byte is that cannot stand in a string; eight bytes at a time.
fn find_special(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let controls = word.wrapping_sub(LOW * 0x20) & !word & HIGH;
        let hits = controls | zeros(word ^ (LOW * b'"' as u64)) | zeros(word ^ (LOW * b'\\' as u64));
        if hits != 0 {
            return Some(index * 8 + hits.trailing_zeros() as usize / 8);
        }
    }
    let found = rest.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\'))?;
    Some(words.len() * 8 + found)
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
    fn numbers_are_written_in_full() {
        for number in [0, 1, -1, 9, 10, -10, 4711, i64::MAX, i64::MIN, i64::MIN + 1] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }

    #[test]
    fn special_bytes_are_found_wherever_they_are() {
        for length in 0..30 {
            for special in [0, 1, 0x1f, b'"', b'\\'] {
                let mut bytes = vec![b' '; length];
                bytes.extend_from_slice(&[special, b'!', 0x21, 0x7f, 0x80, 0xff, b'[', b'#']);
                assert_eq!(find_special(&bytes), Some(length));
                assert_eq!(find_special(&bytes[..length]), None);
                assert_eq!(find_special(&bytes[length + 1..]), None);
            }
        }
    }

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
