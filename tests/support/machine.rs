//! The machine as the kernel shows it: what a test must find clean.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// Mount points below a directory, deepest last.
pub fn mounts_below(root: &Path) -> Vec<String> {
    mounts_seen_by(std::process::id(), root)
}

/// The same as a process sees it that has a mount namespace of its own.
pub fn mounts_seen_by(pid: u32, root: &Path) -> Vec<String> {
    let table = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).expect("mount table");
    let targets = table.lines().filter_map(|line| line.split(' ').nth(4)).map(String::from);
    targets.filter(|target| Path::new(target).starts_with(root)).collect()
}

/// Backing files of loop devices below a directory.
pub fn loops_below(root: &Path) -> Vec<String> {
    loops(root).into_iter().map(|(_, image)| image).collect()
}

fn loops(root: &Path) -> Vec<(String, String)> {
    let devices = std::fs::read_dir("/sys/block").expect("block devices").flatten();
    let names = devices.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let backing = |name: String| {
        let image = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
        Some((name, image.trim_end().to_owned()))
    };
    names.filter_map(backing).filter(|(_, image)| Path::new(image).starts_with(root)).collect()
}

/// Processes with a path below a directory among their arguments: `bowline` itself and the shims of containers.
pub fn processes_below(root: &Path) -> Vec<(i32, String)> {
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let command = |pid: i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word));
        let found = words.any(|word| Path::new(word.as_ref()).starts_with(root));
        found.then(|| (pid, String::from_utf8_lossy(&line).replace('\0', " ")))
    };
    pids.filter(|pid| u32::try_from(*pid) != Ok(std::process::id())).filter_map(command).collect()
}

/// Control groups of the containers of these pods, in every hierarchy.
pub fn control_groups_of(uids: &BTreeSet<String>) -> Vec<String> {
    let subdirectories = |dir: PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let hierarchies = subdirectories(CONTROL_GROUPS.into()).map(|entry| entry.path());
    let groups =
        hierarchies.chain([CONTROL_GROUPS.into()]).flat_map(|root| subdirectories(root.join("bowline")));
    let names = groups.map(|entry| entry.path().display().to_string());
    names.filter(|name| uids.iter().any(|uid| name.contains(uid))).collect()
}

/// Ends what a failed test left: containers, mounts, loop devices.
pub fn clean_below(root: &Path) {
    for (pid, _) in processes_below(root) {
        let pid = rustix::process::Pid::from_raw(pid).expect("pid");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    release_below(root);
}

/// Takes mounts and loop devices away that a failed test left.
pub fn release_below(root: &Path) {
    for target in mounts_below(root).into_iter().rev() {
        let _ = Command::new("umount").args(["-l", &target]).status();
    }
    for (name, _) in loops(root) {
        let _ = Command::new("losetup").args(["-d", &format!("/dev/{name}")]).status();
    }
}
