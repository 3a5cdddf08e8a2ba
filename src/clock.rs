//! Clock.
