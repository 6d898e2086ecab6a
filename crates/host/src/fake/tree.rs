//! Filesystems in memory, and which of them a path leads into.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

use super::mounts::Table;
use crate::disk::Kind;
use crate::kernel::Content;

/// How many symbolic links a path may pass, as on Linux.
const SYMLINKS_MAX: usize = 40;

/// Identity of a file, independent of its path.
pub(super) type Ino = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FsId {
    Root,
    /// Where loop devices appear.
    Dev,
    /// The filesystem inside an image file.
    Image(Ino),
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    Dir,
    /// `bytes` are the written part; the rest up to `length` is a hole.
    File {
        ino: Ino,
        bytes: Vec<u8>,
        length: u64,
    },
    Symlink(PathBuf),
    Socket(Ino),
    Block(u32),
}

impl Node {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Dir => Kind::Dir,
            Self::File { .. } => Kind::File,
            Self::Symlink(_) => Kind::Symlink,
            Self::Socket(_) => Kind::Socket,
            Self::Block(_) => Kind::BlockDevice,
        }
    }
}

/// What the block device over an image file shows.
#[derive(Debug, Clone)]
pub(super) struct Image {
    pub content: Content,
    /// Bytes the filesystem in it was made for, or last grown to.
    pub capacity: u64,
}

pub(super) type Nodes = BTreeMap<PathBuf, Node>;

/// A path, translated into the filesystem it leads into.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub fs: FsId,
    pub inner: PathBuf,
    pub read_only: bool,
}

pub(super) struct Tree {
    pub systems: BTreeMap<FsId, Nodes>,
    pub images: BTreeMap<Ino, Image>,
    pub table: Table,
    next_ino: Ino,
}

impl Default for Tree {
    fn default() -> Self {
        let directory = |path: &str| (PathBuf::from(path), Node::Dir);
        let root = ["/", "/dev", "/tmp", "/var", "/var/lib"].map(directory).into();
        let systems = [(FsId::Root, root), (FsId::Dev, [directory("/")].into())].into();
        Self { systems, images: BTreeMap::new(), table: Table::default(), next_ino: 1 }
    }
}

impl Tree {
    pub fn new_ino(&mut self) -> Ino {
        self.next_ino += 1;
        self.next_ino
    }

    /// Follows links in all but the last component.
    pub fn place(&self, path: &Path) -> io::Result<Place> {
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
        match (parent, path.file_name()) {
            (Some(parent), Some(name)) => self.table.locate(&self.follow(parent)?.join(name)),
            _ => self.table.locate(path),
        }
    }

    /// The path with every symbolic link replaced, the last component included.
    pub fn follow(&self, path: &Path) -> io::Result<PathBuf> {
        let mut path = path.to_path_buf();
        for _ in 0..SYMLINKS_MAX {
            match self.first_link(&path)? {
                None => return Ok(path),
                Some(next) => path = next,
            }
        }
        Err(Errno::ELOOP.into())
    }

    fn first_link(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let mut walked = PathBuf::new();
        let mut rest = path.components();
        while let Some(component) = rest.next() {
            match component {
                Component::ParentDir => _ = walked.pop(),
                component => walked.push(component),
            }
            if let Some(Node::Symlink(target)) = self.node(&self.table.locate(&walked)?) {
                walked.pop();
                return Ok(Some(walked.join(target).join(rest.as_path())));
            }
        }
        Ok((walked != path).then_some(walked))
    }

    pub fn node(&self, place: &Place) -> Option<&Node> {
        self.systems.get(&place.fs)?.get(&place.inner)
    }

    pub fn node_mut(&mut self, place: &Place) -> Option<&mut Node> {
        self.systems.get_mut(&place.fs)?.get_mut(&place.inner)
    }

    /// Puts a node where its directory exists and may be written.
    pub fn insert(&mut self, place: &Place, node: Node) -> io::Result<()> {
        if place.read_only {
            return Err(Errno::EROFS.into());
        }
        let nodes = self.systems.get_mut(&place.fs).ok_or(Errno::ENOENT)?;
        match place.inner.parent().and_then(|parent| nodes.get(parent)) {
            Some(Node::Dir) => {}
            Some(_) => return Err(Errno::ENOTDIR.into()),
            None => return Err(Errno::ENOENT.into()),
        }
        nodes.insert(place.inner.clone(), node);
        Ok(())
    }

    pub fn remove(&mut self, place: &Place) -> Option<Node> {
        self.systems.get_mut(&place.fs)?.remove(&place.inner)
    }

    /// Everything directly inside a directory.
    pub fn children(&self, place: &Place) -> Vec<PathBuf> {
        let mut below = self.below(place);
        below.retain(|path| path.parent() == Some(&place.inner));
        below
    }

    /// Everything inside a directory at any depth, parents before their children.
    pub fn below(&self, place: &Place) -> Vec<PathBuf> {
        let Some(nodes) = self.systems.get(&place.fs) else { return Vec::new() };
        let after = nodes.range(place.inner.clone()..).map(|(path, _)| path).skip(1);
        after.take_while(|path| path.starts_with(&place.inner)).cloned().collect()
    }

    /// The regular file at a path: its identity and length.
    pub fn file(&self, path: &Path) -> io::Result<(Ino, u64)> {
        let place = self.place(&self.follow(path)?)?;
        match self.node(&place) {
            Some(Node::File { ino, length, .. }) => Ok((*ino, *length)),
            Some(Node::Dir) => Err(Errno::EISDIR.into()),
            Some(_) => Err(Errno::EINVAL.into()),
            None => Err(Errno::ENOENT.into()),
        }
    }

    pub fn set_image(&mut self, image: &Path, content: Content) {
        let Ok((ino, capacity)) = self.file(image) else { return };
        self.systems.insert(FsId::Image(ino), [(PathBuf::from("/"), Node::Dir)].into());
        self.images.insert(ino, Image { content, capacity });
    }

    pub fn root_files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let nodes = self.systems.get(&FsId::Root).into_iter().flatten();
        let file = |(path, node): (&PathBuf, &Node)| match node {
            Node::File { bytes, .. } => Some((path.clone(), bytes.clone())),
            _ => None,
        };
        nodes.filter_map(file).collect()
    }

    /// Forgets what lives in memory only.
    pub fn reboot(&mut self) {
        self.table = Table::default();
        self.systems.insert(FsId::Dev, [(PathBuf::from("/"), Node::Dir)].into());
    }
}
