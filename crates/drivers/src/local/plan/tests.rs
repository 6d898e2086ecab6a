//! Decision tables. The same decisions through gRPC are in `local/tests`.

use std::path::PathBuf;

use bowline_host::kernel::Mount;
use tonic::Code;

use super::*;
use crate::local::capability::{Capability, MountFlags};
use crate::local::capacity::Range;
use crate::local::record::Access;

const SIZE: u64 = 64 << 20;
const TOTAL: u64 = 1 << 40;

fn here() -> Segments {
    [("node".to_owned(), "n1".to_owned())].into()
}

fn id() -> VolumeId {
    VolumeId::for_name("v")
}

fn wanted() -> CreateVolume {
    CreateVolume {
        id: id(),
        name: "v".into(),
        range: Range { required: SIZE, limit: 0 },
        access: Access { block: false, filesystem: Some(FsType::Ext4) },
        parameters: Default::default(),
        requisite: Vec::new(),
    }
}

fn record(phase: Phase) -> VolumeRecord {
    VolumeRecord {
        version: VERSION,
        name: "v".into(),
        phase,
        capacity: SIZE,
        access: Access { block: false, filesystem: Some(FsType::Ext4) },
        parameters: Default::default(),
        topology: here(),
        contents: Contents::Blank,
        published: None,
        staged: None,
    }
}

#[test]
fn create_decisions() {
    let other_parameters =
        VolumeRecord { parameters: [("tier".to_owned(), "fast".to_owned())].into(), ..record(Phase::Ready) };
    let table = [
        ("nothing there", None, Ok(Create::Make(record(Phase::Creating)))),
        ("half made", Some(record(Phase::Creating)), Ok(Create::Resume(record(Phase::Creating)))),
        ("there", Some(record(Phase::Ready)), Ok(Create::Reuse(record(Phase::Ready)))),
        ("going", Some(record(Phase::Deleting)), Err(Code::Aborted)),
        ("other parameters", Some(other_parameters), Err(Code::AlreadyExists)),
    ];
    for (name, have, expected) in table {
        let decided = create(&wanted(), have, &here(), TOTAL).map_err(|error| error.code());
        assert_eq!(decided, expected, "{name}");
    }
    let crowded = create(&wanted(), None, &here(), SIZE - 1).map_err(|error| error.code());
    assert_eq!(crowded, Err(Code::ResourceExhausted));
}

fn capability(mode: Mode) -> Capability {
    Capability { access: AccessType::Mount { fs: None, flags: MountFlags::default() }, mode }
}

fn publish_on(node: &str) -> PublishVolume {
    PublishVolume { id: id(), node: node.into(), capability: capability(Mode::Writer), read_only: false }
}

#[test]
fn publish_decisions() {
    let attachment = |node: &str| Attachment {
        node: node.into(),
        capability: capability(Mode::Writer).digest(),
        read_only: false,
    };
    let read_only = Attachment { read_only: true, ..attachment("n1") };
    let table = [
        ("free", None, Ok(Publish::Record(attachment("n1")))),
        ("already here", Some(attachment("n1")), Ok(Publish::Already)),
        ("here, differently", Some(read_only), Err(Code::AlreadyExists)),
        ("elsewhere", Some(attachment("n2")), Err(Code::FailedPrecondition)),
    ];
    for (name, published, expected) in table {
        let have = VolumeRecord { published, ..record(Phase::Ready) };
        let decided = publish(&publish_on("n1"), &have).map_err(|error| error.code());
        assert_eq!(decided, expected, "{name}");
    }
}

fn mount(device: &str, root: &str, target: &str, fs_type: &str, options: &str) -> Mount {
    Mount {
        device: "7:0".into(),
        root: root.into(),
        target: target.into(),
        options: options.split(',').map(Into::into).collect(),
        fs_type: fs_type.into(),
        source: device.into(),
    }
}

fn staged() -> Staging {
    Staging {
        path: "/s".into(),
        block: false,
        read_only: false,
        capability: capability(Mode::Writer).digest(),
    }
}

