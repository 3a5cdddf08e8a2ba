use std::ops::ControlFlow;

use super::Part;
use crate::protocol::json::scan::Text;
use crate::protocol::reader::Reader;
use crate::protocol::{DecodeError, Language, RemotingCommand};

/// Writes a binary header, unless something does not fit into it. What has been written then is to be thrown away.
pub(super) fn write(command: &RemotingCommand, out: &mut Vec<u8>) -> bool {
    write_header(command, out).is_some()
}

fn write_header(command: &RemotingCommand, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(&i16::try_from(command.code).ok()?.to_be_bytes());
    out.push(command.language.0);
    out.extend_from_slice(&i16::try_from(command.version).ok()?.to_be_bytes());
    out.extend_from_slice(&command.opaque.to_be_bytes());
    out.extend_from_slice(&command.flag.to_be_bytes());
    write_counted(out, command.remark.as_deref().unwrap_or_default())?;
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    for (name, value) in command.fields.iter() {
        out.extend_from_slice(&i16::try_from(name.len()).ok()?.to_be_bytes());
        out.extend_from_slice(name.as_bytes());
        write_counted(out, value)?;
    }
    let length = i32::try_from(out.len() - start - 4).ok()?;
    out.get_mut(start..start + 4)?.copy_from_slice(&length.to_be_bytes());
    Some(())
}

fn write_counted(out: &mut Vec<u8>, text: &str) -> Option<()> {
    out.extend_from_slice(&i32::try_from(text.len()).ok()?.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
    Some(())
}

/// What follows the fields within the header is ignored, as Java does.
pub(super) fn walk<'a>(
    header: &'a [u8],
    fields: bool,
    mut visit: impl FnMut(Part<'a>) -> Result<ControlFlow<()>, DecodeError>,
) -> Result<(), DecodeError> {
    let mut reader = Reader::new(header);
    for part in [
        Part::Code(reader.i16()?.into()),
        Part::Language(Language(reader.u8()?)),
        Part::Version(reader.i16()?.into()),
        Part::Opaque(reader.i32()?),
        Part::Flag(reader.i32()?),
    ] {
        if visit(part)?.is_break() {
            return Ok(());
        }
    }
    let length = reader.i32()?;
    let remark = reader.counted(length)?;
    if !remark.is_empty() && visit(Part::Remark(Text::plain(remark)))?.is_break() {
        return Ok(());
    }
    let length = reader.i32()?;
    if !fields || length < 0 {
        return Ok(());
    }
    let mut section = Reader::new(reader.counted(length)?);
    while section.remaining() > 0 {
        let length = section.i16()?;
        let name = section.counted(length)?;
        let length = section.i32()?;
        let value = section.counted(length)?;
        if visit(Part::Field(Text::plain(name), Text::plain(value)))?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}
