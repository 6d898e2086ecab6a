//! Groups and their members.

use std::collections::BTreeMap;

use super::super::facts::{Facts, Thing};
use super::super::report::Severity;
use super::{Effect, Proposal, things};
use crate::id::{Group, GroupId, SnapshotId};
use crate::local::pool::GROUPS;
use crate::local::record::{GroupRecord, Phase, SnapshotRecord};
use crate::local::regroup;
use crate::shelf::RECORD;
use crate::shelf::found::Read;
use crate::shelf::verdict::{Verdict, judge};

pub fn examine(facts: &Facts) -> Vec<Proposal> {
    let members = members(facts);
    let lost = regroup::lost(members.iter().map(|(id, record)| (*id, record)), |id| is_lost(facts, id));
    let all_known = members.len() == facts.snapshots.len();
    let mut all = Vec::new();
    for thing in facts.groups.iter().filter(|thing| !lost.contains_key(&thing.id)) {
        all.extend(things::examine(facts, thing));
        all.extend(missing_members(thing, &members));
    }
    all.extend(lost.iter().map(|(id, record)| rebuilt(facts, id, record, all_known)));
    all
}

/// Snapshots whose record is good or can be made again.
fn members(facts: &Facts) -> BTreeMap<&SnapshotId, SnapshotRecord> {
    let known =
        facts.snapshots.iter().filter_map(|thing| match judge(&thing.id, thing.found.clone().ok()?) {
            Verdict::Keep(record) | Verdict::Rebuild(record) => Some((&thing.id, record)),
            Verdict::Quarantine(_) | Verdict::Nothing => None,
        });
    known.collect()
}

fn is_lost(facts: &Facts, id: &GroupId) -> bool {
    let found = facts.groups.iter().find(|thing| thing.id == *id).map(|thing| thing.found.clone());
    match found {
        None => true,
        Some(Err(_)) => false,
        Some(Ok(found)) => match judge(id, found) {
            Verdict::Keep(_) | Verdict::Rebuild(_) => false,
            Verdict::Quarantine(spoilt) => spoilt.lost,
            Verdict::Nothing => true,
        },
    }
}

/// A group with a member too few would be a wrong answer, so every snapshot has to be known.
fn rebuilt(facts: &Facts, id: &GroupId, record: &GroupRecord, all_known: bool) -> Proposal {
    let dir = facts.pool.join(GROUPS).join(id.as_str());
    let bytes = serde_json::to_vec_pretty(record).ok().filter(|_| all_known);
    let effects = bytes.map(|bytes| {
        vec![Effect::MakeDir(dir.clone()), Effect::WriteRecord { path: dir.join(RECORD), bytes }]
    });
    let message =
        format!("its record is lost; {} snapshots say that they belong to it", record.snapshots.len());
    let action = match all_known {
        true => "repair, or start the driver: both write the record again",
        false => "settle the snapshots that cannot be used first: one of them may belong to it",
    };
    Proposal::new(Severity::Error, "RecordLost", id.key(), message, action).with(effects.unwrap_or_default())
}

fn missing_members(
    thing: &Thing<Group, GroupRecord>,
    members: &BTreeMap<&SnapshotId, SnapshotRecord>,
) -> Vec<Proposal> {
    let record = thing.found.as_ref().ok().map(|found| &found.record);
    let Some(Read::Good(GroupRecord { phase: Phase::Ready, snapshots, .. })) = record else {
        return Vec::new();
    };
    let missing = snapshots.iter().filter(|id| !members.contains_key(id));
    let finding = |id: &SnapshotId| {
        let message = format!("its snapshot `{id}` is missing or cannot be used");
        Proposal::new(Severity::Error, "MemberMissing", thing.id.key(), message, "delete the group")
    };
    missing.map(finding).collect()
}
