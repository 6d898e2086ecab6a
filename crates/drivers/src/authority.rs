//! Names of the server that clients on a UNIX socket make up.
//!
//! gRPC's C core (Python, Ruby, C++) sends the percent-encoded path of the socket as `:authority`. The HTTP library here
//! rejects a percent sign in a host and resets the stream before any service sees the request. As every request on a
//! socket of this driver is for this driver, the bytes of such a name that a host cannot have are replaced on their way in.
//! Each is replaced by one other, so no length and no entry of the compression table changes; a name that a client sends
//! Huffman-coded is left as it is.

/// The client's bytes of one HTTP/2 connection, followed from frame to frame. Whatever is not understood passes unchanged.
#[derive(Debug)]
pub struct Requests {
    at: At,
    /// Where header fields stopped that go on in a CONTINUATION frame.
    continued: Option<Field>,
}

#[derive(Debug)]
enum At {
    /// Bytes of the connection preface to come.
    Preface(u32),
    /// The head of a frame, as far as it has arrived.
    Head([u8; FRAME_HEAD], usize),
    /// Bytes of a frame without header fields to come.
    Skip(u32),
    Fields(Fields),
}

/// A frame with header fields.
#[derive(Debug)]
struct Fields {
    /// Whether its first byte, which tells the length of the padding, is to come.
    padded: bool,
    /// Bytes before the fields to come.
    before: u32,
    /// Bytes of the frame to come.
    left: u32,
    /// Bytes of padding at its end.
    padding: u32,
    field: Field,
    /// Whether no CONTINUATION frame follows.
    last: bool,
}

/// Where in the compressed header fields (RFC 7541) the next byte belongs.
#[derive(Debug, Clone, Copy)]
enum Field {
    Start,
    /// An integer goes on in the next byte.
    Number {
        so_far: u64,
        shift: u32,
        then: Then,
    },
    /// A string begins with its length.
    Length {
        of: Text,
    },
    /// Bytes of a string to come.
    Bytes {
        of: Text,
        left: u64,
        plain: bool,
    },
}

/// What an integer was.
#[derive(Debug, Clone, Copy)]
enum Then {
    Nothing,
    NameIndex,
    TextLength { of: Text, plain: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    /// A name in full; how many of its bytes are those of `:authority`, as long as all are.
    Name(Option<usize>),
    Value,
    Authority(Host),
}

/// Where in the name of a server the next byte belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    Begin,
    /// Between the brackets of an IPv6 address.
    Address,
    Rest,
}

const PREFACE: u32 = 24;
const FRAME_HEAD: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
const PRIORITY_LENGTH: u32 = 5;
/// `:authority` in the static table.
const AUTHORITY: u64 = 1;
const AUTHORITY_NAME: &[u8] = b":authority";
const HUFFMAN: u8 = 0x80;
/// More than any integer of a header has.
const SHIFT_MAX: u32 = 56;
/// Takes the place of a byte that no host has.
const REPLACEMENT: u8 = b'-';

impl Default for Requests {
    fn default() -> Self {
        Self { at: At::Preface(PREFACE), continued: None }
    }
}

impl Requests {
    /// Follows what has arrived and replaces what a host cannot have in `:authority`.
    pub fn rewrite(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.next(byte);
        }
    }

    fn next(&mut self, byte: &mut u8) {
        self.at = match std::mem::replace(&mut self.at, next_frame()) {
            At::Preface(1) | At::Skip(1) => next_frame(),
            At::Preface(left) => At::Preface(left - 1),
            At::Skip(left) => At::Skip(left - 1),
            At::Head(mut head, have) => {
                if let Some(place) = head.get_mut(have) {
                    *place = *byte;
                }
                if have + 1 < FRAME_HEAD { At::Head(head, have + 1) } else { self.frame(head) }
            }
            At::Fields(fields) => self.within(fields.next(byte)),
        };
    }

    fn frame(&mut self, head: [u8; FRAME_HEAD]) -> At {
        let [a, b, c, kind, flags, ..] = head;
        let left = u32::from_be_bytes([0, a, b, c]);
        let last = flags & END_HEADERS != 0;
        match (kind, self.continued.take()) {
            (HEADERS, _) => {
                let padded = flags & PADDED != 0;
                let before = u32::from(padded) + if flags & PRIORITY == 0 { 0 } else { PRIORITY_LENGTH };
                self.within(Fields { padded, before, left, padding: 0, field: Field::Start, last })
            }
            (CONTINUATION, Some(field)) => {
                self.within(Fields { padded: false, before: 0, left, padding: 0, field, last })
            }
            _ if left == 0 => next_frame(),
            _ => At::Skip(left),
        }
    }

    fn within(&mut self, fields: Fields) -> At {
        if fields.left > 0 {
            return At::Fields(fields);
        }
        self.continued = (!fields.last).then_some(fields.field);
        next_frame()
    }
}

