//! JSON as RocketMQ speaks it.
//!
//! Java's servers write maps with bare numbers or whole objects as keys, and older ones put a reference in place of an
//! object they have written before. We read all of that, and write what every version reads.

pub mod scan;
mod value;
pub mod write;

pub use value::{Key, Value, parse};
