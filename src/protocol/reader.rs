//! Reading binary data that may end anywhere.

use super::DecodeError;

/// A cursor over bytes that can only answer "missing" where there are none.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the beginning.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Starts at a place; past the end there is nothing to read.
    pub fn at(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, at: position.min(bytes.len()) }
    }

    /// How many bytes have been read, from the beginning.
    pub fn position(&self) -> usize {
        self.at
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// All that is left.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The next so many bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let taken = self.rest().get(..count).ok_or_else(|| self.missing())?;
        self.at += count;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let array = *self.rest().first_chunk().ok_or_else(|| self.missing())?;
        self.at += N;
        Ok(array)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        self.array().map(i16::from_be_bytes)
    }

    /// Four bytes.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Eight bytes.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_be_bytes)
    }

    /// So many bytes, the count being a number of the wire that may be negative or too large.
    pub fn counted(&mut self, count: impl TryInto<usize>) -> Result<&'a [u8], DecodeError> {
        let count = count.try_into().map_err(|_| DecodeError::new("negative length").at(self.at))?;
        self.take(count)
    }

    fn missing(&self) -> DecodeError {
        DecodeError::new("ends too early").at(self.bytes.len())
    }
}
