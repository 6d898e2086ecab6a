//! Filesystems in memory, and which of them a path leads into.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

use super::file::File;
use super::mounts::Table;
use crate::disk::{Kind, NAME_MAX, Owner, Space};
use crate::kernel::Content;

/// How many symbolic links a path may pass, as on Linux.
const SYMLINKS_MAX: usize = 40;

/// Room of the machine's own disk, unless a test says otherwise.
const ROOT_SPACE: Space =
    Space { total: 1 << 40, available: 1 << 39, inodes_total: 1 << 26, inodes_available: 1 << 25 };

/// Identity of a file, independent of its path.
pub(super) type Ino = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FsId {
    Root,
    /// Where loop devices appear.
    Dev,
    /// The filesystem inside an image file.
    Image(Ino),
    /// A filesystem in memory, gone with its last mount.
    Memory(Ino),
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    Dir,
    File(File),
    Symlink(PathBuf),
    Socket(Ino),
    Block(u32),
}

impl Node {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Dir => Kind::Dir,
            Self::File(_) => Kind::File,
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
    /// Whether two filesystems are the same to the kernel; a copy has that of its source.
    pub identity: u64,
    /// Errors that the kernel has noted in it.
    pub errors: u64,
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
    /// Groups that files and directories were given.
    pub groups: BTreeMap<(FsId, PathBuf), u32>,
    /// Owners that directories were created with.
    pub owners: BTreeMap<(FsId, PathBuf), Owner>,
    pub frozen: BTreeSet<FsId>,
    /// Room on the machine's own disk.
    pub space: Space,
    /// Whether the machine's own disk refuses writes.
    pub read_only: bool,
    /// Whether files of the machine's own disk can share blocks.
    pub reflinks: bool,
    /// Whether a symbolic link was ever made: without one, a path is what it says.
    linked: bool,
    next_ino: Ino,
}

