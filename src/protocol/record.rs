//! Stored messages: finding them in the body of an answer, writing and reading them, and the batches among them.
//!
//! A body is one stored message after the other. [`records`] walks over it and hands out a `Record` for each, which
//! says where its parts lie; nothing is copied. Reading one message as a value is for brokers and tests:
//! [`StoredMessage`].

mod batch;
mod stored;
mod walk;

pub use batch::{BatchElement, batch_elements, write_batch_element};
pub use stored::StoredMessage;
pub use walk::{BadRecord, Records, body_crc, inflate_batch, records, verify_body};

/// Marks a stored message of the first version, with one byte for the length of its topic.
pub const MAGIC_V1: i32 = 0xDAA3_20A7_u32.cast_signed();
/// Marks a stored message of the second version, with two bytes for it.
pub const MAGIC_V2: i32 = 0xDAA3_20AB_u32.cast_signed();

#[cfg(test)]
mod tests;
