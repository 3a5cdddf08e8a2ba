use proptest::prelude::*;

use super::*;

fn new(text: &str) -> Result<Sql, SqlError> {
    Sql::parse(text, Dialect::New)
}

/// What Apache RocketMQ 5.5.0 makes of each filter for each of the messages at the top: true, false, unknown, or an
/// exception (`x`); or that it refuses the filter. Recorded by `tests/java/Filters.java`.
const APACHE: &str = include_str!("tests/apache-5.5.0.tsv");

/// The properties of a message of the table.
fn message(line: &str) -> Vec<u8> {
    let mut properties = Vec::new();
    for pair in line.split('\t').skip(1) {
        let (name, value) = pair.split_once('=').unwrap();
        properties::append(&mut properties, [(name, value)]);
    }
    properties
}

fn letter(sql: &Sql, properties: &[u8]) -> char {
    match sql.outcome(&|name| properties::find_str(properties, name)) {
        Ok(Some(true)) => 't',
        Ok(Some(false)) => 'f',
        Ok(None) => 'u',
        Err(Incomparable) => 'x',
    }
}

fn compare(table: &str) -> usize {
    let (messages, filters): (Vec<&str>, Vec<&str>) =
        table.lines().partition(|line| line.starts_with("message"));
    let messages: Vec<Vec<u8>> = messages.into_iter().map(message).collect();
    let mut wrong = Vec::new();
    for line in &filters {
        let (filter, theirs) = line.rsplit_once('\t').unwrap();
        let ours = match new(filter) {
            Ok(sql) => messages.iter().map(|properties| letter(&sql, properties)).collect(),
            Err(_) => "refused".to_owned(),
        };
        if ours != theirs {
            wrong.push(format!("{filter}: {ours}, Apache: {theirs}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), filters.len(), wrong.join("\n"));
    filters.len()
}

#[test]
fn the_same_as_apache() {
    assert!(compare(APACHE) > 300);
}

#[test]
fn a_mistake_is_told_with_its_place() {
    let said = |text| new(text).unwrap_err().to_string();
    assert_eq!(said("amount >"), "the end in place of a property or a value at line 1, column 9");
    assert_eq!(said("a = 1 AND\n b == 2"), "`=` in place of a property or a value at line 2, column 5");
    assert_eq!(said("标签 = 1"), "`标` means nothing here at line 1, column 1");
    assert_eq!(said("a = 'open"), "a text without its end at line 1, column 5");
    assert_eq!(said("a IN (1)"), "1 in place of a text in single quotes at line 1, column 7");
    assert_eq!(said("a BETWEEN 5 AND 1"), "the lower bound comes first at line 1, column 3");
    assert_eq!(said("a NOT 1"), "1 in place of BETWEEN, IN or CONTAINS at line 1, column 7");
    assert_eq!(said("a = 1 AND 5"), "a number or a text is neither true nor false at line 1, column 11");
    assert_eq!(said("a IS 1"), "1 in place of NULL at line 1, column 6");
}

#[test]
fn words_of_5_are_names_before_it() {
    let old = |text| Sql::parse(text, Dialect::Old).unwrap();
    assert!(old("contains = 'x'").matches(b"contains\x01x\x02"));
    // What follows the name is not read, and a name alone is no truth.
    assert!(!old("b CONTAINS 'x'").matches(b"b\x01x\x02"));
    assert!(new("b CONTAINS 'x'").unwrap().matches(b"b\x01x\x02"));
    assert!(new("contains = 'x'").is_err());
}

#[test]
fn a_long_filter_is_fine_and_a_deep_one_is_refused() {
    let long = vec!["a = 1"; 100_000].join(" OR ");
    assert!(new(&long).unwrap().matches(b"a\x011\x02"));
    let nested = |n| format!("{}a = 1{}", "(".repeat(n), ")".repeat(n));
    assert!(new(&nested(99)).unwrap().matches(b"a\x011\x02"));
    for deep in [
        nested(100_000),
        format!("{} a", "NOT ".repeat(100_000)),
        format!("a = {}1", "- ".repeat(100_000)),
        vec!["a"; 100_000].join(" = "),
        format!("a {}", "IS NULL ".repeat(100_000)),
        format!("'a' {}", "CONTAINS 'b' ".repeat(100_000)),
    ] {
        assert!(new(&deep).unwrap_err().problem.contains("within each other"));
    }
    // As deep and as linked as can be.
    let mut most = "a = 1".to_owned();
    for _ in 0..99 {
        most = format!("({most}) <> b AND NOT (c = 1 OR d > 1 = TRUE)");
    }
    assert!(new(&most).is_err());
    let mut most = "a = 1".to_owned();
    for _ in 0..49 {
        most = format!("NOT ({most} AND c = 1 OR d IS NULL)");
    }
    assert!(!new(&most).unwrap().clone().matches(b"c\x011\x02"));
}

/// Pieces of filters, in any order.
fn soup() -> impl Strategy<Value = String> {
    let pieces = [
        "a",
        "b",
        "1",
        "2.5",
        "1L",
        "'x'",
        "'1'",
        "TRUE",
        "FALSE",
        "NULL",
        "NOT",
        "AND",
        "OR",
        "IS",
        "IN",
        "BETWEEN",
        "CONTAINS",
        "STARTSWITH",
        "ENDSWITH",
        "(",
        ")",
        ",",
        "+",
        "-",
        "=",
        "<>",
        ">",
        ">=",
        "<",
        "<=",
        "--",
        "/*",
        "*/",
        "\n",
        "'",
        ".",
        "0",
        "é",
    ];
    proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..40)
        .prop_map(|words| words.join(" "))
}

/// A filter that is well formed.
fn filter() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec![
        "a = 1",
        "a <> b",
        "b > 2.5",
        "a IS NULL",
        "b IN ('1', 'x')",
        "a BETWEEN 0 AND 9",
        "b CONTAINS '1'",
        "NULL",
        "TRUE",
        "FALSE",
        "c",
        "b NOT IN ('x')",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(6, 60, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|f| format!("NOT ({f})")),
            (inner.clone(), inner.clone()).prop_map(|(f, g)| format!("({f}) AND ({g})")),
            (inner.clone(), inner).prop_map(|(f, g)| format!("({f}) OR ({g})")),
        ]
    })
}

