use super::*;
use proptest::prelude::*;

fn all(bytes: &[u8]) -> Vec<(&str, &str)> {
    parse(bytes).collect()
}

#[test]
fn the_last_separator_may_be_missing() {
    let with = b"KEYS\x01k1 k2\x02TAGS\x01a\x02";
    for bytes in [&with[..], &with[..with.len() - 1]] {
        assert_eq!(all(bytes), [("KEYS", "k1 k2"), ("TAGS", "a")]);
        assert_eq!(find_str(bytes, TAGS), Some("a"));
        assert_eq!(find_str(bytes, KEYS), Some("k1 k2"));
        assert_eq!(find(bytes, "KEY"), None);
        assert_eq!(find(bytes, "EYS"), None);
    }
}

#[test]
fn the_last_of_two_entries_counts() {
    let bytes = b"a\x011\x02b\x012\x02a\x013\x02";
    assert_eq!(all(bytes), [("b", "2"), ("a", "3")]);
    assert_eq!(find_str(bytes, "a"), Some("3"));
}

#[test]
fn entries_without_name_or_value_do_not_count() {
    let bytes = b"a\x011\x02\x01x\x02a\x01\x02c\x02\x02";
    assert_eq!(all(bytes), [("a", "1")]);
    assert_eq!(find_str(bytes, "a"), Some("1"));
    assert_eq!(find(b"", "a"), None);
    assert_eq!(find(b"\x02\x02", ""), None);
}

#[test]
fn a_value_may_contain_the_end_of_a_name() {
    assert_eq!(find(b"a\x01x\x01y\x02", "a"), Some(&b"x\x01y"[..]));
}

#[test]
fn appends_to_a_string_without_its_last_separator() {
    let mut out = b"a\x011".to_vec();
    append(&mut out, [("b", "2")]);
    append(&mut out, [("c", "3")]);
    assert_eq!(out, b"a\x011\x02b\x012\x02c\x013\x02");
}

#[test]
fn the_names_of_rocketmq_are_reserved() {
    for name in ["KEYS", "UNIQ_KEY", "__SHARDINGKEY", "1ST_POP_TIME", "__RMQ.TRANSIENT.TOPIC_SYS_FLAG"] {
        assert!(is_reserved(name), "{name}");
    }
    assert!(!is_reserved("color"));
}

proptest! {
    #[test]
    fn look_up_agrees_with_a_walk(bytes in proptest::collection::vec(prop_oneof![Just(1u8), Just(2), Just(b'a'), Just(b'b'), any::<u8>()], 0..80),
                                  name in "[ab]{1,3}") {
        let walked = entries(&bytes).filter(|(found, _)| *found == name.as_bytes()).last().map(|(_, value)| value);
        prop_assert_eq!(find(&bytes, &name), walked);
        for (name, value) in parse(&bytes) {
            prop_assert_eq!(find_str(&bytes, name), Some(value));
        }
    }

    #[test]
    fn searching_by_words_finds_the_same(bytes in proptest::collection::vec(0u8..4, 0..40), wanted in 0u8..4) {
        prop_assert_eq!(rfind(&bytes, wanted), bytes.iter().rposition(|&byte| byte == wanted));
    }

    #[test]
    fn what_is_pushed_is_read_back(pairs in proptest::collection::btree_map("[a-zA-Z0-9ß]{1,8}", "[ -~ü]{1,12}", 0..6)) {
        let mut out = Vec::new();
        append(&mut out, pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let read: std::collections::BTreeMap<String, String> =
            parse(&out).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        prop_assert_eq!(read, pairs);
    }
}
