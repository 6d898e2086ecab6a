//! Loop devices. The kernel's own record in sysfs is the truth; what is remembered here is only where to look
//! first.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::{devices, holders, mountinfo, mounts, raw};
use crate::kernel::{KernelError, LoopDevice, Result};

const CONTROL: &str = "/dev/loop-control";
const BLOCK_DEVICES: &str = "/sys/block";
/// Every block device with a size: a loop device has one as long as it has an image.
const SIZED_DEVICES: &str = "/proc/partitions";
const DEVICE_MODE: u32 = 0o660;
/// Other processes may be faster to take a free device this often in a row.
const ATTACH_TRIES: u32 = 64;
/// A device stays in use for moments after its last user: a process being forked, a container being set up
/// with a copy of all mounts. Waited for at most 100 × 5 ms.
const DETACH_TRIES: u32 = 100;
const DETACH_PAUSE: Duration = Duration::from_millis(5);

/// Device and inode of a file, as a loop device tells them of the file below.
type Identity = (u64, u64);

/// A device kept open, and the image it is kept open for. Numbers of devices are reused, so a hold counts only for
/// that image.
struct Hold {
    file: Arc<File>,
    image: Identity,
}

/// Loop devices of this machine; attaching is one at a time, so that one image never gets two devices.
#[derive(Default)]
pub(super) struct Loops {
    attaching: Mutex<()>,
    /// Where images were found last.
    hints: Mutex<BTreeMap<PathBuf, PathBuf>>,
    /// Devices kept open: as long as there is one more user, the kernel postpones a request to clear a device
    /// (`LOOP_CLR_FD`) until the last one has closed it, so no number becomes another image's meanwhile. No system
    /// call is made under this lock: a device that hangs must not keep others from being looked up.
    held: Mutex<BTreeMap<PathBuf, Hold>>,
}

impl Loops {
    pub fn attach(&self, image: &Path, read_only: bool) -> Result<PathBuf> {
        let what = || format!("attach `{}` to a loop device", image.display());
        let io = |e: io::Error| KernelError::io(what(), &e);
        let image = fs::canonicalize(image).map_err(io)?;
        let _one_at_a_time = self.attaching.lock().unwrap_or_else(PoisonError::into_inner);
        let backing = || OpenOptions::new().read(true).write(!read_only).open(&image).map_err(io);
        let mut busy = BTreeSet::new();
        for _ in 0..ATTACH_TRIES {
            if let Some(device) = self.find(&image)? {
                refuse_read_only(&device, read_only)?;
                match self.keep(&image, file_identity(&image), &device)? {
                    true => return Ok(device),
                    // Cleared between the two looks.
                    false => continue,
                }
            }
            if let Some(device) = self.configure_free(&image, &backing()?, read_only, &mut busy)? {
                return Ok(device);
            }
        }
        Err(KernelError::errno(what(), Errno::EBUSY as i32))
    }

