//! From an image to a device with a sound filesystem: attached, made or checked, and never mistaken.

use std::io;
use std::path::{Path, PathBuf};

use bowline_host::kernel::{Content, KernelError};

use super::driver::Driver;
use super::fit;
use super::plan::{self, FirstUse};
use super::recipe;
use super::record::{Contents, VolumeRecord};
use crate::capability::{FsType, MountFlags};
use crate::error::{During, VolumeError};
use crate::id::VolumeId;
use crate::mount_options;

type Result<T> = std::result::Result<T, VolumeError>;

/// errno of a filesystem that finds its own structures broken, EUCLEAN and EBADMSG.
const BROKEN: [i32; 2] = [117, 74];

/// A pod that writes to its device, or brings an image, must not get device files or set-uid programs that work.
const CONFINED: [&str; 2] = ["nodev", "nosuid"];

/// One volume and the filesystem it shall have.
pub struct Preparing<'a> {
    pub driver: &'a Driver,
    pub id: &'a VolumeId,
    pub fs: FsType,
    /// Nothing of the caller's asks for writes, so nothing may be formatted or repaired.
    pub read_only: bool,
}

impl Preparing<'_> {
    /// Attaches the image and leaves a sound filesystem on its device.
    pub async fn run(&self, record: VolumeRecord) -> Result<PathBuf> {
        if let Contents::Formatting(_) = record.contents {
            // `begin_again` may have died between removing the old image and making the new one.
            self.driver.pool.make_image(self.id, record.capacity).await?;
        }
        self.driver.point("local.node-stage.before-attach");
        let device = attach(self.driver, self.id, false).await?;
        self.driver.point("local.node-stage.before-probe");
        let found = self.probe(record.contents, &device).await?;
        match plan::first_use(self.id, record.contents, &found, self.fs, self.read_only)? {
            FirstUse::Mount => self.check(record, device).await,
            FirstUse::Renew => self.renew_identity(record, device).await,
            FirstUse::Format => self.format(record, device).await,
            FirstUse::BeginAgain => {
                let device = self.begin_again(&record, &device).await?;
                self.format(record, device).await
            }
        }
    }

    /// What is on the device. A probe reads where filesystems keep their headers, so one whose headers were
    /// destroyed looks as empty as a new image; but a new image has no data anywhere.
    async fn probe(&self, have: Contents, device: &Path) -> Result<Content> {
        let found = self.driver.host.kernel.content(device).await.during("probe device")?;
        if have != Contents::Blank || found != Content::Empty {
            return Ok(found);
        }
        let image = self.driver.pool.image(self.id);
        let data = self.driver.host.disk.extents(&image, 0, 1).await.during("look for data in the image")?;
        let other = |offset: u64| Content::Other(format!("unknown data at byte {offset}"));
        Ok(data.first().map_or(Content::Empty, |extent| other(extent.offset)))
    }

    async fn check(&self, record: VolumeRecord, device: PathBuf) -> Result<PathBuf> {
        let contents = match record.contents {
            Contents::Raw => Contents::Raw,
            Contents::Blank | Contents::Formatting(_) | Contents::Copied(_) | Contents::Formatted(_) => {
                Contents::Formatted(self.fs)
            }
        };
        save(self.driver, self.id, &record, VolumeRecord { contents, ..record.clone() }).await?;
        if !self.read_only {
            let checked = self.driver.host.kernel.check_filesystem(&device, self.fs.as_str()).await;
            judge(self.driver, self.id, self.fs, checked, "check filesystem")?;
        }
        Ok(device)
    }

    /// A copy gets an identity of its own before its first mount. `Copied` stays on record until that is done,
    /// and doing it twice does no harm.
    async fn renew_identity(&self, record: VolumeRecord, device: PathBuf) -> Result<PathBuf> {
        self.driver.point("local.node-stage.before-identity");
        let kernel = &self.driver.host.kernel;
        kernel.renew_identity(&device, self.fs.as_str()).await.during("renew the identity of a copy")?;
        self.driver.point("local.node-stage.after-identity");
        self.check(record, device).await
    }

    /// Swaps a half-formatted image for an empty one, so that mkfs meets an empty device, as it insists on.
    async fn begin_again(&self, record: &VolumeRecord, device: &Path) -> Result<PathBuf> {
        detach(self.driver, self.id, device).await?;
        self.driver.point("local.node-stage.before-renew");
        self.driver.pool.renew_image(self.id, record.capacity).await?;
        self.driver.point("local.node-stage.after-renew");
        attach(self.driver, self.id, false).await
    }

    /// The marker before mkfs and the mark after it are what tells a half-made filesystem from a used one.
    async fn format(&self, record: VolumeRecord, device: PathBuf) -> Result<PathBuf> {
        let options = recipe::words(&record.parameters, self.fs)?;
        self.driver.point("local.node-stage.before-marker");
        let marked = VolumeRecord { contents: Contents::Formatting(self.fs), ..record.clone() };
        save(self.driver, self.id, &record, marked.clone()).await?;
        self.driver.point("local.node-stage.before-mkfs");
        self.make(&device, &options).await?;
        self.driver.point("local.node-stage.after-mkfs");
        let done = VolumeRecord { contents: Contents::Formatted(self.fs), ..marked };
        self.driver.pool.volumes.put(self.id, done).await?;
        self.driver.point("local.node-stage.after-marker");
        Ok(device)
    }

    /// Options can make something that is no longer the filesystem they were meant for, such as an ext4 without
    /// any feature of its own; it would be refused at the next staging, with data on it.
    async fn make(&self, device: &Path, options: &[String]) -> Result<()> {
        let (kernel, fs) = (&self.driver.host.kernel, self.fs.as_str());
        if options.is_empty() {
            return kernel.make_filesystem(device, fs, options).await.during("make filesystem");
        }
        let what = "make filesystem with the options of its class";
        kernel.make_filesystem(device, fs, options).await.during(what)?;
        match kernel.content(device).await.during("probe device")? {
            Content::Filesystem(made) if made == fs => Ok(()),
            made => {
                let why = format!("`mkfsOptions` of its class make {made:?}, not {fs}");
                Err(VolumeError::Kernel { what, source: KernelError::other("mkfs", why) })
            }
        }
    }
}

