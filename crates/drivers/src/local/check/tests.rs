//! Decision tables. The same on a machine with a driver is in `local/tests/check.rs`.

use std::path::Path;

use super::decide::{Effect, proposals};
use super::facts::{Facts, LoopDevice, Mount, Space, Thing};
use super::report::{Repair, Severity};
use crate::capability::FsType;
use crate::id::{Group, GroupId, Snapshot, SnapshotId, Volume, VolumeId};
use crate::local::record::{
    Access, Attachment, Contents, GroupRecord, Phase, SnapshotRecord, Staging, VolumeRecord,
};
use crate::shelf::Record;
use crate::shelf::found::{Bad, Found, Image, Read};
use crate::shelf::label::Label;

const SIZE: u64 = 64 << 20;

fn record() -> VolumeRecord {
    VolumeRecord {
        version: VolumeRecord::VERSION,
        name: "v".into(),
        phase: Phase::Ready,
        capacity: SIZE,
        access: Access { block: false, filesystem: Some(FsType::Ext4) },
        parameters: Default::default(),
        mutable: Default::default(),
        source: None,
        topology: Default::default(),
        contents: Contents::Formatted(FsType::Ext4),
        published: Default::default(),
        staged: Default::default(),
        device: None,
        ephemeral: false,
        filled: None,
    }
}

fn published() -> VolumeRecord {
    let mode = crate::capability::Mode::Writer;
    let attachment = Attachment { mode, capability: "digest".into(), read_only: false };
    VolumeRecord { published: [("n1".to_owned(), attachment)].into(), ..record() }
}

fn staged() -> VolumeRecord {
    let staging =
        Staging { path: "/staging".into(), block: false, read_only: false, capability: "digest".into() };
    VolumeRecord { staged: [("n1".to_owned(), staging)].into(), ..published() }
}

fn label(id: &str, record: VolumeRecord) -> Read<Label<VolumeRecord>> {
    Read::Good(Label { kind: "volume".into(), id: id.into(), record: record.lasting() })
}

fn volume(record: VolumeRecord) -> Thing<Volume, VolumeRecord> {
    Thing {
        id: VolumeId::for_name("v"),
        dir: "/pool/volumes/v".into(),
        found: Ok(Found {
            label: label("v", record.clone()),
            record: Read::Good(record),
            image: Some(Image { length: SIZE, has_data: true }),
        }),
        unfinished: Vec::new(),
        others: Vec::new(),
    }
}

fn facts(volume: Thing<Volume, VolumeRecord>) -> Facts {
    Facts {
        pool: "/pool".into(),
        space: Space { total: 1 << 30, available: 1 << 29, inodes_total: 100, inodes_available: 50 },
        volumes: vec![volume],
        snapshots: Vec::new(),
        groups: Vec::new(),
        strangers: Vec::new(),
        loops: Vec::new(),
        mounts: vec![mount("/", "/dev/sda", "rw")],
    }
}

fn mount(target: &str, source: &str, access: &str) -> Mount {
    Mount {
        device: "8:0".into(),
        root: "/".into(),
        target: target.into(),
        options: vec![access.into()],
        fs_type: "ext4".into(),
        source: source.into(),
        filesystem_read_only: false,
    }
}

fn device(path: &str, deleted: bool) -> LoopDevice {
    LoopDevice { device: path.into(), image: "/pool/volumes/v/disk.img".into(), deleted, read_only: false }
}

fn with(record: VolumeRecord, change: impl FnOnce(&mut Found<VolumeRecord>)) -> Facts {
    let mut thing = volume(record);
    change(thing.found.as_mut().unwrap());
    facts(thing)
}

fn around(record: VolumeRecord, change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = facts(volume(record));
    change(&mut facts);
    facts
}

/// What is found: severity, reason, and whether it can be repaired.
fn found(facts: &Facts) -> Vec<(Severity, &'static str, bool)> {
    let told = |proposal: super::decide::Proposal| {
        let finding = proposal.finding;
        assert!(!finding.object.is_empty() && !finding.message.is_empty() && !finding.action.is_empty());
        assert_eq!(finding.repair == Repair::Possible, !proposal.effects.is_empty(), "{finding:?}");
        (finding.severity, finding.reason, !proposal.effects.is_empty())
    };
    proposals(facts).into_iter().map(told).collect()
}