    /// Gives the image to a free device; nothing if another process took that one, and it is to be tried again.
    fn configure_free(
        &self,
        image: &Path,
        backing: &File,
        read_only: bool,
        busy: &mut BTreeSet<u32>,
    ) -> Result<Option<PathBuf>> {
        let what = || format!("attach `{}` to a loop device", image.display());
        let io = |e: io::Error| KernelError::io(what(), &e);
        let failed = |errno: Errno| KernelError::errno(what(), errno as i32);
        let control = open_control()?;
        let number = free_number(&control, busy)?.map_err(failed)?;
        let path = device_node(number).map_err(io)?;
        // Settings of an earlier image stay with a device until it is removed and added again.
        if devices::is_stuck(&path) && raw::loop_remove(&control, number).is_ok() {
            return Ok(None);
        }
        // Opened for reading only, the kernel would make the device read-only.
        let device = OpenOptions::new().read(true).write(!read_only).open(&path).map_err(io)?;
        match configure(&device, backing, read_only) {
            Ok(()) => {
                self.hint(image, &path);
                let identity = backing.metadata().map_err(io)?;
                let identity = Some((identity.dev(), identity.ino()));
                // Opened again for reading only, before it is closed for writing: a device that is open for
                // writing cannot be mounted everywhere.
                Ok(self.keep(image, identity, &path)?.then_some(path))
            }
            Err(Errno::EBUSY) => {
                busy.insert(number);
                Ok(None)
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    /// The device that has this image as its backing file.
    pub fn find(&self, image: &Path) -> Result<Option<PathBuf>> {
        // A deleted image has no canonical path; its devices show the path it had.
        let (image, exists) = match fs::canonicalize(image) {
            Ok(image) => (image, true),
            Err(_) => (image.to_path_buf(), false),
        };
        // A deleted file with the path of an existing one is a different file, and so is one that another mount
        // namespace knows by the same path.
        let has_it = |device: &PathBuf| {
            let named = |backing: Backing| backing.path == image && backing.deleted != exists;
            backing_file(device).is_some_and(named) && (!exists || self.is_backed_by(device, &image))
        };
        let hint = self.hints.lock().unwrap_or_else(PoisonError::into_inner).get(&image).cloned();
        if let Some(device) = hint.filter(has_it) {
            return Ok(Some(device));
        }
        let found = attached()?.into_iter().find(has_it);
        match &found {
            Some(device) => self.hint(&image, device),
            None => _ = self.hints.lock().unwrap_or_else(PoisonError::into_inner).remove(&image),
        }
        Ok(found)
    }

    /// Whether the file below a device is this very file.
    fn is_backed_by(&self, device: &Path, image: &Path) -> bool {
        let found = match self.hold_of(device) {
            Some(hold) => bound(raw::loop_identity(&hold.file)),
            None => identity(device),
        };
        is_same(found, image)
    }

    /// The device that has this image, kept open.
    pub fn hold(&self, image: &Path) -> Result<Option<PathBuf>> {
        let Some(device) = self.find(image)? else { return Ok(None) };
        // The image may be deleted; then its device has no other identity to be compared with.
        match self.keep(image, file_identity(image), &device)? {
            true => Ok(Some(device)),
            // Cleared between the two looks.
            false => Ok(None),
        }
    }

    /// Keeps a device open as long as it has this image, and withdraws a request to clear it. Says whether it has it;
    /// a device that has another image stays as it is, and so does the hold of that image.
    fn keep(&self, image: &Path, expected: Option<Identity>, device: &Path) -> Result<bool> {
        let failed = |errno: Errno| KernelError::errno(format!("use `{}`", device.display()), errno as i32);
        let file = match self.hold_of(device) {
            Some(hold) => hold.file,
            None => Arc::new(open(device).map_err(errno_of).map_err(failed)?),
        };
        let found = bound(raw::loop_identity(&file)).map_err(failed)?;
        let Some(found) = found.filter(|found| expected.is_none_or(|expected| expected == *found)) else {
            return Ok(false);
        };
        // Before anything that can fail: closing a device that is to be cleared is what clears it.
        let hold = Hold { file: file.clone(), image: found };
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(device.to_owned(), hold);
        if attribute(device, "loop/autoclear").as_deref() == Some(b"1") {
            tracing::warn!(
                device = %device.display(),
                image = %image.display(),
                "withdrew a request to clear a loop device that is in use"
            );
            raw::loop_keep(&file).map_err(failed)?;
        }
        Ok(true)
    }

    /// Detaches a device; with an image, only from that one.
    ///
    /// A mounted device is refused at once; one that is held for a moment only is waited for. A device that was let
    /// go is the first that the kernel gives to the next image. So it is cleared only as long as it has the image it
    /// had in the beginning, and never again once the kernel has accepted to let it go.
    pub fn detach(&self, device: &Path, from: Option<&Path>) -> Result<()> {
        let look = || identity(device).map_err(|errno| detach_failed(device, errno));
        let is_other = from.is_some_and(|image| !has_image(device, image));
        let Some(image) = look()?.filter(|_| !is_other) else {
            self.drop_outdated_hold(device);
            return Ok(());
        };
        let mut accepted = false;
        for _ in 0..DETACH_TRIES {
            if !accepted {
                match clear(device, image) {
                    Ok(()) => {
                        accepted = true;
                        self.let_go(device, image);
                    }
                    Err(Errno::ENXIO | Errno::ENOENT) => return Ok(()),
                    Err(Errno::EBUSY) if !mounts::is_mounted(device)? => {}
                    Err(errno) => return Err(detach_failed(device, errno)),
                }
            }
            if look()? != Some(image) {
                return Ok(());
            }
            std::thread::sleep(DETACH_PAUSE);
        }
        Err(detach_failed(device, Errno::EBUSY))
    }

    /// Closes a device that is kept open for this image; if it was to be cleared and this was its last user, it is
    /// cleared now.
    fn let_go(&self, device: &Path, image: Identity) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let hold = held.get(device).is_some_and(|hold| hold.image == image).then(|| held.remove(device));
        drop(held);
        drop(hold);
    }

    /// Closes a device whose image is no longer the one that it is kept open for.
    fn drop_outdated_hold(&self, device: &Path) {
        let Some(hold) = self.hold_of(device) else { return };
        if bound(raw::loop_identity(&hold.file)).is_ok_and(|found| found != Some(hold.image)) {
            self.let_go(device, hold.image);
        }
    }

    fn hold_of(&self, device: &Path) -> Option<Hold> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(device).map(|hold| Hold { file: hold.file.clone(), image: hold.image })
    }

    fn hint(&self, image: &Path, device: &Path) {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner).insert(image.into(), device.into());
    }
}

