//! One directory: its record, its image, and what the image says of itself.

use std::path::Path;

use super::super::facts::{Facts, Thing};
use super::super::report::Severity;
use super::{Effect, Proposal};
use crate::id::{Key, Kind};
use crate::local::record::{GroupRecord, Phase, SnapshotRecord, VolumeRecord};
use crate::shelf::Record;
use crate::shelf::found::{Found, Image, Read};
use crate::shelf::label::{self, Label};
use crate::shelf::verdict::{Spoilt, Verdict, describe, judge};

/// What volumes, snapshots and groups have in common.
pub trait Subject: Record + PartialEq {
    fn phase(&self) -> Phase;
    /// Bytes its image has.
    fn bytes(&self) -> Option<u64>;
}

impl Subject for VolumeRecord {
    fn phase(&self) -> Phase {
        self.phase
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.capacity)
    }
}

impl Subject for SnapshotRecord {
    fn phase(&self) -> Phase {
        self.phase
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.size)
    }
}

impl Subject for GroupRecord {
    fn phase(&self) -> Phase {
        self.phase
    }

    fn bytes(&self) -> Option<u64> {
        None
    }
}

pub fn examine<K: Kind, R: Subject>(facts: &Facts, thing: &Thing<K, R>) -> Vec<Proposal> {
    let key = thing.id.key();
    let half = |name: &String| {
        let message = format!("`{name}` was being written");
        let action = "the driver writes it again when it has to";
        Proposal::new(Severity::Note, "HalfWritten", &key, message, action)
            .with(vec![Effect::RemoveFile(thing.dir.join(name))])
    };
    let stray = |name: &String| {
        let message = format!("`{}` is nothing of this driver", thing.dir.join(name).display());
        Proposal::new(Severity::Note, "UnknownFile", &key, message, "move it out of the pool")
    };
    let mut all: Vec<_> = thing.unfinished.iter().map(half).collect();
    all.extend(thing.others.iter().map(stray));
    match &thing.found {
        Err(why) => {
            let message = format!("cannot be looked at ({why})");
            all.push(Proposal::new(
                Severity::Error,
                "Unreadable",
                &key,
                message,
                "check the disk below the pool",
            ));
        }
        Ok(found) => all.extend(judged(facts, thing, &key, found)),
    }
    all
}

fn judged<K: Kind, R: Subject>(
    facts: &Facts,
    thing: &Thing<K, R>,
    key: &Key,
    found: &Found<R>,
) -> Vec<Proposal> {
    match judge(&thing.id, found.clone()) {
        Verdict::Keep(record) => match record.phase() {
            Phase::Creating => {
                let message = "its creation has not ended";
                let action = "repeat the call that creates it, or delete it";
                vec![Proposal::new(Severity::Note, "CreationUnfinished", key, message, action)]
            }
            Phase::Deleting => vec![half_deleted::<K, R>(facts, thing, key)],
            Phase::Ready if R::IMAGE.is_some() => ready(thing, key, &record, found),
            Phase::Ready => Vec::new(),
        },
        Verdict::Rebuild(record) => {
            let message = "its record is lost; its image says what it was";
            let action = "repair, or start the driver: both write the record again";
            let bytes = serde_json::to_vec_pretty(&record).ok();
            let write = |bytes| Effect::WriteRecord { path: thing.record(), bytes };
            let effects = bytes.map(write).into_iter().collect();
            vec![Proposal::new(Severity::Error, "RecordLost", key, message, action).with(effects)]
        }
        Verdict::Quarantine(spoilt) => vec![quarantined(&thing.dir, key, &spoilt, found.image)],
        Verdict::Nothing => {
            let message = format!("`{}` holds neither record nor image", thing.dir.display());
            let effects = match thing.others.is_empty() {
                true => vec![Effect::RemoveDir(thing.dir.clone())],
                false => Vec::new(),
            };
            let action = "remove the directory";
            vec![Proposal::new(Severity::Warning, "EmptyDirectory", key, message, action).with(effects)]
        }
    }
}

