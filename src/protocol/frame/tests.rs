use proptest::prelude::*;

use super::*;
use crate::protocol::RequestCode;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn route_request() -> RemotingCommand {
    let mut command = RemotingCommand::request(RequestCode::GET_ROUTEINFO_BY_TOPIC).field("topic", "T");
    command.opaque = 7;
    command
}

fn encoded(command: &RemotingCommand, encoding: Encoding) -> Vec<u8> {
    let mut out = Vec::new();
    encode(command, encoding, &mut out).unwrap();
    out
}

fn json_frame(header: &str) -> Frame {
    let mut bytes = ((4 + header.len()) as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&(header.len() as u32).to_be_bytes());
    bytes.extend_from_slice(header.as_bytes());
    Frame::parse(bytes).unwrap()
}

#[test]
fn a_route_request_in_both_encodings() {
    let binary =
        "00000025 01000021 0069 0c 0199 00000007 00000000 00000000 0000000c 0005 746f706963 00000001 54";
    assert_eq!(encoded(&route_request(), Encoding::Binary), hex(binary));
    let json = r#"{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"RUST","opaque":7,"serializeTypeCurrentRPC":"JSON","version":409}"#;
    let mut expected = hex("0000007f 0000007b");
    expected.extend_from_slice(json.as_bytes());
    assert_eq!(encoded(&route_request(), Encoding::Json), expected);
}

#[test]
fn what_is_written_is_read_back() {
    let mut command =
        route_request().oneway().body(b"body".to_vec()).remark("a \"remark\"\nüber zwei Zeilen");
    command.fields.set("i", "KEYS\u{1}k\u{2}WAIT\u{1}true");
    command.opaque = -5;
    for encoding in [Encoding::Json, Encoding::Binary] {
        let frame = Frame::parse(encoded(&command, encoding)).unwrap();
        assert_eq!(frame.encoding(), encoding);
        assert_eq!(frame.command().unwrap(), command);
        assert_eq!(frame.head(), Ok(Head { code: 105, opaque: -5, flag: 2 }));
        assert_eq!(frame.body(), b"body");
        assert_eq!(&frame.bytes()[frame.body_range()], b"body");
    }
}

#[test]
fn x13_pop_codes_are_written_as_json() {
    let command = RemotingCommand::request(RequestCode::POP_MESSAGE);
    let frame = Frame::parse(encoded(&command, Encoding::Binary)).unwrap();
    assert_eq!((frame.encoding(), frame.head().unwrap().code), (Encoding::Json, 200050));
}

