//! Loop devices of the fake machine.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::World;
use super::tree::{FsId, Ino, Node, Place};
use crate::kernel::{Content, KernelError, LoopDevice, Queue, Result};

/// What a probe says of bytes that no filesystem has written.
const UNKNOWN_DATA: &str = "unknown data";

#[derive(Debug, Clone)]
pub(super) struct Loop {
    pub image: PathBuf,
    pub ino: Ino,
    pub read_only: bool,
    /// Bytes the device shows; follows the image only when refreshed.
    pub size: u64,
    pub queue: Queue,
    /// Requests that changed it.
    pub writes: u64,
}

pub(super) fn device_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

impl World {
    pub fn attach(&mut self, image: &Path, read_only: bool) -> Result<PathBuf> {
        let what = || format!("attach `{}` to a loop device", image.display());
        let io = |e: io::Error| KernelError::io(what(), &e);
        let (ino, size) = self.tree.file(image).map(|file| (file.ino, file.length)).map_err(io)?;
        if let Some((number, existing)) = self.loops.iter().find(|(_, l)| l.ino == ino) {
            if existing.read_only && !read_only {
                return Err(KernelError::other(what(), "it is attached read-only"));
            }
            return Ok(device_path(*number));
        }
        if !read_only {
            let place = self.tree.follow(image).and_then(|path| self.tree.place(&path)).map_err(io)?;
            self.tree.check_writable(&place).map_err(io)?;
        }
        let table = self.tree.mount_table();
        let is_shown = |n: &u32| table.iter().any(|mount| mount.shows_device(&device_path(*n)));
        let number = (0..).find(|n| !self.loops.contains_key(n) && !is_shown(n)).unwrap_or(0);
        let place = Place { fs: FsId::Dev, inner: format!("/loop{number}").into(), read_only: false };
        self.tree.insert(&place, Node::Block(number)).map_err(io)?;
        let queue = Queue::default();
        self.loops.insert(number, Loop { image: image.into(), ino, read_only, size, queue, writes: 0 });
        Ok(device_path(number))
    }

    pub fn detach(&mut self, device: &Path) -> Result<()> {
        let Some(number) = self.loop_number(device) else { return Ok(()) };
        let Some(ino) = self.loops.get(&number).map(|l| l.ino) else { return Ok(()) };
        let fs = FsId::Image(ino);
        // A frozen filesystem keeps its device even when it is mounted nowhere.
        let frozen = self.tree.frozen.contains(&fs);
        if frozen || self.tree.table.shows(fs) || self.containers.values().any(|c| c.uses(fs)) {
            return Err(KernelError::errno(format!("detach `{}`", device.display()), Errno::EBUSY as i32));
        }
        self.loops.remove(&number);
        Ok(())
    }

    /// Clears a device as `LOOP_CLR_FD` does when nothing else has it open; device files of it stay where they are.
    pub fn clear(&mut self, device: &Path) {
        if let Some(number) = self.loop_number(device) {
            self.loops.remove(&number);
        }
    }

    /// Puts another image below a device, free or not.
    pub fn replace(&mut self, device: &Path, image: &Path) -> io::Result<()> {
        let (ino, size) = self.tree.file(image).map(|file| (file.ino, file.length))?;
        let number = self.loop_number(device).ok_or(Errno::ENOTBLK)?;
        let queue = Queue::default();
        let image = image.to_path_buf();
        self.loops.insert(number, Loop { image, ino, read_only: false, size, queue, writes: 0 });
        Ok(())
    }

    pub fn refresh(&mut self, device: &Path) -> Result<()> {
        let what = format!("refresh the size of `{}`", device.display());
        let found = self.loop_number(device).and_then(|number| self.loops.get_mut(&number));
        let Some(attached) = found else { return Err(KernelError::errno(what, Errno::ENXIO as i32)) };
        let file = self.tree.file(&attached.image).map_err(|e| KernelError::io(what, &e))?;
        attached.size = file.length;
        Ok(())
    }

    pub fn list_loops(&self) -> Vec<LoopDevice> {
        let device = |(number, attached): (&u32, &Loop)| LoopDevice {
            device: device_path(*number),
            image: attached.image.clone(),
            deleted: !self.tree.file(&attached.image).is_ok_and(|file| file.ino == attached.ino),
            read_only: attached.read_only,
        };
        self.loops.iter().map(device).collect()
    }

    pub fn set_queue(&mut self, device: &Path, queue: Queue) -> Result<()> {
        let what = format!("set the queue of `{}`", device.display());
        self.attached(device, &what)?;
        let Some(number) = self.loop_number(device) else { return Ok(()) };
        if let Some(attached) = self.loops.get_mut(&number) {
            let Queue { discard, read_ahead_kib } = attached.queue;
            if (discard, queue.discard) == (Some(false), Some(true)) {
                return Err(KernelError::discard_stays_off(device));
            }
            attached.queue = Queue {
                discard: queue.discard.or(discard),
                read_ahead_kib: queue.read_ahead_kib.or(read_ahead_kib),
            };
        }
        Ok(())
    }

    pub fn write_device(&mut self, device: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let attached = self.loop_number(device).and_then(|number| self.loops.get(&number));
        if attached.is_some_and(|attached| attached.read_only) {
            return Err(Errno::EPERM.into());
        }
        let path = attached.map_or_else(|| device.to_path_buf(), |attached| attached.image.clone());
        let place = self.tree.place(&self.tree.follow(&path)?)?;
        self.tree.check_writable(&place)?;
        self.tree.check_room(&place, bytes.len() as u64)?;
        let Some(Node::File(file)) = self.tree.node_mut(&place) else { return Err(Errno::ENOENT.into()) };
        if offset + bytes.len() as u64 > file.length {
            return Err(Errno::ENOSPC.into());
        }
        file.write(offset, bytes);
        let (ino, zero) = (file.ino, file.is_zero());
        for attached in self.loops.values_mut().filter(|attached| attached.ino == ino) {
            attached.writes += 1;
        }
        if let Some(image) = self.tree.images.get_mut(&ino)
            && image.content == Content::Empty
            && !zero
        {
            image.content = Content::Other(UNKNOWN_DATA.into());
        }
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
        image.map_or_else(|| Content::Other(UNKNOWN_DATA.into()), |image| image.content.clone())
    }
}
