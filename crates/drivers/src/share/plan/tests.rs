//! Every decision as a table.

use std::path::PathBuf;

use bowline_host::kernel::Mount;
use tonic::Code;

use super::super::capability::Capability;
use super::super::directory::Directory;
use super::*;
use crate::capability::Mode;

const DATA: &str = "/pool/shares/v/data";
const DIRECTORY: Directory = Directory { mode: 0o770, uid: None, gid: None };
const TOTAL: u64 = 1 << 40;

fn record(phase: Phase) -> ShareRecord {
    ShareRecord { phase, ..ShareRecord::new("v", 100, DIRECTORY, None) }
}

fn code<T>(answer: &Result<T>) -> Code {
    answer.as_ref().err().map_or(Code::Ok, VolumeError::code)
}

fn create_of(required: u64, limit: u64, mode: u32) -> CreateVolume {
    CreateVolume {
        id: VolumeId::for_name("v"),
        name: "v".into(),
        range: Range { required, limit },
        directory: Directory { mode, ..DIRECTORY },
    }
}

#[test]
fn creating() {
    let inline = ShareRecord { inline: Some("/t".into()), ..record(Phase::Ready) };
    let renamed = ShareRecord { name: "w".into(), ..record(Phase::Ready) };
    let table = [
        ("new", create_of(100, 0, 0o770), None, Code::Ok),
        ("larger than the pool", create_of(TOTAL + 1, 0, 0o770), None, Code::ResourceExhausted),
        ("half made", create_of(100, 0, 0o770), Some(record(Phase::Creating)), Code::Ok),
        ("there", create_of(100, 100, 0o770), Some(record(Phase::Ready)), Code::Ok),
        ("there, less wanted", create_of(1, 0, 0o770), Some(record(Phase::Ready)), Code::Ok),
        ("there, more wanted", create_of(101, 0, 0o770), Some(record(Phase::Ready)), Code::AlreadyExists),
        ("there, too large", create_of(0, 99, 0o770), Some(record(Phase::Ready)), Code::AlreadyExists),
        ("another mode", create_of(100, 0, 0o777), Some(record(Phase::Ready)), Code::AlreadyExists),
        ("another name", create_of(100, 0, 0o770), Some(renamed), Code::AlreadyExists),
        ("an inline volume", create_of(100, 0, 0o770), Some(inline), Code::AlreadyExists),
        ("going", create_of(100, 0, 0o770), Some(record(Phase::Deleting)), Code::Aborted),
    ];
    for (name, want, have, expected) in table {
        let answer = create(&want, have.as_ref(), TOTAL);
        assert_eq!(code(&answer), expected, "{name}");
        match (answer, have) {
            (Ok(Create::Make(made)), None) => assert_eq!(made, record(Phase::Creating), "{name}"),
            (Ok(Create::Resume(same)), Some(have)) => assert_eq!((same.phase, same), (Phase::Creating, have)),
            (Ok(Create::Reuse(same)), Some(have)) => assert_eq!((same.phase, same), (Phase::Ready, have)),
            (Ok(other), _) => panic!("{name}: {other:?}"),
            (Err(_), _) => {}
        }
    }
}

#[test]
fn expanding() {
    let table = [
        ("larger", 200, 0, Some(200)),
        ("smaller is done", 50, 0, Some(100)),
        ("within a limit", 150, 150, Some(150)),
        ("only a limit", 0, 100, Some(100)),
        ("limit below its size", 0, 99, None),
        ("limit below its size, less required", 10, 99, None),
        ("larger than the pool", TOTAL + 1, 0, None),
    ];
    for (name, required, limit, expected) in table {
        let answer = expand(Range { required, limit }, &record(Phase::Ready), TOTAL);
        assert_eq!(answer.as_ref().ok().copied(), expected, "{name}");
        assert!(expected.is_some() || code(&answer) == Code::OutOfRange, "{name}");
    }
    let shrunk = expand(Range { required: 10, limit: 0 }, &record(Phase::Ready), 50);
    assert_eq!(shrunk.ok(), Some(100), "a pool that shrank takes nothing away");
}

fn mount(device: &str, root: &str, target: &str, options: &str) -> Mount {
    Mount {
        device: device.into(),
        root: root.into(),
        target: target.into(),
        options: vec![options.into()],
        fs_type: "ext4".into(),
        source: "/dev/vdb".into(),
        filesystem_read_only: false,
    }
}

