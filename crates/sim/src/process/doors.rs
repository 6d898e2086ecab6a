//! The doors of one simulated process: the machine's own, shut when the process dies.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bowline_host::containers::{ContainerSpec, ExecSpec, Exit, Found, Session, State};
use bowline_host::disk::{Extent, GroupGrant, Growing, Kind, Lock, Owner, Space, Walk};
use bowline_host::fake::FakeHost;
use bowline_host::kernel::{Content, KernelError, LoopDevice, Mount, Queue, Writes};
use bowline_host::net::{BoxStream, DirEvent, Listener};
use bowline_host::{Clock, Containers, Disk, Failpoints, Host, Kernel, Net, Random, Uptime};
use jiff::Timestamp;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::RngCore;
use tokio::sync::mpsc;

use super::life::Life;
use super::stream::{MortalListener, MortalStream};
use crate::line::Caller;
use crate::line::csi;
use crate::machine::Machine;

pub struct Doors {
    caller: Caller,
    life: Life,
    machine: Arc<FakeHost>,
    clocks: Arc<Machine>,
    random: Mutex<ChaCha12Rng>,
}

impl Doors {
    pub fn open(
        caller: Caller,
        machine: Arc<FakeHost>,
        clocks: Arc<Machine>,
        random: ChaCha12Rng,
        points: Failpoints,
    ) -> Host {
        let life = caller.life.clone();
        let doors = Arc::new(Self { caller, life, machine, clocks, random: Mutex::new(random) });
        Host {
            clock: doors.clone(),
            uptime: doors.clone(),
            random: doors.clone(),
            disk: doors.clone(),
            kernel: doors.clone(),
            net: doors.clone(),
            containers: doors,
            failpoints: points,
        }
    }
}

impl Clock for Doors {
    fn now(&self) -> Timestamp {
        self.clocks.wall(self.machine.now(), self.machine.uptime())
    }
}

impl Uptime for Doors {
    fn uptime(&self) -> Duration {
        self.clocks.uptime()
    }
}

