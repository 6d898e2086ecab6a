//! Making filesystems, so that neither data is ever overwritten nor a crash half-way blocks a volume.
//!
//! Before a tool writes to an image that was proven empty, the image gets a mark, which goes when the tool is
//! done. A marked image holds nothing but what that tool wrote: it may be formatted again. The mark belongs to
//! the file itself (an extended attribute only root can set), so no other image can inherit it by its name.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::probe::{Probe, probe};
use super::{blocking_kernel, loops, tools};
use crate::kernel::{Content, KernelError, Result};

const MARK: &str = "trusted.bowline.formatting";

/// Runs to its end even if the caller stops waiting: the mark must go when the tool is done.
pub(super) async fn make(device: PathBuf, fs_type: String, options: Vec<String>) -> Result<()> {
    let what = format!("mkfs.{fs_type} `{}`", device.display());
    let gone = |e: tokio::task::JoinError| KernelError::other(what.clone(), e.to_string());
    let task = tokio::spawn({
        let what = what.clone();
        async move { make_to_the_end(&what, &device, &fs_type, &options).await }
    });
    task.await.map_err(gone)?
}

async fn make_to_the_end(what: &str, device: &Path, fs_type: &str, options: &[String]) -> Result<()> {
    let Probe { content, untouched } = probe(device).await?;
    if content != Content::Empty {
        return Err(KernelError::other(what, format!("the device holds data: {content:?}")));
    }
    let mut args: Vec<&str> = options.iter().map(String::as_str).collect();
    // Of two `-E` or `-m` the last would win without a word.
    let given = |own: &&&str| own.get(..2).is_some_and(|flag| options.iter().any(|o| o.starts_with(flag)));
    args.extend(own_options(fs_type, untouched).iter().filter(|own| !given(own)));
    let path = device.to_string_lossy();
    args.push(&path);
    set_mark(device, true).await?;
    tools::run_checked(what, &format!("mkfs.{fs_type}"), &args).await?;
    set_mark(device, false).await
}

/// Forced, because a tool would ask a question otherwise; whether the device is empty was answered before.
/// An image that was never written to needs neither discarding nor zeroing. Each is one word, so that it can
/// give way to the caller's.
fn own_options(fs_type: &str, untouched: bool) -> &'static [&'static str] {
    match (fs_type, untouched) {
        ("ext4", true) => &["-q", "-F", "-m0", "-Enodiscard,lazy_itable_init=1,lazy_journal_init=1"],
        ("ext2" | "ext3" | "ext4", _) => &["-q", "-F", "-m0"],
        ("xfs", true) => &["-q", "-f", "-K"],
        ("xfs", false) => &["-q", "-f"],
        ("btrfs", true) => &["-q", "-f", "-K"],
        ("btrfs", false) => &["-q", "-f"],
        _ => &[],
    }
}

/// Whether a tool began to format this device and was not seen to finish.
pub(super) fn is_begun(device: &Path) -> bool {
    let mut value = [0; 1];
    loops::open_backing(device).is_some_and(|image| rustix::fs::fgetxattr(image, MARK, &mut value).is_ok())
}

/// Decides about a marked device: a whole filesystem stays, a half-made one counts as empty.
pub(super) async fn judge(device: &Path, found: Option<Content>) -> Result<Content> {
    let fs_type = match found {
        None => return Ok(Content::Empty),
        Some(Content::Filesystem(fs_type)) => fs_type,
        Some(other) => return Ok(other),
    };
    let path = device.to_string_lossy();
    let (program, args) = match fs_type.as_str() {
        "xfs" => ("xfs_repair", ["-n", &path].to_vec()),
        "btrfs" => ("btrfs", ["check", "--readonly", &path].to_vec()),
        _ => ("fsck.ext4", ["-f", "-n", &path].to_vec()),
    };
    if tools::run(program, &args).await?.status.success() {
        set_mark(device, false).await?;
        return Ok(Content::Filesystem(fs_type));
    }
    tracing::warn!(device = %path, fs_type, "formatting was interrupted, beginning anew");
    Ok(Content::Empty)
}

/// Durable before the tool begins, and gone for good before anybody hears of its success. A device that is
/// no loop device, or an image on a filesystem without attributes, goes without.
async fn set_mark(device: &Path, begun: bool) -> Result<()> {
    let device = device.to_path_buf();
    blocking_kernel(move || {
        let Some(image) = loops::open_backing(&device) else { return Ok(()) };
        match change_mark(&image, begun) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM | Errno::NODATA) => Ok(()),
            Err(errno) => {
                let what = format!("mark the image of `{}`", device.display());
                Err(KernelError::errno(what, errno.raw_os_error()))
            }
        }
    })
    .await
}

fn change_mark(image: &File, begun: bool) -> std::result::Result<(), Errno> {
    if begun {
        rustix::fs::fsetxattr(image, MARK, b"1", XattrFlags::empty())?;
    } else {
        rustix::fs::fremovexattr(image, MARK)?;
    }
    rustix::fs::fsync(image)
}