/// The pool's filesystem is mounted at `/pool` and shows its directory `/inner` there.
fn seen(mounts: &[Mount]) -> Seen {
    let system = [mount("8:1", "/", "/", "rw"), mount("8:2", "/inner", "/pool", "rw")];
    Seen::new(system.iter().chain(mounts).cloned().collect(), DATA.into())
}

fn share_at(target: &str, options: &str) -> Mount {
    mount("8:2", "/inner/shares/v/data", target, options)
}

fn publish_at(target: &str, mode: Mode) -> NodePublishVolume {
    NodePublishVolume {
        id: VolumeId::for_name("v"),
        target: target.into(),
        capability: Capability { mode, read_only: mode.read_only(), group: None },
        read_only: false,
        inline: None,
    }
}

fn grouped(group: u32) -> NodePublishVolume {
    let want = publish_at("/t", Mode::NodesMultiWriter);
    NodePublishVolume { capability: Capability { group: Some(group), ..want.capability }, ..want }
}

/// What a first or repeated publish to `/t` does, by what is mounted and what was asked.
#[test]
fn publishing() {
    const RWX: Mode = Mode::NodesMultiWriter;
    const ONE: Mode = Mode::SingleWriter;
    let read_only = || NodePublishVolume { read_only: true, ..publish_at("/t", RWX) };
    let ready = || record(Phase::Ready);
    let only = |target: &str| ShareRecord { only: Some(target.into()), ..ready() };
    let group = |group: u32| ShareRecord { group: Some(group), ..ready() };
    let inline = || ShareRecord { inline: Some("/t".into()), ..ready() };
    let elsewhere = || vec![share_at("/u", "rw")];
    let part = || vec![mount("8:2", "/inner/shares/v/data/sub", "/u", "rw")];
    let table = [
        ("first", publish_at("/t", RWX), ready(), vec![], Code::Ok),
        ("read-only", read_only(), ready(), vec![], Code::Ok),
        ("again", publish_at("/t", RWX), ready(), vec![share_at("/t", "rw")], Code::Ok),
        ("again, read-only", read_only(), ready(), vec![share_at("/t", "ro")], Code::Ok),
        ("writable now", publish_at("/t", RWX), ready(), vec![share_at("/t", "ro")], Code::AlreadyExists),
        ("read-only now", read_only(), ready(), vec![share_at("/t", "rw")], Code::AlreadyExists),
        ("only target now", publish_at("/t", ONE), ready(), vec![share_at("/t", "rw")], Code::AlreadyExists),
        (
            "no longer only",
            publish_at("/t", RWX),
            only("/t"),
            vec![share_at("/t", "rw")],
            Code::AlreadyExists,
        ),
        ("still the only", publish_at("/t", ONE), only("/t"), vec![share_at("/t", "rw")], Code::Ok),
        ("second target", publish_at("/t", RWX), ready(), elsewhere(), Code::Ok),
        ("must be the only", publish_at("/t", ONE), ready(), elsewhere(), Code::FailedPrecondition),
        ("besides the only", publish_at("/t", RWX), only("/u"), elsewhere(), Code::FailedPrecondition),
        ("the only has gone", publish_at("/t", RWX), only("/u"), vec![], Code::Ok),
        ("a part elsewhere is no target", publish_at("/t", ONE), ready(), part(), Code::Ok),
        (
            "of something else",
            publish_at("/t", RWX),
            ready(),
            vec![mount("8:2", "/inner/shares/w/data", "/t", "rw")],
            Code::FailedPrecondition,
        ),
        (
            "same path on another disk",
            publish_at("/t", RWX),
            ready(),
            vec![mount("8:3", "/inner/shares/v/data", "/t", "rw")],
            Code::FailedPrecondition,
        ),
        (
            "covered",
            publish_at("/t", RWX),
            ready(),
            vec![mount("8:9", "/", DATA, "rw")],
            Code::FailedPrecondition,
        ),
        ("inline, by a claim", publish_at("/t", RWX), inline(), vec![], Code::FailedPrecondition),
        ("a group", grouped(5), ready(), vec![], Code::Ok),
        ("a group besides none", grouped(5), ready(), elsewhere(), Code::Ok),
        ("the same group", grouped(5), group(5), elsewhere(), Code::Ok),
        ("another group", grouped(5), group(6), elsewhere(), Code::FailedPrecondition),
        ("another group, alone", grouped(5), group(6), vec![], Code::Ok),
        ("no group besides one", publish_at("/t", RWX), group(6), elsewhere(), Code::Ok),
        ("no group again", publish_at("/t", RWX), group(6), vec![share_at("/t", "rw")], Code::Ok),
        ("another group again", grouped(5), group(6), vec![share_at("/t", "rw")], Code::AlreadyExists),
    ];
    for (name, want, have, mounts, expected) in table {
        let answer = publish(&want, &have, &seen(&mounts));
        assert_eq!(code(&answer), expected, "{name}: {answer:?}");
        if let Ok(Publish::Bind { record, read_only }) = answer {
            assert!(!mounts.iter().any(|mount| mount.target == want.target), "{name}: bound twice");
            assert_eq!(read_only, want.read_only, "{name}");
            assert_eq!(record.only.is_some(), want.capability.mode == ONE, "{name}");
            assert_eq!(record.group, want.capability.group.or(have.group), "{name}");
        }
    }
    let reader = publish(&publish_at("/t", Mode::NodesReaderOnly), &ready(), &seen(&[])).unwrap();
    assert!(matches!(reader, Publish::Bind { read_only: true, .. }), "the mode alone makes it read-only");
}

