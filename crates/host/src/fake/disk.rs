//! Files and directories of the fake machine.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nix::errno::Errno;

use super::tree::{FsId, Image, Node, Place, Tree};
use super::{FakeHost, World};
use crate::disk::{Disk, Kind, Space};
use crate::kernel::Content;

/// Larger sparse files cannot be read whole: a test that tries has lost its way.
const READ_MAX: u64 = 64 << 20;

/// Room of the machine's own disk; a filesystem in an image has the room of its device.
const ROOT_SPACE: Space = Space { total: 1 << 40, available: 1 << 39 };

impl World {
    /// Where a path leads, provided that it may be changed: not read-only, not a mount point.
    fn changeable(&self, path: &Path) -> io::Result<Place> {
        let place = self.tree.place(path)?;
        if self.tree.table.is_target(path) {
            return Err(Errno::EBUSY.into());
        }
        if place.read_only {
            return Err(Errno::EROFS.into());
        }
        Ok(place)
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let place = self.changeable(path)?;
        if matches!(self.tree.node(&place), Some(Node::Dir)) {
            return Err(Errno::EISDIR.into());
        }
        let node =
            Node::File { ino: self.tree.new_ino(), bytes: content.into(), length: content.len() as u64 };
        self.tree.insert(&place, node)
    }

    fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        let path = self.tree.follow(path)?;
        let place = self.tree.place(&path)?;
        match self.tree.node(&place) {
            Some(Node::Dir) => Ok(()),
            Some(_) => Err(Errno::EEXIST.into()),
            None => self.tree.insert(&place, Node::Dir),
        }
    }

    /// The content of a copied image travels with it: a snapshot keeps the bytes of its moment.
    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (source, length) = self.tree.file(from)?;
        let bytes = read(&self.tree, from, false)?;
        let place = self.changeable(to)?;
        let ino = self.tree.new_ino();
        self.tree.insert(&place, Node::File { ino, bytes, length })?;
        if let Some(image) = self.tree.images.get(&source).cloned() {
            self.tree.images.insert(ino, image);
        }
        if let Some(nodes) = self.tree.systems.get(&FsId::Image(source)).cloned() {
            self.tree.systems.insert(FsId::Image(ino), nodes);
        }
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        let place = self.tree.place(path)?;
        match self.tree.node(&place) {
            None => return Ok(()),
            Some(Node::Dir) => {}
            Some(_) => return Err(Errno::ENOTDIR.into()),
        }
        let place = self.changeable(path)?;
        if !self.tree.children(&place).is_empty() {
            return Err(Errno::ENOTEMPTY.into());
        }
        self.tree.remove(&place);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let place = self.tree.place(path)?;
        match self.tree.node(&place) {
            None => return Ok(()),
            Some(Node::Dir) => return Err(Errno::EISDIR.into()),
            Some(_) => {}
        }
        let place = self.changeable(path)?;
        match self.tree.remove(&place) {
            Some(Node::Socket(_)) => self.sockets.removed(path),
            // An image in use lives on, as an unlinked file does.
            Some(Node::File { ino, .. }) if !self.loops.values().any(|l| l.ino == ino) => {
                self.tree.images.remove(&ino);
                self.tree.systems.remove(&FsId::Image(ino));
            }
            _ => {}
        }
        Ok(())
    }
}

fn read(tree: &Tree, path: &Path, whole: bool) -> io::Result<Vec<u8>> {
    let (_, length) = tree.file(path)?;
    let place = tree.place(&tree.follow(path)?)?;
    let Some(Node::File { bytes, .. }) = tree.node(&place) else { return Err(Errno::ENOENT.into()) };
    let mut bytes = bytes.clone();
    if whole && length > READ_MAX {
        return Err(Errno::EFBIG.into());
    }
    if whole {
        bytes.resize(length as usize, 0);
    }
    Ok(bytes)
}

#[async_trait]
impl Disk for FakeHost {
    async fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut world = self.world();
        world.check_io("read")?;
        read(&world.tree, path, true)
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
        ancestors.into_iter().try_for_each(|ancestor| world.create_dir(ancestor))
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
        let place = world.tree.place(path)?;
        if world.tree.node(&place).is_none() {
            world.write(path, &[])?;
        }
        match world.tree.node_mut(&place) {
            Some(Node::File { ino, bytes, length }) => {
                *length = wanted.max(*length);
                let (ino, empty) = (*ino, bytes.iter().all(|byte| *byte == 0));
                if empty {
                    world.tree.images.entry(ino).or_insert(Image { content: Content::Empty, capacity: 0 });
                }
                Ok(())
            }
            _ => Err(Errno::EISDIR.into()),
        }
    }

    async fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.check_io("copy")?;
        world.copy(from, to)
    }

    async fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(self.world().tree.file(path)?.1)
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
        let world = self.world();
        let place = world.tree.place(path)?;
        Ok(world.tree.node(&place).map(Node::kind))
    }

    async fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let world = self.world();
        let place = world.tree.place(&world.tree.follow(path)?)?;
        match world.tree.node(&place) {
            None => return Ok(Vec::new()),
            Some(Node::Dir) => {}
            Some(_) => return Err(Errno::ENOTDIR.into()),
        }
        let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(world.tree.children(&place).into_iter().filter_map(name).collect())
    }

    async fn space(&self, path: &Path) -> io::Result<Space> {
        let world = self.world();
        let place = world.tree.place(&world.tree.follow(path)?)?;
        if world.tree.node(&place).is_none() {
            return Err(Errno::ENOENT.into());
        }
        let FsId::Image(ino) = place.fs else { return Ok(ROOT_SPACE) };
        let total = world.tree.images.get(&ino).map_or(0, |image| image.capacity);
        Ok(Space { total, available: total })
    }
}
