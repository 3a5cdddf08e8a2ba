//! What the store needs of the files that its segments lie in.
//!
//! The log and the queue indexes only ever append, read back and cut the end off, so this is all there is. `Memory`
//! keeps the bytes on the heap; a directory of files can stand in its place without a change above it.

use std::fmt::Debug;
use std::io;

/// A place where segments are made.
pub(crate) trait Disk: Send + Sync + Debug {
    /// A new, empty segment of the log `name`, whose first byte has the address `base`.
    fn create(&self, name: &str, base: u64) -> io::Result<Box<dyn File>>;
}

/// One segment: bytes that are appended and stay as they are.
pub(crate) trait File: Send + Debug {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Appends the `len` bytes from `at` on to `out`; fails if they are not all there.
    fn read(&self, at: u64, len: usize, out: &mut Vec<u8>) -> io::Result<()>;
    /// Cuts everything from `len` on off.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
    fn len(&self) -> u64;
}

/// Segments on the heap.
#[derive(Debug, Default)]
pub(crate) struct Memory;

impl Disk for Memory {
    fn create(&self, _name: &str, _base: u64) -> io::Result<Box<dyn File>> {
        Ok(Box::new(Block(Vec::new())))
    }
}

#[derive(Debug)]
struct Block(Vec<u8>);

impl File for Block {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn read(&self, at: u64, len: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let wanted = usize::try_from(at).ok().and_then(|at| self.0.get(at..at.checked_add(len)?));
        out.extend_from_slice(wanted.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.0.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}
