//! `/proc/self/mountinfo`, line by line (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::kernel::{KernelError, Mount, Result};

const PATH: &str = "/proc/self/mountinfo";

/// What the kernel appends to a mount point whose directory was removed meanwhile.
const DELETED: &[u8] = b"//deleted";

/// The mount table, oldest first.
pub(super) fn read() -> Result<Vec<Mount>> {
    let table = fs::read(PATH).map_err(|e| KernelError::io(format!("read `{PATH}`"), &e))?;
    parse(&table)
}

pub(super) fn parse(table: &[u8]) -> Result<Vec<Mount>> {
    let lines = table.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| parse_line(line).ok_or_else(|| malformed(line))).collect()
}

/// `36 35 98:0 /root /target rw,noatime shared:1 master:2 - ext4 /dev/sda rw`: any number of optional
/// fields stands before the dash.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let _mount_id = fields.next()?;
    let _parent_id = fields.next()?;
    let device = text(fields.next()?);
    let root = path(fields.next()?);
    let target = path(fields.next()?);
    let options = text(fields.next()?).split(',').map(Into::into).collect();
    fields.find(|field| *field == b"-")?;
    let fs_type = text(fields.next()?);
    let source = text(fields.next()?);
    let filesystem_read_only = text(fields.next()?).split(',').any(|option| option == "ro");
    Some(Mount { device, root, target, options, fs_type, source, filesystem_read_only })
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

fn path(field: &[u8]) -> PathBuf {
    let bytes = unescape(field);
    let bytes = bytes.strip_suffix(DELETED).unwrap_or(&bytes);
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// Space, tab, newline, backslash and `#` are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        match (first, octal(tail)) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(digits, 8).ok()
}

fn malformed(line: &[u8]) -> KernelError {
    KernelError::other(
        format!("read `{PATH}`"),
        format!("malformed line `{}`", String::from_utf8_lossy(line)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Mount {
        let mut mounts = parse(line.as_bytes()).unwrap();
        assert_eq!(mounts.len(), 1, "{line}");
        mounts.remove(0)
    }

    #[test]
    fn reads_every_form_of_a_line() {
        let plain = one("27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n");
        assert_eq!((plain.device.as_str(), plain.root, plain.target), ("254:0", "/".into(), "/".into()));
        assert_eq!((plain.fs_type.as_str(), plain.source.as_str()), ("ext4", "/dev/vda"));
        assert_eq!(plain.options, ["rw", "relatime"]);

        let shared =
            one("36 35 98:0 /mnt1 /mnt2 ro,noatime shared:1 master:2 unbindable - ext3 /dev/root rw");
        assert_eq!(shared.target, PathBuf::from("/mnt2"));
        assert!(shared.options.contains(&"ro".into()) && !shared.filesystem_read_only);
        let failed = one("36 35 98:0 / /mnt rw,noatime - ext4 /dev/loop0 ro,errors=remount-ro");
        assert!(!failed.read_only() && failed.filesystem_read_only);
        assert_eq!(shared.fs_type, "ext3");

        let escaped = one(r"1 2 7:0 /a\040b /c\011d\134e\043f rw - xfs /dev/my\040disk rw");
        assert_eq!(escaped.root, PathBuf::from("/a b"));
        assert_eq!(escaped.target, PathBuf::from("/c\td\\e#f"));
        assert_eq!(escaped.source, "/dev/my disk");

        let deleted = one(r"1 2 0:6 /loop0//deleted /pods/dev rw - devtmpfs devtmpfs rw");
        assert_eq!(deleted.root, PathBuf::from("/loop0"));

        // A source may be empty, and a backslash may stand alone.
        let odd = one(r"1 2 0:40 / /x\9 rw -  - tmpfs  rw".replace(" -  -", " -").as_str());
        assert_eq!((odd.target, odd.source.as_str()), (PathBuf::from(r"/x\9"), ""));
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        for line in [
            "garbage",
            "1 2 3:4 / /x rw",
            "1 2 3:4 / /x rw shared:1 ext4 /dev/x rw",
            "1 2 3:4 / /x rw - ext4",
        ] {
            let error = parse(line.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("malformed line"), "{error}");
        }
        assert!(parse(b"").unwrap().is_empty());
    }
}
