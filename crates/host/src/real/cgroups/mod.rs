//! Control groups: what a container's processes may use up together, and which devices they may open.
//!
//! Every container has one group in each hierarchy: `bowline/<installation>-<container>`, derived from where its record
//! is. Never below `kubepods`, where an upstream kubelet on the same machine ends what it does not know. Where control
//! groups are is a convention that all distributions keep: version 2 at `/sys/fs/cgroup`, or version 1 with a directory
//! for each controller and version 2 beside them at `unified`.
//!
//! A machine without writable control groups runs containers that need none: that ask for no limit, and that could not
//! reach another device anyway. Others are refused.
//!
//! # Crash safety
//!
//! A group is made after the record of its container and removed before it, so that a group without a record does not
//! exist, whichever process dies in between. A start that finds the group of an earlier try replaces it, or uses it again while the
//! last process of that try is still ending.

mod device_program;
mod v1;
mod v2;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use super::init::text;
use crate::containers::{ContainerSpec, DEFAULT_PIDS_MAX, Resources};

const ROOT: &str = "/sys/fs/cgroup";
/// Of every group that is ours.
const PARENT: &str = "bowline";

/// A group that was just left may be busy for a moment. Looked at again after this, at most `REMOVE_TRIES` times.
const REMOVE_PAUSE: Duration = Duration::from_millis(5);
const REMOVE_TRIES: u32 = 400;

/// A program may make device nodes, or get at them by mounting.
const MAKES_DEVICES: [&str; 2] = ["MKNOD", "SYS_ADMIN"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    Memory,
    Cpu,
    Pids,
    Devices,
}

impl Controller {
    const ALL: [Self; 4] = [Self::Memory, Self::Cpu, Self::Pids, Self::Devices];

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
            Self::Devices => "devices",
        }
    }
}

/// A block device that a container was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Device {
    pub major: u32,
    pub minor: u32,
    pub read_only: bool,
}

/// Character devices that every container may open: those of its `/dev`, and terminals (every minor number of 136).
const CHARACTER_DEVICES: [(u32, Option<u32>); 8] = [
    (1, Some(3)),
    (1, Some(5)),
    (1, Some(7)),
    (1, Some(8)),
    (1, Some(9)),
    (5, Some(0)),
    (5, Some(2)),
    (136, None),
];

/// What a group enforces.
struct Limits<'a> {
    resources: &'a Resources,
    pids_max: u64,
    devices: &'a [Device],
}

