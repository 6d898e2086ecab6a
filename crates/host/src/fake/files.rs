//! What changes files and directories of the fake machine, with a real kernel's refusals.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;

use super::World;
use super::file::{BLOCK, File};
use super::tree::{Ino, Node, Place, Tree};
use crate::disk::is_unfinished;
use crate::kernel::Content;

impl World {
    /// Where a path leads, provided that it may be changed: not read-only, not a mount point.
    fn changeable(&self, path: &Path) -> io::Result<Place> {
        let place = self.tree.place(path)?;
        if self.tree.table.is_target(path) {
            return Err(Errno::EBUSY.into());
        }
        self.tree.check_writable(&place)?;
        Ok(place)
    }

    pub fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let place = self.changeable(path)?;
        if matches!(self.tree.node(&place), Some(Node::Dir)) {
            return Err(Errno::EISDIR.into());
        }
        self.tree.check_room(&place, content.len() as u64)?;
        let file = File::new(self.tree.new_ino(), content);
        self.tree.insert(&place, Node::File(file))
    }

    /// Grows a file by a hole, which needs no room.
    pub fn create_sparse(&mut self, path: &Path, wanted: u64) -> io::Result<()> {
        if self.tree.node(&self.tree.place(path)?).is_none() {
            self.write(path, &[])?;
        }
        let place = self.tree.place(path)?;
        self.tree.check_writable(&place)?;
        let Some(Node::File(file)) = self.tree.node_mut(&place) else { return Err(Errno::EISDIR.into()) };
        file.length = wanted.max(file.length);
        let (ino, empty) = (file.ino, file.is_zero());
        if empty && !self.tree.images.contains_key(&ino) {
            self.tree.fill_image(ino, Content::Empty, 0);
        }
        Ok(())
    }

    pub fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        let path = self.tree.follow(path)?;
        let place = self.tree.place(&path)?;
        match self.tree.node(&place) {
            Some(Node::Dir) => Ok(()),
            Some(_) => Err(Errno::EEXIST.into()),
            None => {
                self.tree.check_room(&place, BLOCK)?;
                self.tree.insert(&place, Node::Dir)
            }
        }
    }

    /// The content of a copied image travels with it: a snapshot keeps the bytes of its moment.
    pub fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let ino = self.tree.new_ino();
        let source = self.tree.file(from)?;
        let room = self.tree.blocks(source).len() as u64 * BLOCK;
        let (from, copy) = (source.ino, source.copy(ino));
        let place = self.changeable(to)?;
        self.tree.check_room(&place, room)?;
        self.tree.insert(&place, Node::File(copy))?;
        self.tree.copy_image(from, ino);
        Ok(())
    }

    pub fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        let place = self.tree.place(path)?;
        match self.tree.node(&place) {
            None => return Ok(()),
            Some(Node::Dir) => {}
            Some(_) => return Err(Errno::ENOTDIR.into()),
        }
        let place = self.changeable(path)?;
        let (unfinished, others): (Vec<_>, Vec<_>) =
            self.tree.children(&place).into_iter().partition(|path| {
                path.file_name().is_some_and(|name| is_unfinished(&name.to_string_lossy()))
            });
        if !others.is_empty() {
            return Err(Errno::ENOTEMPTY.into());
        }
        for inner in unfinished {
            self.tree.remove(&Place { inner, ..place.clone() });
        }
        self.tree.remove(&place);
        Ok(())
    }

    pub fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let place = self.tree.place(path)?;
        match self.tree.node(&place) {
            None => return Ok(()),
            Some(Node::Dir) => return Err(Errno::EISDIR.into()),
            Some(_) => {}
        }
        let place = self.changeable(path)?;
        match self.tree.remove(&place) {
            Some(Node::Socket(_)) => self.sockets.removed(path),
            Some(Node::File(file)) => self.unlinked(file.ino),
            _ => {}
        }
        Ok(())
    }

    /// An image in use lives on, as an unlinked file does.
    fn unlinked(&mut self, ino: Ino) {
        if !self.loops.values().any(|attached| attached.ino == ino) {
            self.tree.forget_image(ino);
        }
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (source, target) = (self.changeable(from)?, self.changeable(to)?);
        if source.fs != target.fs {
            return Err(Errno::EXDEV.into());
        }
        if source.inner == target.inner {
            return Ok(());
        }
        if target.inner.starts_with(&source.inner) {
            return Err(Errno::EINVAL.into());
        }
        let is_dir = |node: &Node| matches!(node, Node::Dir);
        match (self.tree.node(&source).map(is_dir), self.tree.node(&target).map(is_dir)) {
            (None, _) => return Err(Errno::ENOENT.into()),
            (Some(true), Some(false)) => return Err(Errno::ENOTDIR.into()),
            (Some(false), Some(true)) => return Err(Errno::EISDIR.into()),
            (Some(true), Some(true)) if !self.tree.children(&target).is_empty() => {
                return Err(Errno::ENOTEMPTY.into());
            }
            _ => {}
        }
        let replaced = self.tree.remove(&target);
        for path in self.tree.at_and_below(&source) {
            self.move_node(&source, &target, &path)?;
        }
        if let Some(Node::File(file)) = replaced {
            self.unlinked(file.ino);
        }
        Ok(())
    }

    /// A loop device goes with its image.
    fn move_node(&mut self, source: &Place, target: &Place, path: &Path) -> io::Result<()> {
        let rest = path.strip_prefix(&source.inner).unwrap_or(Path::new(""));
        let inner = if rest.as_os_str().is_empty() { target.inner.clone() } else { target.inner.join(rest) };
        let group = self.tree.groups.get(&(source.fs, path.into())).copied();
        let owner = self.tree.owners.get(&(source.fs, path.into())).copied();
        let Some(node) = self.tree.remove(&Place { inner: path.into(), ..source.clone() }) else {
            return Ok(());
        };
        if let Node::File(file) = &node {
            for attached in self.loops.values_mut().filter(|attached| attached.ino == file.ino) {
                attached.image = inner.clone();
            }
        }
        self.tree.insert(&Place { inner: inner.clone(), ..target.clone() }, node)?;
        if let Some(owner) = owner {
            self.tree.owners.insert((target.fs, inner.clone()), owner);
        }
        if let Some(group) = group {
            self.tree.groups.insert((target.fs, inner), group);
        }
        Ok(())
    }

    pub fn set_label(&mut self, path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        self.tree.file(path)?;
        let place = self.tree.place(&self.tree.follow(path)?)?;
        self.tree.check_writable(&place)?;
        if let Some(Node::File(file)) = self.tree.node_mut(&place) {
            file.labels.insert(name.into(), value.into());
        }
        Ok(())
    }

    pub fn set_group(&mut self, dir: &Path, gid: u32) -> io::Result<()> {
        let place = self.tree.place(dir)?;
        match self.tree.node(&place) {
            Some(Node::Dir) => {}
            Some(_) => return Err(Errno::ENOTDIR.into()),
            None => return Err(Errno::ENOENT.into()),
        }
        if self.tree.groups.get(&(place.fs, place.inner.clone())) == Some(&gid) {
            return Ok(());
        }
        self.tree.check_writable(&place)?;
        for path in self.tree.at_and_below(&place) {
            self.tree.groups.insert((place.fs, path), gid);
        }
        Ok(())
    }

    /// The top is walked again, whatever it says.
    pub fn forget_group(&mut self, dir: &Path) -> io::Result<()> {
        let place = self.tree.place(dir)?;
        self.tree.groups.remove(&(place.fs, place.inner));
        Ok(())
    }

    pub fn lock(&mut self, path: &Path) -> io::Result<Arc<()>> {
        if self.tree.node(&self.tree.place(&self.tree.follow(path)?)?).is_none() {
            self.write(path, &[])?;
        }
        let ino = self.tree.file(path)?.ino;
        if self.locks.get(&ino).is_some_and(|held| held.strong_count() > 0) {
            return Err(Errno::EWOULDBLOCK.into());
        }
        let held = Arc::new(());
        self.locks.insert(ino, Arc::downgrade(&held));
        Ok(held)
    }
}

impl Tree {
    /// Everything in a directory; a missing one is empty.
    pub fn names(&self, path: &Path) -> io::Result<Vec<String>> {
        let place = self.place(&self.follow(path)?)?;
        match self.node(&place) {
            None => return Ok(Vec::new()),
            Some(Node::Dir) => {}
            Some(_) => return Err(Errno::ENOTDIR.into()),
        }
        let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(self.children(&place).into_iter().filter_map(name).collect())
    }

    /// A link that leads nowhere is no place to be created.
    pub fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let followed = self.follow(path)?;
        let parent = self.locate(followed.parent().unwrap_or(&followed))?;
        match self.node(&parent) {
            Some(Node::Dir) => {}
            Some(_) => return Err(Errno::ENOTDIR.into()),
            None => return Err(Errno::ENOENT.into()),
        }
        let missing = self.node(&self.locate(&followed)?).is_none();
        if missing && self.node(&self.place(path)?).is_some() {
            return Err(Errno::ENOENT.into());
        }
        Ok(followed)
    }

    fn locate(&self, path: &Path) -> io::Result<Place> {
        self.table.locate(path)
    }
}
