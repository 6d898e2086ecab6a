//! From journal entries to lines that a newcomer can follow.

use std::cell::Cell;
use std::time::Instant;

use bowline_machinery::journal::Entry;

use crate::terminal::Terminal;

/// Longer names are cut: the rest of a UID or hash tells nobody anything.
const NAME_MAX: usize = 16;

/// Tells the journey with times since its beginning.
pub struct Narrator {
    began: Instant,
    /// What the same write means depends on how far the journey is.
    provisioned: Cell<bool>,
    leaving: Cell<bool>,
}

impl Narrator {
    pub fn start() -> Self {
        Self { began: Instant::now(), provisioned: Cell::new(false), leaving: Cell::new(false) }
    }

    pub fn tell(&self, terminal: &Terminal, entry: &Entry) {
        let time = format!("{:>7.3} s", self.began.elapsed().as_secs_f64());
        let who = format!("{:<22}", short_component(entry.component));
        // Two components wrote at once and one looks again: the protocol, not a failure.
        if entry.error.contains("the object has been modified") {
            return;
        }
        let Some(mut what) = self.sentence(entry) else { return };
        if !entry.error.is_empty() {
            what = terminal.bad(&format!("{what}: {}", entry.error));
        } else if takes_time(entry) {
            let took = format!(" ({:.1} ms)", entry.took.as_secs_f64() * 1000.0);
            what.push_str(&terminal.dim(&took));
        }
        terminal.line(format!("{}  {}  {what}", terminal.dim(&time), terminal.accent(&who)));
    }

    /// What an effect means, or nothing when it is only housekeeping.
    fn sentence(&self, entry: &Entry) -> Option<String> {
        let (kind, name) = entry.object.split_once(' ').unwrap_or((&entry.object, ""));
        let name = shortened(name);
        let text = match (entry.component, entry.action.as_str(), kind) {
            ("kubectl", "delete", "pod") => {
                self.leaving.set(true);
                format!("delete pod {name}")
            }
            ("kubectl", action, _) => format!("{action} {kind} {name}"),
            ("default-scheduler", "update", _) => {
                format!("chooses a node for the pod and notes it on claim {name}")
            }
            ("default-scheduler", "binding", _) => format!("claim is bound: binds pod {name} to the node"),
            ("persistentvolume-controller", "update", "persistentvolumeclaim") if self.provisioned.get() => {
                format!("binds claim {name} to the volume")
            }
            ("persistentvolume-controller", "update", "persistentvolumeclaim") => {
                format!("asks the provisioner for a volume for claim {name}")
            }
            ("persistentvolume-controller", "update status", "persistentvolume") => {
                let phase = if self.leaving.get() { "Released: its claim is gone" } else { "Bound" };
                format!("volume {name} is {phase}")
            }
            ("persistentvolume-controller", "update status", _) => format!("claim {name} is Bound"),
            ("external-provisioner", "create" | "delete", "lease") => return None,
            ("external-provisioner", "create", _) => {
                self.provisioned.set(true);
                format!("create persistentvolume {name}")
            }
            ("external-provisioner", "CreateVolume", _) => {
                "CreateVolume: the driver makes a sparse image file".into()
            }
            ("external-provisioner", "DeleteVolume", _) => {
                "DeleteVolume: the driver removes the image file".into()
            }
            ("external-provisioner", "delete", _) => format!("delete persistentvolume {name}"),
            ("external-attacher", "ControllerPublishVolume", _) => {
                "ControllerPublishVolume: the driver gives the volume to this node".into()
            }
            ("external-attacher", "ControllerUnpublishVolume", _) => {
                "ControllerUnpublishVolume: the driver takes it back".into()
            }
            ("external-attacher", "patch status", _) => "volumeattachment is attached".into(),
            ("external-attacher", "patch", kind) if self.leaving.get() => {
                format!("lets go of the {kind} (finalizer)")
            }
            ("external-attacher", "patch", kind) => format!("guards the {kind} (finalizer)"),
            ("attachdetach-controller", "create", _) => {
                format!("pod is on a node: create volumeattachment {name}")
            }
            ("attachdetach-controller", "delete", _) => format!("delete volumeattachment {name}"),
            ("attachdetach-controller", "patch status", _) if self.leaving.get() => {
                "withdraws the volume from the node (volumesAttached)".into()
            }
            ("attachdetach-controller", "patch status", _) => {
                "tells the node: attached (volumesAttached)".into()
            }
            ("kubelet", "NodeStageVolume", _) => "NodeStageVolume: loop device, mkfs, mount".into(),
            ("kubelet", "NodePublishVolume", _) => "NodePublishVolume: bind mount into the pod".into(),
            ("kubelet", "NodeUnpublishVolume", _) => "NodeUnpublishVolume: bind mount removed".into(),
            ("kubelet", "NodeUnstageVolume", _) => {
                "NodeUnstageVolume: unmounted, loop device detached".into()
            }
            ("kubelet", "start", _) => format!("starts container {}", last_parts(&entry.object)),
            ("kubelet", "signal", _) => format!("ends container {}", last_parts(&entry.object)),
            ("kubelet", "patch status", "node") if self.leaving.get() => {
                "volume no longer in use (volumesInUse)".into()
            }
            ("kubelet", "patch status", "node") => "volume will be in use (volumesInUse)".into(),
            ("kubelet", "delete", "pod") => format!("pod {name} is gone"),
            ("persistentvolumeclaim-protection-controller", _, _) => {
                format!("claim {name} is unused: lets it go")
            }
            ("persistentvolume-protection-controller", _, _) if entry.error.is_empty() => {
                "lets the volume go".into()
            }
            _ => return None,
        };
        Some(text)
    }
}

/// Calls into driver and kernel, whose time is their own.
fn takes_time(entry: &Entry) -> bool {
    entry.action.ends_with("Volume") || entry.action == "start"
}

fn short_component(component: &str) -> &str {
    match component {
        "persistentvolumeclaim-protection-controller" => "pvc-protection",
        "persistentvolume-protection-controller" => "pv-protection",
        "persistentvolume-controller" => "persistentvolume",
        "attachdetach-controller" => "attachdetach",
        "default-scheduler" => "scheduler",
        other => other,
    }
}

/// `default/data` stays, `pvc-3f2a…` is cut.
fn shortened(name: &str) -> String {
    let name = name.strip_prefix("default/").unwrap_or(name);
    match name.char_indices().nth(NAME_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// The container's name from `container <pod uid>/<name>/<attempt>`.
fn last_parts(object: &str) -> &str {
    object.split('/').nth(1).unwrap_or(object)
}
