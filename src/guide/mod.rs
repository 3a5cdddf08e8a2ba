//! How this library works, and how to run it: for those who tune it, read its log, or change it.

pub mod design;
pub mod operations;
