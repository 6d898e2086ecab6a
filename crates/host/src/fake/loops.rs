//! Loop devices of the fake machine.

use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::World;
use super::tree::{FsId, Ino, Node, Place};
use crate::kernel::{Content, KernelError, Result};

#[derive(Debug, Clone)]
pub(super) struct Loop {
    pub image: PathBuf,
    pub ino: Ino,
    pub read_only: bool,
    /// Bytes the device shows; follows the image only when refreshed.
    pub size: u64,
}

pub(super) fn device_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

impl World {
    pub fn attach(&mut self, image: &Path, read_only: bool) -> Result<PathBuf> {
        let what = || format!("attach `{}` to a loop device", image.display());
        let (ino, size) = self.tree.file(image).map_err(|e| KernelError::io(what(), &e))?;
        if let Some((number, existing)) = self.loops.iter().find(|(_, l)| l.ino == ino) {
            if existing.read_only && !read_only {
                return Err(KernelError::other(what(), "it is attached read-only"));
            }
            return Ok(device_path(*number));
        }
        let number = (0..).find(|n| !self.loops.contains_key(n)).unwrap_or(0);
        let place = Place { fs: FsId::Dev, inner: format!("/loop{number}").into(), read_only: false };
        self.tree.insert(&place, Node::Block(number)).map_err(|e| KernelError::io(what(), &e))?;
        self.loops.insert(number, Loop { image: image.into(), ino, read_only, size });
        Ok(device_path(number))
    }

    pub fn detach(&mut self, device: &Path) -> Result<()> {
        let Some(number) = self.loop_number(device) else { return Ok(()) };
        let Some(ino) = self.loops.get(&number).map(|l| l.ino) else { return Ok(()) };
        let fs = FsId::Image(ino);
        if self.tree.table.shows(fs) || self.containers.values().any(|c| c.uses(fs)) {
            return Err(KernelError::errno(format!("detach `{}`", device.display()), Errno::EBUSY as i32));
        }
        self.loops.remove(&number);
        Ok(())
    }

    pub fn refresh(&mut self, device: &Path) -> Result<()> {
        let what = format!("refresh the size of `{}`", device.display());
        let found = self.loop_number(device).and_then(|number| self.loops.get_mut(&number));
        let Some(attached) = found else { return Err(KernelError::errno(what, Errno::ENXIO as i32)) };
        let (_, length) = self.tree.file(&attached.image).map_err(|e| KernelError::io(what, &e))?;
        attached.size = length;
        Ok(())
    }

    /// The device node a path leads to, also through a bind mount of it.
    pub fn loop_number(&self, device: &Path) -> Option<u32> {
        match self.tree.node(&self.tree.place(&self.tree.follow(device).ok()?).ok()?)? {
            Node::Block(number) => Some(*number),
            _ => None,
        }
    }

    pub fn attached(&self, device: &Path, what: &str) -> Result<&Loop> {
        let Some(number) = self.loop_number(device) else {
            return Err(KernelError::errno(what, Errno::ENOTBLK as i32));
        };
        self.loops.get(&number).ok_or_else(|| KernelError::errno(what, Errno::ENXIO as i32))
    }

    /// Files that hold bytes but no known filesystem are somebody's data.
    pub fn image_content(&self, attached: &Loop) -> Content {
        let image = self.tree.images.get(&attached.ino);
        image.map_or_else(|| Content::Other("unknown data".into()), |image| image.content.clone())
    }
}