#[test]
fn reads_headers_as_leniently_as_java() {
    let frame = json_frame(
        r#" {"version":"479" , "opaque":"12","language":3,"extFields":{"a":1,"b":true,"c":null,"d":"x","d":"y"},
           "code":11,"unknown":{"x":["}"]},"remark":null,"flag":1} "#,
    );
    let command = frame.command().unwrap();
    assert_eq!(frame.head(), Ok(Head { code: 11, opaque: 12, flag: 1 }));
    assert_eq!((command.version, command.language, command.remark), (479, Language(3), None));
    assert_eq!(command.fields, Fields::from_iter([("a", "1"), ("b", "true"), ("d", "y")]));
    let command = json_frame(r#"{"extFields":null,"language":"KLINGON"}"#).command().unwrap();
    assert_eq!((command.code, command.language, command.fields.is_empty()), (0, Language::UNKNOWN, true));
    assert_eq!(json_frame(r#"{code:5,opaque:1}"#).command().unwrap().code, 5);
}

#[test]
fn headers_that_are_not_json_are_errors() {
    for header in ["", "x", "[]", "{", r#"{"code":"x"}"#, r#"{"code":1"#, r#"{"code":99999999999}"#, "{}{}"] {
        assert!(json_frame(header).command().is_err(), "{header}");
    }
}

#[test]
fn binary_headers_with_wrong_lengths_are_errors() {
    let good = encoded(&route_request().remark("r"), Encoding::Binary);
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        Frame::parse(changed).unwrap().command()
    };
    assert!(with(21, &[0, 0, 0, 99]).is_err(), "remark beyond the header");
    assert!(with(21, &[0xff; 4]).is_err(), "negative remark length");
    assert!(with(26, &[0, 0, 0, 99]).is_err(), "fields beyond the header");
    assert!(with(26, &[0xff; 4]).unwrap().fields.is_empty(), "negative field length");
    assert!(with(30, &[0, 99]).is_err(), "name beyond the section");
    assert!(with(30, &[0xff; 2]).is_err(), "negative name length");
    assert!(with(37, &[0, 0, 0, 9]).is_err(), "value beyond the section");
    assert!(with(37, &[0xff; 4]).is_err(), "negative value length");
    assert!(with(37, &[0, 0, 0, 0]).is_err(), "half an entry");
}

#[test]
fn x6_lengths_out_of_bounds_are_errors_at_once() {
    for (bytes, wrong) in [
        ("00fffffd", true),
        ("00fffffc", false),
        ("00000003", true),
        ("ffffffff", true),
        ("00000004 02", false),
        ("00000004 02000000", true),
        ("00000004 00000001", true),
        ("00000004 0000", false),
    ] {
        let mut decoder = FrameDecoder::new(MAX_FRAME);
        decoder.feed(&hex(bytes));
        assert_eq!(decoder.next_frame().is_err(), wrong, "{bytes}");
        assert_eq!(decoder.next_frame().is_err(), wrong, "{bytes} again");
    }
}

#[test]
fn a_frame_over_the_limit_is_not_encoded() {
    let mut out = b"before".to_vec();
    let error = encode(&route_request().body(vec![0; MAX_FRAME]), Encoding::Json, &mut out).unwrap_err();
    assert!(error.is_too_large());
    assert_eq!(out, b"before");
}

#[test]
fn frames_come_out_of_any_pieces() {
    let mut stream = Vec::new();
    let bodies = [0usize, 1, 100, 5000, 70_000, 3, 300_000, 7, 255_000, 1_000_000, 2];
    for (opaque, size) in (0..).zip(bodies) {
        let mut command = route_request().body(vec![opaque as u8; size]);
        command.opaque = opaque;
        stream.extend_from_slice(&encoded(&command, Encoding::Json));
    }
    for piece in [997, 65_536, 262_144, 300_001, usize::MAX] {
        let mut decoder = FrameDecoder::new(MAX_FRAME);
        let mut opaques = Vec::new();
        for bytes in stream.chunks(piece.min(stream.len())) {
            decoder.feed(bytes);
            while let Some(frame) = decoder.next_frame().unwrap() {
                let head = frame.head().unwrap();
                assert_eq!(frame.body().len(), bodies[head.opaque as usize]);
                assert!(frame.body().iter().all(|byte| i32::from(*byte) == head.opaque));
                opaques.push(head.opaque);
            }
        }
        assert_eq!(opaques, (0..11).collect::<Vec<_>>(), "pieces of {piece}");
        assert_eq!(decoder.buffered(), 0);
    }
}

#[test]
fn reads_like_those_of_a_socket_always_have_room() {
    let mut stream = Vec::new();
    for size in [400_000usize, 10, 200_000, 262_130, 131_072, 64] {
        stream.extend_from_slice(&encoded(&route_request().body(vec![1; size]), Encoding::Binary));
    }
    let mut decoder = FrameDecoder::new(MAX_FRAME);
    let (mut rest, mut frames, mut step) = (&stream[..], 0, 1usize);
    while !rest.is_empty() {
        let spare = decoder.spare();
        assert!(!spare.is_empty());
        step = step * 7 % 99_991 + 1;
        let count = spare.len().min(rest.len()).min(step);
        spare[..count].copy_from_slice(&rest[..count]);
        decoder.filled(count);
        rest = &rest[count..];
        while decoder.next_frame().unwrap().is_some() {
            frames += 1;
        }
    }
    assert_eq!(frames, 6);
}

#[test]
fn x6_an_announced_length_allocates_nothing() {
    let mut decoder = FrameDecoder::new(MAX_FRAME);
    decoder.feed(&hex("00fffffc 00000010"));
    assert_eq!(decoder.next_frame(), Ok(None));
    assert!(decoder.spare().len() <= 64 * 1024);
}

#[test]
fn answers_of_pulls() {
    let answer = |code: i32, fields: &[(&str, &str)]| {
        let mut command = RemotingCommand::response(ResponseCode(code), 3).remark("text");
        command.fields = fields.iter().copied().collect();
        [Encoding::Json, Encoding::Binary]
            .map(|encoding| Frame::parse(encoded(&command, encoding)).unwrap().pull_answer())
    };
    let offsets = [
        ("suggestWhichBrokerId", "1"),
        ("nextBeginOffset", "7"),
        ("minOffset", "2"),
        ("maxOffset", "9"),
        ("x", "y"),
    ];
    for found in answer(0, &offsets) {
        let expected = PullOffsets {
            next_begin_offset: 7,
            min_offset: 2,
            max_offset: 9,
            suggest_which_broker_id: 1,
            offset_delta: 0,
        };
        assert_eq!(
            found,
            Ok(PullAnswer { code: ResponseCode::SUCCESS, offsets: Some(expected), remark: None })
        );
    }
    for refused in answer(25, &[]) {
        let remark = Some("text".to_owned());
        assert_eq!(
            refused,
            Ok(PullAnswer { code: ResponseCode::SUBSCRIPTION_NOT_LATEST, offsets: None, remark })
        );
    }
    for broken in answer(19, &offsets[1..]).into_iter().chain(answer(0, &[("minOffset", "x")])) {
        assert!(broken.is_err());
    }
}

fn any_command() -> impl Strategy<Value = RemotingCommand> {
    let fields = proptest::collection::vec((any::<String>(), any::<String>()), 0..6);
    let numbers = any::<(i16, u8, i16, i32, i32)>();
    let remark = proptest::option::of("[^\u{0}]{1,20}");
    (numbers, remark, fields, proptest::collection::vec(any::<u8>(), 0..40)).prop_map(
        |((code, language, version, opaque, flag), remark, fields, body)| {
            let mut command = RemotingCommand::response(ResponseCode(code.into()), opaque).body(body);
            command.language = Language(language % 14);
            (command.version, command.flag, command.remark) = (version.into(), flag, remark);
            for (name, value) in fields {
                command.fields.set(name, value);
            }
            command
        },
    )
}

/// `head` without the short way that Java's own form of a header takes.
fn long_head(frame: &Frame) -> Result<Head, DecodeError> {
    frame.command().map(|command| Head { code: command.code, opaque: command.opaque, flag: command.flag })
}

proptest! {
    #[test]
    fn any_command_is_read_back(command in any_command()) {
        for encoding in [Encoding::Json, Encoding::Binary] {
            let bytes = encoded(&command, encoding);
            let frame = Frame::parse(bytes.clone()).unwrap();
            prop_assert_eq!(frame.encoding(), encoding);
            prop_assert_eq!(frame.head(), long_head(&frame));
            prop_assert_eq!(frame.command().unwrap(), command.clone());

            // Byte by byte: a frame that has not come whole is neither a frame nor an error.
            let mut decoder = FrameDecoder::new(MAX_FRAME);
            let (last, before) = bytes.split_last().unwrap();
            for byte in before {
                decoder.feed(&[*byte]);
                prop_assert_eq!(decoder.next_frame(), Ok(None));
            }
            decoder.feed(&[*last]);
            prop_assert_eq!(decoder.next_frame(), Ok(Some(frame)));
        }
    }

    #[test]
    fn damaged_headers_do_no_harm(command in any_command(), at: usize, byte: u8, cut: usize) {
        for encoding in [Encoding::Json, Encoding::Binary] {
            let mut bytes = encoded(&command, encoding);
            bytes.truncate(8 + cut % (bytes.len() - 7));
            let at = 8 + at % (bytes.len() - 7);
            if let Some(damaged) = bytes.get_mut(at) {
                *damaged = byte;
            }
            let length = (bytes.len() - 4) as u32;
            bytes[..4].copy_from_slice(&length.to_be_bytes());
            let Ok(frame) = Frame::parse(bytes) else { continue };
            let _ = frame.pull_answer();
            if let Ok(head) = long_head(&frame) {
                prop_assert_eq!(frame.head(), Ok(head));
            }
        }
    }

    #[test]
    fn x6_any_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut decoder = FrameDecoder::new(MAX_FRAME);
        decoder.feed(&bytes);
        while let Ok(Some(frame)) = decoder.next_frame() {
            let _ = (frame.head(), frame.command(), frame.pull_answer());
        }
        let header = String::from_utf8_lossy(&bytes).into_owned();
        let _ = (json_frame(&header).head(), json_frame(&header).command());
    }

    #[test]
    fn the_short_way_to_the_head_is_the_long_way(header in r#"\{("(code|opaque|flag|a)":(-?[0-9]{1,11}|"[0-9a\\"]{0,3}"|\{"b":"[\\"{}]{0,3}"\}|\[\]|null),?){0,5}\}?"#) {
        let frame = json_frame(&header);
        let text = frame.bytes()[8..].to_vec();
        let repeated = ["\"code\"", "\"opaque\"", "\"flag\""].iter().any(|name| header.matches(name).count() > 1);
        if let Ok(head) = long_head(&frame) && !repeated {
            prop_assert_eq!(text::quick_head(&text).unwrap_or(head), head);
            prop_assert_eq!(frame.head(), Ok(head));
        }
    }
}

