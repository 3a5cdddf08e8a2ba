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
fn whole_numbers() {
    for number in [0, 7, -7, 1_234_567_890, 999_999_999_999_999_999, i64::MAX, i64::MIN] {
        assert_eq!(integer(number.to_string().as_bytes()), Some(number));
    }
    for text in ["", "-", "--1", "1a", "1 ", "9223372036854775808", "99999999999999999999"] {
        assert_eq!(integer(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn quotes_are_found_wherever_they_are() {
    for length in 0..40 {
        for special in [b'"', b'\\'] {
            let mut bytes = vec![b'!'; length];
            bytes.extend_from_slice(&[special, b'#', b'"', b'[', 0x80, 0xa2, 0xdc]);
            assert_eq!(find_quote(&bytes), Some(length));
            assert_eq!(find_quote(&bytes[..length]), None);
            assert_eq!(find_quote(&bytes[length + 3..]), None);
        }
    }
}

proptest::proptest! {
    #[test]
    fn nesting_by_words_is_nesting_by_bytes(text in r#"[\[{]([a-z|\[\]{}"\\,:é]|"[a-z\[\]{}|]{0,20}"){0,40}"#) {
        let mut bytewise = Nesting { depth: 0, in_string: false, escaped: false };
        proptest::prop_assert_eq!(nested_length(text.as_bytes()), bytewise.end(text.as_bytes()));
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