/// One tree of groups. Version 2 is one for all controllers and is not tested with limits, only with devices.
trait Hierarchy {
    /// Where the group with this name is.
    fn group(&self, name: &str) -> PathBuf;
    /// Makes a group and sets what it enforces. Returns the controllers that were set; an error of a file system that
    /// cannot be written to means none.
    fn create(&self, name: &str, limits: &Limits<'_>) -> io::Result<Vec<Controller>>;
    /// The file by which the calling thread, the only one of its process or about to start a program, enters a group.
    fn entrance(&self, name: &str) -> PathBuf;
    /// Counts processes that the kernel ended for want of memory, if this hierarchy knows.
    fn oom_kills(&self, name: &str) -> io::Result<Option<u64>>;
}

fn hierarchies(root: &Path) -> Vec<Box<dyn Hierarchy>> {
    if let Some(v2) = v2::V2::find(root, &Controller::ALL) {
        return vec![Box::new(v2)];
    }
    let mut found: Vec<Box<dyn Hierarchy>> = Vec::new();
    let mut missing = Vec::new();
    for controller in Controller::ALL {
        match v1::V1::find(root, controller) {
            Some(v1) => found.push(Box::new(v1)),
            None => missing.push(controller),
        }
    }
    if !missing.is_empty() {
        found.extend(v2::V2::find(&root.join("unified"), &missing).map(|v2| Box::new(v2) as _));
    }
    found
}

/// Whether there is anywhere to make groups.
pub(super) fn available() -> bool {
    hierarchies(Path::new(ROOT)).iter().any(|hierarchy| make_parent(&hierarchy.group("")).is_ok())
}

/// The open files by which a thread enters the groups of a container, also after it has left the host's mounts.
pub(super) struct Entrances(Vec<File>);

impl Entrances {
    /// Enters, for good: by then nothing is left with which to leave.
    pub fn enter(self) -> Result<(), String> {
        // Zero stands for the thread that writes it.
        let enter = |mut file: File| file.write_all(b"0");
        self.0.into_iter().try_for_each(enter).map_err(|e| text("enter the control groups", &e))
    }
}

/// Makes the groups of the container whose record is in `dir`.
pub(super) fn create(dir: &Path, spec: &ContainerSpec, devices: &[Device]) -> Result<Entrances, String> {
    let name = name(dir);
    let pids_max = spec.resources.pids_max.unwrap_or(DEFAULT_PIDS_MAX);
    let limits = Limits { resources: &spec.resources, pids_max, devices };
    let mut enforced = Vec::new();
    let mut entrances = Vec::new();
    for hierarchy in hierarchies(Path::new(ROOT)) {
        let group = hierarchy.group(&name);
        let made = remove_group(&group)
            .or_else(|error| if is(&error, Errno::BUSY) { Ok(()) } else { Err(error) })
            .and_then(|()| make_parent(&group))
            .and_then(|()| hierarchy.create(&name, &limits));
        match made {
            Ok(controllers) => enforced.extend(controllers),
            Err(error) if [Errno::ROFS, Errno::ACCESS, Errno::PERM].iter().any(|e| is(&error, *e)) => {
                continue;
            }
            Err(error) => return Err(text(&format!("create control group `{}`", group.display()), &error)),
        }
        let entrance = hierarchy.entrance(&name);
        let open = File::options().write(true).open(&entrance);
        entrances.push(open.map_err(|e| text(&format!("open `{}`", entrance.display()), &e))?);
    }
    match needed(spec, devices).into_iter().find(|(controller, _)| !enforced.contains(controller)) {
        Some((controller, why)) => Err(format!(
            "{why} cannot be enforced: this machine has no writable control group for {} below `{ROOT}`",
            controller.name()
        )),
        None => Ok(Entrances(entrances)),
    }
}

/// Controllers without which a container must not start, and for what.
fn needed(spec: &ContainerSpec, devices: &[Device]) -> Vec<(Controller, &'static str)> {
    let Resources { memory_max, cpu_shares, cpu_quota, pids_max } = &spec.resources;
    let makes_devices = MAKES_DEVICES.iter().any(|name| spec.security.capabilities.contains(*name));
    let wanted = [
        (memory_max.is_some(), Controller::Memory, "a limit of memory"),
        (cpu_shares.is_some(), Controller::Cpu, "a share of CPU time"),
        (cpu_quota.is_some(), Controller::Cpu, "a limit of CPU time"),
        (pids_max.is_some(), Controller::Pids, "a limit of processes"),
        (makes_devices, Controller::Devices, "which devices a container with MKNOD or SYS_ADMIN may open"),
        // A device that is mounted read-only can be written to all the same.
        (devices.iter().any(|device| device.read_only), Controller::Devices, "a read-only device"),
    ];
    wanted.into_iter().filter(|(wanted, ..)| *wanted).map(|(_, controller, why)| (controller, why)).collect()
}

/// Opens the ways into the groups of a container that runs.
pub(super) fn entrances(dir: &Path) -> io::Result<Entrances> {
    let name = name(dir);
    let mut files = Vec::new();
    for hierarchy in hierarchies(Path::new(ROOT)) {
        match File::options().write(true).open(hierarchy.entrance(&name)) {
            Ok(file) => files.push(file),
            // It was started where none could be made.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Entrances(files))
}

/// Whether the kernel ended a process of the container for want of memory. Unknown is no.
pub(super) fn oom_killed(dir: &Path) -> bool {
    let name = name(dir);
    let kills = |hierarchy: &dyn Hierarchy| hierarchy.oom_kills(&name).ok().flatten().unwrap_or_default();
    hierarchies(Path::new(ROOT)).iter().any(|hierarchy| kills(hierarchy.as_ref()) > 0)
}

/// Removes the groups of a container of which nothing runs any more. Missing is success.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    let name = name(dir);
    hierarchies(Path::new(ROOT)).iter().try_for_each(|hierarchy| remove_settled(&hierarchy.group(&name)))
}

fn remove_settled(group: &Path) -> io::Result<()> {
    for _ in 0..REMOVE_TRIES {
        match remove_group(group) {
            // Its processes have ended, but the last may not have left yet; or a helper of `exec` has not.
            Err(error) if is(&error, Errno::BUSY) => thread::sleep(REMOVE_PAUSE),
            result => return result,
        }
    }
    let group = group.display();
    let what = format!("control group `{group}` is in use; `{group}/cgroup.procs` shows by which processes");
    Err(io::Error::new(io::ErrorKind::ResourceBusy, what))
}

/// With the groups inside that a privileged container may have made.
fn remove_group(group: &Path) -> io::Result<()> {
    match fs::remove_dir(group) {
        Err(error) if is(&error, Errno::BUSY) => {}
        // No hierarchy that was there when the group was made, or none that could be written to.
        Err(error) if [Errno::NOENT, Errno::ROFS].iter().any(|e| is(&error, *e)) => return Ok(()),
        result => return result,
    }
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_group(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}

fn make_parent(group: &Path) -> io::Result<()> {
    group.parent().map_or(Ok(()), make_dir)
}

/// Other users may look, whatever the umask is.
fn make_dir(dir: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o755).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Writes a setting of a group. Nothing is there to write to if the kernel has no such controller.
fn set(group: &Path, file: &str, value: &str) -> io::Result<()> {
    let path = group.join(file);
    let write = |mut file: File| file.write_all(value.as_bytes());
    let written = File::options().write(true).open(&path).and_then(write);
    written.map_err(|e| io::Error::new(e.kind(), format!("write `{value}` to `{}`: {e}", path.display())))
}

/// The number behind a word in a file of words and numbers.
fn counter(file: &Path, word: &str) -> io::Result<Option<u64>> {
    let text = fs::read_to_string(file)?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs.find(|(name, _)| *name == word).and_then(|(_, count)| count.trim().parse().ok()))
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// The same for the same record, also in another process; different for every installation on the machine.
fn name(dir: &Path) -> String {
    let real = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf());
    let record = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let place = real.parent().unwrap_or(Path::new("/"));
    format!("{:016x}-{record}", fnv1a(place.as_os_str().as_bytes()))
}

/// A hash that is the same in every version of this program.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_container_needs_of_the_machine() {
        let spec = |text: &str| -> ContainerSpec {
            let base = r#"{"id": "", "hostname": "", "argv": [], "env": [], "working_dir": null, "mounts": [],
                "devices": [], "hidden": [], "log": """#;
            serde_json::from_str(&format!("{base}{text}}}")).unwrap()
        };
        let security = |names: &str| {
            let rest = r#""uid": 0, "gid": 0, "groups": [], "no_new_privileges": false, "read_only_root": false,
                "seccomp": "Unconfined""#;
            format!(r#", "security": {{"capabilities": [{names}], {rest}}}"#)
        };
        let disk = |read_only| vec![Device { major: 7, minor: 0, read_only }];
        let table = [
            ("nothing", spec(""), vec![], vec![]),
            ("its own device", spec(""), disk(false), vec![]),
            ("a read-only device", spec(""), disk(true), vec![Controller::Devices]),
            ("devices of its making", spec(&security("\"MKNOD\"")), vec![], vec![Controller::Devices]),
            (
                "limits",
                spec(r#", "resources": {"memory_max": 1, "cpu_shares": 2, "pids_max": 3}"#),
                vec![],
                vec![Controller::Memory, Controller::Cpu, Controller::Pids],
            ),
        ];
        for (name, spec, devices, want) in table {
            let needed: Vec<_> = needed(&spec, &devices).into_iter().map(|(which, _)| which).collect();
            assert_eq!(needed, want, "{name}");
        }
    }

    #[test]
    fn a_machine_without_control_groups() {
        let dir = tempfile::tempdir().unwrap();
        assert!(hierarchies(dir.path()).is_empty());
        // A directory with the right name is no controller.
        fs::create_dir(dir.path().join("memory")).unwrap();
        assert!(hierarchies(dir.path()).is_empty());
    }

    #[test]
    fn names_differ_by_installation() {
        let (a, b) = (Path::new("/no/a/containers/u_c_0"), Path::new("/no/b/containers/u_c_0"));
        assert_eq!(name(a), name(a));
        assert_ne!(name(a), name(b));
        assert!(name(a).ends_with("-u_c_0"));
    }
}