/// A free device whose file is bound nowhere; a new one if there is none.
fn free_number(control: &File, busy: &BTreeSet<u32>) -> Result<std::result::Result<u32, Errno>> {
    // Looked at each time: what binds the file of a device in between had it while it had an image.
    let table = mountinfo::read()?;
    let bound = |number: u32| table.iter().find(|mount| mount.shows_device(&device_path(number)));
    let first = match raw::loop_free(control) {
        Ok(number) => number,
        Err(errno) => return Ok(Err(errno)),
    };
    let Some(mount) = bound(first) else { return Ok(Ok(first)) };
    let (device, target) = (device_path(first), mount.target.display());
    tracing::warn!(device = %device.display(), %target, "a free loop device is not used as long as its file is bound there");
    match next_free(&numbers(), busy, |number| bound(number).is_none() && is_free(number)) {
        Some(number) => Ok(Ok(number)),
        None => Ok(raw::loop_add(control)),
    }
}

/// The lowest number that may be used and was not found busy.
fn next_free(all: &[u32], busy: &BTreeSet<u32>, usable: impl Fn(u32) -> bool) -> Option<u32> {
    all.iter().copied().filter(|number| !busy.contains(number) && usable(*number)).min()
}

/// Numbers of all loop devices that the kernel has.
fn numbers() -> Vec<u32> {
    let names = fs::read_dir(BLOCK_DEVICES).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.strip_prefix("loop")?.parse().ok()).collect()
}

fn is_free(number: u32) -> bool {
    backing_file(&device_path(number)).is_none()
}

/// Direct I/O keeps the data from being cached twice; not every filesystem below can do it.
fn configure(device: &File, backing: &File, read_only: bool) -> std::result::Result<(), Errno> {
    let flags = if read_only { raw::LO_FLAGS_READ_ONLY } else { 0 };
    match raw::loop_configure(device, backing, flags | raw::LO_FLAGS_DIRECT_IO) {
        Err(Errno::EINVAL) => raw::loop_configure(device, backing, flags),
        result => result,
    }
}

