//! A scratch directory on a real disk that leaves no mount or loop device behind, also when a test fails.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bowline_host::Host;
use bowline_host::containers::ContainerSpec;
use bowline_host::real::{self, RealConfig};

pub struct World {
    pub host: Host,
    dir: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        assert!(rustix::process::geteuid().is_root(), "these tests need root");
        // Not below `/tmp`, which containers have to themselves.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let config = RealConfig { state_dir: dir.path().join("state"), shim: Some(shim()) };
        Self { host: real::host(config).unwrap(), dir }
    }

    /// With a program of its own to start containers through, which nothing else runs.
    pub fn with_own_shim() -> Self {
        let mut world = Self::new();
        let copy = world.path("shim");
        std::fs::copy(shim(), &copy).unwrap();
        let config = RealConfig { state_dir: world.path("state"), shim: Some(copy) };
        world.host = real::host(config).unwrap();
        world
    }

    /// Control groups of this world's containers.
    pub fn groups(&self) -> Vec<PathBuf> {
        let place = std::fs::canonicalize(self.path("state/containers")).unwrap_or_default();
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let bytes = place.as_os_str().as_encoded_bytes();
        let prefix = format!("{:016x}-", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step));
        let children =
            |dir: PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
        let mut parents: Vec<PathBuf> =
            children("/sys/fs/cgroup".into()).map(|hierarchy| hierarchy.join("bowline")).collect();
        parents.push("/sys/fs/cgroup/bowline".into());
        let mut groups: Vec<PathBuf> = parents.into_iter().flat_map(children).collect();
        groups.retain(|group| group.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix)));
        groups.sort();
        groups
    }

    /// The doors as a restarted process opens them.
    pub fn restarted(&self) -> Host {
        let config = RealConfig { state_dir: self.path("state"), shim: Some(shim()) };
        real::host(config).unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// A sparse image of so many MiB, and its loop device.
    pub async fn device(&self, name: &str, mib: u64) -> PathBuf {
        let image = self.path(name);
        self.host.disk.create_sparse(&image, mib << 20).await.unwrap();
        self.host.kernel.loop_attach(&image, false).await.unwrap()
    }

    pub async fn mounted(&self, name: &str, fs_type: &str) -> (PathBuf, PathBuf) {
        let device = self.device(name, if fs_type == "ext4" { 64 } else { 320 }).await;
        self.host.kernel.make_filesystem(&device, fs_type, &[]).await.unwrap();
        let target = self.dir(&format!("{name}.mounted"));
        self.host.kernel.mount(&device, &target, fs_type, &[]).await.unwrap();
        (device, target)
    }

    /// Unmounts, and waits until the filesystem has let go of its device. A container that is being set up has a copy of
    /// all mounts for a moment, and with it the filesystem.
    pub async fn unmount(&self, device: &Path, target: &Path) {
        self.host.kernel.unmount(target).await.unwrap();
        until_free(device).await;
    }

    /// Detaches a loop device as soon as no copy of a mount keeps it in use.
    pub async fn detach(&self, device: &Path) {
        until_free(device).await;
        self.host.kernel.loop_detach(device).await.unwrap();
    }

    /// A container that runs a shell script, with its log in this directory.
    pub fn script(&self, id: &str, script: &str) -> ContainerSpec {
        ContainerSpec {
            id: id.into(),
            hostname: "pod-0".into(),
            argv: ["/bin/sh", "-c", script].map(Into::into).into(),
            env: Vec::new(),
            working_dir: None,
            mounts: Vec::new(),
            devices: Vec::new(),
            hidden: Vec::new(),
            security: Default::default(),
            resources: Default::default(),
            log: self.path(&format!("{}.log", id.replace('/', "_"))),
            message_path: None,
        }
    }

    /// What the container wrote, without what the log adds.
    pub fn log(&self, spec: &ContainerSpec) -> String {
        let text = |entry: &str| match entry.splitn(4, ' ').collect::<Vec<_>>()[..] {
            [_, "stdout" | "stderr", "F", line] => format!("{line}\n"),
            [_, "stdout" | "stderr", "P", part] => part.to_owned(),
            _ => panic!("not an entry of a log: {entry:?}"),
        };
        std::fs::read_to_string(&spec.log).unwrap_or_default().lines().map(text).collect()
    }
}

/// Waits until no filesystem and no exclusive user has a device.
pub async fn until_free(device: &Path) {
    let end = Instant::now() + Duration::from_secs(60);
    while let Err(busy) = OpenOptions::new().read(true).custom_flags(nix::libc::O_EXCL).open(device) {
        let busy_still = busy.kind() == ErrorKind::ResourceBusy && Instant::now() < end;
        assert!(busy_still, "{}: {busy}", device.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The program next to this test that holds the container subcommands; `cargo test` builds it.
pub fn shim() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let shim = test.parent().and_then(Path::parent).unwrap().join("examples/shim");
    assert!(
        shim.exists(),
        "`{}` is missing: run all targets of `cargo test -p bowline-host`",
        shim.display()
    );
    shim
}

impl Drop for World {
    fn drop(&mut self) {
        for record in std::fs::read_dir(self.path("state/containers")).into_iter().flatten().flatten() {
            end_container(&record.path());
        }
        for group in self.groups() {
            let gone = || !group.exists() || std::fs::remove_dir(&group).is_ok();
            // Its processes were just killed.
            let _ = (0..200).find(|_| {
                gone() || {
                    std::thread::sleep(Duration::from_millis(5));
                    false
                }
            });
        }
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let inside =
            |line: &&str| line.split(' ').nth(4).is_some_and(|t| Path::new(t).starts_with(self.dir.path()));
        for line in table.lines().rev().filter(inside) {
            let target = line.split(' ').nth(4).unwrap_or_default();
            // A frozen one would keep its loop device, and every writer waiting.
            let _ = Command::new("fsfreeze").args(["-u", target]).stderr(Stdio::null()).status();
            let _ = Command::new("umount").arg(target).status();
        }
        for entry in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let backing = std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
            if Path::new(backing.trim()).starts_with(self.dir.path()) {
                let _ =
                    Command::new("losetup").arg("-d").arg(Path::new("/dev").join(entry.file_name())).status();
            }
        }
    }
}

/// A test that failed may have left a container running.
fn end_container(record: &Path) {
    let Ok(text) = std::fs::read_to_string(record.join("running.json")) else { return };
    let Ok(running) = serde_json::from_str::<serde_json::Value>(&text) else { return };
    if !record.join("exit.json").exists() {
        let _ = Command::new("kill").args(["-9", &running["init"]["pid"].to_string()]).status();
    }
}

pub fn errno(error: &bowline_host::kernel::KernelError) -> i32 {
    error.errno.unwrap_or_else(|| panic!("no errno in `{error}`"))
}

/// Runs a program; whether it succeeded, and what it said.
pub fn program(name: &str, args: &[&str]) -> (bool, String) {
    let output = Command::new(name).args(args).output().unwrap_or_else(|e| panic!("run `{name}`: {e}"));
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}
