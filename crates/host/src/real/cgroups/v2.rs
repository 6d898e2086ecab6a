//! Version 2: one tree of groups for all controllers. Devices are decided by a program, limits by files.
//!
//! Tested for devices only: no machine of the project's has controllers here.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::super::raw;
use super::{Controller, Hierarchy, Limits, PARENT, counter, device_program, make_dir, set};

/// As statfs(2) names the file system.
const CGROUP2_SUPER_MAGIC: i64 = 0x6367_7270;

/// Shares of version 1 from 2 to 262,144 are weights from 1 to 10,000.
const SHARES_MIN: u64 = 2;
const SHARES_MAX: u64 = 262_144;
const WEIGHT_MIN: u64 = 1;
const WEIGHT_MAX: u64 = 10_000;

/// Microseconds in which a quota of CPU time is given.
const PERIOD: u64 = 100_000;

pub(super) struct V2 {
    root: PathBuf,
    controllers: Vec<Controller>,
}

impl V2 {
    /// For those of the controllers that it has, in the end: a controller may belong to version 1.
    pub fn find(root: &Path, controllers: &[Controller]) -> Option<Self> {
        let found = rustix::fs::statfs(root).ok()?.f_type == CGROUP2_SUPER_MAGIC;
        found.then(|| Self { root: root.to_path_buf(), controllers: controllers.to_vec() })
    }

    fn set_limits(&self, group: &Path, limits: &Limits<'_>) -> io::Result<Vec<Controller>> {
        let mut enforced = Vec::new();
        for controller in self.controllers.iter().copied() {
            let available = match controller {
                Controller::Memory => set_memory(group, limits)?,
                Controller::Cpu => set_cpu(group, limits)?,
                Controller::Pids => set_if_there(group, "pids.max", &limits.pids_max.to_string())?,
                Controller::Devices => {
                    let program = raw::load_device_program(&device_program::encode(limits.devices))?;
                    raw::attach_device_program(File::open(group)?, program)?;
                    true
                }
            };
            enforced.extend(available.then_some(controller));
        }
        Ok(enforced)
    }
}

impl Hierarchy for V2 {
    fn group(&self, name: &str) -> PathBuf {
        self.root.join(PARENT).join(name)
    }

    fn create(&self, name: &str, limits: &Limits<'_>) -> io::Result<Vec<Controller>> {
        for above in [self.root.clone(), self.root.join(PARENT)] {
            for controller in self.controllers.iter().filter(|c| **c != Controller::Devices) {
                // One that is not there shows by its missing files, which matters only if it is needed.
                let _ = set(&above, "cgroup.subtree_control", &format!("+{}", controller.name()));
            }
        }
        let group = self.group(name);
        make_dir(&group)?;
        self.set_limits(&group, limits)
    }

    fn entrance(&self, name: &str) -> PathBuf {
        self.group(name).join("cgroup.procs")
    }

    fn oom_kills(&self, name: &str) -> io::Result<Option<u64>> {
        counter(&self.group(name).join("memory.events"), "oom_kill")
    }
}

/// Whether the kernel has such a setting here.
fn set_if_there(group: &Path, file: &str, value: &str) -> io::Result<bool> {
    if !group.join(file).exists() {
        return Ok(false);
    }
    set(group, file, value).map(|()| true)
}

fn set_memory(group: &Path, limits: &Limits<'_>) -> io::Result<bool> {
    let bytes = limits.resources.memory_max.map_or("max".to_owned(), |bytes| bytes.to_string());
    if !set_if_there(group, "memory.max", &bytes)? {
        return Ok(false);
    }
    if limits.resources.memory_max.is_some() {
        set_if_there(group, "memory.swap.max", "0")?;
        // All of a container or none of it, as upstream's kubelet has it.
        set_if_there(group, "memory.oom.group", "1")?;
    }
    Ok(true)
}

fn set_cpu(group: &Path, limits: &Limits<'_>) -> io::Result<bool> {
    let quota = limits.resources.cpu_quota.map_or("max".to_owned(), |quota| quota.to_string());
    if !set_if_there(group, "cpu.max", &format!("{quota} {PERIOD}"))? {
        return Ok(false);
    }
    match limits.resources.cpu_shares {
        Some(shares) => set_if_there(group, "cpu.weight", &weight(shares).to_string()),
        None => Ok(true),
    }
}

fn weight(shares: u64) -> u64 {
    let shares = shares.clamp(SHARES_MIN, SHARES_MAX) - SHARES_MIN;
    WEIGHT_MIN + shares * (WEIGHT_MAX - WEIGHT_MIN) / (SHARES_MAX - SHARES_MIN)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::Device;
    use super::*;
    use crate::containers::Resources;

    #[test]
    fn shares_are_weights() {
        for (shares, want) in [(0, 1), (2, 1), (1024, 39), (262_144, 10_000), (u64::MAX, 10_000)] {
            assert_eq!(weight(shares), want, "{shares}");
        }
    }

    /// The tree of version 2 that stands beside version 1 has no controllers, but it can decide about devices.
    #[test]
    fn a_program_decides_about_devices() {
        let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].into_iter().map(Path::new);
        let v2 = root.filter_map(|root| V2::find(root, &[Controller::Devices])).next();
        let v2 = v2.expect("this machine has no cgroup2");
        let name = format!("test-{}", std::process::id());
        make_dir(&v2.root.join(PARENT)).unwrap();
        let resources = Resources::default();
        // One that is not there: what is asked is whether it may be opened.
        let devices = [Device { major: 240, minor: 1, read_only: true }];
        let limits = Limits { resources: &resources, pids_max: 10, devices: &devices };
        assert_eq!(v2.create(&name, &limits).unwrap(), [Controller::Devices]);
        let dir = tempfile::tempdir().unwrap();
        let script = format!(
            "cd {}; mknod ours b 240 1; mknod other b 240 2; mknod kmsg c 1 11
             echo 0 >{}
             for f in /dev/null /dev/zero /dev/urandom kmsg other ours; do : <$f && echo $f; done
             : >/dev/null && echo write; : >ours || echo no write
             mknod again b 240 1 || echo no mknod",
            dir.path().display(),
            v2.entrance(&name).display(),
        );
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        std::fs::remove_dir(v2.group(&name)).unwrap();
        assert_eq!(out, "/dev/null\n/dev/zero\n/dev/urandom\nwrite\nno write\nno mknod\n", "{err}");
        for said in ["kmsg: Operation not permitted", "other: Operation not permitted"] {
            assert!(err.contains(said), "{err}");
        }
        // Allowed for reading, and then found not to exist.
        assert!(err.contains("ours: No such device or address"), "{err}");
        assert!(err.contains("ours: Operation not permitted"), "{err}");
    }
}
