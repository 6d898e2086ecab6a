//! What is on a device. Only a proof makes it empty: everything else keeps it from being formatted.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Output;

use rustix::fs::SeekFrom as Sparse;
use rustix::io::Errno;

use super::{blocking_kernel, formatting, loops, tools};
use crate::kernel::{Content, KernelError, Result};

/// Read at both ends of a device that blkid does not recognise.
const EDGE: u64 = 1 << 20;
/// blkid's exit code for "nothing identified" (blkid(8)).
const BLKID_NOTHING: i32 = 2;

/// The content of a device, and whether its image has never been written to.
pub(super) struct Probe {
    pub content: Content,
    pub untouched: bool,
}

impl Probe {
    fn touched(content: Content) -> Self {
        Self { content, untouched: false }
    }
}

pub(super) async fn probe(device: &Path) -> Result<Probe> {
    let path = device.to_path_buf();
    if blocking_kernel(move || is_untouched(&path)).await? {
        return Ok(Probe { content: Content::Empty, untouched: true });
    }
    let found = blkid(device).await?;
    if formatting::is_begun(device) {
        let content = formatting::judge(device, found).await?;
        return Ok(Probe::touched(content));
    }
    if let Some(content) = found {
        return Ok(Probe::touched(content));
    }
    let path = device.to_path_buf();
    let zero = blocking_kernel(move || edges_are_zero(&path).map_err(|e| unreadable(&path, &e))).await?;
    let unknown = || Content::Other("unknown data".into());
    Ok(Probe::touched(if zero { Content::Empty } else { unknown() }))
}

/// True for a loop device whose image is nothing but a hole: a proof for every byte, without a program.
fn is_untouched(device: &Path) -> Result<bool> {
    let failed = |e: io::Error| unreadable(device, &e);
    let mut file = File::open(device).map_err(failed)?;
    if file.seek(SeekFrom::End(0)).map_err(failed)? == 0 {
        return Err(KernelError::other(format!("probe `{}`", device.display()), "the device has no size"));
    }
    let Some(image) = loops::open_backing(device) else { return Ok(false) };
    // What was written to the device reaches the image now.
    file.sync_all().map_err(failed)?;
    match rustix::fs::seek(&image, Sparse::Data(0)) {
        Err(Errno::NXIO) => Ok(true),
        // Data, or a filesystem below that cannot tell: the long way decides.
        _ => Ok(false),
    }
}

/// Asks blkid, past its cache. Nothing found is `None`; doubt is an error.
async fn blkid(device: &Path) -> Result<Option<Content>> {
    let path = device.to_string_lossy();
    let args = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-s", "USAGE", "-o", "export", &path];
    let output = tools::run("blkid", &args).await?;
    match output.status.code() {
        Some(0) => Ok(Some(read_blkid(&output))),
        Some(BLKID_NOTHING) => Ok(None),
        _ => Err(KernelError::other(format!("probe `{path}`"), tools::complaint(&output))),
    }
}

fn read_blkid(output: &Output) -> Content {
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |key: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value.to_string())
    };
    match (value("PTTYPE"), value("TYPE"), value("USAGE").as_deref()) {
        (Some(table), ..) => Content::Other(format!("partition table `{table}`")),
        (None, Some(kind), Some("filesystem")) => Content::Filesystem(kind),
        (None, Some(kind), _) => Content::Other(kind),
        (None, None, _) => Content::Other("unknown data".into()),
    }
}

fn edges_are_zero(device: &Path) -> io::Result<bool> {
    let mut file = File::open(device)?;
    let size = file.seek(SeekFrom::End(0))?;
    for start in [0, size.saturating_sub(EDGE)] {
        file.seek(SeekFrom::Start(start))?;
        let mut edge = Vec::new();
        Read::by_ref(&mut file).take(EDGE).read_to_end(&mut edge)?;
        if edge.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn unreadable(device: &Path, error: &io::Error) -> KernelError {
    KernelError::io(format!("probe `{}`", device.display()), error)
}
