//! Group records that were lost, made again from their members: each carries the id of its group.

use std::collections::BTreeMap;

use super::pool::Pool;
use super::record::{GroupRecord, Phase, SnapshotRecord};
use crate::id::{GroupId, SnapshotId, VolumeId};
use crate::shelf::Record;

/// Takes lost groups in again. While a snapshot is quarantined, nobody knows whose member it is, and a group with
/// a member too few would be a wrong answer.
pub async fn regroup(pool: &Pool) {
    let snapshots = pool.snapshots.all();
    let members = snapshots.iter().map(|(id, record)| (id, &**record));
    for (id, record) in lost(members, |id| pool.groups.is_lost(id)) {
        if pool.snapshots.quarantined().is_empty() {
            tracing::warn!(group = %id, "record was lost and is rebuilt from the snapshots of the group");
            pool.restore_group(&id, record).await;
        } else {
            tracing::error!(group = %id, "record was lost, and a snapshot that may belong to it cannot be used");
        }
    }
}

/// Groups that snapshots name and whose record is lost. Members stand in the order of their volumes.
pub fn lost<'a>(
    snapshots: impl Iterator<Item = (&'a SnapshotId, &'a SnapshotRecord)>,
    is_lost: impl Fn(&GroupId) -> bool,
) -> BTreeMap<GroupId, GroupRecord> {
    let mut members: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for (id, member) in snapshots.filter(|(_, member)| member.phase == Phase::Ready) {
        if let Some(group) = member.group.as_ref().filter(|group| is_lost(group)) {
            members.entry(group.clone()).or_default().insert(&member.volume, (id, member));
        }
    }
    members.into_iter().filter_map(|(id, members)| Some((id.clone(), rebuilt(&id, &members)?))).collect()
}

fn rebuilt(
    id: &GroupId,
    members: &BTreeMap<&VolumeId, (&SnapshotId, &SnapshotRecord)>,
) -> Option<GroupRecord> {
    let (_, any) = members.values().next()?;
    Some(GroupRecord {
        version: GroupRecord::VERSION,
        // The id of a harmless name is the name.
        name: id.to_string(),
        phase: Phase::Ready,
        volumes: members.keys().map(|volume| (*volume).clone()).collect(),
        snapshots: members.values().map(|(snapshot, _)| (*snapshot).clone()).collect(),
        parameters: any.parameters.clone(),
        created: any.created,
    })
}
