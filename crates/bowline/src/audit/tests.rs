//! What counts as a finding.

use super::compare::{Attachment, Cluster, Finding, Listed, Owner, compare};

fn owner(name: &str, handle: &str) -> Owner {
    Owner { name: name.into(), uid: format!("uid-{name}"), handle: handle.into() }
}

fn listed(id: &str, nodes: &[&str]) -> Listed {
    Listed { id: id.into(), nodes: nodes.iter().map(ToString::to_string).collect() }
}

fn attachment(handle: &str, node_id: Option<&str>, attached: bool) -> Attachment {
    Attachment {
        name: format!("csi-{handle}"),
        uid: format!("uid-{handle}"),
        handle: handle.into(),
        node: "worker".into(),
        node_id: node_id.map(String::from),
        attached,
    }
}

fn cluster(owners: &[Owner], attachments: &[Attachment]) -> Cluster {
    Cluster { owners: owners.to_vec(), attachments: attachments.to_vec() }
}

fn same(now: &Cluster, volumes: &[Listed]) -> Vec<Finding> {
    compare(now, volumes, now, true)
}

#[test]
fn a_volume_with_its_owner_and_its_attachment_is_no_finding() {
    let now = cluster(&[owner("pv", "v-1")], &[attachment("v-1", Some("n-1"), true)]);
    assert_eq!(same(&now, &[listed("v-1", &["n-1"])]), []);
    assert_eq!(same(&Cluster::default(), &[]), []);
}

#[test]
fn a_volume_without_an_object_and_an_object_without_a_volume_are_found() {
    let now = cluster(&[owner("pv", "v-1")], &[]);
    let no_owner = Finding::NoOwner { handle: "v-2".into() };
    let missing = Finding::Missing { object: "pv".into(), handle: "v-1".into() };
    assert_eq!(same(&now, &[listed("v-2", &[])]), [no_owner, missing]);
}

#[test]
fn what_changes_while_the_driver_is_asked_proves_nothing() {
    let (empty, with) = (Cluster::default(), cluster(&[owner("pv", "v-1")], &[]));
    // Made meanwhile: owned after, not before. Deleted meanwhile: owned before, not after.
    assert_eq!(compare(&empty, &[listed("v-1", &[])], &with, true), []);
    assert_eq!(compare(&with, &[listed("v-1", &[])], &empty, true), []);
    assert_eq!(compare(&empty, &[], &with, true), [], "made after the list");
    assert_eq!(compare(&with, &[], &empty, true), [], "deleted before the list");
    let attached = cluster(&[owner("pv", "v-1")], &[attachment("v-1", Some("n-1"), true)]);
    assert_eq!(compare(&with, &[listed("v-1", &["n-1"])], &attached, true), []);
    assert_eq!(compare(&attached, &[listed("v-1", &[])], &with, true), [], "detached meanwhile");
}

#[test]
fn attachments_are_compared_in_both_directions() {
    let volumes = [listed("v-1", &["n-1"])];
    let alone = cluster(&[owner("pv", "v-1")], &[]);
    let without = Finding::AttachedWithoutAttachment { handle: "v-1".into(), node_id: "n-1".into() };
    assert_eq!(same(&alone, &volumes), std::slice::from_ref(&without));
    let elsewhere = cluster(&[owner("pv", "v-1")], &[attachment("v-1", Some("n-2"), true)]);
    let not_attached =
        Finding::NotAttached { attachment: "csi-v-1".into(), handle: "v-1".into(), node: "worker".into() };
    assert_eq!(same(&elsewhere, &volumes), [without, not_attached]);
    // One that is being attached, or detached, may be published already, or still.
    let pending = cluster(&[owner("pv", "v-1")], &[attachment("v-1", Some("n-1"), false)]);
    assert_eq!(same(&pending, &volumes), []);
}

#[test]
fn what_is_not_known_is_not_found() {
    let now = cluster(&[owner("pv", "v-1")], &[attachment("v-1", None, true)]);
    assert_eq!(same(&now, &[listed("v-1", &["n-1"])]), [], "a node without an id");
    let silent = cluster(&[owner("pv", "v-1")], &[attachment("v-1", Some("n-1"), true)]);
    assert_eq!(compare(&silent, &[listed("v-1", &[])], &silent, false), [], "the driver does not say where");
}

#[test]
fn two_objects_of_one_volume_are_found() {
    let now = cluster(&[owner("a", "v-1"), owner("b", "v-1")], &[]);
    let shared = Finding::Shared { handle: "v-1".into(), objects: vec!["a".into(), "b".into()] };
    assert_eq!(same(&now, &[listed("v-1", &[])]), [shared]);
}

#[test]
fn findings_have_names_that_scripts_can_match() {
    let finding = Finding::AttachedWithoutAttachment { handle: "v".into(), node_id: "n".into() };
    let text = serde_json::to_string(&finding).unwrap();
    assert_eq!(text, r#"{"finding":"attachedWithoutAttachment","handle":"v","nodeId":"n"}"#);
    assert!(finding.line("volume").contains("no VolumeAttachment"));
}
