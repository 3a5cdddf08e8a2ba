//! LZ4 frames, walked by hand: Java announces blocks of 4 MiB, for which a ready-made frame decoder allocates before it
//! has seen a byte. Here every block is measured first.

use super::{damaged, too_long};
use crate::protocol::DecodeError;

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4D, 0x18];
/// Of version 1, independent blocks of up to 4 MiB, no checksums, no size, and the check byte that goes with it.
const DESCRIPTOR: [u8; 3] = [0x60, 0x70, 0x73];
const BLOCK: usize = 4 << 20;
const STORED: u32 = 1 << 31;
/// How far back a block may refer into the blocks before it.
const WINDOW: usize = 64 << 10;

/// Writes the same form as Java.
pub(super) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&DESCRIPTOR);
    for chunk in bytes.chunks(BLOCK) {
        let compressed = lz4_flex::block::compress(chunk);
        let (data, mark) = if compressed.len() < chunk.len() { (&*compressed, 0) } else { (chunk, STORED) };
        // No block is longer than 4 MiB.
        out.extend_from_slice(&(data.len() as u32 | mark).to_le_bytes());
        out.extend_from_slice(data);
    }
    out.extend_from_slice(&[0; 4]);
    out
}

/// Reads one frame. Its checksums, if it has any, are passed over.
pub(super) fn inflate(bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let (flags, mut rest) = read_descriptor(bytes).ok_or_else(early)?;
    if flags >> 6 != 1 {
        return Err(damaged("LZ4", "unknown version"));
    }
    let (linked, checksums) = (flags & 0x20 == 0, flags & 0x10 != 0);
    let mut out = Vec::new();
    loop {
        let (size, after) = rest.split_first_chunk().ok_or_else(early)?;
        let size = u32::from_le_bytes(*size);
        if size == 0 {
            return Ok(out);
        }
        let (block, after) = after.split_at_checked((size & !STORED) as usize).ok_or_else(early)?;
        let plain_size = if size & STORED != 0 { block.len() } else { measure(block).ok_or_else(early)? };
        if plain_size > limit - out.len() {
            return Err(too_long(limit));
        }
        if size & STORED != 0 {
            out.extend_from_slice(block);
        } else {
            append(&mut out, block, plain_size, linked)?;
        }
        rest = if checksums { after.get(4..).ok_or_else(early)? } else { after };
    }
}

fn append(out: &mut Vec<u8>, block: &[u8], plain_size: usize, linked: bool) -> Result<(), DecodeError> {
    let start = out.len();
    out.resize(start + plain_size, 0);
    let (before, room) = out.split_at_mut(start);
    let written = if linked && start > 0 {
        let window = before.get(start.saturating_sub(WINDOW)..).unwrap_or_default();
        lz4_flex::block::decompress_into_with_dict(block, room, window)
    } else {
        lz4_flex::block::decompress_into(block, room)
    }
    .map_err(|error| damaged("LZ4", &error.to_string()))?;
    if written == plain_size { Ok(()) } else { Err(early()) }
}

/// The flags, and what comes after the header.
fn read_descriptor(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let flags = *rest.first()?;
    let size_of_content = if flags & 0x08 != 0 { 8 } else { 0 };
    let size_of_dictionary = if flags & 0x01 != 0 { 4 } else { 0 };
    // Flags, block size, and the check byte at the end.
    Some((flags, rest.get(3 + size_of_content + size_of_dictionary..)?))
}

/// How long a block will be, from the lengths of its literals and matches.
fn measure(mut block: &[u8]) -> Option<usize> {
    let mut total = 0usize;
    loop {
        let (token, rest) = block.split_first()?;
        let (literals, rest) = length(token >> 4, rest)?;
        total = total.checked_add(literals)?;
        let rest = rest.get(literals..)?;
        if rest.is_empty() {
            return Some(total);
        }
        let (matched, rest) = length(token & 0xF, rest.get(2..)?)?;
        total = total.checked_add(matched)?.checked_add(4)?;
        block = rest;
    }
}

fn length(nibble: u8, mut rest: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = usize::from(nibble);
    if nibble == 15 {
        loop {
            let (byte, after) = rest.split_first()?;
            length = length.checked_add(usize::from(*byte))?;
            rest = after;
            if *byte != 255 {
                break;
            }
        }
    }
    Some((length, rest))
}

fn early() -> DecodeError {
    damaged("LZ4", "ends too early")
}