/// Mounts a prepared device.
pub async fn mount(
    driver: &Driver,
    id: &VolumeId,
    device: &Path,
    path: &Path,
    fs: FsType,
    flags: &MountFlags,
) -> Result<()> {
    mount_options::check(flags, Some(fs))?;
    // Options of the class come later, so that theirs counts where both are allowed; those that guard the machine come last.
    let mut options = match fs {
        FsType::Ext4 => vec!["errors=remount-ro".to_owned()],
        // A restored or cloned volume has the UUID of its origin, and either may be mounted first.
        FsType::Xfs => vec!["nouuid".to_owned()],
        FsType::Btrfs => Vec::new(),
    };
    options.extend(flags.0.iter().cloned());
    options.extend(CONFINED.map(String::from));
    let mounted = driver.host.kernel.mount(device, path, fs.as_str(), &options).await;
    judge(driver, id, fs, mounted, "mount filesystem")
}

/// Tells a broken filesystem, which a person has to repair, from a failure.
fn judge(
    driver: &Driver,
    id: &VolumeId,
    fs: FsType,
    done: std::result::Result<(), KernelError>,
    what: &'static str,
) -> Result<()> {
    done.map_err(|source| match source.errno.is_some_and(|errno| BROKEN.contains(&errno)) {
        true => VolumeError::Damaged {
            id: id.clone(),
            fs: fs.as_str(),
            repair: format!("{} {}", fs.repair(), driver.pool.image(id).display()),
            source,
        },
        false => VolumeError::Kernel { what, source },
    })
}

pub async fn attach(driver: &Driver, id: &VolumeId, read_only: bool) -> Result<PathBuf> {
    let attached = driver.host.kernel.loop_attach(&driver.pool.image(id), read_only).await;
    let device = attached.map_err(|source| match source.errno.map(io::Error::from_raw_os_error) {
        Some(refused) if refused.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            VolumeError::ReadOnlyDisk { what: "attach loop device", source: refused }
        }
        _ => VolumeError::Kernel { what: "attach loop device", source },
    })?;
    if let Some(record) = driver.pool.volumes.get(id) {
        fit::device(driver, id, &record, &device).await?;
    }
    Ok(device)
}

/// Takes the device away, and notes that it has not vanished by itself.
pub async fn detach(driver: &Driver, id: &VolumeId, device: &Path) -> Result<()> {
    let detached = driver.host.kernel.loop_release(device, &driver.pool.image(id)).await;
    detached.during("detach loop device")?;
    // Its number is free for another volume, whose users must not be taken for users of this one.
    driver.claims.release(id);
    driver.health.release(id);
    Ok(())
}

/// Writes a record only when it changed: staging again after the first time costs no disk sync.
pub async fn save(driver: &Driver, id: &VolumeId, old: &VolumeRecord, new: VolumeRecord) -> Result<()> {
    if *old == new { Ok(()) } else { driver.pool.volumes.put(id, new).await }
}
