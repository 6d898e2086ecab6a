//! Decision tables. The same decisions through gRPC are in `local/tests`.

use std::collections::BTreeMap;

use tonic::Code;

use super::*;
use crate::capability::FsType;
use crate::capacity::{MIB, Range};
use crate::local::record::{Access, Source};

const SIZE: u64 = 64 * MIB;
const TOTAL: u64 = 1 << 40;
const ROOM: Room = Room { size: TOTAL, left: TOTAL };

fn vol(name: &str) -> VolumeId {
    VolumeId::for_name(name)
}

fn here() -> Segments {
    [("node".to_owned(), "n1".to_owned())].into()
}

fn ext4() -> Access {
    Access { block: false, filesystem: Some(FsType::Ext4) }
}

fn volume(phase: Phase, contents: Contents) -> VolumeRecord {
    VolumeRecord {
        version: VolumeRecord::VERSION,
        name: "v".into(),
        phase,
        capacity: SIZE,
        access: ext4(),
        parameters: BTreeMap::new(),
        mutable: Default::default(),
        filled: None,
        device: None,
        ephemeral: false,
        source: None,
        topology: here(),
        contents,
        published: BTreeMap::new(),
        staged: BTreeMap::new(),
    }
}

fn formatted() -> VolumeRecord {
    volume(Phase::Ready, Contents::Formatted(FsType::Ext4))
}

fn wanted() -> CreateSnapshot {
    let id = SnapshotId::for_name("s");
    CreateSnapshot {
        id,
        name: "s".into(),
        volume: vol("v"),
        parameters: BTreeMap::new(),
        requisite: Vec::new(),
    }
}

fn cut(phase: Phase) -> SnapshotRecord {
    SnapshotRecord { phase, created: 5, ..taken("s".into(), &vol("v"), &formatted()) }
}

#[test]
fn snapshot_decisions() {
    let ready = || Some(cut(Phase::Ready));
    let reuse = || Ok(Cut::Reuse(cut(Phase::Ready)));
    let make = || Ok(Cut::Make(SnapshotRecord { created: 0, ..cut(Phase::Creating) }));
    let parameters = [("a".to_owned(), "b".to_owned())].into();
    let table = [
        ("nothing there", None, Some(formatted()), make()),
        ("no volume", None, None, Err(Code::NotFound)),
        ("half a volume", None, Some(volume(Phase::Creating, Contents::Blank)), Err(Code::NotFound)),
        ("a volume going", None, Some(volume(Phase::Deleting, Contents::Blank)), Err(Code::NotFound)),
        (
            "an ephemeral volume",
            None,
            Some(VolumeRecord { ephemeral: true, ..formatted() }),
            Err(Code::NotFound),
        ),
        ("there", ready(), Some(formatted()), reuse()),
        ("there, its volume gone", ready(), None, reuse()),
        ("half made", Some(cut(Phase::Creating)), Some(formatted()), make()),
        ("half made, its volume gone", Some(cut(Phase::Creating)), None, Err(Code::NotFound)),
        ("going", Some(cut(Phase::Deleting)), Some(formatted()), Err(Code::Aborted)),
        (
            "of another volume",
            Some(SnapshotRecord { volume: vol("w"), ..cut(Phase::Ready) }),
            Some(formatted()),
            Err(Code::AlreadyExists),
        ),
        (
            "half made of another volume",
            Some(SnapshotRecord { volume: vol("w"), ..cut(Phase::Creating) }),
            Some(formatted()),
            Err(Code::AlreadyExists),
        ),
        (
            "with parameters",
            Some(SnapshotRecord { parameters, ..cut(Phase::Ready) }),
            Some(formatted()),
            Err(Code::AlreadyExists),
        ),
        (
            "another name with this id",
            Some(SnapshotRecord { name: "t".into(), ..cut(Phase::Ready) }),
            Some(formatted()),
            Err(Code::AlreadyExists),
        ),
        (
            "a member of a group",
            Some(SnapshotRecord { group: Some(GroupId::for_name("g")), ..cut(Phase::Ready) }),
            Some(formatted()),
            Err(Code::AlreadyExists),
        ),
    ];
    for (name, have, volume, expected) in table {
        let decided = create_snapshot(&wanted(), have.as_ref(), volume.as_ref()).map_err(|e| e.code());
        assert_eq!(decided, expected, "{name}");
    }
}

