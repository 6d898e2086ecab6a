//! Tags, varints and lengths.

use super::{ProtobufError, Result};

/// One value as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raw<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> Raw<'a> {
    pub fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Fixed64(_) | Self::Fixed32(_) => Err(wrong("not length-delimited")),
        }
    }

    pub fn text(self) -> Result<String> {
        let text = String::from_utf8(self.bytes()?.to_vec());
        text.map_err(|_| wrong("not UTF-8"))
    }

    pub fn varint(self) -> Result<u64> {
        match self {
            Self::Varint(value) => Ok(value),
            Self::Bytes(_) | Self::Fixed64(_) | Self::Fixed32(_) => Err(wrong("not a number")),
        }
    }
}

pub fn wrong(why: &'static str) -> ProtobufError {
    ProtobufError::Field { field: "".into(), why }
}

/// Fields of one message in the order in which they stand.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take(1)? else { return Err(ProtobufError::Truncated) };
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(wrong("number of more than 64 bits"))
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn field(&mut self) -> Result<(u32, Raw<'a>)> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| wrong("field number out of range"))?;
        let raw = match tag & 7 {
            0 => Raw::Varint(self.varint()?),
            1 => Raw::Fixed64(u64::from_le_bytes(array(self.take(8)?)?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                Raw::Bytes(self.take(length)?)
            }
            5 => Raw::Fixed32(u32::from_le_bytes(array(self.take(4)?)?)),
            _ => return Err(wrong("wire type is not known")),
        };
        Ok((number, raw))
    }
}

fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| ProtobufError::Truncated)
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u32, Raw<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            // Nothing behind a broken field can be trusted.
            self.rest = &[];
        }
        Some(field)
    }
}

#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Goes on behind what is there.
    pub fn with(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many bytes a field of this length takes.
    pub fn size(number: u32, length: usize) -> usize {
        base128_size(u64::from(number) << 3) + base128_size(length as u64) + length
    }

    fn base128(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub fn varint(&mut self, number: u32, value: u64) {
        self.base128(u64::from(number) << 3);
        self.base128(value);
    }

    pub fn fixed64(&mut self, number: u32, value: u64) {
        self.base128(u64::from(number) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// The beginning of a field whose bytes follow.
    pub fn announce(&mut self, number: u32, length: usize) {
        self.base128(u64::from(number) << 3 | 2);
        self.base128(length as u64);
    }

    pub fn bytes(&mut self, number: u32, value: &[u8]) {
        self.announce(number, value.len());
        self.0.extend_from_slice(value);
    }

    pub fn text(&mut self, number: u32, value: &str) {
        self.bytes(number, value.as_bytes());
    }
}

fn base128_size(value: u64) -> usize {
    let bits = 64 - value.leading_zeros() as usize;
    bits.div_ceil(7).max(1)
}