#[test]
fn a_pull_answer_reads_the_same_by_the_quick_way_and_by_the_long_one() {
    let fields = r#""nextBeginOffset":"42","minOffset":"0","maxOffset":"99","suggestWhichBrokerId":"1""#;
    let texts = [
        format!(
            r#"{{"code":0,"extFields":{{{fields}}},"flag":1,"language":"JAVA","opaque":7,"remark":"FOUND","version":455}}"#
        ),
        format!(r#"{{"code":0,"flag":1,"extFields":{{{fields},"offsetDelta":"-3"}},"opaque":7}}"#),
        format!(r#"{{"code":19,"extFields":{{{fields}}},"flag":1,"remark":"a \"quoted\" word","opaque":7}}"#),
        format!(r#"{{"code":21,"extFields":{{{fields}}},"flag":1,"remark":"OFFSET_RESET","opaque":7}}"#),
        format!(r#"{{ "code" : 20, "extFields" : {{ {fields} }}, "flag" : 1 }}"#),
        r#"{"code":1,"extFields":{},"flag":1,"opaque":7,"remark":"no"}"#.to_owned(),
    ];
    for text in texts {
        let mut bytes = (text.len() as u32 + 4).to_be_bytes().to_vec();
        bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
        let frame = Frame::parse(bytes).unwrap();
        let command = frame.command().unwrap();
        let answer = frame.pull_answer().unwrap();
        assert_eq!(answer.code.0, command.code, "{text}");
        let field = |name| command.fields.get(name).map_or(0, |value| value.parse().unwrap());
        let told = answer.offsets.unwrap_or_default();
        assert_eq!(told.next_begin_offset, field("nextBeginOffset"), "{text}");
        assert_eq!(
            (told.max_offset, told.offset_delta),
            (field("maxOffset"), field("offsetDelta")),
            "{text}"
        );
        assert_eq!(answer.remark.is_some(), [1, 21].contains(&command.code), "{text}");
    }
}
