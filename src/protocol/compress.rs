//! Bodies, smaller: zlib, LZ4 frames and zstd.
//!
//! Brokers store what producers compressed and hand it out as it is. Sizes are limited while inflating: the announced
//! ones are not believed.

mod lz4;

use std::io::Read;

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

use super::DecodeError;
use crate::message::sys_flag;

/// The longest body that is inflated.
pub const MAX_INFLATED: usize = 16 * 1024 * 1024;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// RFC 1950. What every client understands.
    Zlib,
    /// LZ4 frames.
    Lz4,
    /// zstd.
    Zstd,
}

impl Compression {
    /// The compression that a system flag names. Without a name it is zlib, as older clients knew nothing else.
    ///
    /// # Errors
    /// When it names an unknown one.
    pub fn of(sys_flag: i32) -> Result<Self, DecodeError> {
        match sys_flag & sys_flag::COMPRESSION_TYPE {
            0x000 | 0x300 => Ok(Self::Zlib),
            0x100 => Ok(Self::Lz4),
            0x200 => Ok(Self::Zstd),
            other => Err(DecodeError::new(format!("unknown compression {other:#x}"))),
        }
    }

    /// The bits of the system flag for a body compressed so, as Java sets them.
    pub fn sys_flag(self) -> i32 {
        sys_flag::COMPRESSED
            | match self {
                Self::Zlib => 0x300,
                Self::Lz4 => 0x100,
                Self::Zstd => 0x200,
            }
    }
}

/// Inflates a body.
///
/// # Errors
/// When the bytes are damaged, or what they stand for is longer than the limit.
pub fn inflate(compression: Compression, bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    Inflater::default().inflate(compression, bytes, limit)
}

/// Compresses a body. The level is that of zlib, 0 to 9 (Java: 5); the others have one of their own.
pub fn deflate(compression: Compression, level: u32, bytes: &[u8]) -> Vec<u8> {
    match compression {
        Compression::Zlib => deflate_zlib(level.min(9), bytes),
        Compression::Lz4 => lz4::deflate(bytes),
        Compression::Zstd => {
            ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
        }
    }
}

/// Inflates one body after the other, and keeps what zlib works with: setting that up costs more than a short body.
#[derive(Debug, Default)]
pub struct Inflater {
    zlib: Option<Decompress>,
}

impl Inflater {
    /// See [`inflate`].
    ///
    /// # Errors
    /// When the bytes are damaged, or what they stand for is longer than the limit.
    pub fn inflate(
        &mut self,
        compression: Compression,
        bytes: &[u8],
        limit: usize,
    ) -> Result<Vec<u8>, DecodeError> {
        // Producers of some libraries compress in one way and name another, so what the bytes say of themselves counts.
        match bytes.first_chunk() {
            Some([0x04, 0x22, 0x4D, 0x18]) => lz4::inflate(bytes, limit),
            Some([0x28, 0xB5, 0x2F, 0xFD]) => inflate_zstd(bytes, limit),
            Some([0x1F, 0x8B, 8, _]) => {
                read_limited(flate2::bufread::GzDecoder::new(bytes), "gzip", bytes.len(), limit)
            }
            _ => match compression {
                Compression::Zlib => self.inflate_zlib(bytes, limit),
                Compression::Lz4 => Err(damaged("LZ4", "no frame begins here")),
                Compression::Zstd => Err(damaged("zstd", "no frame begins here")),
            },
        }
    }

    fn inflate_zlib(&mut self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
        let zlib = match &mut self.zlib {
            Some(zlib) => {
                zlib.reset(true);
                zlib
            }
            none => none.insert(Decompress::new(true)),
        };
        let mut out = Vec::with_capacity(bytes.len().saturating_mul(4).clamp(256, limit.max(256)));
        loop {
            let consumed = usize::try_from(zlib.total_in()).unwrap_or(usize::MAX);
            let rest = bytes.get(consumed..).unwrap_or_default();
            let before = (rest.len(), out.len());
            let status = zlib.decompress_vec(rest, &mut out, FlushDecompress::None);
            if out.len() > limit {
                return Err(too_long(limit));
            }
            match status {
                Ok(Status::StreamEnd) => return Ok(out),
                Ok(_) if out.len() == out.capacity() => out.reserve(out.len().min(limit - out.len() + 1)),
                Ok(_)
                    if before == (bytes.len() - usize::try_from(zlib.total_in()).unwrap_or(0), out.len()) =>
                {
                    return Err(damaged("zlib", "ends too early"));
                }
                Ok(_) => {}
                Err(error) => return Err(damaged("zlib", &error.to_string())),
            }
        }
    }
}

fn deflate_zlib(level: u32, bytes: &[u8]) -> Vec<u8> {
    let mut zlib = Compress::new(flate2::Compression::new(level), true);
    let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
    loop {
        let rest = usize::try_from(zlib.total_in())
            .ok()
            .and_then(|consumed| bytes.get(consumed..))
            .unwrap_or_default();
        match zlib.compress_vec(rest, &mut out, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => return out,
            // All it can ask for is more room.
            _ => out.reserve(out.len().max(64)),
        }
    }
}

fn inflate_zstd(bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    // The window is allocated as announced. Java's zstd announces 2 MiB by default, 8 MiB at its highest levels.
    let decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(bytes, 8 << 20);
    let decoder = decoder.map_err(|error| damaged("zstd", &error.to_string()))?;
    read_limited(decoder, "zstd", bytes.len(), limit)
}

fn read_limited(source: impl Read, kind: &str, size: usize, limit: usize) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::with_capacity(size.saturating_mul(4).min(limit));
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    source.take(most).read_to_end(&mut out).map_err(|error| damaged(kind, &error.to_string()))?;
    if out.len() > limit { Err(too_long(limit)) } else { Ok(out) }
}

fn damaged(kind: &str, what: &str) -> DecodeError {
    DecodeError::new(format!("the {kind} data is damaged: {what}"))
}

fn too_long(limit: usize) -> DecodeError {
    DecodeError::new(format!("the body is longer than {limit} bytes when inflated"))
}

#[cfg(test)]
mod tests;
