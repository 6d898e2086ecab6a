//! The decision table of the reference, and ATT-1 as a property.

mod edges;
mod pools;

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::{PersistentVolume, VolumeAttachment};
use bowline_machinery::capability::{SingleNode, access_mode, mount};
use bowline_machinery::{Change, Step};
use k8s_openapi::api::storage::v1::{VolumeAttachmentStatus, VolumeError};
use proptest::prelude::*;
use serde_json::json;

use super::act::{attached_patch, detached_patch, error_patch};
use super::decide::decide;
use super::model::{Action, Answer, Attachment, Observed, Source, Target, Volume, Why};
use super::role::only_errors_differ;

fn target() -> Target {
    let mode = access_mode(&["ReadWriteOnce".into()], SingleNode::Plain).unwrap();
    Target {
        handle: "vol-1".into(),
        capability: Ok(mount(mode, "ext4", &[])),
        read_only: false,
        context: BTreeMap::new(),
        secret: None,
    }
}

fn volume(deleting: bool, guarded: bool) -> Source {
    let mut object = PersistentVolume::default();
    object.metadata.name = Some("pv-1".into());
    Source::Volume { object: Arc::new(object), deleting, guarded, target: target() }
}

/// A new attachment of a bound volume to a node where the driver is registered.
fn seen() -> Attachment {
    let mut object = VolumeAttachment::default();
    object.spec.node_name = "node-1".into();
    Attachment {
        object: Arc::new(object),
        driver_publishes: true,
        deleting: false,
        guarded: false,
        noted_node_id: None,
        noted_handle: None,
        attached: false,
        source: volume(false, false),
        node_id: Some("id-1".into()),
        answer: Answer::None,
        forced: false,
    }
}

impl Attachment {
    fn source(self, source: Source) -> Self {
        Self { source, ..self }
    }
    fn guarded_volume(self) -> Self {
        self.source(volume(false, true))
    }
    fn guarded(self) -> Self {
        Self { guarded: true, noted_node_id: Some("id-1".into()), ..self.guarded_volume() }
    }
    fn noted(self, id: Option<&str>) -> Self {
        Self { noted_node_id: id.map(String::from), ..self }
    }
    fn handle(self, handle: &str) -> Self {
        Self { noted_handle: Some(handle.into()), ..self }
    }
    fn deleting(self) -> Self {
        Self { deleting: true, ..self }
    }
    fn attached(self) -> Self {
        Self { attached: true, ..self }
    }
    fn no_csi_node(self) -> Self {
        Self { node_id: None, ..self }
    }
    fn answer(self, answer: Answer) -> Self {
        Self { answer, ..self }
    }
    fn published(self) -> Self {
        self.answer(Answer::Published(BTreeMap::from([("device".into(), "sdb".into())])))
    }
    fn forced(self) -> Self {
        Self { forced: true, ..self }
    }
    fn trivial(self) -> Self {
        Self { driver_publishes: false, ..self }
    }
}

fn publish() -> Step<Action, Why> {
    Step::Do(Action::Publish { node_id: "id-1".into() })
}
fn unpublish_from(node_id: &str) -> Step<Action, Why> {
    let Target { handle, secret, .. } = target();
    Step::Do(Action::Unpublish { node_id: node_id.into(), handle, secret })
}
fn unpublish() -> Step<Action, Why> {
    unpublish_from("id-1")
}
/// The machine was replaced under the same node name before the publish was reported.
fn published_elsewhere() -> Attachment {
    seen().guarded().noted(Some("id-0")).published()
}
fn refuse(why: Why) -> Step<Action, Why> {
    Step::Fail(why)
}

#[test]
fn attach_decisions() {
    let guard = Step::Do(Action::Guard { node_id: "id-1".into() });
    let node_unknown = || refuse(Why::NodeUnknown("node-1".into()));
    let bad = Target { capability: Err("no mode".into()), ..target() };
    let table = [
        ("new", seen(), Step::Do(Action::GuardVolume)),
        ("volume guarded", seen().guarded_volume(), guard.clone()),
        ("inline volume", seen().source(Source::Inline(target())), guard.clone()),
        ("finalizer without node id", seen().guarded().noted(None), guard.clone()),
        // The noted node may have the volume: it is detached there before another id is written over it.
        ("node id changed", seen().guarded().noted(Some("id-0")), unpublish_from("id-0")),
        ("node id changed after the publish", published_elsewhere(), unpublish_from("id-0")),
        ("detached from the noted node", published_elsewhere().answer(Answer::Unpublished), guard.clone()),
        ("the driver does not know the noted node", published_elsewhere().answer(Answer::NodeUnknown), guard),
        ("guarded", seen().guarded(), publish()),
        ("driver answered", seen().guarded().published(), Step::Do(Action::MarkAttached)),
        ("settled", seen().guarded().attached(), Step::Done),
        ("attached by an older version", seen().attached(), Step::Done),
        ("node gone: no fallback", seen().guarded().no_csi_node(), node_unknown()),
        ("no node id at all", seen().guarded_volume().no_csi_node(), node_unknown()),
        (
            "volume missing",
            seen().source(Source::Missing("pv-1".into())),
            refuse(Why::VolumeMissing("pv-1".into())),
        ),
        (
            "volume foreign",
            seen().source(Source::Foreign("pv-1".into())),
            refuse(Why::VolumeForeign("pv-1".into())),
        ),
        ("volume deleting", seen().source(volume(true, true)), refuse(Why::VolumeDeleting("pv-1".into()))),
        ("no source", seen().source(Source::Unclear), refuse(Why::SourceUnclear)),
        ("no mode", seen().source(Source::Inline(bad)), refuse(Why::NoCapability("no mode".into()))),
        (
            "volume replaced after a publish without an answer",
            seen().guarded().handle("vol-0"),
            refuse(Why::VolumeReplaced { noted: "vol-0".into(), now: "vol-1".into() }),
        ),
        ("trivial", seen().trivial(), Step::Do(Action::MarkAttached)),
        ("trivial, settled", seen().trivial().attached(), Step::Done),
        ("trivial, deleting", seen().trivial().attached().deleting(), Step::Done),
    ];
    check(table);
}

