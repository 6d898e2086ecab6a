//! Whole directories of the fake machine.

use std::io;
use std::path::Path;

use nix::errno::Errno;

use super::World;
use super::tree::{Node, Place};
use crate::disk::Owner;

impl World {
    pub(super) fn create_owned_dir(&mut self, path: &Path, owner: Owner) -> io::Result<()> {
        let place = self.tree.place(path)?;
        match self.tree.node(&place) {
            None => self.create_dir(path)?,
            Some(Node::Dir) => {}
            Some(_) => return Err(Errno::ENOTDIR.into()),
        }
        self.tree.check_writable(&place)?;
        self.tree.owners.insert((place.fs, place.inner), owner);
        Ok(())
    }

    /// As the real disk does: everything or, with a mount inside, nothing.
    pub(super) fn remove_tree(&mut self, path: &Path) -> io::Result<()> {
        let top = self.tree.place(path)?;
        match self.tree.node(&top) {
            None => return Ok(()),
            Some(Node::Dir) => {}
            Some(_) => return Err(Errno::ENOTDIR.into()),
        }
        let real = self.tree.follow(path)?;
        if self.tree.table.list().iter().any(|mount| mount.target.starts_with(&real)) {
            return Err(Errno::EBUSY.into());
        }
        self.tree.check_writable(&top)?;
        // Children come after their parents, so the reverse order empties each directory before it goes.
        for inner in self.tree.at_and_below(&top).into_iter().rev() {
            let rest = inner.strip_prefix(&top.inner).unwrap_or(Path::new(""));
            let path = if rest.as_os_str().is_empty() { real.clone() } else { real.join(rest) };
            match self.tree.node(&Place { inner, ..top.clone() }) {
                Some(Node::Dir) => self.remove_dir(&path)?,
                _ => self.remove_file(&path)?,
            }
        }
        Ok(())
    }
}
