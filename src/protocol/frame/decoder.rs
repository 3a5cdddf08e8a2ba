use super::{DecodeError, Frame, Prefix};

/// Room for what one read of a socket may bring.
const BUFFER: usize = 256 * 1024;

/// A frame that does not fit behind what is before it in the buffer moves to the front if it is no longer than this;
/// a longer one gets a buffer of its own, into which the rest is read without a further copy.
const MOVED: usize = 64 * 1024;

/// Cuts a stream of bytes into frames.
///
/// Bytes go in through [`spare`](Self::spare) and [`filled`](Self::filled) (or [`feed`](Self::feed)), frames come out
/// of [`next_frame`](Self::next_frame). A frame's length is checked before anything is done about it, and memory grows
/// with the bytes that arrive, never with the length that is announced.
#[derive(Debug)]
pub struct FrameDecoder {
    limit: usize,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    long: Option<Long>,
}

/// A frame in a buffer of its own: `total` bytes long, of which the first `filled` have come.
#[derive(Debug)]
struct Long {
    bytes: Vec<u8>,
    filled: usize,
    total: usize,
}

impl FrameDecoder {
    /// A decoder that takes frames of at most so many bytes, length prefix included.
    pub fn new(limit: usize) -> Self {
        Self { limit, buffer: vec![0; BUFFER], start: 0, end: 0, long: None }
    }

    /// Where the next bytes are to be put: never empty, if all frames have been taken out before.
    pub fn spare(&mut self) -> &mut [u8] {
        if self.long.is_some() {
            return self.long.as_mut().map_or(&mut [], Long::spare);
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.end == self.buffer.len() {
            self.make_room();
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Says that so many bytes have been put there.
    pub fn filled(&mut self, count: usize) {
        match &mut self.long {
            Some(long) => long.filled = (long.filled + count).min(long.bytes.len()),
            None => self.end = (self.end + count).min(self.buffer.len()),
        }
    }

    /// Puts bytes in, whatever their number.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let spare = self.spare();
            let count = spare.len().min(bytes.len());
            let (now, later) = bytes.split_at(count);
            if let Some(room) = spare.get_mut(..count) {
                room.copy_from_slice(now);
            }
            self.filled(count);
            bytes = later;
            if self.long.as_ref().is_some_and(Long::is_complete) && !bytes.is_empty() {
                self.keep_long();
            }
        }
    }

    /// Takes the next frame out, if all of it has come.
    ///
    /// # Errors
    /// When the bytes cannot be a frame. The stream cannot be used any further, and every call says so again.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, DecodeError> {
        if let Some(long) = self.long.take_if(|long| long.is_complete()) {
            return Frame::parse(long.bytes).map(Some);
        }
        if self.long.is_some() {
            return Ok(None);
        }
        let pending = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(prefix) = Prefix::read(pending, self.limit)? else { return Ok(None) };
        if let Some(whole) = pending.get(..prefix.total) {
            let frame =
                Frame { bytes: whole.to_vec(), header_end: prefix.header_end, encoding: prefix.encoding };
            self.start += prefix.total;
            return Ok(Some(frame));
        }
        if prefix.total > self.buffer.len() - self.start {
            self.relocate(prefix.total);
        }
        Ok(None)
    }

    /// How many bytes have come that no frame has been made of.
    pub fn buffered(&self) -> usize {
        self.end - self.start + self.long.as_ref().map_or(0, |long| long.filled)
    }

    /// The frame at the front does not fit behind what was before it.
    fn relocate(&mut self, total: usize) {
        if total <= MOVED {
            self.move_to_front();
            return;
        }
        let bytes = self.buffer.get(self.start..self.end).unwrap_or_default().to_vec();
        self.long = Some(Long { filled: bytes.len(), bytes, total });
        (self.start, self.end) = (0, 0);
    }

    fn move_to_front(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
    }

    /// The buffer is full: of the beginning of one frame, or of frames that nobody has taken out.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.move_to_front();
        } else {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
    }

    /// More is fed behind a long frame that nobody has taken out: it goes back to the front of the buffer.
    fn keep_long(&mut self) {
        if let Some(long) = self.long.take() {
            self.end = long.bytes.len();
            self.buffer.clear();
            self.buffer.extend_from_slice(&long.bytes);
            self.buffer.resize(self.end.next_multiple_of(BUFFER) + BUFFER, 0);
        }
    }
}

impl Long {
    fn is_complete(&self) -> bool {
        self.filled == self.total
    }

    /// Grows by what has come already, so that an announced length alone costs nothing.
    fn spare(&mut self) -> &mut [u8] {
        if self.filled == self.bytes.len() {
            let grown = self.filled.saturating_mul(2).max(MOVED).min(self.total);
            self.bytes.reserve_exact(grown - self.filled);
            self.bytes.resize(grown, 0);
        }
        self.bytes.get_mut(self.filled..).unwrap_or_default()
    }
}