/// An image with data and no owner stays: only a person knows whether anybody misses it.
pub fn quarantined(dir: &Path, key: &Key, spoilt: &Spoilt, image: Option<Image>) -> Proposal {
    let action = match (spoilt.lost, image) {
        (false, _) => "use the version of bowline that wrote it, or check the disk below the pool".to_owned(),
        (true, Some(Image { has_data: true, .. })) => {
            format!("its data is in `{0}`: keep a copy, then `rm -r {0}`", dir.display())
        }
        (true, _) => format!("no data is left of it: `rm -r {}`", dir.display()),
    };
    Proposal::new(Severity::Error, "Quarantined", key, &*spoilt.why, action)
}

/// The members of a group are for the driver to remove.
fn half_deleted<K: Kind, R: Subject>(facts: &Facts, thing: &Thing<K, R>, key: &Key) -> Proposal {
    let image = thing.image();
    let attached = facts.devices_of(&image).next().map(|device| device.device.display());
    let (action, effects) = match attached {
        Some(device) => (format!("take it down: it is attached as `{device}`"), Vec::new()),
        None if R::IMAGE.is_none() => ("start the driver, which ends it".to_owned(), Vec::new()),
        None => (
            "repair, or start the driver: both end it".to_owned(),
            vec![
                Effect::RemoveFile(image.clone()),
                Effect::RemoveFile(thing.record()),
                Effect::RemoveDir(thing.dir.clone()),
            ],
        ),
    };
    Proposal::new(Severity::Warning, "DeletionUnfinished", key, "its deletion has not ended", action)
        .with(effects)
}

fn ready<K: Kind, R: Subject>(thing: &Thing<K, R>, key: &Key, record: &R, found: &Found<R>) -> Vec<Proposal> {
    let path = thing.image();
    let shown = path.display();
    let restore = "put it back from a backup, or delete it";
    let Some(image) = found.image else {
        let message = format!("its image `{shown}` is gone");
        return vec![Proposal::new(Severity::Error, "ImageMissing", key, message, restore)];
    };
    let mut all = Vec::new();
    match (image.length, record.bytes()) {
        (have, Some(want)) if have < want => {
            let message = format!("its image `{shown}` has {have} bytes instead of {want}");
            all.push(Proposal::new(Severity::Error, "ImageTruncated", key, message, restore));
        }
        (have, Some(want)) if have > want => {
            let message = format!("its image has {have} bytes, its record says {want}");
            let action = "its expansion was cut short: repeat the call, or leave it";
            all.push(Proposal::new(Severity::Note, "ImageLonger", key, message, action));
        }
        _ => {}
    }
    all.extend(labelled(thing, key, record, &found.label));
    all
}

fn labelled<K: Kind, R: Subject>(
    thing: &Thing<K, R>,
    key: &Key,
    record: &R,
    found: &Read<Label<R>>,
) -> Option<Proposal> {
    let message = match found {
        Read::Good(label) if !label.names(&thing.id) => {
            let message = format!("its image carries the label of {} `{}`", label.kind, label.id);
            let action = "find out whose data it is; two images may have been swapped";
            return Some(Proposal::new(Severity::Error, "ForeignImage", key, message, action));
        }
        Read::Good(label) if label.record == record.lasting() => return None,
        Read::Good(_) => "the label of its image is out of date".to_owned(),
        Read::Missing => "its image carries no label, so a lost record would be a lost volume".to_owned(),
        Read::Bad(bad) => describe("image's label", bad),
    };
    let bytes = label::encode(&thing.id, record).ok();
    let effects = bytes.map(|bytes| Effect::SetLabel { path: thing.image(), bytes }).into_iter().collect();
    let action = "repair, which writes the label again";
    Some(Proposal::new(Severity::Warning, "NoLabel", key, message, action).with(effects))
}