impl Fields {
    fn next(mut self, byte: &mut u8) -> Self {
        if self.padded {
            self.padded = false;
            self.padding = u32::from(*byte);
        } else if self.before == 0 && self.left > self.padding {
            self.field = self.field.next(byte);
        }
        self.before = self.before.saturating_sub(1);
        self.left -= 1;
        self
    }
}

fn next_frame() -> At {
    At::Head([0; FRAME_HEAD], 0)
}

impl Field {
    fn next(self, byte: &mut u8) -> Self {
        match self {
            Self::Start => match *byte {
                byte if byte & 0x80 != 0 => number(byte, 7, Then::Nothing),
                byte if byte & 0x40 != 0 => number(byte, 6, Then::NameIndex),
                byte if byte & 0x20 != 0 => number(byte, 5, Then::Nothing),
                byte => number(byte, 4, Then::NameIndex),
            },
            Self::Length { of } => number(*byte, 7, Then::TextLength { of, plain: *byte & HUFFMAN == 0 }),
            Self::Number { so_far, shift, then } => {
                let so_far = so_far.saturating_add(u64::from(*byte & 0x7f) << shift);
                match *byte & 0x80 != 0 && shift < SHIFT_MAX {
                    true => Self::Number { so_far, shift: shift + 7, then },
                    false => then.with(so_far),
                }
            }
            Self::Bytes { of, left, plain } => {
                if let (Text::Authority(host), true) = (of, plain)
                    && !host.allows(*byte)
                {
                    *byte = REPLACEMENT;
                }
                let of = of.with(*byte, plain);
                if left > 1 { Self::Bytes { of, left: left - 1, plain } } else { of.end() }
            }
        }
    }
}

/// An integer with this many bits in its first byte; all of them set means that it goes on.
fn number(byte: u8, bits: u32, then: Then) -> Field {
    let most = (1_u8 << bits) - 1;
    match byte & most {
        value if value == most => Field::Number { so_far: most.into(), shift: 0, then },
        value => then.with(value.into()),
    }
}

impl Then {
    fn with(self, number: u64) -> Field {
        match self {
            Self::Nothing => Field::Start,
            Self::NameIndex if number == 0 => Field::Length { of: Text::Name(Some(0)) },
            Self::NameIndex if number == AUTHORITY => Field::Length { of: Text::Authority(Host::Begin) },
            Self::NameIndex => Field::Length { of: Text::Value },
            Self::TextLength { of, .. } if number == 0 => of.end(),
            Self::TextLength { of, plain } => Field::Bytes { of, left: number, plain },
        }
    }
}

impl Text {
    /// Compares the next byte of a name.
    fn with(self, byte: u8, plain: bool) -> Self {
        match self {
            Self::Name(Some(same)) if plain && AUTHORITY_NAME.get(same) == Some(&byte) => {
                Self::Name(Some(same + 1))
            }
            Self::Name(_) => Self::Name(None),
            Self::Value => Self::Value,
            Self::Authority(host) => Self::Authority(host.with(byte)),
        }
    }

    fn end(self) -> Field {
        match self {
            Self::Name(Some(same)) if same == AUTHORITY_NAME.len() => {
                Field::Length { of: Self::Authority(Host::Begin) }
            }
            Self::Name(_) => Field::Length { of: Self::Value },
            Self::Value | Self::Authority(_) => Field::Start,
        }
    }
}

