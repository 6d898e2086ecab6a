//! Randomness: object UIDs, generated names, jitter.

/// Characters that Kubernetes uses in generated names: no vowels, nothing that looks like another.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A source of random numbers; seeded in simulations.
pub trait Random: Send + Sync {
    fn next_u64(&self) -> u64;
}

impl dyn Random {
    /// A random (version 4) UUID in its usual spelling.
    pub fn uuid(&self) -> String {
        let (high, low) = (self.next_u64(), self.next_u64());
        let high = (high & !0xf000) | 0x4000;
        let low = (low & !(0b11 << 62)) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// The suffix `generateName` appends.
    pub fn name_suffix(&self, length: usize) -> String {
        let pick = |_| NAME_ALPHABET[(self.next_u64() % NAME_ALPHABET.len() as u64) as usize] as char;
        (0..length).map(pick).collect()
    }
}