#[test]
fn inline_volumes() {
    let want = NodePublishVolume { inline: Some(DIRECTORY), ..publish_at("/t", Mode::Writer) };
    let at = |target: &str, phase| ShareRecord { inline: Some(target.into()), ..record(phase) };
    let open = ShareRecord { directory: Directory { mode: 0o777, ..DIRECTORY }, ..at("/t", Phase::Ready) };
    let table = [
        ("new", None, Code::Ok),
        ("half made", Some(at("/t", Phase::Creating)), Code::Ok),
        ("there", Some(at("/t", Phase::Ready)), Code::Ok),
        ("going", Some(at("/t", Phase::Deleting)), Code::Aborted),
        ("at another target", Some(at("/u", Phase::Ready)), Code::FailedPrecondition),
        ("with other parameters", Some(open), Code::AlreadyExists),
        ("a claim's", Some(record(Phase::Ready)), Code::FailedPrecondition),
    ];
    for (name, have, expected) in table {
        let answer = inline(&want, have.as_ref());
        assert_eq!(code(&answer), expected, "{name}");
        if let Ok(Create::Make(made)) = answer {
            assert_eq!(made.inline, Some(PathBuf::from("/t")), "{name}");
        }
    }
}

#[test]
fn deleting() {
    let sub = mount("8:2", "/inner/shares/v/data/sub", "/u", "rw");
    let table = [
        ("nothing mounted", vec![], None),
        ("published", vec![share_at("/t", "rw")], Some("/t")),
        ("a part of it shows", vec![sub], Some("/u")),
        (
            "something is mounted in it",
            vec![mount("0:9", "/", "/pool/shares/v/data/sub", "rw")],
            Some("/sub"),
        ),
        ("something is mounted on it", vec![mount("0:9", "/", DATA, "rw")], Some("/data")),
        ("another volume", vec![mount("8:2", "/inner/shares/w/data", "/t", "rw")], None),
        ("a longer name", vec![mount("8:2", "/inner/shares/v/data2", "/t", "rw")], None),
    ];
    for (name, mounts, expected) in table {
        let answer = delete(&VolumeId::for_name("v"), &seen(&mounts));
        match expected {
            None => assert_eq!(code(&answer), Code::Ok, "{name}"),
            Some(place) => {
                assert_eq!(code(&answer), Code::FailedPrecondition, "{name}");
                assert!(answer.unwrap_err().to_string().contains(place), "{name}");
            }
        }
    }
}

/// A pool below a newer mount is seen through that one, whatever older mounts lie deeper.
#[test]
fn the_youngest_mount_above_shows_the_pool() {
    let table = vec![
        mount("8:1", "/", "/", "rw"),
        mount("8:2", "/", "/pool/shares", "rw"),
        mount("8:3", "/", "/pool", "rw"),
        mount("8:3", "/shares/v/data", "/t", "rw"),
    ];
    assert!(Seen::new(table, DATA.into()).is_at("/t".as_ref()));
}