impl Default for Tree {
    fn default() -> Self {
        let directory = |path: &str| (PathBuf::from(path), Node::Dir);
        let root = ["/", "/dev", "/tmp", "/var", "/var/lib"].map(directory).into();
        let systems = [(FsId::Root, root), (FsId::Dev, [directory("/")].into())].into();
        Self {
            systems,
            images: BTreeMap::new(),
            table: Table::default(),
            groups: BTreeMap::new(),
            owners: BTreeMap::new(),
            frozen: BTreeSet::new(),
            space: ROOT_SPACE,
            read_only: false,
            reflinks: false,
            linked: false,
            next_ino: 1,
        }
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
        let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if !self.linked && path.is_absolute() && path.components().all(plain) {
            return Ok(path);
        }
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

    /// A real kernel lets a writer to a frozen filesystem wait; here it fails, so that a forgotten thaw shows.
    pub fn check_writable(&self, place: &Place) -> io::Result<()> {
        if place.read_only || (self.read_only && place.fs == FsId::Root) {
            return Err(Errno::EROFS.into());
        }
        if self.frozen.contains(&place.fs) {
            return Err(Errno::EBUSY.into());
        }
        Ok(())
    }

    /// Fails where so many more bytes have no room. Only the machine's own disk can be full.
    pub fn check_room(&self, place: &Place, bytes: u64) -> io::Result<()> {
        let new = self.node(place).is_none();
        let full = bytes > self.space.available || (new && self.space.inodes_available == 0);
        if full && place.fs == FsId::Root { Err(Errno::ENOSPC.into()) } else { Ok(()) }
    }

    /// Puts a node where its directory exists and may be written.
    pub fn insert(&mut self, place: &Place, node: Node) -> io::Result<()> {
        self.check_writable(place)?;
        if place.inner.file_name().is_some_and(|name| name.len() > NAME_MAX) {
            return Err(Errno::ENAMETOOLONG.into());
        }
        self.check_room(place, 0)?;
        let nodes = self.systems.get_mut(&place.fs).ok_or(Errno::ENOENT)?;
        match place.inner.parent().and_then(|parent| nodes.get(parent)) {
            Some(Node::Dir) => {}
            Some(_) => return Err(Errno::ENOTDIR.into()),
            None => return Err(Errno::ENOENT.into()),
        }
        self.linked |= matches!(node, Node::Symlink(_));
        nodes.insert(place.inner.clone(), node);
        let parent = place.inner.parent().unwrap_or(&place.inner);
        if let Some(group) = self.groups.get(&(place.fs, parent.into())).copied() {
            self.groups.insert((place.fs, place.inner.clone()), group);
        }
        Ok(())
    }

    pub fn remove(&mut self, place: &Place) -> Option<Node> {
        self.groups.remove(&(place.fs, place.inner.clone()));
        self.owners.remove(&(place.fs, place.inner.clone()));
        self.systems.get_mut(&place.fs)?.remove(&place.inner)
    }

    /// Everything directly inside a directory.
    pub fn children(&self, place: &Place) -> Vec<PathBuf> {
        let mut below = self.at_and_below(place);
        below.retain(|path| path.parent() == Some(&place.inner));
        below
    }

    /// Everything at a place and below it, parents before their children.
    pub fn at_and_below(&self, place: &Place) -> Vec<PathBuf> {
        let Some(nodes) = self.systems.get(&place.fs) else { return Vec::new() };
        let below = nodes.range(place.inner.clone()..).map(|(path, _)| path);
        below.take_while(|path| path.starts_with(&place.inner)).cloned().collect()
    }

    /// The regular file at a path.
    pub fn file(&self, path: &Path) -> io::Result<&File> {
        let place = self.place(&self.follow(path)?)?;
        match self.node(&place) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir) => Err(Errno::EISDIR.into()),
            Some(_) => Err(Errno::EINVAL.into()),
            None => Err(Errno::ENOENT.into()),
        }
    }

    pub fn set_image(&mut self, image: &Path, content: Content) {
        let Ok((ino, capacity)) = self.file(image).map(|file| (file.ino, file.length)) else { return };
        self.fill_image(ino, content, capacity);
    }

    /// New content for an image: an identity nobody else has, and no files.
    pub fn fill_image(&mut self, ino: Ino, content: Content, capacity: u64) {
        let identity = self.new_ino();
        self.take_groups(FsId::Image(ino));
        self.systems.insert(FsId::Image(ino), [(PathBuf::from("/"), Node::Dir)].into());
        self.images.insert(ino, Image { content, capacity, identity, errors: 0 });
    }

    /// What is in one image, in another one from now on: every byte, as it is at this moment.
    pub fn copy_image(&mut self, from: Ino, to: Ino) {
        let (from_fs, to_fs) = (FsId::Image(from), FsId::Image(to));
        if let Some(image) = self.images.get(&from).cloned() {
            self.images.insert(to, image);
        }
        if let Some(nodes) = self.systems.get(&from_fs).cloned() {
            self.systems.insert(to_fs, nodes);
        }
        let groups = self.take_groups(from_fs);
        for (path, group) in groups {
            self.groups.insert((to_fs, path.clone()), group);
            self.groups.insert((from_fs, path), group);
        }
    }

    fn take_groups(&mut self, fs: FsId) -> Vec<(PathBuf, u32)> {
        let of_fs = self.groups.range((fs, PathBuf::new())..).take_while(|((found, _), _)| *found == fs);
        let groups: Vec<_> = of_fs.map(|((_, path), group)| (path.clone(), *group)).collect();
        for (path, _) in &groups {
            self.groups.remove(&(fs, path.clone()));
        }
        groups
    }

    pub fn forget_image(&mut self, ino: Ino) {
        self.images.remove(&ino);
        self.systems.remove(&FsId::Image(ino));
        self.take_groups(FsId::Image(ino));
    }

    pub fn root_files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let nodes = self.systems.get(&FsId::Root).into_iter().flatten();
        let file = |(path, node): (&PathBuf, &Node)| match node {
            Node::File(file) => Some((path.clone(), file.written())),
            _ => None,
        };
        nodes.filter_map(file).collect()
    }

    /// Forgets what lives in memory only.
    pub fn reboot(&mut self) {
        self.table = Table::default();
        self.frozen.clear();
        self.systems.insert(FsId::Dev, [(PathBuf::from("/"), Node::Dir)].into());
        self.drop_unmounted_memory();
    }

    /// What was in memory and is mounted nowhere any more is gone.
    pub fn drop_unmounted_memory(&mut self) {
        let Self { systems, table, groups, owners, .. } = self;
        let gone = |fs: &FsId| matches!(fs, FsId::Memory(_)) && !table.shows(*fs);
        systems.retain(|fs, _| !gone(fs));
        groups.retain(|(fs, _), _| !gone(fs));
        owners.retain(|(fs, _), _| !gone(fs));
    }
}
