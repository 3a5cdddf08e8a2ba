//! The seeds of the fuzz targets, every beginning of each, and some thousand damaged ones go through the functions that
//! are fuzzed.

use std::path::Path;

#[path = "../../fuzz/targets.rs"]
mod targets;

fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let (mut seeds, mut random) = (0, Random(1));
    for entry in std::fs::read_dir(&folder).unwrap() {
        let seed = std::fs::read(entry.unwrap().path()).unwrap();
        target(&seed);
        // Every beginning of short seeds, some of long ones.
        let step = seed.len() / 50 + 1;
        for length in (0..seed.len()).step_by(step) {
            target(&seed[..length]);
        }
        for _ in 0..50 {
            target(&random.damage(&seed));
        }
        seeds += 1;
    }
    assert!(seeds >= 10, "{name} has {seeds} seeds");
}

/// The same numbers in every run (xorshift), so that what fails once fails again.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }

    /// One to four changes: another byte, a special one, a byte more or less, a piece twice or gone.
    fn damage(&mut self, seed: &[u8]) -> Vec<u8> {
        const SPECIAL: &[u8] = b"\x00\xff\x7f\x80\x01\x02{}[]\",:\\e-0";
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let end = (at + self.below(9)).min(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
                1 if !bytes.is_empty() => bytes[at] = SPECIAL[self.below(SPECIAL.len())],
                2 => bytes.insert(at, SPECIAL[self.below(SPECIAL.len())]),
                3 | 4 => {
                    bytes.drain(at..end);
                }
                _ => bytes.extend_from_within(at..end),
            }
        }
        bytes
    }
}

#[test]
fn frame() {
    replay("frame", targets::frame);
}

#[test]
fn header() {
    replay("header", targets::header);
}

#[test]
fn json() {
    replay("json", targets::json);
}

#[test]
fn record() {
    replay("record", targets::record);
}

#[test]
fn properties() {
    replay("properties", targets::properties);
}