#[test]
fn what_a_copy_holds() {
    use Contents::{Blank, Copied, Formatted, Formatting, Raw};
    let table = [
        (Blank, Blank),
        (Formatting(FsType::Xfs), Blank),
        (Formatted(FsType::Xfs), Copied(FsType::Xfs)),
        (Copied(FsType::Ext4), Copied(FsType::Ext4)),
        (Raw, Raw),
    ];
    for (source, expected) in table {
        assert_eq!(copied(source), expected, "{source:?}");
    }
}

fn group_wanted() -> CreateGroup {
    CreateGroup {
        id: GroupId::for_name("g"),
        name: "g".into(),
        volumes: [vol("v"), vol("w")].into(),
        parameters: BTreeMap::new(),
    }
}

#[test]
fn group_decisions() {
    let want = group_wanted();
    let all = |_: &VolumeId| Some(Arc::new(formatted()));
    let nothing = |_: &SnapshotId| None;
    let CutGroup::Make(made, members) = create_group(&want, None, all, nothing).expect("new") else {
        panic!("nothing is there")
    };
    assert_eq!(made.volumes, [vol("v"), vol("w")]);
    assert_eq!(made.snapshots, [want.member(&vol("v")), want.member(&vol("w"))]);
    assert!(members.iter().all(|(_, member)| member.group == Some(want.id.clone())));

    let is = |phase| GroupRecord { phase, ..made.clone() };
    let table = [
        ("there", is(Phase::Ready), Ok(true)),
        ("half made", is(Phase::Creating), Ok(false)),
        ("going", is(Phase::Deleting), Err(Code::Aborted)),
        ("fewer", GroupRecord { volumes: vec![vol("v")], ..is(Phase::Ready) }, Err(Code::AlreadyExists)),
        ("another", GroupRecord { name: "h".into(), ..is(Phase::Ready) }, Err(Code::AlreadyExists)),
        (
            "with parameters",
            GroupRecord { parameters: [("a".to_owned(), "b".to_owned())].into(), ..is(Phase::Ready) },
            Err(Code::AlreadyExists),
        ),
    ];
    for (name, have, expected) in table {
        let decided = create_group(&want, Some(&have), all, nothing);
        let reused = decided.map(|decided| matches!(decided, CutGroup::Reuse(_))).map_err(|e| e.code());
        assert_eq!(reused, expected, "{name}");
    }
    let one = |id: &VolumeId| (*id == vol("v")).then(|| Arc::new(formatted()));
    assert_eq!(create_group(&want, None, one, nothing).map_err(|e| e.code()), Err(Code::NotFound));
    let stranger = |_: &SnapshotId| Some(Arc::new(cut(Phase::Ready)));
    assert_eq!(create_group(&want, None, all, stranger).map_err(|e| e.code()), Err(Code::AlreadyExists));
}

#[test]
fn members_show_and_go_with_their_group() {
    let group = GroupId::for_name("g");
    let CutGroup::Make(record, members) =
        create_group(&group_wanted(), None, |_| Some(Arc::new(formatted())), |_| None).expect("new")
    else {
        panic!("nothing is there")
    };
    let (id, member) = &members[0];
    let member = SnapshotRecord { phase: Phase::Ready, ..member.clone() };
    for (phase, shows) in [(Phase::Creating, false), (Phase::Ready, true), (Phase::Deleting, false)] {
        let record = GroupRecord { phase, ..record.clone() };
        assert_eq!(visible(&member, Some(&record)), shows, "{phase:?}");
        let alone = member_of(id, &member, Some(&record)).map_err(|e| e.code());
        assert_eq!(alone, Err(Code::InvalidArgument), "{phase:?}");
    }
    assert!(visible(&member, None) && member_of(id, &member, None).is_ok(), "its group was lost");

    let names = |list: &[&SnapshotId]| list.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let all = names(&[&record.snapshots[1], &record.snapshots[0]]);
    assert!(same_members(&group, &record, &all).is_ok());
    let extra = all.iter().cloned().chain(["x".to_owned()]).collect();
    for wrong in [names(&[]), names(&[&record.snapshots[0]]), extra] {
        let answer = same_members(&group, &record, &wrong).map_err(|e| e.code());
        assert_eq!(answer, Err(Code::InvalidArgument), "{wrong:?}");
    }
}

fn restore(change: impl FnOnce(&mut CreateVolume)) -> CreateVolume {
    let mut want = CreateVolume {
        mutable: Default::default(),
        ephemeral: false,
        id: vol("r"),
        name: "r".into(),
        range: Range::default(),
        access: ext4(),
        capabilities: Vec::new(),
        chose_filesystem: false,
        source: Some(Source::Snapshot(SnapshotId::for_name("s"))),
        parameters: BTreeMap::new(),
        requisite: Vec::new(),
        preferred: Vec::new(),
    };
    change(&mut want);
    want
}

