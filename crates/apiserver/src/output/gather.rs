//! The pieces of a stream: small events are gathered, large ones are passed on without a copy.

use std::collections::VecDeque;

use bytes::Bytes;

/// About how much is gathered at a time: what a watcher that does not read holds.
pub const PIECE: usize = 16 << 10;
/// What is larger is not copied.
pub const SMALL: usize = PIECE / 2;

#[derive(Default)]
pub struct Gather {
    ready: VecDeque<Bytes>,
    /// Alone so far, so it need not be copied: mostly there is one event, which all watchers share.
    first: Option<Bytes>,
    gathered: Vec<u8>,
}

impl Gather {
    pub fn push(&mut self, bytes: Bytes) {
        if bytes.len() > SMALL {
            self.flush();
            self.ready.push_back(bytes);
        } else if self.first.is_none() && self.gathered.is_empty() {
            self.first = Some(bytes);
        } else {
            if let Some(first) = self.first.take() {
                self.gathered.reserve(PIECE);
                self.gathered.extend_from_slice(&first);
            }
            self.gathered.extend_from_slice(&bytes);
            if self.gathered.len() > PIECE - SMALL {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        self.ready.extend(self.first.take());
        if !self.gathered.is_empty() {
            self.ready.push_back(std::mem::take(&mut self.gathered).into());
        }
    }

    /// Whether there is enough to be sent.
    pub fn is_enough(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next piece; `None` if nothing is left.
    pub fn pop(&mut self) -> Option<Bytes> {
        if self.ready.is_empty() {
            self.flush();
        }
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_their_order_and_stay_small() {
        let sizes = [10, SMALL, 1, SMALL + 1, 5, 5, 3 * PIECE, SMALL, SMALL, SMALL, 7];
        let mut gather = Gather::default();
        let (mut sent, mut said) = (Vec::new(), Vec::new());
        for (number, size) in sizes.into_iter().enumerate() {
            let bytes = Bytes::from(vec![number as u8; size]);
            sent.extend_from_slice(&bytes);
            gather.push(bytes);
        }
        while let Some(piece) = gather.pop() {
            assert!(piece.len() <= PIECE || piece.len() == 3 * PIECE, "{}", piece.len());
            said.extend_from_slice(&piece);
        }
        assert_eq!(sent, said);
    }

    #[test]
    fn what_is_alone_or_large_is_not_copied() {
        let mut gather = Gather::default();
        for size in [100, SMALL + 1] {
            let bytes = Bytes::from(vec![1; size]);
            gather.push(bytes.clone());
            assert_eq!(gather.pop().map(|piece| piece.as_ptr()), Some(bytes.as_ptr()));
        }
        assert!(gather.pop().is_none());
    }
}