#[test]
fn detach_decisions() {
    let detach_old = || {
        let (node_id, handle) = ("id-1".into(), "vol-0".into());
        Step::Do(Action::Unpublish { node_id, handle, secret: None })
    };
    let gone = || seen().guarded().deleting().attached().no_csi_node();
    let table = [
        ("attached", seen().guarded().attached().deleting(), unpublish()),
        ("publish never answered", seen().guarded().deleting(), unpublish()),
        ("publish answered, not marked", seen().guarded().published().deleting(), unpublish()),
        ("volume deleting, too", seen().guarded().source(volume(true, true)).deleting(), unpublish()),
        ("node gone: the annotation remembers", gone(), unpublish()),
        ("node id changed since", published_elsewhere().deleting(), unpublish_from("id-0")),
        ("finalizer without node id", seen().guarded().noted(None).deleting(), unpublish()),
        ("noted node first", seen().guarded().noted(Some("id-0")).deleting(), unpublish_from("id-0")),
        (
            "a driver that renamed its nodes knows only the registered id",
            seen().guarded().noted(Some("id-0")).deleting().answer(Answer::NodeUnknown),
            unpublish(),
        ),
        ("node gone, no annotation", gone().noted(None), refuse(Why::NodeUnknown("node-1".into()))),
        (
            "volume gone",
            seen().guarded().source(Source::Missing("pv-1".into())).deleting(),
            refuse(Why::VolumeMissing("pv-1".into())),
        ),
        (
            "volume gone: the annotation remembers",
            seen().guarded().source(Source::Missing("pv-1".into())).handle("vol-1").deleting(),
            unpublish(),
        ),
        (
            "volume replaced: the annotation remembers",
            seen().guarded().handle("vol-0").deleting(),
            detach_old(),
        ),
        (
            "replaced by a volume of another driver",
            seen().guarded().source(Source::Foreign("pv-1".into())).handle("vol-0").deleting(),
            detach_old(),
        ),
        (
            "driver answered",
            seen().guarded().deleting().answer(Answer::Unpublished),
            Step::Do(Action::Unguard),
        ),
        ("unguarded", seen().attached().deleting(), Step::Done),
        (
            "unguarded by us, others hold it",
            seen().attached().deleting().answer(Answer::Unpublished),
            Step::Do(Action::MarkDetached),
        ),
        ("all said", seen().deleting().answer(Answer::Unpublished), Step::Done),
    ];
    check(table);
}

fn check<const N: usize>(table: [(&str, Attachment, Step<Action, Why>); N]) {
    for (name, seen, expected) in table {
        assert_eq!(decide(&Observed::Attachment(Box::new(seen))), expected, "{name}");
    }
}

#[test]
fn volume_decisions() {
    let volume = |deleting, guarded, attachments| {
        Observed::Volume(Volume { object: Arc::default(), deleting, guarded, attachments })
    };
    let table = [
        ("alive", volume(false, true, 0), Step::Done),
        ("deleting, still attached", volume(true, true, 1), Step::Done),
        ("deleting, free", volume(true, true, 0), Step::Do(Action::UnguardVolume)),
        ("not ours", volume(true, false, 0), Step::Done),
    ];
    for (name, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{name}");
    }
}

#[test]
fn own_error_notes_do_not_wake_us() {
    let with = |error: Option<&str>, attached: bool| {
        let attach_error = error.map(|m| VolumeError { message: Some(m.into()), ..Default::default() });
        let status = VolumeAttachmentStatus { attached, attach_error, ..Default::default() };
        Some(Arc::new(VolumeAttachment { status: Some(status), ..Default::default() }))
    };
    let table = [
        ("first error", None, with(Some("a"), false), false),
        ("another error", with(Some("a"), false), with(Some("b"), false), true),
        ("an error appears", with(None, false), with(Some("a"), false), true),
        ("attached", with(Some("a"), false), with(None, true), false),
        ("no error anywhere", with(None, false), with(None, false), false),
    ];
    for (name, old, new, quiet) in table {
        assert_eq!(only_errors_differ(&Change { old, new }), quiet, "{name}");
    }
}