#[test]
fn restore_decisions() {
    let xfs = Contents::Copied(FsType::Xfs);
    let (size, big) = (512 * MIB, 600 * MIB);
    let fs = |capacity, filesystem, contents| Ok((capacity, filesystem, contents));
    let range = |want: &mut CreateVolume, required, limit| want.range = Range { required, limit };
    let choose = |want: &mut CreateVolume, fs| {
        want.chose_filesystem = true;
        want.access.filesystem = Some(fs);
    };
    let bare = |want: &mut CreateVolume| want.access = Access { block: true, filesystem: None };
    let some_xfs = Some(FsType::Xfs);
    let table: [(&str, Box<dyn Fn(&mut CreateVolume)>, Contents, _); 14] = [
        ("as the source", Box::new(|_| {}), xfs, fs(size, some_xfs, xfs)),
        ("larger", Box::new(move |w| range(w, big, 0)), xfs, fs(big, some_xfs, xfs)),
        ("smaller", Box::new(move |w| range(w, size - MIB, 0)), xfs, Err(Code::OutOfRange)),
        (
            "a byte smaller, rounded up",
            Box::new(move |w| range(w, size - 1, 0)),
            xfs,
            fs(size, some_xfs, xfs),
        ),
        ("limit below", Box::new(move |w| range(w, 0, size - 1)), xfs, Err(Code::OutOfRange)),
        ("limit above", Box::new(move |w| range(w, 0, big)), xfs, fs(size, some_xfs, xfs)),
        ("the same filesystem", Box::new(move |w| choose(w, FsType::Xfs)), xfs, fs(size, some_xfs, xfs)),
        ("another one", Box::new(move |w| choose(w, FsType::Ext4)), xfs, Err(Code::InvalidArgument)),
        ("its device", Box::new(bare), xfs, fs(size, None, xfs)),
        ("bytes", Box::new(bare), Contents::Raw, fs(size, None, Contents::Raw)),
        (
            "bytes that may be ext4",
            Box::new(|_| {}),
            Contents::Raw,
            fs(size, Some(FsType::Ext4), Contents::Raw),
        ),
        (
            "nothing",
            Box::new(move |w| choose(w, FsType::Xfs)),
            Contents::Blank,
            fs(size, some_xfs, Contents::Blank),
        ),
        ("where it is", Box::new(|w| w.requisite = vec![here()]), xfs, fs(size, some_xfs, xfs)),
        (
            "elsewhere",
            Box::new(|w| w.requisite = vec![[("node".to_owned(), "n2".to_owned())].into()]),
            xfs,
            Err(Code::ResourceExhausted),
        ),
    ];
    for (name, change, contents, expected) in table {
        let origin = Origin { size, contents, topology: here() };
        let decided = create_from(restore(|want| change(want)), None, &origin, ROOM);
        let decided = decided.map_err(|e| e.code()).map(|decided| match decided {
            Create::Make(record) => (record.capacity, record.access.filesystem, record.contents),
            other => panic!("{name}: {other:?}"),
        });
        assert_eq!(decided, expected, "{name}");
    }
}

#[test]
fn half_a_restore_is_planned_anew() {
    let origin = Origin { size: SIZE, contents: Contents::Copied(FsType::Ext4), topology: here() };
    let Ok(Create::Make(first)) = create_from(restore(|_| {}), None, &origin, ROOM) else {
        panic!("nothing is there")
    };
    assert_eq!(first.source, Some(Source::Snapshot(SnapshotId::for_name("s"))));
    let grown = Origin { size: 2 * SIZE, contents: Contents::Raw, ..origin.clone() };
    let Ok(Create::Resume(second)) = create_from(restore(|_| {}), Some(first.clone()), &grown, ROOM) else {
        panic!("half of it is there")
    };
    assert_eq!((second.capacity, second.contents), (2 * SIZE, Contents::Raw));
    let another = restore(|want| want.source = Some(Source::Volume(vol("v"))));
    let decided = create_from(another, Some(first.clone()), &origin, ROOM).map_err(|e| e.code());
    assert_eq!(decided, Err(Code::AlreadyExists), "another source");

    let ready = VolumeRecord {
        phase: Phase::Ready,
        access: Access { block: false, filesystem: Some(FsType::Xfs) },
        ..first
    };
    let mut open = restore(|_| {});
    keep(&mut open, &ready);
    let decided = super::super::create(&open, Some(ready.clone()), &[&here()], ROOM);
    assert_eq!(decided.map_err(|e| e.code()), Ok(Create::Reuse(ready)), "any filesystem is right");
}
