//! Mounts and filesystem tools of the fake machine, with a real kernel's refusals.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nix::errno::Errno;

use super::loops::{Loop, device_path};
use super::mounts::{Entry, mount};
use super::tree::{FsId, Node, Tree};
use super::{FakeHost, World};
use crate::kernel::{Content, Kernel, KernelError, LoopDevice, Mount, Queue, Result, Writes};

impl Tree {
    pub(super) fn mount_table(&self) -> Vec<Mount> {
        self.table.list()
    }
}

impl World {
    fn mount(&mut self, device: &Path, target: &Path, fs_type: &str, options: &[String]) -> Result<()> {
        let what = format!("mount `{}` at `{}`", device.display(), target.display());
        let refused = |errno: Errno| Err(KernelError::errno(&what, errno as i32));
        let attached = self.attached(device, &what)?;
        let fs = FsId::Image(attached.ino);
        let wants_read_only = options.iter().any(|o| o == "ro");
        if attached.read_only && !wants_read_only {
            return refused(Errno::EACCES);
        }
        match self.image_content(attached) {
            Content::Filesystem(found) if found == fs_type => {}
            // What mount(2) says to a bad superblock.
            Content::Filesystem(_) | Content::Empty | Content::Other(_) => return refused(Errno::EINVAL),
        }
        let target = self.tree.follow(target).map_err(|e| KernelError::io(&what, &e))?;
        let place = self.tree.place(&target).map_err(|e| KernelError::io(&what, &e))?;
        match self.tree.node(&place) {
            Some(Node::Dir) => {}
            Some(_) => return refused(Errno::ENOTDIR),
            None => return refused(Errno::ENOENT),
        }
        if self.tree.table.topmost(&target).is_some_and(|e| e.fs == fs) {
            return refused(Errno::EBUSY);
        }
        let nouuid = options.iter().any(|o| o == "nouuid");
        if let Some(errno) = self.twin_refusal(attached.ino, fs_type, nouuid) {
            return refused(errno);
        }
        let number = self.loop_number(device).unwrap_or_default();
        let access = if wants_read_only { "ro" } else { "rw" };
        let others = options.iter().map(String::as_str).filter(|o| !matches!(*o, "ro" | "rw" | "defaults"));
        let options: Vec<&str> = std::iter::once(access).chain(others).collect();
        let source = device_path(number);
        let source = source.to_string_lossy();
        let mount = mount(&format!("7:{number}"), "/", &target, &options, fs_type, &source);
        self.tree.table.push(Entry { fs, mount });
        Ok(())
    }

    fn mount_memory(&mut self, target: &Path, size: Option<u64>) -> Result<()> {
        let what = format!("mount tmpfs `tmpfs` at `{}`", target.display());
        let io = |e: std::io::Error| KernelError::io(&what, &e);
        let target = self.tree.follow(target).map_err(io)?;
        match self.tree.node(&self.tree.place(&target).map_err(io)?) {
            Some(Node::Dir) => {}
            Some(_) => return Err(KernelError::errno(what, Errno::ENOTDIR as i32)),
            None => return Err(KernelError::errno(what, Errno::ENOENT as i32)),
        }
        let number = self.tree.new_ino();
        let fs = FsId::Memory(number);
        self.tree.systems.insert(fs, [(PathBuf::from("/"), Node::Dir)].into());
        let size = size.map(|bytes| format!("size={bytes}"));
        let options: Vec<&str> = std::iter::once("rw").chain(size.as_deref()).collect();
        let mount = mount(&format!("0:{number}"), "/", &target, &options, "tmpfs", "tmpfs");
        self.tree.table.push(Entry { fs, mount });
        Ok(())
    }

    fn bind(&mut self, source: &Path, target: &Path, read_only: bool) -> Result<()> {
        let what = format!("bind `{}` to `{}`", source.display(), target.display());
        let io = |e: std::io::Error| KernelError::io(&what, &e);
        let source = self.tree.follow(source).map_err(io)?;
        let target = self.tree.follow(target).map_err(io)?;
        let from = self.tree.place(&source).map_err(io)?;
        let to = self.tree.place(&target).map_err(io)?;
        match (self.tree.node(&from), self.tree.node(&to)) {
            (Some(Node::Dir), Some(Node::Dir)) => {}
            (Some(Node::Dir), Some(_)) | (Some(_), Some(Node::Dir)) => {
                return Err(KernelError::errno(what, Errno::ENOTDIR as i32));
            }
            (Some(_), Some(_)) => {}
            (None, _) | (_, None) => return Err(KernelError::errno(what, Errno::ENOENT as i32)),
        }
        let Some(mut mount) = self.tree.table.showing(&source).map(|e| e.mount.clone()) else {
            return Err(KernelError::errno(what, Errno::ENOENT as i32));
        };
        if read_only {
            mount.options.retain(|o| o != "rw" && o != "ro");
            mount.options.insert(0, "ro".into());
        }
        let mount = Mount { root: from.inner, target, ..mount };
        self.tree.table.push(Entry { fs: from.fs, mount });
        Ok(())
    }
}

#[async_trait]
impl Kernel for FakeHost {
    async fn mounts(&self) -> Result<Vec<Mount>> {
        let mut world = self.world();
        world.check_kernel("mounts")?;
        Ok(world.tree.mount_table())
    }