/// ATT-2: the cached object may be older than a report that this process sent and whose answer was lost.
#[test]
fn saving_an_error_never_reports_a_detach() {
    let mut object = VolumeAttachment::default();
    object.metadata.resource_version = Some("7".into());
    let error = || json!({"message": "late"});
    let first = json!({"metadata": {"resourceVersion": "7"}, "status": {"attached": false, "attachError": {"message": "late"}}});
    assert_eq!(error_patch(&object, "attachError", error()), first, "a status has to say `attached`");
    for attached in [false, true] {
        object.status = Some(VolumeAttachmentStatus { attached, ..Default::default() });
        let next =
            json!({"metadata": {"resourceVersion": "7"}, "status": {"detachError": {"message": "late"}}});
        assert_eq!(error_patch(&object, "detachError", error()), next, "attached: {attached}");
    }
}

/// Names of attachments are derived: the next one of the same volume and node has the same.
#[test]
fn a_delayed_patch_does_not_mark_a_later_attachment() {
    let mut object = VolumeAttachment::default();
    object.metadata.resource_version = Some("7".into());
    let context = BTreeMap::from([("device".to_owned(), "/dev/a".to_owned())]);
    for patch in [attached_patch(&object, &context), detached_patch(&object)] {
        assert_eq!(patch["metadata"], json!({"resourceVersion": "7"}), "{patch}");
    }
    let status = json!({"attached": true, "attachmentMetadata": {"device": "/dev/a"}, "attachError": null});
    assert_eq!(attached_patch(&object, &context)["status"], status);
}

fn any_source() -> impl Strategy<Value = Source> {
    prop_oneof![
        Just(Source::Unclear),
        Just(Source::Missing("pv-1".into())),
        Just(Source::Foreign("pv-1".into())),
        Just(Source::Inline(target())),
        any::<(bool, bool)>().prop_map(|(deleting, guarded)| volume(deleting, guarded)),
    ]
}

prop_compose! {
    fn any_attachment()(
        (driver_publishes, deleting, guarded, attached) in any::<(bool, bool, bool, bool)>(),
        noted in prop::option::of(prop_oneof![Just("id-1"), Just("id-2")]),
        (registered, forced) in any::<(bool, bool)>(),
        source in any_source(),
        answer in prop_oneof![
            Just(Answer::None), Just(Answer::Unpublished), Just(Answer::NodeUnknown),
            Just(Answer::Published(BTreeMap::new()))
        ],
    ) -> Attachment {
        let seen = seen().noted(noted).source(source).answer(answer);
        let seen = Attachment { driver_publishes, deleting, guarded, attached, forced, ..seen };
        if registered { seen } else { seen.no_csi_node() }
    }
}

proptest! {
    #[test]
    fn publishes_only_what_is_guarded(seen in any_attachment()) {
        if let Step::Do(Action::Publish { node_id }) = decide(&Observed::Attachment(Box::new(seen.clone()))) {
            prop_assert!(seen.guarded && !seen.deleting, "ATT-1: {seen:?}");
            prop_assert_eq!(seen.noted_node_id, Some(node_id), "ATT-1: a later detach needs the id");
        }
    }

    #[test]
    fn unguards_only_what_the_driver_detached(seen in any_attachment()) {
        if decide(&Observed::Attachment(Box::new(seen.clone()))) == Step::Do(Action::Unguard) {
            prop_assert!(seen.answer == Answer::Unpublished && seen.deleting, "ATT-1: {seen:?}");
        }
    }

    /// Each action, once done, is never the next decision again: the role settles.
    #[test]
    fn settles(seen in any_attachment()) {
        let mut seen = seen;
        for _ in 0..8 {
            match decide(&Observed::Attachment(Box::new(seen.clone()))) {
                Step::Done | Step::Wait(_) | Step::Fail(_) => return Ok(()),
                Step::Do(action) => seen = done(seen, action),
            }
        }
        prop_assert!(false, "did not settle: {seen:?}");
    }
}

/// The world after an action succeeded.
fn done(seen: Attachment, action: Action) -> Attachment {
    match action {
        Action::GuardVolume => seen.guarded_volume(),
        Action::Guard { node_id } => {
            Attachment { guarded: true, noted_node_id: Some(node_id), ..seen }.answer(Answer::None)
        }
        Action::Publish { .. } => seen.published(),
        Action::MarkAttached => Attachment { forced: false, ..seen.attached().answer(Answer::None) },
        Action::Unpublish { .. } => seen.answer(Answer::Unpublished),
        Action::Unguard => Attachment { guarded: false, ..seen },
        Action::MarkDetached => Attachment { attached: false, ..seen },
        Action::UnguardVolume | Action::List => seen,
    }
}
