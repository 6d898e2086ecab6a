//! Which processes keep a block device in use.
//!
//! `findmnt` does not show what is mounted in another process's mount namespace, nor a filesystem that was unmounted lazily
//! and lives on with its open files. These are what keeps the device of a volume busy for hours.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

/// As many as a message has room for.
const SHOWN: usize = 3;

/// What each other process does with the filesystem on the device with this number (`7:12`, as sysfs has it). Processes that
/// end meanwhile are left out, and one of each mount namespace stands for all that share it.
pub(super) fn of(number: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let mut seen = BTreeSet::from([namespace(Path::new("/proc/self")).unwrap_or_default()]);
    let mut holders = Vec::new();
    for process in processes().filter(|process| !process.ends_with(&own)) {
        let known = namespace(&process).is_none_or(|namespace| !seen.insert(namespace));
        let how = if !known && mounts(&process, number) {
            "has it mounted in another mount namespace"
        } else if let Some(how) = uses(&process, number) {
            how
        } else {
            continue;
        };
        holders.push(format!("process {} {how}", name(&process)));
        if holders.len() == SHOWN {
            break;
        }
    }
    holders
}

fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
    };
    entries.map(|entry| entry.path()).filter(is_process)
}

fn namespace(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/mnt")).ok()
}

fn mounts(process: &Path, number: &str) -> bool {
    let table = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
    table.lines().any(|line| line.split(' ').nth(2) == Some(number))
}

fn uses(process: &Path, number: &str) -> Option<&'static str> {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let places = [process.join("cwd"), process.join("root")];
    files.chain(places).find_map(|file| use_of(&file, number))
}

/// Without asking a server that may not answer.
fn use_of(file: &Path, number: &str) -> Option<&'static str> {
    let found = statx(CWD, file, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    if format!("{}:{}", found.stx_dev_major, found.stx_dev_minor) == number {
        return Some("has a file or directory of its filesystem open");
    }
    let is_device = FileType::from_raw_mode(found.stx_mode.into()) == FileType::BlockDevice;
    let is_it = is_device && format!("{}:{}", found.stx_rdev_major, found.stx_rdev_minor) == number;
    is_it.then_some("has the device open")
}

/// `4711 (postgres)`.
fn name(process: &Path) -> String {
    let pid = process.file_name().unwrap_or_default().to_string_lossy();
    let program = fs::read_to_string(process.join("comm")).unwrap_or_default();
    format!("{pid} ({})", program.trim_end().escape_debug())
}
