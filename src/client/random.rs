//! A little randomness: jitter, shuffling, the random part of ids. Not for secrets.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The standard library seeds each `RandomState` from the system's randomness and steps it from there.
pub(crate) fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A number from 0 up to, but not including, 1.
pub(crate) fn fraction() -> f64 {
    // The 53 bits that a float can tell apart.
    (number() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number below `bound`; 0 if `bound` is 0.
pub(crate) fn below(bound: usize) -> usize {
    let bound = u64::try_from(bound).unwrap_or(u64::MAX);
    usize::try_from(number().checked_rem(bound).unwrap_or(0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_stay_below_their_bound() {
        let numbers: std::collections::HashSet<u64> = (0..100).map(|_| number()).collect();
        assert_eq!(numbers.len(), 100);
        assert!((0..100).all(|_| below(3) < 3));
        assert_eq!(below(0), 0);
    }
}
