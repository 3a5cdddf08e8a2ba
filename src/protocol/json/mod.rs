//! JSON as RocketMQ speaks it. Java's servers write maps with bare numbers or whole objects as keys; which versions do
//! and read what is in the reference of the wire. We read all of it and write what every version reads.

pub mod scan;
pub mod write;
