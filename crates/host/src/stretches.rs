//! Stretches of a file, collected in order.

use crate::disk::Extent;

/// Up to `max` stretches; those that touch become one.
pub(crate) struct Stretches {
    found: Vec<Extent>,
    max: usize,
}

impl Stretches {
    pub fn new(max: usize) -> Self {
        Self { found: Vec::new(), max }
    }

    /// Adds what begins at or after the last stretch. False when there is no room for one more.
    pub fn add(&mut self, start: u64, end: u64) -> bool {
        let full = self.found.len() >= self.max;
        match self.found.last_mut() {
            Some(last) if last.offset + last.length >= start => {
                last.length = last.length.max(end - last.offset);
            }
            _ if full => return false,
            _ => self.found.push(Extent { offset: start, length: end - start }),
        }
        true
    }

    pub fn into_found(self) -> Vec<Extent> {
        self.found
    }
}
