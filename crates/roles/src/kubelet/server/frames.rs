//! Frames of a WebSocket (RFC 6455) as a server sees them. Pure.

/// Of one message; a hostile client must not fill the memory.
const MESSAGE_MAX: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Text is as good as bytes here.
    Data(Vec<u8>),
    Ping(Vec<u8>),
    Close,
}

/// Why a connection cannot go on, as the code of the frame that closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    Protocol,
    TooBig,
}

impl Violation {
    pub fn code(self) -> u16 {
        match self {
            Self::Protocol => 1002,
            Self::TooBig => 1009,
        }
    }
}

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Puts messages together from whatever pieces the bytes come in.
#[derive(Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// A message of which the last frame is still to come.
    partial: Option<Vec<u8>>,
}

impl Decoder {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message; `None` until more bytes come.
    pub fn next(&mut self) -> Result<Option<Message>, Violation> {
        while let Some(frame) = self.frame()? {
            match (frame.opcode, frame.last) {
                (PING, true) => return Ok(Some(Message::Ping(frame.payload))),
                (PONG, true) => {}
                (CLOSE, true) => return Ok(Some(Message::Close)),
                (TEXT | BINARY, last) if self.partial.is_none() => {
                    if last {
                        return Ok(Some(Message::Data(frame.payload)));
                    }
                    self.partial = Some(frame.payload);
                }
                (CONTINUATION, last) => {
                    let mut whole = self.partial.take().ok_or(Violation::Protocol)?;
                    whole.extend_from_slice(&frame.payload);
                    if whole.len() > MESSAGE_MAX {
                        return Err(Violation::TooBig);
                    }
                    if last {
                        return Ok(Some(Message::Data(whole)));
                    }
                    self.partial = Some(whole);
                }
                _ => return Err(Violation::Protocol),
            }
        }
        Ok(None)
    }

    fn frame(&mut self) -> Result<Option<Frame>, Violation> {
        let [first, second, rest @ ..] = &self.bytes[..] else { return Ok(None) };
        // Reserved bits mean extensions that nobody agreed on; clients must mask.
        if first & 0x70 != 0 || second & 0x80 == 0 {
            return Err(Violation::Protocol);
        }
        let (length, after) = match second & 0x7f {
            126 => match rest.first_chunk::<2>() {
                Some(length) => (u64::from(u16::from_be_bytes(*length)), 2),
                None => return Ok(None),
            },
            127 => match rest.first_chunk::<8>() {
                Some(length) => (u64::from_be_bytes(*length), 8),
                None => return Ok(None),
            },
            short => (u64::from(short), 0),
        };
        let (opcode, last) = (first & 0x0f, first & 0x80 != 0);
        if opcode >= CLOSE && (length > 125 || !last) {
            return Err(Violation::Protocol);
        }
        let length = usize::try_from(length).ok().filter(|length| *length <= MESSAGE_MAX);
        let length = length.ok_or(Violation::TooBig)?;
        let Some(mask) = rest[after..].first_chunk::<4>() else { return Ok(None) };
        let Some(masked) = rest[after + 4..].get(..length) else { return Ok(None) };
        let payload = masked.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        self.bytes.drain(..2 + after + 4 + length);
        Ok(Some(Frame { opcode, last, payload }))
    }
}

struct Frame {
    opcode: u8,
    last: bool,
    payload: Vec<u8>,
}

/// Bytes for one channel of a session, as one binary message.
pub fn data(channel: u8, bytes: &[u8]) -> Vec<u8> {
    let mut frame = head(BINARY, bytes.len() + 1);
    frame.push(channel);
    frame.extend_from_slice(bytes);
    frame
}

pub fn ping() -> Vec<u8> {
    head(PING, 0)
}

pub fn pong(payload: &[u8]) -> Vec<u8> {
    let mut frame = head(PONG, payload.len());
    frame.extend_from_slice(payload);
    frame
}

pub fn close(code: u16) -> Vec<u8> {
    let mut frame = head(CLOSE, 2);
    frame.extend_from_slice(&code.to_be_bytes());
    frame
}

/// The only frame of its message; servers do not mask.
fn head(opcode: u8, length: usize) -> Vec<u8> {
    let mut head = vec![0x80 | opcode];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => head.push(short),
        (_, Ok(medium)) => {
            head.push(126);
            head.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            head.push(127);
            head.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    head
}