impl Host {
    fn allows(self, byte: u8) -> bool {
        let bracket = match self {
            Self::Begin => byte == b'[',
            Self::Address => byte == b']',
            Self::Rest => false,
        };
        bracket || byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':')
    }

    fn with(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Begin, b'[') => Self::Address,
            (Self::Address, byte) if byte != b']' => Self::Address,
            _ => Self::Rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFACE_BYTES: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// Header fields with this authority as a literal, between others of every kind.
    fn fields(authority: &str) -> Vec<u8> {
        let long = [b'%'; 200];
        let mut fields = vec![0x83, 0x86, 0x3f, 0xe1, 0x1f]; // :method POST, :scheme http, table size 4096
        fields.extend([0x44, 5]); // :path, indexed for later
        fields.extend(b"/%2Fx");
        // Once by its number in the static table and once in full, as the C core sends it.
        for name in [&[0x41][..], b"\x40\x0a:authority", b"\x00\x0a:authority"] {
            fields.extend(name);
            fields.push(u8::try_from(authority.len()).unwrap());
            fields.extend(authority.as_bytes());
        }
        // Names that only begin or end like it.
        fields.extend(b"\x40\x0b:authority%\x01%\x40\x09authority\x01%\x40\x09:authorit\x01%");
        fields.extend([0x00, 4]); // a name of its own
        fields.extend(b"x-%y");
        fields.extend([0x7f, 73]); // 200 bytes
        fields.extend(long);
        fields.extend([0x0f, 0x2f, 1, b'%']); // index 62
        fields.push(0xbe);
        fields
    }

    fn rewritten(bytes: &[u8], piece: usize) -> Vec<u8> {
        let (mut requests, mut all) = (Requests::default(), bytes.to_vec());
        for piece in all.chunks_mut(piece) {
            requests.rewrite(piece);
        }
        all
    }

    #[test]
    fn only_the_authority_changes() {
        let stream = |authority: &str| {
            let padded = [&[3, 0, 0, 0, 0, 0][..], &fields(authority), &[0; 3]].concat();
            [
                PREFACE_BYTES,
                &frame(4, 0, &[0, 3, 0, 0, 0, 100]),
                &frame(HEADERS, END_HEADERS, &fields(authority)),
                &frame(0, 1, b"\x41\x05%2Fab"),
                &frame(6, 0, b""),
                &frame(HEADERS, END_HEADERS | PADDED | PRIORITY, &padded),
            ]
            .concat()
        };
        let (sent, expected) = (stream("%2Frun%2Fcsi.sock"), stream("-2Frun-2Fcsi.sock"));
        for piece in [1, 2, 7, 4096] {
            assert_eq!(rewritten(&sent, piece), expected, "{piece} bytes at a time");
        }
    }

    #[test]
    fn ordinary_names_pass_unchanged() {
        for authority in ["localhost", "localhost:50051", "csi.sock", "[::1]:50051", "[fe80::1]", ""] {
            let sent = [PREFACE_BYTES, &frame(HEADERS, END_HEADERS, &fields(authority))].concat();
            assert_eq!(rewritten(&sent, 4096), sent, "{authority}");
        }
        for (authority, expected) in [("a[b]", "a-b-"), ("[::1%251]", "[::1-251]"), ("[::1][", "[::1]-")] {
            let stream = |name| [PREFACE_BYTES, &frame(HEADERS, END_HEADERS, &fields(name))].concat();
            assert_eq!(rewritten(&stream(authority), 4096), stream(expected), "{authority}");
        }
    }

    /// Fields may be cut between any two bytes, with padding in the first frame and empty frames between.
    #[test]
    fn fields_that_go_on_in_further_frames() {
        let stream = |authority: &str, first: usize, second: usize| {
            let fields = fields(authority);
            let (start, rest) = fields.split_at(first);
            let (middle, end) = rest.split_at(second.min(rest.len()));
            let padded = [&[2][..], start, &[0x41, 1]].concat();
            [
                PREFACE_BYTES,
                &frame(HEADERS, PADDED, &padded),
                &frame(CONTINUATION, 0, middle),
                &frame(CONTINUATION, 0, b""),
                &frame(CONTINUATION, END_HEADERS, end),
                &frame(HEADERS, END_HEADERS, &fields),
            ]
            .concat()
        };
        for first in 0..fields("%2Frun%2Fcsi.sock").len() {
            let (sent, expected) =
                (stream("%2Frun%2Fcsi.sock", first, 7), stream("-2Frun-2Fcsi.sock", first, 7));
            assert_eq!(rewritten(&sent, 5), expected, "cut at {first}");
        }
    }

    /// Whatever arrives, in whichever pieces: bytes only ever become the replacement, how they arrive makes no
    /// difference, and a name that was rewritten once stays.
    #[test]
    fn any_bytes_do_no_harm() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        };
        let mut changed = 0;
        for _ in 0..500 {
            let noise: Vec<u8> = (0..300).map(|_| random()).collect();
            let flags = if random() & 1 == 0 { END_HEADERS } else { 0 };
            let fields = [b"\x41\x05", &noise[..]].concat();
            let sent = [
                PREFACE_BYTES,
                &frame(HEADERS, flags, &fields),
                &frame(CONTINUATION, END_HEADERS, &noise),
                &noise,
            ]
            .concat();
            let whole = rewritten(&sent, sent.len());
            for (before, after) in sent.iter().zip(&whole).filter(|(before, after)| before != after) {
                assert!(*after == REPLACEMENT && !before.is_ascii_alphanumeric(), "{before} became {after}");
                changed += 1;
            }
            assert_eq!(rewritten(&sent, 1 + usize::from(random() % 20)), whole);
            assert_eq!(rewritten(&whole, 4096), whole);
        }
        assert!(changed > 0, "some authority had to change");
    }
}
