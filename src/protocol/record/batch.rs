use crate::protocol::reader::Reader;
use crate::protocol::{DecodeError, EncodeError};

/// One message of a batch, as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchElement<'a> {
    /// The user flag.
    pub flag: i32,
    /// The body.
    pub body: &'a [u8],
    /// The property string.
    pub properties: &'a [u8],
}

/// Where the parts of an element lie.
pub(super) struct Place {
    pub flag: i32,
    pub body: (u32, u32),
    pub properties: (u32, u32),
    pub end: usize,
}

/// Walks over the elements of a batch. After an error there are no more.
pub fn batch_elements(bytes: &[u8]) -> impl Iterator<Item = Result<BatchElement<'_>, DecodeError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let read = element(bytes, at);
        at = read.as_ref().map_or(bytes.len(), |place| place.end);
        Some(read.map(|place| {
            let part = |(from, to): (u32, u32)| bytes.get(from as usize..to as usize).unwrap_or_default();
            BatchElement { flag: place.flag, body: part(place.body), properties: part(place.properties) }
        }))
    })
}

/// Appends one element to a batch.
///
/// # Errors
/// When the properties are longer than 32767 bytes, or the body is longer than 2 GiB.
pub fn write_batch_element(element: &BatchElement<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let properties = i16::try_from(element.properties.len())
        .map_err(|_| EncodeError::new("the properties are longer than 32767 bytes"))?;
    let total = 22 + element.body.len() + element.properties.len();
    let total = i32::try_from(total).map_err(|_| EncodeError::new("the body is longer than 2 GiB"))?;
    let body = total - 22 - i32::from(properties);
    for number in [total, 0, 0, element.flag, body] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(element.body);
    out.extend_from_slice(&properties.to_be_bytes());
    out.extend_from_slice(element.properties);
    Ok(())
}

/// Finds the parts of the element at a place. Positions are those of the bytes given.
pub(super) fn element(bytes: &[u8], at: usize) -> Result<Place, DecodeError> {
    let mut reader = Reader::at(bytes, at);
    let total = reader.i32()?;
    let end =
        usize::try_from(total).ok().and_then(|total| at.checked_add(total)).filter(|end| *end <= bytes.len());
    let end = end.ok_or_else(|| DecodeError::new("the length of a batch element is wrong").at(at))?;
    let mut reader = Reader::at(bytes.get(..end).unwrap_or_default(), reader.position());
    let [_magic, _crc, flag, length] = [reader.i32()?, reader.i32()?, reader.i32()?, reader.i32()?];
    let body = part(&mut reader, length)?;
    let length = reader.i16()?;
    let properties = part(&mut reader, length.into())?;
    Ok(Place { flag, body, properties, end })
}

fn part(reader: &mut Reader<'_>, length: i32) -> Result<(u32, u32), DecodeError> {
    let from = reader.position();
    reader.counted(length)?;
    let place = |position: usize| {
        u32::try_from(position)
            .map_err(|_| DecodeError::new("further than 4 GiB into the bytes").at(position))
    };
    Ok((place(from)?, place(reader.position())?))
}