#[test]
fn findings_on_one_volume() {
    use Severity::{Error, Note, Warning};
    let gone = |found: &mut Found<VolumeRecord>| (found.image, found.label) = (None, Read::Missing);
    let of = |phase: Phase| VolumeRecord { phase, ..record() };
    let table: [(&str, Facts, &[(Severity, &'static str, bool)]); 19] = [
        ("all is well", with(record(), |_| {}), &[]),
        ("in use", with(staged(), |_| {}), &[]),
        ("record lost", with(record(), |f| f.record = Read::Missing), &[(Error, "RecordLost", true)]),
        (
            "record spoilt",
            with(record(), |f| f.record = Read::Bad(Bad::Garbled("EOF".into()))),
            &[(Error, "RecordLost", true)],
        ),
        (
            "record of another version",
            with(record(), |f| f.record = Read::Bad(Bad::Layout(9))),
            &[(Error, "Quarantined", false)],
        ),
        (
            "data without an owner",
            with(record(), |f| (f.record, f.label) = (Read::Missing, Read::Missing)),
            &[(Error, "Quarantined", false)],
        ),
        (
            "moved",
            with(record(), |f| (f.record, f.label) = (Read::Missing, label("w", record()))),
            &[(Error, "Quarantined", false)],
        ),
        ("image gone", with(record(), gone), &[(Error, "ImageMissing", false)]),
        (
            "image short",
            with(record(), |f| f.image = Some(Image { length: SIZE - 1, has_data: true })),
            &[(Error, "ImageTruncated", false)],
        ),
        (
            "image long",
            with(record(), |f| f.image = Some(Image { length: SIZE + 1, has_data: true })),
            &[(Note, "ImageLonger", false)],
        ),
        ("no label", with(record(), |f| f.label = Read::Missing), &[(Warning, "NoLabel", true)]),
        (
            "label spoilt",
            with(record(), |f| f.label = Read::Bad(Bad::Garbled("EOF".into()))),
            &[(Warning, "NoLabel", true)],
        ),
        (
            "label out of date",
            with(record(), |f| f.label = label("v", VolumeRecord { capacity: 1, ..record() })),
            &[(Warning, "NoLabel", true)],
        ),
        (
            "another's image",
            with(record(), |f| f.label = label("w", record())),
            &[(Error, "ForeignImage", false)],
        ),
        ("being made", with(of(Phase::Creating), gone), &[(Note, "CreationUnfinished", false)]),
        ("being deleted", with(of(Phase::Deleting), |_| {}), &[(Warning, "DeletionUnfinished", true)]),
        (
            "being deleted, attached",
            around(of(Phase::Deleting), |f| f.loops = vec![device("/dev/loop0", false)]),
            &[(Warning, "DeletionUnfinished", false)],
        ),
        (
            "nothing",
            with(record(), |f| {
                f.record = Read::Missing;
                (f.image, f.label) = (None, Read::Missing);
            }),
            &[(Warning, "EmptyDirectory", true)],
        ),
        (
            "out of reach",
            around(record(), |f| f.volumes[0].found = Err("EIO".into())),
            &[(Error, "Unreadable", false)],
        ),
    ];
    for (name, facts, expected) in table {
        assert_eq!(found(&facts), expected, "{name}");
    }
}

#[test]
fn findings_around_a_volume() {
    use Severity::{Error, Note, Warning};
    let attached = || device("/dev/loop0", false);
    let table: [(&str, Facts, &[(Severity, &'static str, bool)]); 13] = [
        (
            "attached and mounted for a node",
            around(staged(), |f| {
                f.loops = vec![attached()];
                f.mounts.push(mount("/staging", "/dev/loop0", "rw"));
            }),
            &[],
        ),
        (
            "attached for nobody",
            around(record(), |f| f.loops = vec![attached()]),
            &[(Warning, "AttachedUnpublished", false)],
        ),
        (
            "mounted for nobody",
            around(record(), |f| {
                f.loops = vec![attached()];
                f.mounts.push(mount("/staging", "/dev/loop0", "rw"));
            }),
            &[(Warning, "MountedUnpublished", false)],
        ),
        (
            "attached twice",
            around(published(), |f| f.loops = vec![attached(), device("/dev/loop1", false)]),
            &[(Error, "TwoDevices", false)],
        ),
        (
            "device over a deleted image",
            around(published(), |f| f.loops = vec![device("/dev/loop0", true)]),
            &[(Warning, "DeletedImageAttached", true)],
        ),
        (
            "the same, mounted",
            around(staged(), |f| {
                f.loops = vec![device("/dev/loop0", true)];
                f.mounts.push(mount("/elsewhere", "/dev/loop0", "rw"));
            }),
            &[(Error, "DeletedImageInUse", false)],
        ),
        (
            "something else is staged",
            around(staged(), |f| f.mounts.push(mount("/staging", "/dev/sdb", "rw"))),
            &[(Warning, "StaleMount", false)],
        ),
        (
            "a file that was being written",
            around(record(), |f| f.volumes[0].unfinished = vec![".new".into()]),
            &[(Note, "HalfWritten", true)],
        ),
        (
            "a file of somebody else",
            around(record(), |f| f.volumes[0].others = vec!["notes.txt".into()]),
            &[(Note, "UnknownFile", false)],
        ),
        (
            "an entry of somebody else",
            around(record(), |f| f.strangers = vec!["/pool/volumes/lost+found".into()]),
            &[(Note, "UnknownFile", false)],
        ),
        ("full", around(record(), |f| f.space.available = 4096), &[(Error, "PoolFull", false)]),
        ("no inodes", around(record(), |f| f.space.inodes_available = 0), &[(Error, "PoolFull", false)]),
        (
            "read-only",
            around(record(), |f| f.mounts.push(mount("/pool", "/dev/sdb", "ro"))),
            &[(Error, "PoolReadOnly", false)],
        ),
    ];
    for (name, facts, expected) in table {
        assert_eq!(found(&facts), expected, "{name}");
    }
}

/// Whatever is found, no image goes but that of a volume whose deletion was asked for.
#[test]
fn no_repair_removes_an_image_with_an_owner_or_data() {
    for phase in [Phase::Creating, Phase::Ready, Phase::Deleting] {
        for record_found in [true, false] {
            for label_found in [true, false] {
                let facts = with(VolumeRecord { phase, ..record() }, |f| {
                    if !record_found {
                        f.record = Read::Missing;
                    }
                    if !label_found {
                        f.label = Read::Missing;
                    }
                });
                let image = Path::new("/pool/volumes/v/disk.img");
                let removed = proposals(&facts)
                    .iter()
                    .flat_map(|proposal| &proposal.effects)
                    .any(|effect| matches!(effect, Effect::RemoveFile(path) if path == image));
                assert_eq!(removed, record_found && phase == Phase::Deleting, "{phase:?}");
            }
        }
    }
}

fn snapshot(id: &str, group: Option<&str>) -> Thing<Snapshot, SnapshotRecord> {
    let record = SnapshotRecord {
        version: SnapshotRecord::VERSION,
        name: id.into(),
        phase: Phase::Ready,
        volume: VolumeId::for_name("v"),
        size: SIZE,
        created: 1,
        parameters: Default::default(),
        access: Access { block: false, filesystem: Some(FsType::Ext4) },
        contents: Contents::Formatted(FsType::Ext4),
        topology: Default::default(),
        group: group.map(GroupId::for_name),
    };
    Thing {
        id: SnapshotId::for_name(id),
        dir: Path::new("/pool/snapshots").join(id),
        found: Ok(Found {
            label: Read::Good(Label { kind: "snapshot".into(), id: id.into(), record: record.clone() }),
            record: Read::Good(record),
            image: Some(Image { length: SIZE, has_data: true }),
        }),
        unfinished: Vec::new(),
        others: Vec::new(),
    }
}

fn group(record: Read<GroupRecord>) -> Thing<Group, GroupRecord> {
    Thing {
        id: GroupId::for_name("g"),
        dir: "/pool/groups/g".into(),
        found: Ok(Found { record, image: None, label: Read::Missing }),
        unfinished: Vec::new(),
        others: Vec::new(),
    }
}

#[test]
fn findings_on_groups() {
    use Severity::Error;
    let of = |snapshots: &[&str]| {
        Read::Good(GroupRecord {
            version: GroupRecord::VERSION,
            name: "g".into(),
            phase: Phase::Ready,
            volumes: snapshots.iter().map(|_| VolumeId::for_name("v")).collect(),
            snapshots: snapshots.iter().map(|id| SnapshotId::for_name(id)).collect(),
            parameters: Default::default(),
            created: 1,
        })
    };
    let members = || vec![snapshot("s1", Some("g")), snapshot("s2", Some("g"))];
    let mut nameless = snapshot("s2", None);
    let found_parts = nameless.found.as_mut().unwrap();
    (found_parts.record, found_parts.label) = (Read::Missing, Read::Missing);
    let table: [(&str, Vec<_>, Vec<_>, &[(Severity, &'static str, bool)]); 5] = [
        ("complete", members(), vec![group(of(&["s1", "s2"]))], &[]),
        ("record missing", members(), Vec::new(), &[(Error, "RecordLost", true)]),
        (
            "record spoilt",
            members(),
            vec![group(Read::Bad(Bad::Garbled("EOF".into())))],
            &[(Error, "RecordLost", true)],
        ),
        (
            "a member is missing",
            vec![snapshot("s1", Some("g"))],
            vec![group(of(&["s1", "s2"]))],
            &[(Error, "MemberMissing", false)],
        ),
        (
            "record missing, and a snapshot that may belong to it",
            vec![snapshot("s1", Some("g")), nameless],
            Vec::new(),
            &[(Error, "Quarantined", false), (Error, "RecordLost", false)],
        ),
    ];
    for (name, snapshots, groups, expected) in table {
        let facts = around(record(), |facts| (facts.snapshots, facts.groups) = (snapshots, groups));
        assert_eq!(found(&facts), expected, "{name}");
    }
}
