//! Filesystems in the images of the fake machine: made, checked, grown, frozen, and told apart.

use std::path::Path;

use nix::errno::Errno;

use super::World;
use super::file::BLOCK;
use super::loops::Loop;
use super::tree::{FsId, Image, Ino};
use crate::kernel::{Content, KernelError, Result};

impl World {
    pub fn make_filesystem(&mut self, device: &Path, fs_type: &str) -> Result<()> {
        let what = format!("mkfs.{fs_type} `{}`", device.display());
        self.need_tool(&format!("mkfs.{fs_type}"), &what)?;
        let attached = self.attached(device, &what)?;
        let Loop { ino, read_only, size, .. } = *attached;
        let content = self.image_content(attached);
        if read_only {
            return Err(KernelError::errno(what, Errno::EROFS as i32));
        }
        // A mounted device always does.
        if content != Content::Empty {
            return Err(KernelError::other(what, format!("the device holds data: {content:?}")));
        }
        if self.tree.space.available < BLOCK {
            return Err(KernelError::other(what, "exit status: 1: input/output error"));
        }
        self.tree.fill_image(ino, Content::Filesystem(fs_type.into()), size);
        Ok(())
    }

    pub fn grow_filesystem(&mut self, device: &Path, target: &Path, fs_type: &str) -> Result<()> {
        let what = format!("grow the {fs_type} on `{}`", device.display());
        let Loop { ino, size, .. } = *self.attached(device, &what)?;
        let place = self.tree.place(target).map_err(|e| KernelError::io(&what, &e))?;
        let offline = fs_type.starts_with("ext") && !self.tree.table.shows(FsId::Image(ino));
        if place.fs != FsId::Image(ino) && !offline {
            return Err(KernelError::other(what, format!("it is not mounted at `{}`", target.display())));
        }
        let tool = match fs_type {
            "xfs" => "xfs_growfs",
            "btrfs" => "btrfs",
            _ => "resize2fs",
        };
        self.need_tool(tool, &what)?;
        if self.tree.frozen.contains(&FsId::Image(ino)) {
            return Err(KernelError::errno(what, Errno::EBUSY as i32));
        }
        if let Some(image) = self.tree.images.get_mut(&ino) {
            image.capacity = size;
        }
        Ok(())
    }

    /// A repair forgets the errors that led to it.
    pub fn check_filesystem(&mut self, device: &Path, fs_type: &str) -> Result<()> {
        let what = format!("fsck.{fs_type} `{}`", device.display());
        let ino = self.attached(device, &what)?.ino;
        if self.in_use(ino) {
            return Err(KernelError::errno(what, Errno::EBUSY as i32));
        }
        if let Some(image) = self.tree.images.get_mut(&ino) {
            image.errors = 0;
        }
        Ok(())
    }

    pub fn freeze(&mut self, target: &Path) -> Result<()> {
        let refused = |errno: Errno| {
            KernelError::errno(format!("freeze what is mounted at `{}`", target.display()), errno as i32)
        };
        let fs = self.mounted_at(target).ok_or_else(|| refused(Errno::EINVAL))?;
        if fs == FsId::Dev {
            return Err(refused(Errno::EOPNOTSUPP));
        }
        if self.tree.frozen.insert(fs) { Ok(()) } else { Err(refused(Errno::EBUSY)) }
    }

    pub fn thaw(&mut self, target: &Path) {
        if let Some(fs) = self.mounted_at(target) {
            self.tree.frozen.remove(&fs);
        }
    }

    fn mounted_at(&self, target: &Path) -> Option<FsId> {
        let target = self.tree.follow(target).ok()?;
        self.tree.table.topmost(&target).map(|entry| entry.fs)
    }

    /// The filesystem of this type on a device.
    pub fn filesystem(&self, device: &Path, fs_type: &str) -> Result<&Image> {
        let what = format!("look at the {fs_type} on `{}`", device.display());
        let image = self.tree.images.get(&self.attached(device, &what)?.ino);
        let wanted =
            |image: &&Image| matches!(&image.content, Content::Filesystem(found) if found == fs_type);
        image.filter(wanted).ok_or_else(|| KernelError::other(what, format!("it holds no {fs_type}")))
    }

    pub fn renew_identity(&mut self, device: &Path, fs_type: &str) -> Result<()> {
        if fs_type != "btrfs" {
            return Ok(());
        }
        let what = format!("btrfstune `{}`", device.display());
        self.need_tool("btrfstune", &what)?;
        self.filesystem(device, fs_type)?;
        let Loop { ino, read_only, .. } = *self.attached(device, &what)?;
        if read_only {
            return Err(KernelError::other(what, "exit status: 1: read-only file system"));
        }
        if self.in_use(ino) {
            return Err(KernelError::other(what, "exit status: 1: the device is mounted"));
        }
        let identity = self.tree.new_ino();
        if let Some(image) = self.tree.images.get_mut(&ino) {
            image.identity = identity;
        }
        Ok(())
    }

    /// Why a filesystem is not mounted beside a copy of itself. Kernels from 6.7 on would mount two of btrfs; all
    /// earlier ones refuse.
    pub fn twin_refusal(&self, ino: Ino, fs_type: &str, nouuid: bool) -> Option<Errno> {
        let refusal = match fs_type {
            "btrfs" => Errno::EEXIST,
            "xfs" if !nouuid => Errno::EINVAL,
            _ => return None,
        };
        let own = self.tree.images.get(&ino)?;
        let twin = |(other, image): (&Ino, &Image)| {
            *other != ino
                && image.identity == own.identity
                && image.content == own.content
                && self.in_use(*other)
        };
        self.tree.images.iter().any(twin).then_some(refusal)
    }

    fn in_use(&self, ino: Ino) -> bool {
        let fs = FsId::Image(ino);
        self.tree.table.shows(fs) || self.tree.frozen.contains(&fs)
    }

    fn need_tool(&self, name: &str, what: &str) -> Result<()> {
        let present = self.tools.iter().any(|tool| tool == name);
        if present { Ok(()) } else { Err(KernelError::errno(what, Errno::ENOENT as i32)) }
    }
}