impl Random for Doors {
    fn next_u64(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}

/// Each call passes the door first.
macro_rules! doors {
    ($door:ident { $( fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty; )* } $($more:item)*) => {
        #[async_trait]
        impl $door for Doors {
            $(
                async fn $name(&self, $($argument: $type),*) -> $answer {
                    self.life.pass().await;
                    <FakeHost as $door>::$name(&self.machine, $($argument),*).await
                }
            )*
            $($more)*
        }
    };
}

doors! {
    Disk {
        fn read(path: &Path) -> io::Result<Vec<u8>>;
        fn open_growing(path: &Path) -> io::Result<Box<dyn Growing>>;
        fn write_atomic(path: &Path, content: &[u8], mode: u32) -> io::Result<()>;
        fn create_dir_all(path: &Path, mode: u32) -> io::Result<()>;
        fn create_owned_dir(path: &Path, owner: Owner) -> io::Result<()>;
        fn create_file(path: &Path) -> io::Result<()>;
        fn create_sparse(path: &Path, length: u64) -> io::Result<()>;
        fn copy(from: &Path, to: &Path) -> io::Result<()>;
        fn reflink(from: &Path, to: &Path) -> io::Result<()>;
        fn length(path: &Path) -> io::Result<u64>;
        fn remove_file(path: &Path) -> io::Result<()>;
        fn remove_dir(path: &Path) -> io::Result<()>;
        fn remove_tree(path: &Path) -> io::Result<()>;
        fn symlink(target: &Path, link: &Path) -> io::Result<()>;
        fn kind(path: &Path) -> io::Result<Option<Kind>>;
        fn list(path: &Path) -> io::Result<Vec<String>>;
        fn unfinished(path: &Path) -> io::Result<Vec<String>>;
        fn space(path: &Path) -> io::Result<Space>;
        fn canonical(path: &Path) -> io::Result<PathBuf>;
        fn set_label(path: &Path, name: &str, value: &[u8]) -> io::Result<()>;
        fn label(path: &Path, name: &str) -> io::Result<Option<Vec<u8>>>;
        fn extents(path: &Path, from: u64, max: usize) -> io::Result<Vec<Extent>>;
        fn changed(base: &Path, target: &Path, block: u64, from: u64, max: usize) -> io::Result<Vec<Extent>>;
        fn allocated(path: &Path) -> io::Result<u64>;
        fn lock(path: &Path) -> io::Result<Lock>;
        fn set_group(dir: &Path, gid: u32) -> io::Result<()>;
        fn give_to_group(dir: &Path, grant: GroupGrant, walk: &Walk) -> io::Result<()>;
        fn restrict(path: &Path, mode: u32) -> io::Result<bool>;
        fn rename(from: &Path, to: &Path) -> io::Result<()>;
    }
}

type Kernels<T> = Result<T, KernelError>;

doors! {
    Kernel {
        fn mounts() -> Kernels<Vec<Mount>>;
        fn mount_at(target: &Path) -> Kernels<Option<Mount>>;
        fn mount(device: &Path, target: &Path, fs_type: &str, options: &[String]) -> Kernels<()>;
        fn mount_memory(target: &Path, size: Option<u64>) -> Kernels<()>;
        fn bind(source: &Path, target: &Path, read_only: bool) -> Kernels<()>;
        fn bind_confined(source: &Path, target: &Path, read_only: bool) -> Kernels<()>;
        fn unmount(target: &Path) -> Kernels<()>;
        fn loop_attach(image: &Path, read_only: bool) -> Kernels<PathBuf>;
        fn loop_of(image: &Path) -> Kernels<Option<PathBuf>>;
        fn loop_hold(image: &Path) -> Kernels<Option<PathBuf>>;
        fn loop_detach(device: &Path) -> Kernels<()>;
        fn loop_release(device: &Path, image: &Path) -> Kernels<()>;
        fn loop_refresh(device: &Path) -> Kernels<()>;
        fn content(device: &Path) -> Kernels<Content>;
        fn make_filesystem(device: &Path, fs_type: &str, options: &[String]) -> Kernels<()>;
        fn check_filesystem(device: &Path, fs_type: &str) -> Kernels<()>;
        fn grow_filesystem(device: &Path, target: &Path, fs_type: &str) -> Kernels<()>;
        fn freeze(target: &Path) -> Kernels<()>;
        fn thaw(target: &Path) -> Kernels<()>;
        fn flush(device: &Path) -> Kernels<()>;
        fn writes(device: &Path) -> Kernels<Writes>;
        fn device_size(device: &Path) -> Kernels<u64>;
        fn filesystem_size(device: &Path, fs_type: &str) -> Kernels<u64>;
        fn loops() -> Kernels<Vec<LoopDevice>>;
        fn set_queue(device: &Path, queue: Queue) -> Kernels<()>;
        fn renew_identity(device: &Path, fs_type: &str) -> Kernels<()>;
        fn filesystem_errors(device: &Path, fs_type: &str) -> Kernels<u64>;
    }
    fn has_tool(&self, name: &str) -> bool {
        self.machine.has_tool(name)
    }
}

doors! {
    Containers {
        fn state(id: &str) -> Kernels<Option<State>>;
        fn wait(id: &str) -> Kernels<Exit>;
        fn mark_evicted(id: &str) -> Kernels<()>;
        fn exec(id: &str, spec: &ExecSpec) -> Kernels<Session>;
    }

    async fn signal(&self, id: &str, signal: i32) -> Kernels<()> {
        self.life.pass().await;
        self.caller.shared.oracle().container_touched(id, "signal");
        self.machine.signal(id, signal).await
    }

    async fn remove(&self, id: &str) -> Kernels<()> {
        self.life.pass().await;
        self.caller.shared.oracle().container_touched(id, "remove");
        self.machine.remove(id).await
    }

    async fn start(&self, spec: &ContainerSpec) -> Kernels<State> {
        self.life.pass().await;
        self.caller.shared.started(&spec.id, &self.caller.process);
        self.machine.start(spec).await
    }

    /// All nodes are on one machine; a kubelet finds those containers that are recorded in its own directory.
    async fn list(&self) -> Kernels<Vec<Found>> {
        self.life.pass().await;
        let found = Containers::list(&*self.machine).await?;
        let own = |found: &Found| self.caller.shared.has_started(&found.id, &self.caller.process);
        Ok(found.into_iter().filter(own).collect())
    }
}

#[async_trait]
impl Net for Doors {
    async fn listen(&self, path: &Path) -> io::Result<Box<dyn Listener>> {
        self.life.pass().await;
        let listener = Net::listen(&*self.machine, path).await?;
        Ok(Box::new(MortalListener::new(listener, self.life.clone())))
    }

    /// Every call to a socket goes over a line that may fail.
    async fn connect(&self, path: &Path) -> io::Result<BoxStream> {
        self.life.pass().await;
        let there = Net::connect(&*self.machine, path).await?;
        let here = csi::carry(self.caller.clone(), there);
        Ok(Box::new(MortalStream::new(here, &self.life)))
    }

    async fn listen_tcp(&self, address: &str) -> io::Result<(SocketAddr, Box<dyn Listener>)> {
        self.life.pass().await;
        let (address, listener) = Net::listen_tcp(&*self.machine, address).await?;
        Ok((address, Box::new(MortalListener::new(listener, self.life.clone()))))
    }

    async fn connect_tcp(&self, address: &str) -> io::Result<BoxStream> {
        self.life.pass().await;
        let stream = Net::connect_tcp(&*self.machine, address).await?;
        Ok(Box::new(MortalStream::new(stream, &self.life)))
    }

    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.life.pass().await;
        self.machine.lookup(name).await
    }

    async fn source_address(&self, address: &str) -> io::Result<IpAddr> {
        self.life.pass().await;
        self.machine.source_address(address).await
    }

    async fn watch_dir(&self, dir: &Path) -> io::Result<mpsc::Receiver<DirEvent>> {
        self.life.pass().await;
        self.machine.watch_dir(dir).await
    }
}
