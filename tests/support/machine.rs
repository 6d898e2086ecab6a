//! The machine as the kernel shows it: what a test must find clean.

use std::path::Path;
use std::process::Command;

/// Mount points below a directory, deepest last.
pub fn mounts_below(root: &Path) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mount table");
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

/// Ends what a failed test left: containers, mounts, loop devices.
pub fn clean_below(root: &Path) {
    let pattern = root.to_string_lossy().into_owned();
    let _ = Command::new("pkill").args(["-9", "-f", &pattern]).status();
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
