//! The kernel's door: each call, on the thread or in the program that does it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use super::loops::{self, Loops};
use super::{
    activity, blocking_kernel, devices, filesystems, formatting, freezing, lookup, mountinfo, mounts, probe,
    tools,
};
use crate::kernel::{Content, Kernel, LoopDevice, Mount, Queue, Result, Writes};

#[derive(Default)]
pub(super) struct RealKernel {
    loops: Arc<Loops>,
}

#[async_trait]
impl Kernel for RealKernel {
    async fn mounts(&self) -> Result<Vec<Mount>> {
        blocking_kernel(mountinfo::read).await
    }

    async fn mount_at(&self, target: &Path) -> Result<Option<Mount>> {
        let target = target.to_path_buf();
        blocking_kernel(move || lookup::mount_at(&target)).await
    }

    async fn mount(&self, device: &Path, target: &Path, fs_type: &str, options: &[String]) -> Result<()> {
        let (device, target) = (device.to_path_buf(), target.to_path_buf());
        let (fs_type, options) = (fs_type.to_string(), options.to_vec());
        blocking_kernel(move || mounts::mount(&device, &target, &fs_type, &options)).await
    }

    async fn mount_memory(&self, target: &Path, size: Option<u64>) -> Result<()> {
        let target = target.to_path_buf();
        blocking_kernel(move || mounts::mount_memory(&target, size)).await
    }

    async fn bind(&self, source: &Path, target: &Path, read_only: bool) -> Result<()> {
        let (source, target) = (source.to_path_buf(), target.to_path_buf());
        blocking_kernel(move || mounts::bind(&source, &target, read_only)).await
    }

    async fn bind_confined(&self, source: &Path, target: &Path, read_only: bool) -> Result<()> {
        let (source, target) = (source.to_path_buf(), target.to_path_buf());
        blocking_kernel(move || mounts::bind_confined(&source, &target, read_only)).await
    }

    async fn unmount(&self, target: &Path) -> Result<()> {
        let target = target.to_path_buf();
        blocking_kernel(move || mounts::unmount(&target)).await
    }

    async fn loop_attach(&self, image: &Path, read_only: bool) -> Result<PathBuf> {
        let (loops, image) = (self.loops.clone(), image.to_path_buf());
        blocking_kernel(move || loops.attach(&image, read_only)).await
    }

    async fn loop_of(&self, image: &Path) -> Result<Option<PathBuf>> {
        let (loops, image) = (self.loops.clone(), image.to_path_buf());
        blocking_kernel(move || loops.find(&image)).await
    }

    async fn loop_hold(&self, image: &Path) -> Result<Option<PathBuf>> {
        let (loops, image) = (self.loops.clone(), image.to_path_buf());
        blocking_kernel(move || loops.hold(&image)).await
    }

    async fn loop_detach(&self, device: &Path) -> Result<()> {
        let (loops, device) = (self.loops.clone(), device.to_path_buf());
        blocking_kernel(move || loops.detach(&device, None)).await
    }

    async fn loop_release(&self, device: &Path, image: &Path) -> Result<()> {
        let (loops, device, image) = (self.loops.clone(), device.to_path_buf(), image.to_path_buf());
        blocking_kernel(move || loops.detach(&device, Some(&image))).await
    }

    async fn loop_refresh(&self, device: &Path) -> Result<()> {
        let device = device.to_path_buf();
        blocking_kernel(move || loops::refresh(&device)).await
    }

    async fn content(&self, device: &Path) -> Result<Content> {
        Ok(probe::probe(device).await?.content)
    }

    async fn make_filesystem(&self, device: &Path, fs_type: &str, options: &[String]) -> Result<()> {
        formatting::make(device.to_path_buf(), fs_type.to_string(), options.to_vec()).await
    }

    async fn check_filesystem(&self, device: &Path, fs_type: &str) -> Result<()> {
        tools::check(device, fs_type).await
    }

    async fn grow_filesystem(&self, device: &Path, target: &Path, fs_type: &str) -> Result<()> {
        tools::grow(device, target, fs_type).await
    }

    async fn freeze(&self, target: &Path) -> Result<()> {
        let target = target.to_path_buf();
        blocking_kernel(move || freezing::freeze(&target)).await
    }

    async fn thaw(&self, target: &Path) -> Result<()> {
        let target = target.to_path_buf();
        blocking_kernel(move || freezing::thaw(&target)).await
    }

    async fn flush(&self, device: &Path) -> Result<()> {
        let device = device.to_path_buf();
        blocking_kernel(move || devices::flush(&device)).await
    }

    async fn writes(&self, device: &Path) -> Result<Writes> {
        let device = device.to_path_buf();
        blocking_kernel(move || activity::writes(&device)).await
    }

    async fn device_size(&self, device: &Path) -> Result<u64> {
        let device = device.to_path_buf();
        blocking_kernel(move || devices::size(&device)).await
    }

    async fn filesystem_size(&self, device: &Path, fs_type: &str) -> Result<u64> {
        let (device, fs_type) = (device.to_path_buf(), fs_type.to_string());
        blocking_kernel(move || filesystems::size(&device, &fs_type)).await
    }

    async fn loops(&self) -> Result<Vec<LoopDevice>> {
        blocking_kernel(loops::list).await
    }

    async fn set_queue(&self, device: &Path, queue: Queue) -> Result<()> {
        let device = device.to_path_buf();
        blocking_kernel(move || devices::set_queue(&device, queue)).await
    }

    async fn renew_identity(&self, device: &Path, fs_type: &str) -> Result<()> {
        tools::renew_identity(device, fs_type).await
    }

    async fn filesystem_errors(&self, device: &Path, fs_type: &str) -> Result<u64> {
        let (device, fs_type) = (device.to_path_buf(), fs_type.to_string());
        blocking_kernel(move || filesystems::errors(&device, &fs_type)).await
    }

    fn has_tool(&self, name: &str) -> bool {
        tools::find(name).is_some()
    }
}
