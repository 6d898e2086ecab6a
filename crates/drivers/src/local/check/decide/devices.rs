//! Loop devices and mounts.

use std::path::{Path, PathBuf};

use super::super::facts::{Facts, LoopDevice, Thing};
use super::super::report::Severity;
use super::{Effect, Proposal};
use crate::id::Volume;
use crate::local::adopt::abandoned;
use crate::local::devices::{Taken, shows};
use crate::local::mounts::{Owner, is_stale, owner};
use crate::local::record::{Phase, VolumeRecord};
use crate::shelf::found::Read;

pub fn examine(facts: &Facts) -> Vec<Proposal> {
    let mut all: Vec<_> = facts.volumes.iter().flat_map(|thing| volume(facts, thing)).collect();
    let idle = abandoned(&facts.pool, &facts.loops, &facts.mounts);
    let deleted = facts.loops.iter().filter(|device| device.deleted && device.image.starts_with(&facts.pool));
    all.extend(deleted.map(|device| match (idle.contains(&device), places(facts, &device.device).next()) {
        (true, _) => leftover(device),
        (false, place) => dying(device, place),
    }));
    all
}

fn leftover(device: &LoopDevice) -> Proposal {
    let path = device.device.display();
    let message = format!("shows the deleted image `{}` and is used by nobody", device.image.display());
    let action = format!("`losetup -d {path}`");
    Proposal::new(Severity::Warning, "DeletedImageAttached", format!("device `{path}`"), message, action)
        .with(vec![Effect::Detach { device: device.device.clone(), image: device.image.clone() }])
}

fn dying(device: &LoopDevice, place: Option<&Path>) -> Proposal {
    let path = device.device.display();
    let message =
        format!("shows the deleted image `{}`: its data is gone when it is let go", device.image.display());
    let action = match place {
        Some(place) => format!("copy what matters from `{}` before anybody unmounts it", place.display()),
        None => format!("copy what matters from `{path}` before it is detached"),
    };
    Proposal::new(Severity::Error, "DeletedImageInUse", format!("device `{path}`"), message, action)
}

/// Where a device shows.
fn places<'a>(facts: &'a Facts, device: &'a Path) -> impl Iterator<Item = &'a Path> {
    let ours = facts.mounts.iter().filter(move |mount| owner(device, mount) != Owner::Foreign);
    ours.map(|mount| mount.target.as_path())
}

fn volume(facts: &Facts, thing: &Thing<Volume, VolumeRecord>) -> Vec<Proposal> {
    let record = thing.found.as_ref().ok().map(|found| &found.record);
    let Some(Read::Good(record @ VolumeRecord { phase: Phase::Ready, .. })) = record else {
        return Vec::new();
    };
    let image = thing.image();
    let devices: Vec<&Path> = facts.devices_of(&image).map(|device| device.device.as_path()).collect();
    let mut all: Vec<_> = stale(facts, thing, record, &devices);
    all.extend(taken(facts, thing, record, &devices));
    if let [first, second, ..] = devices[..] {
        let message = format!("is attached as `{}` and as `{}`", first.display(), second.display());
        let action = format!(
            "two devices overwrite each other: take the volume down, then `losetup -d {}`",
            second.display()
        );
        all.push(Proposal::new(Severity::Error, "TwoDevices", thing.id.key(), message, action));
    }
    if let ([device, ..], true) = (&devices[..], record.published.is_empty()) {
        all.push(unpublished(facts, thing, device));
    }
    all
}

/// Users of a block volume that see a device of something else.
fn taken(
    facts: &Facts,
    thing: &Thing<Volume, VolumeRecord>,
    record: &VolumeRecord,
    devices: &[&Path],
) -> Option<Proposal> {
    let device = record.device.clone().filter(|device| !devices.contains(&device.as_path()))?;
    let targets = shows(&device, &facts.mounts);
    let found = facts.loops.iter().find(|found| found.device == device).map(|found| found.image.clone());
    let taken = Taken { device, image: thing.image(), found, targets };
    let place = taken.targets.first()?.display();
    let action = format!("end the workload that has it; its driver then takes it down, or `umount {place}`");
    Some(Proposal::new(Severity::Error, "DeviceTaken", thing.id.key(), taken.describe(), action))
}

/// A volume that no node has is in use all the same.
fn unpublished(facts: &Facts, thing: &Thing<Volume, VolumeRecord>, device: &Path) -> Proposal {
    let (reason, message, action) = match places(facts, device).next() {
        Some(place) => (
            "MountedUnpublished",
            format!("is mounted at `{}`, and no node has it", place.display()),
            format!("`umount {}`, if nobody uses it", place.display()),
        ),
        None => (
            "AttachedUnpublished",
            format!("is attached as `{}`, and no node has it", device.display()),
            format!("`losetup -d {}`, if nobody uses it", device.display()),
        ),
    };
    Proposal::new(Severity::Warning, reason, thing.id.key(), message, action)
}

/// Staging paths at which something else shows by now.
fn stale(
    facts: &Facts,
    thing: &Thing<Volume, VolumeRecord>,
    record: &VolumeRecord,
    devices: &[&Path],
) -> Vec<Proposal> {
    let places = record.staged.values().filter(|staged| !staged.block).map(|staged| &staged.path);
    let shown = |path: &PathBuf| facts.mounts.iter().rev().find(|mount| mount.target == *path);
    let foreign = places.filter_map(|path| Some((path, shown(path)?)));
    let foreign =
        foreign.filter(|(_, mount)| !devices.iter().any(|device| owner(device, mount) != Owner::Foreign));
    let finding = |(path, mount): (&PathBuf, _)| {
        let what = match is_stale(mount, &facts.loops) {
            true => "a device that has lost its image",
            false => "something else",
        };
        let message = format!("its staging path `{}` shows {what}", path.display());
        let action = format!("`umount {}`, if nobody uses it", path.display());
        Proposal::new(Severity::Warning, "StaleMount", thing.id.key(), message, action)
    };
    foreign.map(finding).collect()
}
