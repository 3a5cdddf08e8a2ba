//! The frame of a pull answer, written by hand: pulls are most of what a busy broker answers, and the messages should
//! be copied once, from the store into the frame.

use std::io;

use super::request::ReplyTo;
use super::store::{Entry, Found, Status, Store};
use super::wanted::Wanted;
use crate::protocol::{Encoding, Language, ResponseCode};

/// A pull that passed all checks: what is needed to look, to look again, and to answer.
#[derive(Clone, Debug)]
pub(crate) struct Pull {
    pub(crate) to: ReplyTo,
    pub(crate) group: String,
    pub(crate) topic: String,
    pub(crate) queue_id: i32,
    pub(crate) offset: i64,
    pub(crate) max_messages: usize,
    pub(crate) wanted: Wanted,
}

/// The code that goes with the outcome of a look-up.
pub(crate) fn code_of(status: Status, offset: i64) -> ResponseCode {
    match status {
        Status::Found => ResponseCode::SUCCESS,
        Status::NoMatchedMessage => ResponseCode::PULL_RETRY_IMMEDIATELY,
        Status::OffsetOverflowOne => ResponseCode::PULL_NOT_FOUND,
        Status::NoMatchedLogicQueue | Status::NoMessageInQueue if offset == 0 => ResponseCode::PULL_NOT_FOUND,
        _ => ResponseCode::PULL_OFFSET_MOVED,
    }
}

/// What a broker adds to each answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) version: i32,
    /// The two fields that brokers 5.x add.
    pub(crate) sys_flags: bool,
    /// The broker id to ask next.
    pub(crate) suggested: i64,
}

/// The whole frame.
pub(crate) fn frame(
    to: &ReplyTo,
    code: ResponseCode,
    found: &Found,
    manner: Manner,
    store: &Store,
    entries: &[Entry],
) -> io::Result<Vec<u8>> {
    let body: usize = entries.iter().map(|entry| entry.size as usize).sum();
    let mut out = Vec::with_capacity(body + 512);
    out.extend_from_slice(&[0; 8]);
    match to.encoding {
        Encoding::Json => json(&mut out, to, code, found, manner),
        Encoding::Binary => binary(&mut out, to, code, found, manner),
    }
    let header = out.len() - 8;
    store.read_all(entries, &mut out)?;
    let kind = if to.encoding == Encoding::Binary { 1 << 24 } else { 0 };
    // At most 256 KiB, or one message, which came in a frame itself.
    let length = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out[4..8].copy_from_slice(&(kind | header as u32).to_be_bytes());
    Ok(out)
}

type Field = (&'static str, i64);

fn fields(found: &Found, manner: Manner) -> impl Iterator<Item = Field> {
    let always = [
        ("suggestWhichBrokerId", manner.suggested),
        ("nextBeginOffset", found.next),
        ("minOffset", found.min),
        ("maxOffset", found.max),
    ];
    let of_5 = [("topicSysFlag", 0), ("groupSysFlag", 0)];
    always.into_iter().chain(of_5.into_iter().filter(move |_| manner.sys_flags))
}

fn json(out: &mut Vec<u8>, to: &ReplyTo, code: ResponseCode, found: &Found, manner: Manner) {
    out.extend_from_slice(b"{\"code\":");
    push_number(out, code.0.into());
    out.extend_from_slice(b",\"extFields\":{");
    for (i, (name, value)) in fields(found, manner).enumerate() {
        out.extend_from_slice(if i == 0 { b"\"" } else { b",\"" });
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":\"");
        push_number(out, value);
        out.push(b'"');
    }
    out.extend_from_slice(b"},\"flag\":1,\"language\":\"RUST\",\"opaque\":");
    push_number(out, to.wire_opaque().into());
    out.extend_from_slice(b",\"remark\":\"");
    out.extend_from_slice(found.status.name().as_bytes());
    out.extend_from_slice(b"\",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    push_number(out, manner.version.into());
    out.push(b'}');
}

fn binary(out: &mut Vec<u8>, to: &ReplyTo, code: ResponseCode, found: &Found, manner: Manner) {
    out.extend_from_slice(&(code.0 as u16).to_be_bytes());
    out.push(Language::RUST.0);
    out.extend_from_slice(&(manner.version as u16).to_be_bytes());
    out.extend_from_slice(&to.wire_opaque().to_be_bytes());
    out.extend_from_slice(&1u32.to_be_bytes());
    let remark = found.status.name();
    out.extend_from_slice(&(remark.len() as u32).to_be_bytes());
    out.extend_from_slice(remark.as_bytes());
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    for (name, value) in fields(found, manner) {
        out.extend_from_slice(&(name.len() as u16).to_be_bytes());
        out.extend_from_slice(name.as_bytes());
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        push_number(out, value);
        let length = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Decimal digits, without the machinery of `write!`.
fn push_number(out: &mut Vec<u8>, number: i64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::super::store::Memory;
    use super::*;
    use crate::protocol::Frame;
    use std::sync::Arc;

    fn reply(encoding: Encoding) -> ReplyTo {
        ReplyTo { peer: 1, opaque: -7, encoding, oneway: false, twist: None, number: 0 }
    }

    #[test]
    fn numbers_are_written_as_everywhere() {
        for number in [0, 7, -1, 1234567890, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }

    #[test]
    fn the_codec_reads_what_is_written_here() {
        let mut store = Store::new(Arc::new(Memory));
        for text in ["one", "two"] {
            let encode = |_, _, out: &mut Vec<u8>| {
                out.extend_from_slice(text.as_bytes());
                io::Result::Ok(())
            };
            store.append("t", 0, 0, encode).unwrap();
        }
        let mut entries = Vec::new();
        let found = store.look_up("t", 0, 0, 32, |_| true, &mut entries).unwrap();
        for encoding in [Encoding::Json, Encoding::Binary] {
            for (sys_flags, count) in [(true, 6), (false, 4)] {
                let code = code_of(found.status, 0);
                let manner = Manner { version: 479, sys_flags, suggested: 1 };
                let bytes = frame(&reply(encoding), code, &found, manner, &store, &entries).unwrap();
                let frame = Frame::parse(bytes).unwrap();
                let command = frame.command().unwrap();
                assert_eq!((command.code, command.opaque, command.version), (0, -7, 479));
                assert!(command.is_response() && command.language == Language::RUST);
                assert_eq!(
                    (command.remark.as_deref(), command.body.as_slice()),
                    (Some("FOUND"), &b"onetwo"[..])
                );
                assert_eq!((command.fields.len(), command.fields.get("maxOffset")), (count, Some("2")));
                let offsets = frame.pull_answer().unwrap().offsets.unwrap();
                assert_eq!((offsets.next_begin_offset, offsets.min_offset, offsets.max_offset), (2, 0, 2));
            }
        }
    }

    #[test]
    fn an_empty_queue_is_illegal_only_beyond_its_beginning() {
        assert_eq!(code_of(Status::NoMessageInQueue, 0), ResponseCode::PULL_NOT_FOUND);
        assert_eq!(code_of(Status::NoMatchedLogicQueue, 5), ResponseCode::PULL_OFFSET_MOVED);
        assert_eq!(code_of(Status::OffsetTooSmall, 0), ResponseCode::PULL_OFFSET_MOVED);
    }
}
