//! Frames: `length, type and header length, header, body`, and the two encodings of the header.

mod binary;
mod decoder;
mod text;

use std::fmt;
use std::ops::{ControlFlow, Range};

use super::json::scan::{self, Text};
use super::{DecodeError, EncodeError, Fields, Language, RemotingCommand, ResponseCode};

pub use decoder::FrameDecoder;

/// The longest frame, length prefix included, that servers take.
pub const MAX_FRAME: usize = 16 * 1024 * 1024;

/// How the header of a frame is written. Every frame says it of itself, and an answer may differ from its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// As JSON; what Java uses unless it is set up otherwise.
    Json,
    /// RocketMQ's own binary form. It has 16 bits for the code.
    Binary,
}

/// Appends one frame.
///
/// A command that the binary header cannot carry (a code over 32767) is written as JSON: every server reads a frame by
/// what it says of itself.
///
/// # Errors
/// When the frame would be too long. Nothing has been appended then.
pub fn encode(command: &RemotingCommand, encoding: Encoding, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    let encoding = if encoding == Encoding::Binary && binary::write(command, out) {
        Encoding::Binary
    } else {
        out.truncate(start + 8);
        text::write(command, out);
        Encoding::Json
    };
    let header = out.len() - start - 8;
    let total = out.len() - start + command.body.len();
    if total > MAX_FRAME {
        out.truncate(start);
        return Err(EncodeError::too_large(total));
    }
    out.extend_from_slice(&command.body);
    // Both fit, as the whole frame is at most 16 MiB long; a header alone may have all but eight bytes of them.
    let prefix = [(total - 4) as u32, (encoding.number() << 24) | header as u32];
    for (slot, number) in out[start..].chunks_exact_mut(4).zip(prefix) {
        slot.copy_from_slice(&number.to_be_bytes());
    }
    Ok(())
}

/// One whole frame, as it came.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    bytes: Vec<u8>,
    header_end: usize,
    encoding: Encoding,
}

/// What is needed to tell whom a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Request or response code.
    pub code: i32,
    /// Joins answers to requests.
    pub opaque: i32,
    /// See [`RemotingCommand::flag`].
    pub flag: i32,
}

impl Head {
    /// Whether this answers a request.
    pub fn is_response(&self) -> bool {
        self.flag & RemotingCommand::RESPONSE != 0
    }

    /// Whether no answer is wanted.
    pub fn is_oneway(&self) -> bool {
        self.flag & RemotingCommand::ONEWAY != 0
    }
}

/// The header of the answer to a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullAnswer {
    /// What came of it.
    pub code: ResponseCode,
    /// Where to go on; always there with `SUCCESS`, `PULL_NOT_FOUND`, `PULL_RETRY_IMMEDIATELY` and
    /// `PULL_OFFSET_MOVED`, else never.
    pub offsets: Option<PullOffsets>,
    /// A text for people. Left out where it only repeats the code: beside offsets, except with `PULL_OFFSET_MOVED`,
    /// which has several reasons.
    pub remark: Option<String>,
}

/// Where a queue begins and ends, and where to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PullOffsets {
    /// The offset to pull next.
    pub next_begin_offset: i64,
    /// The first offset of the queue.
    pub min_offset: i64,
    /// One past the last.
    pub max_offset: i64,
    /// The broker to pull from next: 0 is the master.
    pub suggest_which_broker_id: i64,
    /// To be added to the queue offset of every message (static topics of brokers 5.x).
    pub offset_delta: i64,
}

/// One thing that a header says.
enum Part<'a> {
    Code(i32),
    Language(Language),
    Version(i32),
    Opaque(i32),
    Flag(i32),
    Remark(Text<'a>),
    Field(Text<'a>, Text<'a>),
}