    async fn mount_at(&self, target: &Path) -> Result<Option<Mount>> {
        let mut world = self.world();
        world.check_kernel("mount_at")?;
        Ok(world.tree.table.topmost(target).map(|e| e.mount.clone()))
    }

    async fn mount(&self, device: &Path, target: &Path, fs_type: &str, options: &[String]) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("mount")?;
        world.mount(device, target, fs_type, options)
    }

    async fn mount_memory(&self, target: &Path, size: Option<u64>) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("mount_memory")?;
        world.mount_memory(target, size)
    }

    async fn bind(&self, source: &Path, target: &Path, read_only: bool) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("bind")?;
        world.bind(source, target, read_only)
    }

    async fn bind_confined(&self, source: &Path, target: &Path, read_only: bool) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("bind")?;
        world.bind(source, target, read_only)?;
        world.tree.table.confine(target);
        Ok(())
    }

    async fn unmount(&self, target: &Path) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("unmount")?;
        match world.tree.table.pop(target) {
            Ok(()) | Err(Errno::EINVAL) => {
                world.tree.drop_unmounted_memory();
                Ok(())
            }
            Err(errno) => Err(KernelError::errno(format!("unmount `{}`", target.display()), errno as i32)),
        }
    }

    async fn loop_attach(&self, image: &Path, read_only: bool) -> Result<PathBuf> {
        let mut world = self.world();
        world.check_kernel("loop_attach")?;
        world.attach(image, read_only)
    }

    async fn loop_of(&self, image: &Path) -> Result<Option<PathBuf>> {
        let mut world = self.world();
        world.check_kernel("loop_of")?;
        let ino = world.tree.file(image).ok().map(|file| file.ino);
        let same = |l: &Loop| ino.map_or(l.image == image, |ino| l.ino == ino);
        Ok(world.loops.iter().find(|(_, l)| same(l)).map(|(number, _)| device_path(*number)))
    }

    /// Which process has a device open is not told apart here: requests from outside clear it at once, as they do
    /// on a real machine while the holder is not running.
    async fn loop_hold(&self, image: &Path) -> Result<Option<PathBuf>> {
        self.loop_of(image).await
    }

    async fn loop_detach(&self, device: &Path) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("loop_detach")?;
        world.detach(device)
    }

    async fn loop_release(&self, device: &Path, image: &Path) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("loop_detach")?;
        match world.attached(device, "detach").is_ok_and(|attached| attached.image == image) {
            true => world.detach(device),
            false => Ok(()),
        }
    }

    async fn loop_refresh(&self, device: &Path) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("loop_refresh")?;
        world.refresh(device)
    }

    async fn content(&self, device: &Path) -> Result<Content> {
        let mut world = self.world();
        world.check_kernel("content")?;
        let attached = world.attached(device, &format!("probe `{}`", device.display()))?;
        Ok(world.image_content(attached))
    }

    async fn make_filesystem(&self, device: &Path, fs_type: &str, _options: &[String]) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("make_filesystem")?;
        world.make_filesystem(device, fs_type)
    }

    async fn check_filesystem(&self, device: &Path, fs_type: &str) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("check_filesystem")?;
        world.check_filesystem(device, fs_type)
    }

    async fn grow_filesystem(&self, device: &Path, target: &Path, fs_type: &str) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("grow_filesystem")?;
        world.grow_filesystem(device, target, fs_type)
    }

    async fn freeze(&self, target: &Path) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("freeze")?;
        world.freeze(target)
    }

    async fn thaw(&self, target: &Path) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("thaw")?;
        world.thaw(target);
        Ok(())
    }

    async fn flush(&self, device: &Path) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("flush")?;
        world.attached(device, &format!("flush `{}`", device.display())).map(drop)
    }

    async fn writes(&self, device: &Path) -> Result<Writes> {
        let mut world = self.world();
        world.check_kernel("writes")?;
        let attached = world.attached(device, &format!("count the writes to `{}`", device.display()))?;
        Ok(Writes { done: attached.writes, under_way: 0 })
    }

    async fn device_size(&self, device: &Path) -> Result<u64> {
        let mut world = self.world();
        world.check_kernel("device_size")?;
        Ok(world.attached(device, &format!("measure `{}`", device.display()))?.size)
    }

    async fn filesystem_size(&self, device: &Path, fs_type: &str) -> Result<u64> {
        let mut world = self.world();
        world.check_kernel("filesystem_size")?;
        Ok(world.filesystem(device, fs_type)?.capacity)
    }

    async fn loops(&self) -> Result<Vec<LoopDevice>> {
        let mut world = self.world();
        world.check_kernel("loops")?;
        Ok(world.list_loops())
    }

    async fn set_queue(&self, device: &Path, queue: Queue) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("set_queue")?;
        world.set_queue(device, queue)
    }

    async fn renew_identity(&self, device: &Path, fs_type: &str) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("renew_identity")?;
        world.renew_identity(device, fs_type)
    }

    async fn filesystem_errors(&self, device: &Path, fs_type: &str) -> Result<u64> {
        let mut world = self.world();
        world.check_kernel("filesystem_errors")?;
        Ok(world.filesystem(device, fs_type)?.errors)
    }

    fn has_tool(&self, name: &str) -> bool {
        self.world().tools.iter().any(|tool| tool == name)
    }
}
