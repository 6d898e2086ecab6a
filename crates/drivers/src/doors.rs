//! Doors to a fake machine that can fail, stall or end the process at the n-th effect.

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bowline_host::disk::{Disk, Extent, Growing, Kind, Lock, Owner, Space};
use bowline_host::kernel::{Content, Kernel, KernelError, LoopDevice, Mount, Queue, Result, Writes};
use bowline_host::{Host, kernel};
use tokio::sync::{Notify, watch};
use tonic::async_trait;

/// What happens at which effect, counted from 1 after the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The process ends before the effect.
    DieBefore(u64),
    /// The process ends after the effect and before anybody hears of it.
    DieAfter(u64),
    /// The effect fails and changes nothing.
    Fail(u64),
    /// The effect waits for `Faults::resume`.
    Stall(u64),
}

pub struct Faults {
    fault: Fault,
    effects: AtomicU64,
    armed: AtomicBool,
    dead: AtomicBool,
    pub died: Notify,
    pub resume: Notify,
    /// Where the question for space waits for somebody to change this.
    hang: watch::Sender<Option<PathBuf>>,
}

impl Faults {
    pub fn new(fault: Fault) -> Arc<Self> {
        Arc::new(Self {
            fault,
            effects: AtomicU64::new(0),
            armed: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            died: Notify::new(),
            resume: Notify::new(),
            hang: watch::Sender::new(None),
        })
    }

    /// Lets the filesystem mounted there hang when it is measured; nowhere lets all go on.
    pub fn hang_at(&self, path: Option<PathBuf>) {
        self.hang.send_replace(path);
    }

    /// Measurements that hang now.
    pub fn hanging(&self) -> usize {
        self.hang.receiver_count()
    }

    async fn wait_at(&self, path: &Path) {
        let mut hang = self.hang.subscribe();
        let _ = hang.wait_for(|hangs| hangs.as_deref() != Some(path)).await;
    }

    /// Effects count from now on; those of the start are over.
    pub fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Whether the effect was reached, even if nobody noticed.
    pub fn struck(&self) -> bool {
        let effects = self.effects.load(Ordering::SeqCst);
        match self.fault {
            Fault::None => false,
            Fault::DieBefore(n) | Fault::DieAfter(n) | Fault::Fail(n) | Fault::Stall(n) => effects >= n,
        }
    }

    /// A dead process neither looks nor acts.
    async fn look<T>(&self, work: impl Future<Output = T>) -> T {
        if self.dead.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
        work.await
    }

    async fn act<T, E>(
        &self,
        failure: E,
        work: impl Future<Output = std::result::Result<T, E>>,
    ) -> std::result::Result<T, E> {
        if !self.armed.load(Ordering::SeqCst) {
            return self.look(work).await;
        }
        let number = self.effects.fetch_add(1, Ordering::SeqCst) + 1;
        match self.fault {
            Fault::DieBefore(n) if n == number => self.die().await,
            Fault::Fail(n) if n == number => return Err(failure),
            Fault::Stall(n) if n == number => self.resume.notified().await,
            Fault::None | Fault::DieBefore(_) | Fault::DieAfter(_) | Fault::Fail(_) | Fault::Stall(_) => {}
        }
        let done = self.look(work).await;
        if self.fault == Fault::DieAfter(number) {
            self.die().await;
        }
        done
    }

    async fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.died.notify_one();
        pending::<()>().await;
    }
}

/// The same machine, seen by a process with these faults.
pub fn faulty(host: &Host, faults: &Arc<Faults>) -> Host {
    let door = Arc::new(Door { inner: host.clone(), faults: faults.clone() });
    Host { disk: door.clone(), kernel: door, ..host.clone() }
}

struct Door {
    inner: Host,
    faults: Arc<Faults>,
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}

fn kernel_eio() -> KernelError {
    KernelError { what: "planned".into(), why: "input/output error".into(), errno: Some(5) }
}