impl Frame {
    /// Takes a whole frame, length prefix included.
    ///
    /// # Errors
    /// When the lengths do not fit or the encoding is unknown. The header is not looked at.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        let prefix =
            Prefix::read(&bytes, usize::MAX)?.ok_or_else(|| DecodeError::new("ends within the lengths"))?;
        if prefix.total != bytes.len() {
            return Err(DecodeError::new(format!("{} bytes announced, {} there", prefix.total, bytes.len())));
        }
        Ok(Self { bytes, header_end: prefix.header_end, encoding: prefix.encoding })
    }

    /// Code, opaque and flag, in one pass over the header and without allocation.
    ///
    /// # Errors
    /// When the header cannot be read as far as that.
    pub fn head(&self) -> Result<Head, DecodeError> {
        if self.encoding == Encoding::Json
            && let Some(head) = text::quick_head(self.header())
        {
            return Ok(head);
        }
        let (mut code, mut opaque, mut flag) = (None, None, None);
        self.walk(false, |part| {
            match part {
                Part::Code(number) => code = Some(number),
                Part::Opaque(number) => opaque = Some(number),
                Part::Flag(number) => flag = Some(number),
                _ => {}
            }
            let all = code.is_some() && opaque.is_some() && flag.is_some();
            Ok(if all { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(Head { code: code.unwrap_or(0), opaque: opaque.unwrap_or(0), flag: flag.unwrap_or(0) })
    }

    /// The whole command, with a copy of the body.
    ///
    /// # Errors
    /// When the header cannot be read.
    pub fn command(&self) -> Result<RemotingCommand, DecodeError> {
        let mut command = self.command_without_body()?;
        command.body = self.body().to_vec();
        Ok(command)
    }

    /// As [`command`](Self::command), for those who read the body from the frame.
    ///
    /// # Errors
    /// When the header cannot be read.
    pub fn command_without_body(&self) -> Result<RemotingCommand, DecodeError> {
        let mut command = RemotingCommand::response(ResponseCode(0), 0);
        (command.flag, command.version, command.language) = (0, 0, Language::JAVA);
        self.walk(true, |part| {
            match part {
                Part::Code(code) => command.code = code,
                Part::Language(language) => command.language = language,
                Part::Version(version) => command.version = version,
                Part::Opaque(opaque) => command.opaque = opaque,
                Part::Flag(flag) => command.flag = flag,
                Part::Remark(text) => command.remark = Some(text.decode().into_owned()),
                Part::Field(name, value) => {
                    command.fields.push_unchecked(&name.decode(), &value.decode());
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        command.fields.remove_duplicates();
        Ok(command)
    }

    /// The header of an answered pull, in one pass.
    ///
    /// # Errors
    /// When the header cannot be read, or lacks an offset that belongs to its code.
    pub fn pull_answer(&self) -> Result<PullAnswer, DecodeError> {
        if self.encoding == Encoding::Json
            && let Some(answer) = self.quick_pull_answer()
        {
            return Ok(answer);
        }
        let mut code = ResponseCode(0);
        let mut remark = None;
        let mut offsets = OffsetFields::default();
        self.walk(true, |part| {
            match part {
                Part::Code(number) => code = ResponseCode(number),
                Part::Remark(text) => remark = Some(text),
                Part::Field(name, value) => offsets.take(name, value)?,
                _ => {}
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let offsets = if has_offsets(code) { Some(offsets.complete()?) } else { None };
        let tells_more = offsets.is_none() || code == ResponseCode::PULL_OFFSET_MOVED;
        let remark = remark.filter(|_| tells_more).map(|text| text.decode().into_owned());
        Ok(PullAnswer { code, offsets, remark })
    }

    /// The same for an answer with offsets as servers write it, and without a remark that matters: every pull passes
    /// here.
    fn quick_pull_answer(&self) -> Option<PullAnswer> {
        let mut code = None;
        let mut offsets = OffsetFields::default();
        text::quick_walk(self.header(), |within_fields, name, value| {
            if within_fields {
                offsets.take(Text::plain(name), Text::plain(value)).ok()?;
            } else if name == b"code" {
                code = scan::integer(value);
            }
            Some(())
        })?;
        let code = i32::try_from(code?).ok().map(ResponseCode).filter(|code| has_offsets(*code))?;
        if code == ResponseCode::PULL_OFFSET_MOVED {
            return None;
        }
        Some(PullAnswer { code, offsets: Some(offsets.complete().ok()?), remark: None })
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        self.bytes.get(self.header_end..).unwrap_or_default()
    }

    /// Where the body lies in the bytes of the frame.
    pub fn body_range(&self) -> Range<usize> {
        self.header_end..self.bytes.len()
    }

    /// All bytes, length prefix included.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives the bytes up.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// How the header is written.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn header(&self) -> &[u8] {
        self.bytes.get(8..self.header_end).unwrap_or_default()
    }

    /// Shows everything that the header says, field values included if `fields`, until told to stop.
    fn walk<'a>(
        &'a self,
        fields: bool,
        visit: impl FnMut(Part<'a>) -> Result<ControlFlow<()>, DecodeError>,
    ) -> Result<(), DecodeError> {
        match self.encoding {
            Encoding::Json => text::walk(self.header(), fields, visit),
            Encoding::Binary => binary::walk(self.header(), fields, visit),
        }
        .map_err(|error| error.within("header"))
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("head", &self.head())
            .field("encoding", &self.encoding)
            .field("body", &format_args!("{} bytes", self.body().len()))
            .finish()
    }
}

impl Encoding {
    fn number(self) -> u32 {
        match self {
            Self::Json => 0,
            Self::Binary => 1,
        }
    }
}

/// Whether an answer to a pull says where to go on.
fn has_offsets(code: ResponseCode) -> bool {
    matches!(
        code,
        ResponseCode::SUCCESS
            | ResponseCode::PULL_NOT_FOUND
            | ResponseCode::PULL_RETRY_IMMEDIATELY
            | ResponseCode::PULL_OFFSET_MOVED
    )
}

/// The lengths at the beginning of a frame.
struct Prefix {
    total: usize,
    header_end: usize,
    encoding: Encoding,
}

impl Prefix {
    /// Checks as much as is there: a length out of bounds is an error before the rest has come.
    fn read(bytes: &[u8], limit: usize) -> Result<Option<Self>, DecodeError> {
        let Some(total) = total_length(bytes, limit)? else { return Ok(None) };
        let Some(mark) = bytes.get(4..).and_then(<[u8]>::first_chunk).map(|mark| u32::from_be_bytes(*mark))
        else {
            return Ok(None);
        };
        let encoding = match mark >> 24 {
            0 => Encoding::Json,
            1 => Encoding::Binary,
            other => return Err(DecodeError::new(format!("unknown header encoding {other}")).at(4)),
        };
        let header_end = 8 + (mark & 0x00FF_FFFF) as usize;
        if header_end > total {
            return Err(DecodeError::new("the header is longer than the frame").at(4));
        }
        Ok(Some(Self { total, header_end, encoding }))
    }
}

fn total_length(bytes: &[u8], limit: usize) -> Result<Option<usize>, DecodeError> {
    let Some(length) = bytes.first_chunk().map(|length| i32::from_be_bytes(*length)) else { return Ok(None) };
    match usize::try_from(length) {
        Ok(length) if length >= 4 && length.saturating_add(4) <= limit => Ok(Some(length + 4)),
        // An alert or a hello of TLS, of any version: far longer than any limit, read as a length.
        _ if matches!(bytes, [0x15 | 0x16, 3, ..]) => {
            Err(DecodeError::new("a record of TLS, where none was expected: does the other side want TLS?")
                .at(0))
        }
        _ => Err(DecodeError::new(format!("frame length {length} is not between 4 and the limit")).at(0)),
    }
}

/// The offsets of an answered pull while they are gathered.
#[derive(Default)]
struct OffsetFields {
    next: Option<i64>,
    min: Option<i64>,
    max: Option<i64>,
    suggested: Option<i64>,
    delta: Option<i64>,
}

impl OffsetFields {
    fn take(&mut self, name: Text<'_>, value: Text<'_>) -> Result<(), DecodeError> {
        let (slot, name) = match name.raw {
            b"nextBeginOffset" => (&mut self.next, "nextBeginOffset"),
            b"minOffset" => (&mut self.min, "minOffset"),
            b"maxOffset" => (&mut self.max, "maxOffset"),
            b"suggestWhichBrokerId" => (&mut self.suggested, "suggestWhichBrokerId"),
            b"offsetDelta" => (&mut self.delta, "offsetDelta"),
            _ => return Ok(()),
        };
        *slot = scan::integer(value.raw);
        if slot.is_none() && !value.raw.is_empty() {
            return Err(DecodeError::new(format!("field {name} is not a number")));
        }
        Ok(())
    }

    fn complete(self) -> Result<PullOffsets, DecodeError> {
        let need = |slot: Option<i64>, name| {
            slot.ok_or_else(|| DecodeError::new(format!("field {name} is missing")))
        };
        Ok(PullOffsets {
            next_begin_offset: need(self.next, "nextBeginOffset")?,
            min_offset: need(self.min, "minOffset")?,
            max_offset: need(self.max, "maxOffset")?,
            suggest_which_broker_id: need(self.suggested, "suggestWhichBrokerId")?,
            offset_delta: self.delta.unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests;
