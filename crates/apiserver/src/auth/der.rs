//! Just enough DER to read names and keys: tag, length, content.

/// Tags that are read here.
pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const OCTET_STRING: u8 = 0x04;
pub const OBJECT_ID: u8 = 0x06;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;
/// The first optional element of a certificate: its version.
pub const CONTEXT_0: u8 = 0xa0;

/// Elements one after the other. `None` means the end or something malformed.
#[derive(Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The tag of the next element.
    pub fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Tag and content of the next element.
    pub fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // A certificate is far below sixteen megabytes.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The content of the next element, which must have this tag.
    pub fn content(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let (found, content) = ahead.any()?;
        if found != tag {
            return None;
        }
        *self = ahead;
        Some(content)
    }

    /// A reader of the elements inside the next one.
    pub fn inside(&mut self, tag: u8) -> Option<Self> {
        self.content(tag).map(Self)
    }
}

/// One element around content.
pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    match length {
        0..=0x7f => out.push(length.to_be_bytes()[size_of::<usize>() - 1]),
        _ => {
            let bytes: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
            out.push(0x80 | bytes.len().to_be_bytes()[size_of::<usize>() - 1]);
            out.extend_from_slice(&bytes);
        }
    }
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements() {
        let long = vec![7; 300];
        let bytes = [element(SEQUENCE, &element(INTEGER, &[5])), element(OCTET_STRING, &long)].concat();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.inside(SEQUENCE).unwrap().content(INTEGER), Some(&[5][..]));
        assert_eq!(reader.content(INTEGER), None, "another tag is left alone");
        assert_eq!(reader.content(OCTET_STRING), Some(&long[..]));
        assert_eq!(reader.any(), None);
    }

    #[test]
    fn malformed() {
        for bytes in [&[0x30][..], &[0x30, 5, 1], &[0x30, 0x80], &[0x30, 0x84, 0, 0, 0, 0], &[0x30, 0x82, 1]]
        {
            assert_eq!(Reader::new(bytes).any(), None, "{bytes:?}");
        }
    }
}