fn published() -> VolumeRecord {
    let published = Attachment { node: "n1".into(), capability: String::new(), read_only: false };
    VolumeRecord { published: Some(published), ..record(Phase::Ready) }
}

#[test]
fn stage_decisions() {
    let want = || StageVolume { id: id(), path: PathBuf::from("/s"), capability: capability(Mode::Writer) };
    let ours = || mount("/dev/loop0", "/", "/s", "ext4", "rw");
    let theirs = || mount("/dev/loop1", "/", "/s", "ext4", "rw");
    let begun = || VolumeRecord { staged: Some(staged()), ..published() };
    let elsewhere =
        || VolumeRecord { staged: Some(Staging { path: "/t".into(), ..staged() }), ..published() };
    let at_t = || mount("/dev/loop0", "/", "/t", "ext4", "rw");
    let new = || Ok(Stage::Mount(staged(), FsType::Ext4));
    let table = [
        ("never staged", published(), None, vec![], new()),
        ("not published", record(Phase::Ready), None, vec![], Err(Code::FailedPrecondition)),
        ("attached by a crash", begun(), Some("/dev/loop0"), vec![], new()),
        ("record outlived a reboot", begun(), None, vec![], new()),
        ("staged", begun(), Some("/dev/loop0"), vec![ours()], Ok(Stage::Already)),
        (
            "hidden by another",
            begun(),
            Some("/dev/loop0"),
            vec![ours(), theirs()],
            Err(Code::FailedPrecondition),
        ),
        ("another's mount", begun(), None, vec![theirs()], Err(Code::FailedPrecondition)),
        ("staged elsewhere", elsewhere(), Some("/dev/loop0"), vec![at_t()], Err(Code::FailedPrecondition)),
        ("once staged elsewhere", elsewhere(), None, vec![], new()),
    ];
    for (name, have, device, mounts, expected) in table {
        let decided = stage(&want(), &have, &Seen::new(device, mounts), "n1").map_err(|error| error.code());
        assert_eq!(decided, expected, "{name}");
    }
}

#[test]
fn node_publish_decisions() {
    let want = |mode: Mode, read_only: bool| NodePublishVolume {
        id: id(),
        staging: "/s".into(),
        target: "/t".into(),
        capability: capability(mode),
        read_only,
    };
    let have = VolumeRecord { staged: Some(staged()), ..published() };
    let at = |target: &str, options: &str| mount("/dev/loop0", "/", target, "ext4", options);
    let part = || mount("/dev/loop0", "/sub", "/u", "ext4", "rw");
    let theirs = || mount("/dev/loop1", "/", "/t", "ext4", "rw");
    let directory = |read_only| Ok(NodePublish::Directory { read_only });
    let (refused, differs) = (Err(Code::FailedPrecondition), Err(Code::AlreadyExists));
    let table = [
        ("first", Mode::Writer, false, vec![], directory(false)),
        ("first, read-only", Mode::Writer, true, vec![], directory(true)),
        ("again", Mode::Writer, false, vec![at("/t", "rw")], Ok(NodePublish::Already)),
        ("again, read-only", Mode::Writer, true, vec![at("/t", "ro")], Ok(NodePublish::Already)),
        ("writable where read-only is asked", Mode::Writer, true, vec![at("/t", "rw")], differs),
        ("another's mount", Mode::Writer, false, vec![theirs()], refused),
        ("second target", Mode::MultiWriter, false, vec![at("/u", "rw")], directory(false)),
        (
            "second target of one",
            Mode::SingleWriter,
            false,
            vec![at("/u", "rw")],
            Err(Code::FailedPrecondition),
        ),
        ("part of the first target", Mode::SingleWriter, false, vec![part()], directory(false)),
    ];
    for (name, mode, read_only, mut mounts, expected) in table {
        mounts.insert(0, at("/s", "rw"));
        let seen = Seen::new(Some("/dev/loop0"), mounts);
        let decided = node_publish(&want(mode, read_only), &have, &seen).map_err(|error| error.code());
        assert_eq!(decided, expected, "{name}");
    }
}
