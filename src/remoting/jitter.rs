use std::hash::{BuildHasher, Hasher, RandomState};

/// Numbers that differ between processes: enough to spread clients, no more.
#[derive(Debug)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) fn new() -> Self {
        // The standard library seeds its hash tables with random keys.
        Self(RandomState::new().build_hasher().finish() | 1)
    }

    /// In 0..1.
    pub(super) fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_over_the_whole_range() {
        let mut jitter = Jitter::new();
        let all: Vec<f64> = (0..1000).map(|_| jitter.next()).collect();
        assert!(all.iter().all(|x| (0.0..1.0).contains(x)));
        assert!(all.iter().any(|x| *x < 0.1) && all.iter().any(|x| *x > 0.9));
    }
}
