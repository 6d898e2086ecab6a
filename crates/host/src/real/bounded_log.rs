//! A log file that another process appends to, kept below a size.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::private::new_private_file;

/// Keeps a log that has grown beyond `max` bytes as `NAME.1`, instead of an older one, and empties it. The process that
/// appends to it keeps its descriptor; what it writes between the two steps is lost.
pub fn bound_log(path: &Path, max: u64) -> io::Result<()> {
    let mut log = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(log) => log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if log.metadata()?.len() <= max {
        return Ok(());
    }
    let kept = kept_as(path);
    match fs::remove_file(&kept) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut copy = new_private_file(&kept)?;
    io::copy(&mut log, &mut copy)?;
    log.set_len(0)
}

fn kept_as(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::real::private_log;

    /// Goal: a process that logs for months fills no disk, and its last lines stay readable.
    #[test]
    fn a_log_that_is_too_long_is_kept_once_and_emptied_under_its_writer() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("kubelet.log");
        bound_log(&path, 8).unwrap();
        let mut writer = private_log(&path).unwrap();
        let read = |name: &str| fs::read_to_string(scratch.path().join(name)).unwrap_or_default();
        writer.write_all(b"12345678").unwrap();
        bound_log(&path, 8).unwrap();
        assert_eq!((read("kubelet.log"), read("kubelet.log.1")), ("12345678".into(), String::new()));
        for round in ["first", "second"] {
            writer.write_all(round.as_bytes()).unwrap();
            writer.write_all(b" and more").unwrap();
            bound_log(&path, 8).unwrap();
            assert!(read("kubelet.log.1").ends_with(&format!("{round} and more")));
            assert_eq!(read("kubelet.log"), "");
        }
        writer.write_all(b"after").unwrap();
        assert_eq!(read("kubelet.log"), "after", "the writer appends to what is empty now");
    }
}
