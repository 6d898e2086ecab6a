//! One call being timed.

use std::sync::Arc;

use tokio::time::Instant;
use tonic::Code;

use crate::metrics::Operations;

/// Counted exactly once: by `end`, or when dropped before.
pub struct Observation {
    operations: Arc<Operations>,
    method: &'static str,
    began: Instant,
    /// How the call counts if nobody says how it ended.
    code: Code,
}

impl Observation {
    /// A handler that ends without an answer has panicked.
    pub fn begin(operations: Arc<Operations>, method: &'static str) -> Self {
        Self { operations, method, began: Instant::now(), code: Code::Internal }
    }

    /// The handler is done and its stream begins; one that is dropped half-way was given up by its reader.
    pub fn streaming(mut self) -> Self {
        self.code = Code::Cancelled;
        self
    }

    pub fn end(mut self, code: Code) {
        self.code = code;
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.operations.observe(self.method, self.code, self.began.elapsed());
    }
}
