use super::*;
use std::io;

fn attempt(server: &str, kind: ErrorKind, detail: &str) -> Attempt {
    Attempt::new(server, kind, detail, Duration::from_millis(12))
}

#[test]
fn an_error_is_one_word_wide_and_goes_anywhere() {
    fn goes_anywhere<T: Send + Sync + StdError + 'static>() {}
    goes_anywhere::<Error>();
    assert_eq!(size_of::<Error>(), size_of::<usize>());
    assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
}

#[test]
fn the_text_names_every_server_and_its_cause() {
    let error = Error::unreachable(
        "route of topic orders",
        vec![
            attempt("10.0.0.1:9876", ErrorKind::Unreachable, "connection refused"),
            attempt("10.0.0.2:9876", ErrorKind::Timeout, ""),
        ],
    );
    let text = error.to_string();
    assert_eq!(
        text,
        "route of topic orders: no server could be reached: 10.0.0.1:9876: connection refused (after 12.0ms); \
         10.0.0.2:9876: timeout (after 12.0ms)"
    );
    assert_eq!(error.attempts().len(), 2);
    assert!(error.is_retryable());
}

#[test]
fn all_mistakes_stand_in_one_line() {
    let error = Error::config(vec![
        Mistake::new("name_servers", "none given"),
        Mistake::new("consume_threads", "0, but at least 1 is needed"),
    ]);
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(error.mistakes().len(), 2);
    assert_eq!(
        error.to_string(),
        "wrong settings: name_servers: none given; consume_threads: 0, but at least 1 is needed"
    );
    assert!(!error.is_retryable());
}

#[test]
fn debug_prints_the_chain_and_display_does_not() {
    let error = Error::io("cannot read /tmp/offsets.json", io::Error::other("disk on fire"));
    assert_eq!(error.to_string(), "cannot read /tmp/offsets.json");
    assert_eq!(format!("{error:?}"), "cannot read /tmp/offsets.json; caused by: disk on fire");
}

#[test]
fn answers_map_to_kinds() {
    let table = [
        (ResponseCode::TOPIC_NOT_EXIST, "", ErrorKind::TopicNotFound),
        (ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, "", ErrorKind::GroupNotFound),
        (ResponseCode::SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE]broker busy", ErrorKind::Busy),
        (ResponseCode::FLOW_CONTROL, "", ErrorKind::Busy),
        (ResponseCode::NO_PERMISSION, "", ErrorKind::Refused),
        (
            ResponseCode::SYSTEM_ERROR,
            "org.apache.rocketmq.acl.common.AclException: Check signature failed for accessKey=x",
            ErrorKind::Refused,
        ),
        (ResponseCode::SYSTEM_ERROR, "java.lang.NullPointerException", ErrorKind::Broker),
        (ResponseCode::MESSAGE_ILLEGAL, "", ErrorKind::Broker),
        (ResponseCode(31999), "", ErrorKind::Broker),
    ];
    for (code, remark, kind) in table {
        let error = Error::answer("send", "10.0.0.1:10911", code, Some(remark));
        assert_eq!(error.kind(), kind, "{code:?} {remark}");
        assert_eq!(error.code(), Some(code));
    }
}

#[test]
fn a_long_remark_stays_one_short_line() {
    let remark = format!("first line{}\nsecond line", "x".repeat(1000));
    let text = Error::answer("send", "b:1", ResponseCode::SYSTEM_ERROR, Some(&remark)).to_string();
    assert!(!text.contains('\n') && text.len() < 400, "{text}");
}

#[test]
fn the_code_is_that_of_the_last_answer() {
    let error = Error::failed(
        "send",
        vec![
            Attempt::answered("a:1", ResponseCode::SYSTEM_BUSY, None, Duration::ZERO),
            attempt("b:1", ErrorKind::Timeout, ""),
        ],
    );
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(error.code(), Some(ResponseCode::SYSTEM_BUSY));
}
