//! The disk of the fake machine.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nix::errno::Errno;

use super::file::BLOCK;
use super::tree::{FsId, Node};
use super::{FakeHost, blocks};
use crate::disk::{
    Disk, Extent, GroupChange, GroupGrant, Growing, Kind, Lock, Owner, Space, Walk, is_unfinished,
};

/// Larger sparse files cannot be read whole: a test that tries has lost its way.
const READ_MAX: u64 = 64 << 20;

/// As mkfs.ext4 counts them.
const BYTES_PER_INODE: u64 = 16 << 10;

/// Nothing on the fake machine appends to files.
struct FakeGrowing(Vec<u8>);

#[async_trait]
impl Growing for FakeGrowing {
    async fn length(&mut self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    async fn read_at(&mut self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let rest = self.0.iter().skip(usize::try_from(offset).unwrap_or(usize::MAX));
        Ok(rest.take(max).copied().collect())
    }

    async fn changed(&mut self) -> io::Result<()> {
        std::future::pending().await
    }

    async fn replaced(&mut self) -> io::Result<bool> {
        Ok(false)
    }
}

#[async_trait]
impl Disk for FakeHost {
    async fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut world = self.world();
        world.check_io("read")?;
        let file = world.tree.file(path)?;
        if file.length > READ_MAX {
            return Err(Errno::EFBIG.into());
        }
        Ok(file.whole())
    }

    async fn open_growing(&self, path: &Path) -> io::Result<Box<dyn Growing>> {
        Ok(Box::new(FakeGrowing(self.read(path).await?)))
    }

    async fn write_atomic(&self, path: &Path, content: &[u8], _mode: u32) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("write_atomic")?;
        world.write(path, content)
    }

    async fn create_dir_all(&self, path: &Path, _mode: u32) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("create_dir_all")?;
        let mut ancestors: Vec<&Path> = path.ancestors().collect();
        ancestors.reverse();
        ancestors.into_iter().try_for_each(|ancestor| world.create_dir(ancestor))?;
        world.check_io("create_dir_all.after")
    }

    async fn create_owned_dir(&self, path: &Path, owner: Owner) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("create_owned_dir")?;
        world.create_owned_dir(path, owner)
    }

    async fn create_file(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("create_file")?;
        let place = world.tree.place(path)?;
        match world.tree.node(&place) {
            Some(Node::Dir) => Err(Errno::EISDIR.into()),
            Some(_) => Ok(()),
            None => world.write(path, &[]),
        }
    }

    async fn create_sparse(&self, path: &Path, wanted: u64) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("create_sparse")?;
        world.create_sparse(path, wanted)
    }

    async fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("copy")?;
        world.copy(from, to)
    }

    async fn reflink(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("reflink")?;
        if !world.tree.reflinks {
            return Err(io::ErrorKind::Unsupported.into());
        }
        world.copy(from, to)
    }

    async fn length(&self, path: &Path) -> io::Result<u64> {
        let mut world = self.world();
        world.check_io("length")?;
        Ok(world.tree.file(path)?.length)
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("remove_file")?;
        world.remove_file(path)
    }

    async fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("remove_dir")?;
        world.remove_dir(path)
    }

    async fn remove_tree(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("remove_tree")?;
        world.remove_tree(path)
    }

    async fn symlink(&self, target: &Path, link: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("symlink")?;
        let place = world.tree.place(link)?;
        if world.tree.node(&place).is_some() {
            return Err(Errno::EEXIST.into());
        }
        world.tree.insert(&place, Node::Symlink(target.into()))
    }

    async fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        let mut world = self.world();
        world.check_io("kind")?;
        let place = world.tree.place(path)?;
        Ok(world.tree.node(&place).map(Node::kind))
    }

    async fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut world = self.world();
        world.check_io("list")?;
        let names = world.tree.names(path)?;
        Ok(names.into_iter().filter(|name| !is_unfinished(name)).collect())
    }

    async fn unfinished(&self, path: &Path) -> io::Result<Vec<String>> {
        let names = self.world().tree.names(path)?;
        Ok(names.into_iter().filter(|name| is_unfinished(name)).collect())
    }

    async fn space(&self, path: &Path) -> io::Result<Space> {
        let mut world = self.world();
        world.check_io("space")?;
        let place = world.tree.place(&world.tree.follow(path)?)?;
        if world.tree.node(&place).is_none() {
            return Err(Errno::ENOENT.into());
        }
        let FsId::Image(ino) = place.fs else { return Ok(world.tree.space) };
        let total = world.tree.images.get(&ino).map_or(0, |image| image.capacity);
        let inodes = total / BYTES_PER_INODE;
        Ok(Space { total, available: total, inodes_total: inodes, inodes_available: inodes })
    }

    async fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let mut world = self.world();
        world.check_io("canonical")?;
        world.tree.canonical(path)
    }

    async fn set_label(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("set_label")?;
        world.set_label(path, name, value)
    }

    async fn label(&self, path: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut world = self.world();
        world.check_io("label")?;
        Ok(world.tree.file(path)?.labels.get(name).cloned())
    }

    async fn extents(&self, path: &Path, from: u64, max: usize) -> io::Result<Vec<Extent>> {
        let mut world = self.world();
        world.check_io("extents")?;
        let file = world.tree.file(path)?;
        Ok(blocks::extents(&world.tree.blocks(file), file.length, from, max))
    }

    async fn changed(
        &self,
        base: &Path,
        target: &Path,
        block: u64,
        from: u64,
        max: usize,
    ) -> io::Result<Vec<Extent>> {
        let mut world = self.world();
        world.check_io("changed")?;
        if block == 0 {
            return Err(Errno::EINVAL.into());
        }
        let tree = &world.tree;
        let (base, target) = (tree.blocks(tree.file(base)?), tree.blocks(tree.file(target)?));
        Ok(blocks::changed(&base, &target, block, from, max))
    }

    async fn allocated(&self, path: &Path) -> io::Result<u64> {
        let world = self.world();
        let file = world.tree.file(path)?;
        Ok(world.tree.blocks(file).len() as u64 * BLOCK)
    }

    async fn lock(&self, path: &Path) -> io::Result<Lock> {
        let mut world = self.world();
        world.check_io("lock")?;
        world.lock(path).map(Lock::new)
    }

    async fn set_group(&self, dir: &Path, gid: u32) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("set_group")?;
        world.set_group(dir, gid)
    }

    async fn give_to_group(&self, dir: &Path, grant: GroupGrant, walk: &Walk) -> io::Result<()> {
        self.world().check_io("give_to_group")?;
        self.walk_pause(walk).await?;
        walk.step()?;
        let mut world = self.world();
        if grant.change == GroupChange::Always {
            world.forget_group(dir)?;
        }
        world.set_group(dir, grant.gid)
    }

    /// The fake keeps no permissions but those of directories that have an owner.
    async fn restrict(&self, path: &Path, _mode: u32) -> io::Result<bool> {
        let mut world = self.world();
        world.check_io("restrict")?;
        world.tree.place(path).map(|_| false)
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("rename")?;
        world.rename(from, to)
    }
}
