//! Group records that were lost, made again from their members: each carries the id of its group.

use std::collections::BTreeMap;

use super::pool::Pool;
use super::record::{GroupRecord, Phase, SnapshotRecord};
use crate::id::{GroupId, SnapshotId};
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

/// Groups that snapshots name and whose record is lost.
pub fn lost<'a>(
    snapshots: impl Iterator<Item = (&'a SnapshotId, &'a SnapshotRecord)>,
    is_lost: impl Fn(&GroupId) -> bool,
) -> BTreeMap<GroupId, GroupRecord> {
    let mut groups = BTreeMap::new();
    for (id, member) in snapshots.filter(|(_, member)| member.phase == Phase::Ready) {
        let Some(group) = member.group.as_ref().filter(|group| is_lost(group)) else { continue };
        let record = groups.entry(group.clone()).or_insert_with(|| GroupRecord {
            version: GroupRecord::VERSION,
            // The id of a harmless name is the name.
            name: group.to_string(),
            phase: Phase::Ready,
            volumes: Vec::new(),
            snapshots: Vec::new(),
            parameters: member.parameters.clone(),
            created: member.created,
        });
        record.volumes.push(member.volume.clone());
        record.snapshots.push(id.clone());
    }
    groups
}
