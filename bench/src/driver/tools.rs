//! The kernel's share: the same images, loop devices, filesystems and mounts, made without any driver.
//!
//! What a driver takes beyond this is its own: the calls over the socket, its records and their syncs, and
//! looking twice before it formats.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use bowline_host::Host;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::crowd;
use super::log::{Log, Rpc};
use super::rounds::{Plan, Rounds};
use crate::args::Fs;

/// Its column in the table.
pub const NAME: &str = "kernel's own tools";

/// What the figures of the column are.
pub const EXPLAINED: &str = "\"kernel's own tools\": the work of each call done by this program itself, as many at a time, \
     without a driver, its socket, records or syncs: truncate; loop device, mkfs with the same options, mount; bind; \
     unmount; unmount, detach; unlink.";

pub async fn measure(host: &Host, dir: &Path, plan: Plan, stop: &CancellationToken) -> Result<Rounds> {
    let log = Log::default();
    let what = format!("{NAME}: rounds");
    let numbers = (0..plan.volumes).collect();
    let round = |number: usize| {
        let bare = Bare { host, log: &log, fs: plan.fs, dir: dir.join(format!("bare-{number}")) };
        async move { bare.round().await }
    };
    let crowd = crowd::each(&what, numbers, plan.parallel, stop, round).await;
    Rounds::new(crowd, log, stop)
}

/// A volume without a driver.
struct Bare<'a> {
    host: &'a Host,
    log: &'a Log,
    fs: Fs,
    dir: PathBuf,
}

impl Bare<'_> {
    async fn round(&self) -> Result<()> {
        let kernel = &self.host.kernel;
        let (image, staging, target) =
            (self.dir.join("disk.img"), self.dir.join("staging"), self.dir.join("target"));
        tokio::fs::create_dir_all(&staging).await.context("make the staging directory")?;
        self.log.time(Rpc::CreateVolume, truncate(&image, self.fs.size_mib() << 20)).await?;
        let device = self.log.time(Rpc::NodeStageVolume, self.stage(&image, &staging)).await?;
        let publish = self.publish(&device, &staging, &target);
        self.log.time(Rpc::NodePublishVolume, publish).await?;
        self.log.time(Rpc::NodeUnpublishVolume, async { Ok(kernel.unmount(&target).await?) }).await?;
        let unstage = async {
            kernel.unmount(&staging).await?;
            Ok(kernel.loop_detach(&device).await?)
        };
        self.log.time(Rpc::NodeUnstageVolume, unstage).await?;
        let unlink = async { Ok(tokio::fs::remove_file(&image).await?) };
        self.log.time(Rpc::DeleteVolume, unlink).await?;
        tokio::fs::remove_dir_all(&self.dir).await.context("remove the directories")
    }

    async fn stage(&self, image: &Path, staging: &Path) -> Result<PathBuf> {
        let device = self.host.kernel.loop_attach(image, false).await?;
        if let Some(fs_type) = self.fs.name() {
            mkfs(fs_type, &device).await?;
            self.host.kernel.mount(&device, staging, fs_type, &[]).await?;
        }
        Ok(device)
    }

    async fn publish(&self, device: &Path, staging: &Path, target: &Path) -> Result<()> {
        let source = match self.fs.name() {
            Some(_) => {
                tokio::fs::create_dir(target).await?;
                staging
            }
            None => {
                tokio::fs::File::create(target).await?;
                device
            }
        };
        Ok(self.host.kernel.bind(source, target, false).await?)
    }
}

async fn truncate(image: &Path, bytes: u64) -> Result<()> {
    Ok(tokio::fs::File::create(image).await?.set_len(bytes).await?)
}

/// With the options that `host` gives for an image nobody has written to.
async fn mkfs(fs_type: &str, device: &Path) -> Result<()> {
    let options: &[&str] = match fs_type {
        "ext4" => &["-q", "-F", "-m0", "-Enodiscard,lazy_itable_init=1,lazy_journal_init=1"],
        "xfs" => &["-q", "-f", "-K"],
        _ => &["-q", "-f"],
    };
    let program = format!("mkfs.{fs_type}");
    let mut command = Command::new(&program);
    command.args(options).arg(device).stdin(Stdio::null());
    let output = command.output().await.with_context(|| format!("run `{program}`"))?;
    match output.status.success() {
        true => Ok(()),
        false => bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()),
    }
}
