//! The MD5 digest (RFC 1321), of which consistent hashing in the Java client is made. It protects nothing here; a crate
//! for it would bring six others to a build without `acl`.

/// The digest of some bytes.
pub(super) fn md5(bytes: &[u8]) -> [u8; 16] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - bytes.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let bits = (bytes.len() as u64).wrapping_mul(8).to_le_bytes();
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&bits);

    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        add_block(&mut state, block);
    }
    let mut digest = [0; 16];
    for (part, word) in digest.chunks_exact_mut(4).zip(state) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

fn add_block(state: &mut [u32; 4], block: &[u8]) {
    let mut words = [0_u32; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for round in 0..64 {
        let (mixed, index) = match round / 16 {
            0 => ((b & c) | (!b & d), round),
            1 => ((d & b) | (!d & c), (5 * round + 1) % 16),
            2 => (b ^ c ^ d, (3 * round + 5) % 16),
            _ => (c ^ (b | !d), (7 * round) % 16),
        };
        let sum = a.wrapping_add(mixed).wrapping_add(constant(round)).wrapping_add(words[index]);
        let turned = sum.rotate_left(TURNS[round / 16][round % 4]);
        (a, d, c, b) = (d, c, b, b.wrapping_add(turned));
    }
    for (part, new) in state.iter_mut().zip([a, b, c, d]) {
        *part = part.wrapping_add(new);
    }
}

/// `floor(2^32 · |sin(round + 1)|)`, as the RFC defines it.
fn constant(round: usize) -> u32 {
    (((round + 1) as f64).sin().abs() * 4_294_967_296.0) as u32
}

const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

#[cfg(test)]
mod tests {
    use super::md5;

    fn hex(text: &str) -> String {
        md5(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn digests_are_those_of_the_rfc() {
        for (text, digest) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "d174ab98d277d9f5a5611c2c9f419d9f",
            ),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(hex(text), digest, "{text:?}");
        }
    }

    #[test]
    fn every_length_of_padding_fits_a_block() {
        let digests: std::collections::HashSet<_> = (0..200).map(|n| md5(&vec![b'x'; n])).collect();
        assert_eq!(digests.len(), 200);
    }
}
