//! Filesystem programs: finding, running, and reading what they say.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::process::Command;

use super::{blocking, blocking_kernel, ext4, mounts};
use crate::kernel::{KernelError, Result};

/// Where system programs live, whatever the PATH of this process is.
const SYSTEM_PATHS: [&str; 5] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin"];
/// The end of a program's complaint is enough for an error.
const COMPLAINT_MAX: usize = 1024;

/// Bits of an fsck exit code (fsck(8)).
const FSCK_UNCORRECTED: i32 = 4;
const FSCK_CORRECTED: i32 = 1 | 2;

pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(SYSTEM_PATHS.map(PathBuf::from));
    dirs.map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Runs a program to its end, also when the caller stops waiting: a filesystem tool is never cut short. It has
/// a process group of its own, so that no terminal's Ctrl-C reaches it.
pub(super) async fn run(name: &str, args: &[&str]) -> Result<Output> {
    let what = || format!("run `{name}`");
    let program = find(name).ok_or_else(|| KernelError::errno(what(), nix::libc::ENOENT))?;
    let mut command = Command::new(program);
    command.args(args).env("LC_ALL", "C").stdin(Stdio::null()).process_group(0).kill_on_drop(false);
    let running = tokio::spawn(async move { command.output().await });
    let output = running.await.map_err(|e| KernelError::other(what(), e.to_string()))?;
    output.map_err(|e| KernelError::io(what(), &e))
}

/// Runs a program that says by its exit code whether it worked.
pub(super) async fn run_checked(what: &str, name: &str, args: &[&str]) -> Result<()> {
    let output = run(name, args).await?;
    if output.status.success() {
        return Ok(());
    }
    let why = complaint(&output);
    // Callers can tell "never" from "try again" only by the errno.
    let errno = why.contains("ermission denied").then_some(nix::libc::EPERM);
    Err(KernelError { what: what.into(), why, errno })
}

/// How a program ended, and the end of what it said; fsck complains on its standard output.
pub(super) fn complaint(output: &Output) -> String {
    let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let said = said.get(said.len().saturating_sub(COMPLAINT_MAX)..).unwrap_or_default();
    let said = String::from_utf8_lossy(said);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    format!("{}: {}", output.status, lines.join("; "))
}

/// Repairs what can be repaired without asking.
pub(super) async fn check(device: &Path, fs_type: &str) -> Result<()> {
    let program = match fs_type {
        "ext2" | "ext3" | "ext4" => "fsck.ext4".to_string(),
        // Both replay their log when mounted, and have no boot-time check.
        "xfs" | "btrfs" => return Ok(()),
        other => format!("fsck.{other}"),
    };
    let path = device.to_path_buf();
    if program == "fsck.ext4" && blocking(move || ext4::is_clean(&path)).await.unwrap_or(false) {
        return Ok(());
    }
    if find(&program).is_none() {
        tracing::warn!(program, device = %device.display(), "not checked: the program is missing");
        return Ok(());
    }
    let output = run(&program, &["-a", &device.to_string_lossy()]).await?;
    match output.status.code().map_or(Verdict::NotChecked, verdict) {
        Verdict::Clean => {}
        Verdict::Repaired => {
            tracing::warn!(device = %device.display(), "errors were repaired: {}", complaint(&output));
        }
        Verdict::Broken | Verdict::NotChecked => {
            let what = format!("{program} `{}`", device.display());
            return Err(KernelError::other(what, complaint(&output)));
        }
    }
    Ok(())
}

/// What the exit code of fsck says: a set of bits, not a number to compare.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Clean,
    Repaired,
    /// Errors are left.
    Broken,
    /// Something kept it from checking; nothing is known.
    NotChecked,
}

fn verdict(code: i32) -> Verdict {
    match code {
        0 => Verdict::Clean,
        code if code & FSCK_UNCORRECTED != 0 => Verdict::Broken,
        code if code & !FSCK_CORRECTED == 0 => Verdict::Repaired,
        _ => Verdict::NotChecked,
    }
}

/// With its filesystem mounted where possible. The kernel lets only those grow a mounted ext4 who have
/// `CAP_SYS_RESOURCE`; without a mount nobody is asked, but a full check has to come first.
pub(super) async fn grow(device: &Path, target: &Path, fs_type: &str) -> Result<()> {
    let what = format!("grow the {fs_type} on `{}`", device.display());
    let path = device.to_path_buf();
    let mounted = blocking_kernel(move || mounts::is_mounted(&path)).await?;
    let (device, target) = (device.to_string_lossy(), target.to_string_lossy());
    match (fs_type, mounted) {
        ("ext2" | "ext3" | "ext4", true) => run_checked(&what, "resize2fs", &[&device]).await,
        ("ext2" | "ext3" | "ext4", false) => {
            let output = run("fsck.ext4", &["-f", "-p", &device]).await?;
            match output.status.code().map_or(Verdict::NotChecked, verdict) {
                Verdict::Clean | Verdict::Repaired => {}
                Verdict::Broken | Verdict::NotChecked => {
                    return Err(KernelError::other(what, complaint(&output)));
                }
            }
            run_checked(&what, "resize2fs", &[&device]).await
        }
        ("xfs", true) => run_checked(&what, "xfs_growfs", &["-d", &target]).await,
        ("btrfs", true) => run_checked(&what, "btrfs", &["filesystem", "resize", "max", &target]).await,
        ("xfs" | "btrfs", false) => Err(KernelError::other(what, "it is not mounted")),
        _ => Err(KernelError::other(what, format!("nobody knows how to grow `{fs_type}`"))),
    }
}

/// Two btrfs filesystems with one identity are one to the kernel, which may refuse the second or, worse, mix them
/// up. An interrupted change is finished by the next one.
pub(super) async fn renew_identity(device: &Path, fs_type: &str) -> Result<()> {
    if fs_type != "btrfs" {
        return Ok(());
    }
    let what = format!("give the btrfs on `{}` a new identity", device.display());
    run_checked(&what, "btrfstune", &["-f", "-u", &device.to_string_lossy()]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fsck_is_judged_by_bit() {
        for (code, expected) in [
            (0, Verdict::Clean),
            (1, Verdict::Repaired),
            (2, Verdict::Repaired),
            (1 | 2, Verdict::Repaired),
            (4, Verdict::Broken),
            (1 | 4, Verdict::Broken),
            (4 | 8, Verdict::Broken),
            (128 | 4 | 2, Verdict::Broken),
            (8, Verdict::NotChecked),
            (1 | 8, Verdict::NotChecked),
            (16, Verdict::NotChecked),
            (32, Verdict::NotChecked),
            (128, Verdict::NotChecked),
        ] {
            assert_eq!(verdict(code), expected, "{code}");
        }
    }
}
