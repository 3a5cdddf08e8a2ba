use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> Value<'_> {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn written(value: &Value<'_>) -> String {
    let mut out = Vec::new();
    value.write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn plain_json() {
    let text = r#"{"a":[1,-2.5,1.0E10,true,false,null],"b":{"c":"x\"y\u00e9"},"d":[],"e":{}}"#;
    assert_eq!(written(&parsed(text)), text.replace("\\u00e9", "é"));
    assert_eq!(parsed(text).get("b").unwrap().get("c").unwrap().as_str(), Some("x\"yé"));
    assert_eq!(parsed(" 5 "), Value::Number("5"));
}

#[test]
fn x1_keys_that_are_not_texts() {
    let value = parsed(r#"{0:"a","1":"b",name:1,{"queueId":0,"topic":"t"}:12,null:2}"#);
    let Value::Object(members) = &value else { panic!("not an object") };
    let numbers: Vec<_> = members.iter().map(|(key, _)| key.as_i64()).collect();
    assert_eq!(numbers, [Some(0), Some(1), None, None, None]);
    assert_eq!(value.get("name"), Some(&Value::Number("1")));
    assert_eq!(value.get("null"), Some(&Value::Number("2")));
    assert!(matches!(&members[3].0, Key::Object(key) if key.get("topic").unwrap().as_str() == Some("t")));
    assert_eq!(written(&value), r#"{"0":"a","1":"b","name":1,{"queueId":0,"topic":"t"}:12,"null":2}"#);
}

#[test]
fn a_reference_is_nothing() {
    let value = parsed(r#"[{"a":1},{"$ref":"$[0]"},{"$ref":"$","a":1}]"#);
    let Value::Array(items) = value else { panic!("not a list") };
    assert_eq!(items[1], Value::Null);
    assert!(items[2].get("a").is_some());
}

#[test]
fn numbers_and_truth_in_every_spelling() {
    for (text, number) in [
        ("5", Some(5)),
        ("\"5\"", Some(5)),
        ("5.0", Some(5)),
        ("1e3", Some(1000)),
        ("5.5", None),
        ("9223372036854775807", Some(i64::MAX)),
        ("1e30", None),
        ("\"x\"", None),
        ("true", None),
        ("null", None),
    ] {
        assert_eq!(parsed(text).as_i64(), number, "{text}");
    }
    for (text, truth) in [
        ("true", Some(true)),
        ("\"FALSE\"", Some(false)),
        ("1", Some(true)),
        ("0", Some(false)),
        ("2", None),
        ("null", None),
    ] {
        assert_eq!(parsed(text).as_bool(), truth, "{text}");
    }
    assert_eq!(parsed("1.23456789125E8").as_f64(), Some(123_456_789.125));
    assert_eq!(parsed("NaN").as_f64(), None);
}

#[test]
fn of_two_members_the_last_counts() {
    assert_eq!(parsed(r#"{"a":1,"a":2}"#).get("a"), Some(&Value::Number("2")));
}

#[test]
fn what_is_not_json_is_an_error() {
    for text in [
        "",
        " ",
        "{",
        "[",
        "[1",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":1 \"b\":2}",
        "{1}",
        "tru",
        "-",
        "1.",
        "+1",
        ".5",
        "1e",
        "inf",
        "\"x",
        "\"x\\",
        "{}x",
        "[]]",
        "{,}",
        "[,]",
        "{\"a\":}",
        "'a'",
        "{[1]",
        "1e999",
    ] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize, open: &str| open.repeat(depth);
    for open in ["[", "{\"a\":", "{"] {
        assert!(
            parse(nested(100_000, open).as_bytes()).unwrap_err().to_string().contains("within each other"),
            "{open}"
        );
    }
    assert!(parse(format!("{}{}", "[".repeat(60), "]".repeat(60)).as_bytes()).is_ok());
}

#[test]
fn the_number_of_values_is_limited() {
    assert!(parse_at_most(b"[0,{\"a\":[0]}]", 5).is_ok());
    for text in ["[0,0,0,0,0]", "[[],[],[],[],[]]", "{{\"a\":1}:{\"b\":2},\"c\":3}"] {
        let error = parse_at_most(text.as_bytes(), 5).unwrap_err();
        assert!(error.to_string().contains("too many values"), "{text}: {error}");
    }
}

fn value() -> impl Strategy<Value = Value<'static>> {
    let text = || any::<String>().prop_map(Cow::Owned);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        prop_oneof![Just("0"), Just("-17"), Just("1.5E-5"), Just("9223372036854775807")]
            .prop_map(Value::Number),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let object_key = proptest::collection::vec((text().prop_map(Key::Text), inner.clone()), 2..3)
            .prop_map(Value::Object);
        let key = prop_oneof![4 => text().prop_map(Key::Text), 1 => object_key.prop_map(Key::Object)];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            proptest::collection::vec((key, inner), 0..6).prop_map(Value::Object),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_is_written_is_read_back(value in value()) {
        let text = written(&value);
        let read = parse(text.as_bytes()).unwrap();
        prop_assert_eq!(written(&read), text);
    }

    #[test]
    fn every_prefix_is_an_error(value in value()) {
        let text = written(&Value::Array(vec![value]));
        for length in 0..text.len() {
            prop_assert!(parse(&text.as_bytes()[..length]).is_err(), "{}", length);
        }
    }

    #[test]
    fn what_is_read_is_written_so_that_it_is_read_again(bytes in proptest::collection::vec(
        prop_oneof![Just(b'{'), Just(b'}'), Just(b'['), Just(b']'), Just(b'"'), Just(b':'), Just(b','), Just(b'\\'), Just(b'1'), Just(b'a'), any::<u8>()], 0..40)) {
        if let Ok(value) = parse(&bytes) {
            let text = written(&value);
            prop_assert_eq!(written(&parse(text.as_bytes()).unwrap()), text);
        }
    }
}