fn properties() -> impl Strategy<Value = Vec<u8>> {
    let value = proptest::sample::select(vec!["1", "x", "-2.5", "1e9", "NaN", "true", "ü"]);
    let name = proptest::sample::select(vec!["a", "b", "c"]);
    proptest::collection::btree_map(name, value, 0..3).prop_map(|pairs| {
        let mut out = Vec::new();
        properties::append(&mut out, pairs);
        out
    })
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".*", words in soup(), message in properties()) {
        for text in [text, words] {
            for dialect in [Dialect::Old, Dialect::New] {
                if let Ok(sql) = Sql::parse(&text, dialect) {
                    sql.matches(&message);
                }
            }
        }
    }

    #[test]
    fn any_bytes_may_be_a_message(text in filter(), message in proptest::collection::vec(any::<u8>(), 0..60)) {
        new(&text).unwrap().matches(&message);
    }

    #[test]
    fn truths_are_three_and_follow_the_usual_laws(f in filter(), g in filter(), message in properties()) {
        let of = |text: &str| letter(&new(text).unwrap(), &message);
        let (a, b) = (of(&f), of(&g));
        prop_assert_eq!(of(&format!("NOT (NOT ({f}))")), a);
        if a != 'x' && b != 'x' {
            prop_assert_eq!(of(&format!("({f}) AND ({g})")), of(&format!("({g}) AND ({f})")));
            prop_assert_eq!(of(&format!("NOT (({f}) AND ({g}))")), of(&format!("NOT ({f}) OR NOT ({g})")));
        }
    }
}
