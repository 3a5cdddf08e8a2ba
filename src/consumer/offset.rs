//! A place in a queue, which is never negative.

use std::fmt;

/// The offset of a message in its queue. There is no sentinel: where none is known, the type says so.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offset(i64);

impl Offset {
    /// The beginning of every queue.
    pub const ZERO: Self = Self(0);

    /// From a number that came from outside; `None` when it is negative.
    pub fn new(wire: i64) -> Option<Self> {
        (wire >= 0).then_some(Self(wire))
    }

    /// As the wire has it.
    pub fn wire(self) -> i64 {
        self.0
    }

    /// `n` before it, at the earliest the beginning.
    pub fn back(self, n: u64) -> Self {
        Self(self.0.saturating_sub(i64::try_from(n).unwrap_or(i64::MAX)).max(0))
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o1_a_negative_number_is_no_offset() {
        assert_eq!(Offset::new(-1), None);
        assert_eq!(Offset::new(0), Some(Offset::ZERO));
    }

    #[test]
    fn going_back_stops_at_the_beginning() {
        let at = Offset::new(5).unwrap();
        assert_eq!((at.back(2).wire(), at.back(9).wire()), (3, 0));
    }
}
