//! What a filesystem says of itself, mounted or not.

use std::path::Path;

use crate::kernel::{KernelError, Result};

pub(super) fn size(device: &Path, fs_type: &str) -> Result<u64> {
    Err(unknown(device, fs_type))
}

pub(super) fn errors(device: &Path, fs_type: &str) -> Result<u64> {
    Err(unknown(device, fs_type))
}

fn unknown(device: &Path, fs_type: &str) -> KernelError {
    KernelError::other(format!("look at the {fs_type} on `{}`", device.display()), "not built yet")
}
