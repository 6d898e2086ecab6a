//! Takes the `:authority` out of requests before they are read.
//!
//! Go's client of a Unix socket sends the path of the socket there, percent-encoded, unless it is told otherwise: upstream's
//! kubelet does so when it asks for a plugin's name. Our HTTP/2 library ends each of these requests with PROTOCOL_ERROR, since a host has no
//! percent signs. On a Unix socket the value means nothing, so every one is replaced before the library sees it.
//!
//! Only lengths of header fields are read, never their contents. The value that is put in is not longer than any that it
//! replaces, so that the receiver's table of header fields holds at least what the sender believes it holds (RFC 7541, 4.4).

const PREFACE: usize = 24;
const FRAME_HEADER: usize = 9;
const HEADERS: u8 = 1;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// Bytes of dependency and weight.
const PRIORITY_LENGTH: usize = 5;
/// The largest frame that our side takes: a longer one is refused as it is.
const FRAME_MAX: usize = 16 << 10;
/// The place of `:authority` in the table that both sides know (RFC 7541, appendix A).
const AUTHORITY: usize = 1;
/// One letter, not encoded.
const VALUE: [u8; 2] = [1, b'u'];

/// What a client has sent, on its way to the library.
#[derive(Default)]
pub(super) struct Filter {
    /// The connection's first bytes have passed.
    begun: bool,
    /// Bytes of the current frame that pass as they are.
    passing: usize,
    /// Bytes that cannot be judged yet.
    held: Vec<u8>,
    pub ready: Vec<u8>,
}

impl Filter {
    pub fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        while self.step() {}
    }

    /// The client has ended: what is held is no whole frame, which the library will say.
    pub fn end(&mut self) {
        self.ready.append(&mut self.held);
    }

    /// Moves what can be judged; false when more bytes are needed.
    fn step(&mut self) -> bool {
        if !self.begun {
            self.begun = self.held.len() >= PREFACE;
            self.passing = PREFACE;
            return self.begun;
        }
        if self.passing > 0 {
            let count = self.passing.min(self.held.len());
            self.ready.extend(self.held.drain(..count));
            self.passing -= count;
            return count > 0;
        }
        let Some(&[high, middle, low, kind, flags, ..]) = self.held.get(..FRAME_HEADER) else { return false };
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let whole = FRAME_HEADER + length;
        if kind != HEADERS || length > FRAME_MAX {
            self.passing = whole;
            return true;
        }
        let Some(payload) = self.held.get(FRAME_HEADER..whole) else { return false };
        match without_authority(payload, flags) {
            Some(payload) => {
                let [.., high, middle, low] = payload.len().to_be_bytes();
                self.ready.extend([high, middle, low]);
                self.ready.extend_from_slice(&self.held[3..FRAME_HEADER]);
                self.ready.extend(payload);
            }
            None => self.ready.extend_from_slice(&self.held[..whole]),
        }
        self.held.drain(..whole);
        true
    }
}

/// The payload of a HEADERS frame with another authority; `None` if it has none, or is not well-formed.
fn without_authority(payload: &[u8], flags: u8) -> Option<Vec<u8>> {
    let padding = if flags & PADDED == 0 { None } else { Some(usize::from(*payload.first()?)) };
    let start = usize::from(padding.is_some()) + if flags & PRIORITY == 0 { 0 } else { PRIORITY_LENGTH };
    let end = payload.len().checked_sub(padding.unwrap_or(0))?;
    let fields = payload.get(start..end)?;
    let (from, to) = authority(fields)?;
    let (before, after) = (payload.get(..start + from)?, payload.get(start + to..)?);
    Some([before, &VALUE, after].concat())
}