#[async_trait]
impl Disk for Door {
    async fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.faults.look(self.inner.disk.read(path)).await
    }
    async fn open_growing(&self, path: &Path) -> io::Result<Box<dyn Growing>> {
        self.faults.look(self.inner.disk.open_growing(path)).await
    }
    async fn write_atomic(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.write_atomic(path, content, mode)).await
    }
    async fn create_dir_all(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.create_dir_all(path, mode)).await
    }
    async fn create_owned_dir(&self, path: &Path, owner: Owner) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.create_owned_dir(path, owner)).await
    }
    async fn create_file(&self, path: &Path) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.create_file(path)).await
    }
    async fn create_sparse(&self, path: &Path, length: u64) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.create_sparse(path, length)).await
    }
    async fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.copy(from, to)).await
    }
    async fn reflink(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.reflink(from, to)).await
    }
    async fn length(&self, path: &Path) -> io::Result<u64> {
        self.faults.look(self.inner.disk.length(path)).await
    }
    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.remove_file(path)).await
    }
    async fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.remove_dir(path)).await
    }
    async fn remove_tree(&self, path: &Path) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.remove_tree(path)).await
    }
    async fn symlink(&self, target: &Path, link: &Path) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.symlink(target, link)).await
    }
    async fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.faults.look(self.inner.disk.kind(path)).await
    }
    async fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.faults.look(self.inner.disk.list(path)).await
    }
    async fn unfinished(&self, path: &Path) -> io::Result<Vec<String>> {
        self.faults.look(self.inner.disk.unfinished(path)).await
    }
    async fn space(&self, path: &Path) -> io::Result<Space> {
        self.faults.wait_at(path).await;
        self.faults.look(self.inner.disk.space(path)).await
    }
    async fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.faults.look(self.inner.disk.canonical(path)).await
    }
    async fn set_label(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.set_label(path, name, value)).await
    }
    async fn label(&self, path: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.faults.look(self.inner.disk.label(path, name)).await
    }
    async fn extents(&self, path: &Path, from: u64, max: usize) -> io::Result<Vec<Extent>> {
        self.faults.look(self.inner.disk.extents(path, from, max)).await
    }
    async fn changed(
        &self,
        base: &Path,
        target: &Path,
        block: u64,
        from: u64,
        max: usize,
    ) -> io::Result<Vec<Extent>> {
        self.faults.look(self.inner.disk.changed(base, target, block, from, max)).await
    }
    async fn allocated(&self, path: &Path) -> io::Result<u64> {
        self.faults.look(self.inner.disk.allocated(path)).await
    }
    async fn lock(&self, path: &Path) -> io::Result<Lock> {
        self.faults.act(eio(), self.inner.disk.lock(path)).await
    }
    async fn set_group(&self, dir: &Path, gid: u32) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.set_group(dir, gid)).await
    }
    async fn restrict(&self, path: &Path, mode: u32) -> io::Result<bool> {
        self.faults.look(self.inner.disk.restrict(path, mode)).await
    }
    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.act(eio(), self.inner.disk.rename(from, to)).await
    }
}

#[async_trait]
impl Kernel for Door {
    async fn mounts(&self) -> Result<Vec<Mount>> {
        self.faults.look(self.inner.kernel.mounts()).await
    }
    async fn mount_at(&self, target: &Path) -> Result<Option<Mount>> {
        self.faults.look(self.inner.kernel.mount_at(target)).await
    }
    async fn mount(&self, device: &Path, target: &Path, fs: &str, options: &[String]) -> kernel::Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.mount(device, target, fs, options)).await
    }
    async fn mount_memory(&self, target: &Path, size: Option<u64>) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.mount_memory(target, size)).await
    }
    async fn bind(&self, source: &Path, target: &Path, read_only: bool) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.bind(source, target, read_only)).await
    }
    async fn bind_confined(&self, source: &Path, target: &Path, read_only: bool) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.bind_confined(source, target, read_only)).await
    }
    async fn unmount(&self, target: &Path) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.unmount(target)).await
    }
    async fn loop_attach(&self, image: &Path, read_only: bool) -> Result<PathBuf> {
        self.faults.act(kernel_eio(), self.inner.kernel.loop_attach(image, read_only)).await
    }
    async fn loop_hold(&self, image: &Path) -> Result<Option<PathBuf>> {
        self.faults.look(self.inner.kernel.loop_hold(image)).await
    }
    async fn loop_release(&self, device: &Path, image: &Path) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.loop_release(device, image)).await
    }
    async fn loop_of(&self, image: &Path) -> Result<Option<PathBuf>> {
        self.faults.look(self.inner.kernel.loop_of(image)).await
    }
    async fn loop_detach(&self, device: &Path) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.loop_detach(device)).await
    }
    async fn loop_refresh(&self, device: &Path) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.loop_refresh(device)).await
    }
    async fn content(&self, device: &Path) -> Result<Content> {
        self.faults.look(self.inner.kernel.content(device)).await
    }
    async fn make_filesystem(&self, device: &Path, fs: &str, options: &[String]) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.make_filesystem(device, fs, options)).await
    }
    async fn check_filesystem(&self, device: &Path, fs: &str) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.check_filesystem(device, fs)).await
    }
    async fn grow_filesystem(&self, device: &Path, target: &Path, fs: &str) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.grow_filesystem(device, target, fs)).await
    }
    async fn freeze(&self, target: &Path) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.freeze(target)).await
    }
    async fn thaw(&self, target: &Path) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.thaw(target)).await
    }
    async fn flush(&self, device: &Path) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.flush(device)).await
    }
    async fn writes(&self, device: &Path) -> Result<Writes> {
        self.faults.look(self.inner.kernel.writes(device)).await
    }
    async fn device_size(&self, device: &Path) -> Result<u64> {
        self.faults.look(self.inner.kernel.device_size(device)).await
    }
    async fn filesystem_size(&self, device: &Path, fs: &str) -> Result<u64> {
        self.faults.look(self.inner.kernel.filesystem_size(device, fs)).await
    }
    async fn loops(&self) -> Result<Vec<LoopDevice>> {
        self.faults.look(self.inner.kernel.loops()).await
    }
    async fn set_queue(&self, device: &Path, queue: Queue) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.set_queue(device, queue)).await
    }
    async fn renew_identity(&self, device: &Path, fs: &str) -> Result<()> {
        self.faults.act(kernel_eio(), self.inner.kernel.renew_identity(device, fs)).await
    }
    async fn filesystem_errors(&self, device: &Path, fs: &str) -> Result<u64> {
        self.faults.look(self.inner.kernel.filesystem_errors(device, fs)).await
    }
    fn has_tool(&self, name: &str) -> bool {
        self.inner.kernel.has_tool(name)
    }
}