/// A device that has the image already may not allow what is wanted.
fn refuse_read_only(device: &Path, read_only: bool) -> Result<()> {
    if is_read_only(device) && !read_only {
        let what = format!("use `{}`", device.display());
        return Err(KernelError::other(what, "the image is attached to it read-only"));
    }
    Ok(())
}

/// Every loop device that has an image, without asking each one that has none.
fn attached() -> Result<Vec<PathBuf>> {
    let table = fs::read_to_string(SIZED_DEVICES);
    let table = table.map_err(|e| KernelError::io(format!("read `{SIZED_DEVICES}`"), &e))?;
    // `   7        0    1048576 loop0`
    let names = table.lines().filter_map(|line| line.split_ascii_whitespace().nth(3));
    // Partitions of a loop device are named `loop0p1`.
    let whole =
        |name: &&str| name.strip_prefix("loop").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    Ok(names.filter(whole).map(|name| Path::new("/dev").join(name)).collect())
}

/// Every loop device that has an image, with that image; one that is detached meanwhile is left out.
pub(super) fn list() -> Result<Vec<LoopDevice>> {
    let describe = |device: PathBuf| {
        let Backing { path: image, deleted } = backing_file(&device)?;
        let read_only = is_read_only(&device);
        Some(LoopDevice { device, image, deleted, read_only })
    };
    Ok(attached()?.into_iter().filter_map(describe).collect())
}

fn is_read_only(device: &Path) -> bool {
    attribute(device, "ro").as_deref() == Some(b"1")
}

/// The image below a loop device, open for reading: proven to be that very file, not another at its path.
pub(super) fn open_backing(device: &Path) -> Option<File> {
    let backing = backing_file(device).filter(|backing| !backing.deleted)?;
    let file = File::open(backing.path).ok()?;
    let identity = raw::loop_identity(&File::open(device).ok()?).ok()?;
    let metadata = file.metadata().ok()?;
    (identity == (metadata.dev(), metadata.ino())).then_some(file)
}

pub(super) struct Backing {
    pub path: PathBuf,
    pub deleted: bool,
}

/// The file below a loop device; nothing for a device that is free or of another kind.
pub(super) fn backing_file(device: &Path) -> Option<Backing> {
    let bytes = attribute(device, "loop/backing_file")?;
    let (bytes, deleted) = match bytes.strip_suffix(b" (deleted)") {
        Some(bytes) => (bytes.to_vec(), true),
        None => (bytes, false),
    };
    Some(Backing { path: OsString::from_vec(bytes).into(), deleted })
}

fn attribute(device: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = fs::read(Path::new(BLOCK_DEVICES).join(device.file_name()?).join(name)).ok()?;
    value.pop_if(|byte| *byte == b'\n');
    Some(value)
}

/// Whether a device has this image, as far as its path tells; an image that exists is also compared by inode.
fn has_image(device: &Path, image: &Path) -> bool {
    let path = fs::canonicalize(image).unwrap_or_else(|_| image.to_path_buf());
    let Some(backing) = backing_file(device).filter(|backing| backing.path == path) else { return false };
    backing.deleted || is_same(identity(device), &path)
}

/// A device with the image's path whose file cannot be asked for counts as the image's: it would otherwise get a second
/// device, and its filesystem be mounted twice.
fn is_same(found: std::result::Result<Option<Identity>, Errno>, image: &Path) -> bool {
    match found {
        Ok(found) => found.is_some() && found == file_identity(image),
        Err(_) => true,
    }
}

/// Device and inode of a file, as loop devices tell them of the file below.
fn file_identity(image: &Path) -> Option<Identity> {
    fs::metadata(image).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Device and inode of the file below a loop device; nothing for one that is free or not there.
fn identity(device: &Path) -> std::result::Result<Option<Identity>, Errno> {
    bound(open(device).map_err(errno_of).and_then(|file| raw::loop_identity(&file)))
}

fn errno_of(error: io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or_default())
}

