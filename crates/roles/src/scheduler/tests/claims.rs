//! Claims before any node is looked at (2.2).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};

use super::*;

fn refused_before_nodes(reason: &str) -> Step<Action, Why> {
    refused(&format!(
        "0/1 nodes are available: {reason}. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    ))
}

#[test]
fn every_objection() {
    let with = |claim: ClaimSeen| pod().on([node("n")]).using([claim]);
    let deleted = |c: &mut PersistentVolumeClaim| {
        c.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    };
    let lost = |c: &mut PersistentVolumeClaim| {
        c.status.get_or_insert_default().phase = Some(volume::LOST.into());
    };
    let owned_by = |uid: &'static str| {
        move |c: &mut PersistentVolumeClaim| {
            let owner = OwnerReference { uid: uid.into(), controller: Some(true), ..Default::default() };
            c.metadata.owner_references = Some(vec![owner]);
        }
    };
    let immediate = || build::class("late", DRIVER).build();
    let unbound = || refused_before_nodes("pod has unbound immediate PersistentVolumeClaims");
    check([
        ("missing", with(claim("c").gone()), refused_before_nodes("persistentvolumeclaim \"c\" not found")),
        (
            "ephemeral, not made yet",
            with(claim("p-c").gone().ephemeral()),
            refused_before_nodes(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-c\"",
            ),
        ),
        (
            "lost",
            with(claim("c").naming("v").changed(lost)),
            refused_before_nodes("persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\""),
        ),
        (
            "on its way out",
            with(claim("c").bound(volume("v")).changed(deleted)),
            refused_before_nodes("persistentvolumeclaim \"c\" is being deleted"),
        ),
        (
            "ephemeral, somebody else's",
            with(claim("p-c").ephemeral().changed(owned_by("uid-q"))),
            refused_before_nodes("PVC default/p-c was not created for pod default/p (pod is not owner)"),
        ),
        ("ephemeral, ours", with(claim("p-c").ephemeral().changed(owned_by("uid-p"))), select("p-c", "n")),
        ("immediate, unbound", with(claim("c").class(immediate())), unbound()),
        ("named but not linked (9.4.3)", with(claim("c").naming("v")), unbound()),
        ("no class object", with(ClaimSeen { class: None, ..claim("c") }), unbound()),
        (
            "bound by annotation, whatever the phase (9.4.1)",
            with(claim("c").class(immediate()).bound(volume("v"))),
            bind("n"),
        ),
        (
            "the first claim that objects",
            pod().on([node("n")]).using([claim("a").gone(), claim("b").gone()]),
            refused_before_nodes("persistentvolumeclaim \"a\" not found"),
        ),
    ]);
}
