//! How much has been written to a block device, as the kernel counts it.

use std::fs;
use std::io;
use std::path::Path;

use crate::kernel::{KernelError, Result, Writes};

const BLOCK_DEVICES: &str = "/sys/block";
/// Columns of `stat` (Documentation/block/stat.rst): requests that ended.
const WRITES_ENDED: usize = 4;
const DISCARDS_ENDED: usize = 11;
/// Column of `inflight`.
const WRITES_UNDER_WAY: usize = 1;

pub(super) fn writes(device: &Path) -> Result<Writes> {
    let failed = |e: io::Error| KernelError::io(format!("count the writes to `{}`", device.display()), &e);
    let name = device.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let folder = Path::new(BLOCK_DEVICES).join(name);
    let column = |file: &str, number: usize| -> io::Result<u64> {
        let text = fs::read_to_string(folder.join(file))?;
        let word = text.split_ascii_whitespace().nth(number);
        word.and_then(|word| word.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    };
    if column("queue/iostats", 0).map_err(failed)? == 0 {
        return Err(KernelError::other(
            format!("count the writes to `{}`", device.display()),
            "`queue/iostats` of the device is off",
        ));
    }
    // In this order: a write that ends between the two looks is counted, if not twice.
    let under_way = column("inflight", WRITES_UNDER_WAY).map_err(failed)?;
    let discards = column("stat", DISCARDS_ENDED).map_err(failed)?;
    let done = column("stat", WRITES_ENDED).map_err(failed)? + discards;
    Ok(Writes { done, under_way })
}
