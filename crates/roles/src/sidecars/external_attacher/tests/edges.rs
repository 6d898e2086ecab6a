//! Edge cases of the reference that have a number (3.6), and the reconciler.

use std::collections::BTreeMap;

use bowline_machinery::Step;
use bowline_proto::csi::v1::Volume;
use bowline_proto::csi::v1::list_volumes_response::{Entry, VolumeStatus};

use super::super::decide::decide;
use super::super::model::{Action, Answer, Attachment, Observed, Source, Why};
use super::super::reconcile::{Published, differs, take};
use super::{publish, refuse, seen, target, unpublish, volume};

fn decision(seen: Attachment) -> Step<Action, Why> {
    decide(&Observed::Attachment(Box::new(seen)))
}

#[test]
fn edge_3_6_1_a_deleted_attachment_that_never_was_attached_is_unpublished() {
    assert_eq!(decision(seen().guarded().deleting()), unpublish());
}

#[test]
fn edge_3_6_2_a_deleted_attachment_without_our_finalizer_is_done() {
    assert_eq!(decision(seen().attached().deleting()), Step::Done);
}

#[test]
fn edge_3_6_3_the_finalizer_goes_before_the_status() {
    let unpublished = || seen().deleting().attached().answer(Answer::Unpublished);
    assert_eq!(decision(Attachment { guarded: true, ..unpublished() }), Step::Do(Action::Unguard));
    assert_eq!(decision(unpublished()), Step::Do(Action::MarkDetached));
}

#[test]
fn edge_3_6_5_a_node_that_is_gone_is_detached_by_its_annotation_and_not_attached() {
    assert_eq!(decision(seen().guarded().deleting().no_csi_node()), unpublish());
    assert_eq!(decision(seen().guarded().no_csi_node()), refuse(Why::NodeUnknown("node-1".into())));
}

#[test]
fn edge_3_6_6_a_changed_node_id_is_noted_before_the_publish() {
    let changed = seen().guarded().noted(Some("id-0")).answer(Answer::Unpublished);
    assert_eq!(decision(changed), Step::Do(Action::Guard { node_id: "id-1".into() }));
}

#[test]
fn edge_3_6_7_a_volume_that_is_being_deleted_is_never_published() {
    let deleting = seen().guarded().source(volume(true, true));
    assert_eq!(decision(deleting), refuse(Why::VolumeDeleting("pv-1".into())));
}

#[test]
fn edge_3_6_10_inline_volumes_are_attached_detached_and_reconciled() {
    let inline = || seen().guarded().source(Source::Inline(target()));
    assert_eq!(decision(inline()), publish());
    assert_eq!(decision(inline().deleting()), unpublish());
    assert!(differs(&inline().attached(), &Published::new()));
}

fn published(nodes: &[&str]) -> Published {
    let nodes = nodes.iter().map(ToString::to_string).collect();
    BTreeMap::from([("vol-1".to_owned(), Some(nodes))])
}

#[test]
fn attachments_that_say_otherwise_than_the_driver_are_found() {
    let attached = || seen().guarded().attached();
    let unknown = BTreeMap::from([("vol-1".to_owned(), None)]);
    let missing = || Source::Missing("pv-1".into());
    let table = [
        ("attached and published", attached(), published(&["id-0", "id-1"]), false),
        ("attached, published elsewhere", attached(), published(&["id-0"]), true),
        ("attached, published nowhere", attached(), published(&[]), true),
        ("attached, not listed", attached(), Published::new(), true),
        ("attached, the driver does not say", attached(), unknown, false),
        ("not attached, published", seen().guarded(), published(&["id-1"]), true),
        ("not attached, not listed", seen().guarded(), Published::new(), false),
        ("the node is gone", attached().no_csi_node(), published(&["id-1"]), false),
        ("no node id", seen().attached().no_csi_node(), published(&[]), false),
        ("the volume is gone", attached().source(missing()), Published::new(), false),
    ];
    for (name, seen, published, expected) in table {
        assert_eq!(differs(&seen, &published), expected, "{name}");
    }
}

#[test]
fn what_the_driver_lists_otherwise_is_asked_once_more() {
    let attached = || seen().guarded().attached();
    assert_eq!(decision(attached()), Step::Done);
    assert_eq!(decision(attached().forced()), publish());
    assert_eq!(decision(attached().forced().published()), Step::Do(Action::MarkAttached));
    let gone = || Attachment { guarded: false, ..seen().guarded().deleting() };
    assert_eq!(decision(gone()), Step::Done);
    assert_eq!(decision(gone().forced()), unpublish(), "published although our finalizer is gone");
    assert_eq!(decision(gone().forced().answer(Answer::Unpublished)), Step::Done);
    let listing = |listed| decide(&Observed::Listing { listed });
    assert_eq!((listing(false), listing(true)), (Step::Do(Action::List), Step::Done));
}

#[test]
fn edge_3_6_14_entries_without_a_volume_and_volumes_without_an_attachment_change_nothing() {
    let status = VolumeStatus { published_node_ids: vec!["id-1".into()], ..VolumeStatus::default() };
    let named = |id: &str| Some(Volume { volume_id: id.into(), ..Volume::default() });
    let mut listed = Published::new();
    take(
        &mut listed,
        vec![
            Entry { volume: None, status: Some(status.clone()) },
            Entry { volume: named("other"), status: Some(status) },
            Entry { volume: named("vol-1"), status: None },
        ],
    );
    assert_eq!(listed.keys().collect::<Vec<_>>(), ["other", "vol-1"]);
    assert!(!differs(&seen().guarded().attached(), &listed), "the driver does not say");
}
