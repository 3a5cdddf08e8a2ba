//! The primitives that the modelled pieces of the hand-over use.
//!
//! Under `cfg(loom)` the same names stand for loom's doubles, so that claim and finish of a run, the ready list and
//! the outbox are explored over all interleavings. Everything else uses std and parking_lot directly.