/// Where the value of `:authority` stands, with its length.
fn authority(fields: &[u8]) -> Option<(usize, usize)> {
    let mut at = 0;
    while let Some(first) = fields.get(at) {
        let (bits, is_literal) = match *first {
            0x80.. => (7, false),
            0x40.. => (6, true),
            // The size of the table changes.
            0x20.. => (5, false),
            _ => (4, true),
        };
        let (index, next) = integer(fields, at, bits)?;
        at = next;
        if !is_literal {
            continue;
        }
        if index == 0 {
            at = after_text(fields, at)?;
        }
        let value = at;
        at = after_text(fields, at)?;
        if index == AUTHORITY && at - value >= VALUE.len() {
            return Some((value, at));
        }
    }
    None
}

fn after_text(fields: &[u8], at: usize) -> Option<usize> {
    let (length, start) = integer(fields, at, 7)?;
    let end = start.checked_add(length)?;
    (end <= fields.len()).then_some(end)
}

/// A number that begins in the lower bits of a byte (RFC 7541, 5.1), and where the next thing begins.
fn integer(fields: &[u8], at: usize, bits: u32) -> Option<(usize, usize)> {
    let most = (1 << bits) - 1;
    let mut value = usize::from(*fields.get(at)?) & most;
    if value < most {
        return Some((value, at + 1));
    }
    // Three more bytes say more than a frame can hold.
    for place in 0..3 {
        let byte = *fields.get(at + 1 + place)?;
        value += usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, at + 2 + place));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

    fn frame(flags: u8, payload: &[u8]) -> Vec<u8> {
        let [.., high, middle, low] = payload.len().to_be_bytes();
        [&[high, middle, low, HEADERS, flags, 0, 0, 0, 1], payload].concat()
    }

    /// What the library reads of what a client sends, whichever way its bytes arrive.
    fn passed(frames: &[u8]) -> Vec<u8> {
        let sent = [&[b'P'; PREFACE][..], &SETTINGS, frames].concat();
        let (mut whole, mut bytes) = (Filter::default(), Filter::default());
        whole.push(&sent);
        sent.iter().for_each(|byte| bytes.push(&[*byte]));
        for filter in [&mut whole, &mut bytes] {
            filter.end();
        }
        assert_eq!(whole.ready, bytes.ready, "the same byte by byte");
        whole.ready[PREFACE + SETTINGS.len()..].to_vec()
    }

    #[test]
    fn authority_is_replaced_and_nothing_else() {
        // POST, a size of the table, a path by name, a field with a new name; authority once plain, once encoded.
        let before = [0x83, 0x3f, 0xe1, 0x1f, 0x44, 2, b'/', b'x', 0x40, 2, b't', b'e', 1, b't'];
        let after = [0x10, 1, b'n', 1, b'v', 0xbe];
        let long = [b'%'; 300];
        for value in
            [[&[3][..], b"%2F"].concat(), vec![0x84, 1, 2, 3, 4], [&[127, 173, 1], &long[..]].concat()]
        {
            let fields = [&before[..], &[0x41], &value, &after].concat();
            let expected = [&before[..], &[0x41, 1, b'u'], &after].concat();
            assert_eq!(passed(&frame(4, &fields)), frame(4, &expected));
            let rest = frame(5, &[0x82, 0xbf]);
            let both = [frame(4, &fields), rest.clone()].concat();
            assert_eq!(passed(&both), [frame(4, &expected), rest].concat(), "the next frame is found");
            let dressed = |fields: &[u8]| [&[2, 0, 0, 0, 0, 16], fields, &[0, 0]].concat();
            let flags = PADDED | PRIORITY;
            assert_eq!(passed(&frame(flags, &dressed(&fields))), frame(flags, &dressed(&expected)));
        }
    }

    #[test]
    fn what_is_not_well_formed_passes_as_it_is() {
        for fields in [&[0x41, 200][..], &[0x41], &[0x41, 0], &[0x7f, 0xff, 0xff, 0xff, 0xff], &[0x82], &[]] {
            assert_eq!(passed(&frame(4, fields)), frame(4, fields));
        }
        let padding = frame(PADDED, &[200, 0x41, 1, b'%']);
        assert_eq!(passed(&padding), padding);
        let unfinished = &frame(4, &[0x41, 3, b'%', b'2', b'F'])[..12];
        assert_eq!(passed(unfinished), unfinished);
    }
}
