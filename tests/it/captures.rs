//! Recorded traffic of the real servers and clients: every frame decodes, says what the recording says it says, and is
//! written again as the same value; binary headers and stored messages as the same bytes.

mod bodies;
mod headers;
mod messages;

use std::path::Path;

use rocketmq_sync::testing::protocol::{Frame, FrameDecoder, MAX_FRAME};
use serde_json::Value as Recorded;

/// One recorded frame.
pub struct Capture {
    /// The file it is in, and its number there.
    pub place: String,
    /// The line, as far as it is not the frame itself.
    pub line: Recorded,
    /// The frame.
    pub frame: Frame,
}

impl Capture {
    /// The request, or what a response answers.
    pub fn request(&self) -> &str {
        let of_response = self.line["request"].as_str();
        of_response.or(self.line["name"].as_str()).unwrap_or("unknown")
    }

    pub fn is_response(&self) -> bool {
        self.line["kind"] == "response"
    }
}

/// All recorded frames, cut by our own decoder.
pub fn all() -> Vec<Capture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    assert_eq!(files.len(), 6);
    files.iter().flat_map(|file| read(file)).collect()
}

fn read(file: &Path) -> Vec<Capture> {
    let name = file.file_name().unwrap().to_string_lossy();
    let lines = std::fs::read_to_string(file).unwrap();
    let mut decoder = FrameDecoder::new(MAX_FRAME);
    let captures: Vec<Capture> = lines
        .lines()
        .map(|line| {
            let mut line: Recorded = serde_json::from_str(line).unwrap();
            let bytes = hex(line["frame"].take().as_str().unwrap());
            decoder.feed(&bytes);
            let frame = decoder.next_frame().unwrap().unwrap();
            assert_eq!(frame.bytes(), bytes);
            Capture { place: format!("{name} #{}", line["n"]), line, frame }
        })
        .collect();
    assert!(captures.len() > 15, "{name}");
    captures
}

pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
