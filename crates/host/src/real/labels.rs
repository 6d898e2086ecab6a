//! Labels: extended attributes that only root sees and that stay with a file whatever its name becomes.

use std::io;
use std::path::Path;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::disk::open_regular;

/// ext4 keeps all attributes of a file in one block; a label is small by design.
const VALUE_MAX: usize = 4096;

fn attribute(name: &str) -> String {
    format!("trusted.{name}")
}

pub(super) fn set(path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
    let file = open_regular(path)?;
    rustix::fs::fsetxattr(&file, attribute(name), value, XattrFlags::empty())?;
    file.sync_all()
}

pub(super) fn get(path: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; VALUE_MAX];
    match rustix::fs::fgetxattr(open_regular(path)?, attribute(name), &mut value) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        // A filesystem without attributes has no labels either.
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
