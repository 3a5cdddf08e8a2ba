use super::*;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

const ALL: [Compression; 3] = [Compression::Zlib, Compression::Lz4, Compression::Zstd];

/// What Java 4.9.7 and 5.5.0 made of `0123456789`, 600 times.
const RECORDED: [&str; 3] = [
    "785eedc6490100200800b04a7820dabf981d786fafc5986be7a9fbc2cccccccccccccccccccccc9afb98b8ceb5",
    "04224d186070732b000000af303132333435363738390a00ffffffffffffffffffffffffffffffffffffffffffffff6550353637383900000000",
    "28b52ffd00589400005030313233343536373839010063d7be2001010000",
];

#[test]
fn x4_inflates_what_java_deflated() {
    let plain = "0123456789".repeat(600);
    let mut inflater = Inflater::default();
    for (compression, recorded) in ALL.into_iter().zip(RECORDED) {
        for _ in 0..2 {
            let inflated = inflater.inflate(compression, &hex(recorded), MAX_INFLATED).unwrap();
            assert_eq!(inflated, plain.as_bytes(), "{compression:?}");
        }
        assert!(inflate(compression, &hex(recorded), 6000).is_ok());
        let error = inflate(compression, &hex(recorded), 5999).unwrap_err();
        assert!(error.to_string().contains("longer than 5999"), "{compression:?}: {error}");
    }
}

#[test]
fn lz4_frames_begin_and_end_as_those_of_java() {
    let (ours, java) = (deflate(Compression::Lz4, 5, "0123456789".repeat(600).as_bytes()), hex(RECORDED[1]));
    assert_eq!(ours[..7], java[..7]);
    assert_eq!(ours[ours.len() - 4..], java[java.len() - 4..]);
    assert!(ours.len() <= java.len() + 1);
}

#[test]
fn flags_name_the_compression() {
    for compression in ALL {
        assert_eq!(Compression::of(compression.sys_flag()), Ok(compression));
    }
    assert_eq!(Compression::of(1), Ok(Compression::Zlib));
    assert_eq!(
        [Compression::Zlib, Compression::Lz4, Compression::Zstd].map(Compression::sys_flag),
        [0x301, 0x101, 0x201]
    );
    assert!(Compression::of(0x401).is_err());
}

#[test]
fn every_prefix_is_an_error() {
    for (compression, recorded) in ALL.into_iter().zip(RECORDED) {
        let bytes = hex(recorded);
        for length in 0..bytes.len() {
            assert!(
                inflate(compression, &bytes[..length], MAX_INFLATED).is_err(),
                "{compression:?} {length}"
            );
        }
    }
}

#[test]
fn x4_the_bytes_say_what_they_are() {
    for recorded in RECORDED {
        assert_eq!(inflate(Compression::Zlib, &hex(recorded), 6000).unwrap().len(), 6000);
    }
    let mut gzip = flate2::read::GzEncoder::new(&b"some text"[..], flate2::Compression::new(5));
    let mut bytes = Vec::new();
    gzip.read_to_end(&mut bytes).unwrap();
    assert_eq!(inflate(Compression::Zlib, &bytes, 9).unwrap(), b"some text");
    assert!(inflate(Compression::Zlib, &bytes, 8).is_err());
}

#[test]
fn bombs_stop_at_the_limit() {
    let zeros = vec![0u8; 300_000];
    for compression in ALL {
        let bomb = deflate(compression, 9, &zeros);
        assert!(bomb.len() < 3000, "{compression:?} {}", bomb.len());
        assert!(inflate(compression, &bomb, 299_999).unwrap_err().to_string().contains("longer than"));
    }
    // A window of 1 TiB, and a block that says it is 2 GiB long.
    assert!(inflate(Compression::Zstd, &hex("28b52ffd00f8"), MAX_INFLATED).is_err());
    assert!(inflate(Compression::Lz4, &hex("04224d18607073ffffff7f00"), MAX_INFLATED).is_err());
}

#[test]
fn other_forms_of_lz4_frames() {
    let plain = "0123456789".repeat(30_000);
    for (linked, checksums) in [(false, false), (true, false), (false, true), (true, true)] {
        let mode =
            if linked { lz4_flex::frame::BlockMode::Linked } else { lz4_flex::frame::BlockMode::Independent };
        let info = lz4_flex::frame::FrameInfo::new()
            .block_mode(mode)
            .block_size(lz4_flex::frame::BlockSize::Max64KB)
            .block_checksums(checksums)
            .content_checksum(checksums)
            .content_size(checksums.then_some(plain.len() as u64));
        let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        std::io::Write::write_all(&mut encoder, plain.as_bytes()).unwrap();
        let bytes = encoder.finish().unwrap();
        assert_eq!(
            inflate(Compression::Lz4, &bytes, MAX_INFLATED).unwrap(),
            plain.as_bytes(),
            "{linked} {checksums}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_is_deflated_is_inflated(bytes in prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..3000),
        proptest::collection::vec(0u8..3, 0..20_000),
    ], level in 0u32..10) {
        for compression in ALL {
            let deflated = deflate(compression, level, &bytes);
            prop_assert_eq!(inflate(compression, &deflated, bytes.len()).unwrap(), bytes.clone());
            if !bytes.is_empty() {
                prop_assert!(inflate(compression, &deflated, bytes.len() - 1).is_err());
            }
        }
    }

    #[test]
    fn damaged_bytes_are_an_error_or_something_else_but_no_panic(at in 0usize..60, byte: u8) {
        for (compression, recorded) in ALL.into_iter().zip(RECORDED) {
            let mut bytes = hex(recorded);
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = inflate(compression, &bytes, 10_000);
        }
    }
}
