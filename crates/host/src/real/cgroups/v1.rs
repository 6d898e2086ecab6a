//! Version 1: a tree of groups for each controller.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{CHARACTER_DEVICES, Controller, Device, Hierarchy, Limits, PARENT, counter, make_dir, set};

/// As statfs(2) names the file system.
const CGROUP_SUPER_MAGIC: i64 = 0x0027_E0EB;

pub(super) struct V1 {
    controller: Controller,
    root: PathBuf,
}

impl V1 {
    pub fn find(root: &Path, controller: Controller) -> Option<Self> {
        let root = root.join(controller.name());
        let found = rustix::fs::statfs(&root).ok()?.f_type == CGROUP_SUPER_MAGIC;
        found.then_some(Self { controller, root })
    }
}

impl Hierarchy for V1 {
    fn group(&self, name: &str) -> PathBuf {
        self.root.join(PARENT).join(name)
    }

    fn create(&self, name: &str, limits: &Limits<'_>) -> io::Result<Vec<Controller>> {
        let group = self.group(name);
        make_dir(&group)?;
        match self.controller {
            Controller::Memory => limit_memory(&group, limits)?,
            Controller::Cpu => limit_cpu(&group, limits)?,
            Controller::Pids => set(&group, "pids.max", &limits.pids_max.to_string())?,
            Controller::Devices => allow_devices(&group, limits.devices)?,
        }
        Ok(vec![self.controller])
    }

    /// Of single threads: to move a whole process makes the kernel stop all that fork or end, for milliseconds.
    fn entrance(&self, name: &str) -> PathBuf {
        self.group(name).join("tasks")
    }

    fn oom_kills(&self, name: &str) -> io::Result<Option<u64>> {
        match self.controller {
            Controller::Memory => counter(&self.group(name).join("memory.oom_control"), "oom_kill"),
            _ => Ok(None),
        }
    }
}

fn limit_memory(group: &Path, limits: &Limits<'_>) -> io::Result<()> {
    let Some(bytes) = limits.resources.memory_max.map(|bytes| bytes.to_string()) else { return Ok(()) };
    set(group, "memory.limit_in_bytes", &bytes)?;
    // Not a byte more by swapping, where the kernel counts that.
    match group.join("memory.memsw.limit_in_bytes").exists() {
        true => set(group, "memory.memsw.limit_in_bytes", &bytes),
        false => Ok(()),
    }
}

fn limit_cpu(group: &Path, limits: &Limits<'_>) -> io::Result<()> {
    if let Some(shares) = limits.resources.cpu_shares {
        set(group, "cpu.shares", &shares.to_string())?;
    }
    // The period is 100 ms if nothing is said.
    match limits.resources.cpu_quota {
        Some(quota) => set(group, "cpu.cfs_quota_us", &quota.to_string()),
        None => Ok(()),
    }
}

/// Nothing but what is listed, and of that no making of nodes.
fn allow_devices(group: &Path, devices: &[Device]) -> io::Result<()> {
    set(group, "devices.deny", "a")?;
    for (major, minor) in CHARACTER_DEVICES {
        let minor = minor.map_or("*".to_owned(), |minor| minor.to_string());
        set(group, "devices.allow", &format!("c {major}:{minor} rw"))?;
    }
    for Device { major, minor, read_only } in devices {
        let access = if *read_only { "r" } else { "rw" };
        set(group, "devices.allow", &format!("b {major}:{minor} {access}"))?;
    }
    // A list that was not taken is no list.
    let list = fs::read_to_string(group.join("devices.list"))?;
    match list.lines().any(|line| line.starts_with('a')) {
        true => Err(io::Error::other("the kernel does not keep the list of devices")),
        false => Ok(()),
    }
}
