//! Where an API server under test keeps its objects.

use std::sync::atomic::{AtomicU32, Ordering};

use super::etcd::Etcd;

#[derive(Debug, Clone, Copy)]
pub enum Store {
    Memory,
    /// In the data directory.
    File,
    /// Three members that the tests of a process share, below a prefix of its own.
    Etcd,
}

impl Store {
    pub fn flags(self) -> Vec<String> {
        static PREFIXES: AtomicU32 = AtomicU32::new(0);
        match self {
            Self::Memory => vec!["--memory".into()],
            Self::File => Vec::new(),
            Self::Etcd => {
                let prefix = format!("/test-{}", PREFIXES.fetch_add(1, Ordering::Relaxed));
                Etcd::shared().flags(0, &prefix)
            }
        }
    }
}