fn bound(found: std::result::Result<Identity, Errno>) -> std::result::Result<Option<Identity>, Errno> {
    match found {
        Ok(image) => Ok(Some(image)),
        Err(Errno::ENXIO | Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Opens a device, whose node is made again if it is gone although the kernel has the device.
fn open(device: &Path) -> io::Result<File> {
    let number = || device.file_name()?.to_str()?.strip_prefix("loop")?.parse().ok();
    match (File::open(device), number()) {
        (Err(error), Some(number))
            if error.kind() == io::ErrorKind::NotFound && attribute(device, "dev").is_some() =>
        {
            File::open(device_node(number)?)
        }
        (opened, _) => opened,
    }
}

fn detach_failed(device: &Path, errno: Errno) -> KernelError {
    let mut error = KernelError::errno(format!("detach `{}`", device.display()), errno as i32);
    if errno == Errno::EBUSY {
        error.why.push_str("; ");
        error.why.push_str(&users(device));
    }
    error
}

/// What keeps a device busy, or how to find it.
fn users(device: &Path) -> String {
    let number = attribute(device, "dev").map(|number| String::from_utf8_lossy(&number).into_owned());
    let number = number.unwrap_or_default();
    let device = device.display();
    let show = format!("`lsof {device}` and `grep -l ' {number} ' /proc/*/mountinfo` show what uses it");
    let holders = holders::of(&number);
    if holders.is_empty() { show } else { format!("{}; {show}", holders.join(", ")) }
}

/// Exclusive, because the kernel would otherwise accept the request for a mounted device and act on it later.
/// A device that has another image by now counts as free.
fn clear(device: &Path, image: Identity) -> std::result::Result<(), Errno> {
    let options = rustix::fs::OFlags::EXCL.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(options).open(device);
    let file = file.map_err(errno_of)?;
    match raw::loop_identity(&file)? == image {
        true => raw::loop_clear(&file),
        false => Err(Errno::ENXIO),
    }
}

pub(super) fn refresh(device: &Path) -> Result<()> {
    let what = || format!("refresh the size of `{}`", device.display());
    let file = File::open(device).map_err(|e| KernelError::io(what(), &e))?;
    raw::loop_set_capacity(&file).map_err(|errno| KernelError::errno(what(), errno as i32))
}

fn open_control() -> Result<File> {
    let control = OpenOptions::new().read(true).write(true).open(CONTROL);
    control.map_err(|e| KernelError::io(format!("open `{CONTROL}`"), &e))
}

fn device_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// Makes the device node where no udev does.
fn device_node(number: u32) -> io::Result<PathBuf> {
    let path = device_path(number);
    if !path.exists() {
        let device = attribute(&path, "dev").as_deref().and_then(device_number);
        let device = device.ok_or_else(|| io::Error::other(format!("`{}` has no number", path.display())))?;
        match mknodat(CWD, &path, FileType::BlockDevice, Mode::from_raw_mode(DEVICE_MODE), device) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(path)
}

/// `7:12`, as sysfs spells the number of a device.
fn device_number(text: &[u8]) -> Option<u64> {
    let (major, minor) = std::str::from_utf8(text).ok()?.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new device is made only when no other free one can be used.
    #[test]
    fn which_free_device_is_taken() {
        let table: [(&str, &[u32], &[u32], &[u32], Option<u32>); 5] = [
            ("the lowest", &[3, 1, 2], &[], &[1, 2, 3], Some(1)),
            ("past one that is bound or has an image", &[0, 1, 2], &[], &[2], Some(2)),
            ("past one that another process took", &[0, 1, 2], &[1], &[1, 2], Some(2)),
            ("none that can be used", &[0, 1], &[], &[], None),
            ("only busy ones", &[0, 1], &[0, 1], &[0, 1], None),
        ];
        for (name, all, busy, usable, expected) in table {
            let busy = busy.iter().copied().collect();
            assert_eq!(next_free(all, &busy, |number| usable.contains(&number)), expected, "{name}");
        }
    }
}
