//! Decision tables. The same decisions through gRPC are in `local/tests`.

use std::path::PathBuf;

use bowline_host::kernel::Mount;
use tonic::Code;

use super::*;
use crate::capability::{Capability, MountFlags};
use crate::capacity::Range;
use crate::local::record::Access;

const SIZE: u64 = 64 << 20;
const ROOM: Room = Room { size: 1 << 40, left: 1 << 41 };

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
        capabilities: Vec::new(),
        chose_filesystem: true,
        source: None,
        parameters: Default::default(),
        mutable: Default::default(),
        requisite: Vec::new(),
        preferred: Vec::new(),
        ephemeral: false,
    }
}

fn record(phase: Phase) -> VolumeRecord {
    VolumeRecord {
        version: VolumeRecord::VERSION,
        name: "v".into(),
        phase,
        capacity: SIZE,
        access: Access { block: false, filesystem: Some(FsType::Ext4) },
        parameters: Default::default(),
        mutable: Default::default(),
        source: None,
        topology: here(),
        contents: Contents::Blank,
        filled: None,
        published: Default::default(),
        staged: Default::default(),
        device: None,
        ephemeral: false,
    }
}

#[test]
fn create_decisions() {
    let other_parameters =
        VolumeRecord { parameters: [("tier".to_owned(), "fast".to_owned())].into(), ..record(Phase::Ready) };
    let ephemeral = VolumeRecord { ephemeral: true, ..record(Phase::Ready) };
    let table = [
        ("nothing there", None, Ok(Create::Make(record(Phase::Creating)))),
        ("half made", Some(record(Phase::Creating)), Ok(Create::Resume(record(Phase::Creating)))),
        ("there", Some(record(Phase::Ready)), Ok(Create::Reuse(record(Phase::Ready)))),
        ("going", Some(record(Phase::Deleting)), Err(Code::Aborted)),
        ("other parameters", Some(other_parameters), Err(Code::AlreadyExists)),
        ("a pod's own", Some(ephemeral), Err(Code::AlreadyExists)),
    ];
    for (name, have, expected) in table {
        let decided = create(&wanted(), have, &[&here()], ROOM).map_err(|error| error.code());
        assert_eq!(decided, expected, "{name}");
    }
    let small = Room { size: SIZE - 1, ..ROOM };
    let crowded = Room { left: SIZE - 1, ..ROOM };
    for (room, expected) in [(small, Code::OutOfRange), (crowded, Code::ResourceExhausted)] {
        let decided = create(&wanted(), None, &[&here()], room).map_err(|error| error.code());
        assert_eq!(decided, Err(expected), "{room:?}");
        let repeated = create(&wanted(), Some(record(Phase::Ready)), &[&here()], room).map(drop);
        assert!(repeated.is_ok(), "what is there needs no room");
    }
}

fn capability(mode: Mode) -> Capability {
    Capability { access: AccessType::Mount { fs: None, flags: MountFlags::default(), group: None }, mode }
}

fn on_n1<T>(value: T) -> BTreeMap<String, T> {
    [("n1".to_owned(), value)].into()
}

fn node(id: &str, topology: Segments) -> NamedNode {
    NamedNode { topology, ..NamedNode::new(id.into()).expect("valid") }
}

#[test]
fn publish_decisions() {
    use Mode::{NodesMultiWriter, NodesReaderOnly, NodesSingleWriter, Writer};
    let attachment =
        |mode: Mode, read_only| Attachment { mode, capability: capability(mode).digest(), read_only };
    let have = |node: &str, mode, read_only| Some((node.to_owned(), attachment(mode, read_only)));
    let record_it = |mode, read_only| Ok(Publish::Record(attachment(mode, read_only)));
    let (differs, elsewhere) = (Err(Code::AlreadyExists), Err(Code::FailedPrecondition));
    let table = [
        ("free", None, Writer, false, record_it(Writer, false)),
        ("already here", have("n1", Writer, false), Writer, false, Ok(Publish::Already)),
        ("here, differently", have("n1", Writer, true), Writer, false, differs),
        ("elsewhere", have("n2", Writer, false), Writer, false, elsewhere),
        (
            "reader beside readers",
            have("n2", NodesReaderOnly, true),
            NodesReaderOnly,
            true,
            record_it(NodesReaderOnly, true),
        ),
        (
            "writer beside writers",
            have("n2", NodesMultiWriter, false),
            NodesMultiWriter,
            false,
            record_it(NodesMultiWriter, false),
        ),
        (
            "reader beside the writer",
            have("n2", NodesSingleWriter, false),
            NodesSingleWriter,
            true,
            record_it(NodesSingleWriter, true),
        ),
        (
            "writer beside a reader",
            have("n2", NodesSingleWriter, true),
            NodesSingleWriter,
            false,
            record_it(NodesSingleWriter, false),
        ),
        (
            "second writer",
            have("n2", NodesSingleWriter, false),
            NodesSingleWriter,
            false,
            Err(Code::FailedPrecondition),
        ),
        (
            "single beside many",
            have("n2", NodesMultiWriter, false),
            Writer,
            false,
            Err(Code::FailedPrecondition),
        ),
        (
            "many beside single",
            have("n2", Writer, false),
            NodesMultiWriter,
            false,
            Err(Code::FailedPrecondition),
        ),
    ];
    for (name, published, mode, read_only, expected) in table {
        let have = VolumeRecord { published: published.into_iter().collect(), ..record(Phase::Ready) };
        let want = PublishVolume { id: id(), node: "n1".into(), capability: capability(mode), read_only };
        let decided = publish(&want, &have, &node("n1", here())).map_err(|error| error.code());
        assert_eq!(decided, expected, "{name}");
    }
    let want =
        PublishVolume { id: id(), node: "n3".into(), capability: capability(Writer), read_only: false };
    let far = publish(&want, &record(Phase::Ready), &node("n3", Segments::new())).map_err(|e| e.code());
    assert_eq!(far, Err(Code::FailedPrecondition), "another place");
}

fn mount(device: &str, root: &str, target: &str, fs_type: &str, options: &str) -> Mount {
    Mount {
        device: "7:0".into(),
        root: root.into(),
        target: target.into(),
        options: options.split(',').map(Into::into).collect(),
        fs_type: fs_type.into(),
        source: device.into(),
        filesystem_read_only: false,
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
    let published = Attachment { mode: Mode::Writer, capability: String::new(), read_only: false };
    VolumeRecord { published: on_n1(published), ..record(Phase::Ready) }
}

#[test]
fn stage_decisions() {
    let want = || StageVolume { id: id(), path: PathBuf::from("/s"), capability: capability(Mode::Writer) };
    let ours = || mount("/dev/loop0", "/", "/s", "ext4", "rw");
    let theirs = || mount("/dev/loop1", "/", "/s", "ext4", "rw");
    let begun = || VolumeRecord { staged: on_n1(staged()), ..published() };
    let elsewhere =
        || VolumeRecord { staged: on_n1(Staging { path: "/t".into(), ..staged() }), ..published() };
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
    let have = VolumeRecord { staged: [("n1".to_owned(), staged())].into(), ..published() };
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
        let decided = node_publish(&want(mode, read_only), &have, &seen, "n1").map_err(|error| error.code());
        assert_eq!(decided, expected, "{name}");
    }
}
