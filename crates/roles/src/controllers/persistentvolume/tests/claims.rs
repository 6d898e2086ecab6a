//! What happens to a claim (1.4 to 1.8, 9.1).

use bowline_api::{build, keys, volume as api};
use bowline_machinery::Step::{Do, Done, Wait};

use super::super::decide::decide;
use super::super::model::{Loss, Observed, Why};
use super::*;

fn check(table: impl IntoIterator<Item = (&'static str, ClaimSeen, bowline_machinery::Step<Action, Why>)>) {
    for (name, seen, expected) in table {
        assert_eq!(decide(&Observed::Claim(seen)), expected, "{name}");
    }
}

fn wffc() -> Option<StorageClass> {
    Some(build::class("fast", DRIVER).wait_for_consumer().build())
}

fn mark_bound() -> Action {
    Action::MarkBound { volume: "v".into() }
}
fn complete() -> Action {
    Action::Complete { volume: "v".into() }
}
fn mark_claim_bound() -> Action {
    Action::MarkClaimBound { volume: "v".into() }
}
fn requested(claim: Claim, provisioner: &str) -> Claim {
    claim.annotated(keys::STORAGE_PROVISIONER, provisioner)
}

#[test]
fn a_claim_without_a_volume() {
    let no_class = || claim("c").class(None).seen().with_class(None);
    let request = || Do(Action::Request { provisioner: DRIVER.into() });
    let selected = || claim("c").annotated(keys::SELECTED_NODE, "n1");
    let mut two_pods = claim("c").seen().with_class(wffc());
    two_pods.pods = vec!["a".into(), "b".into()];
    let mut off = claim("c").seen();
    off.provisioning = false;
    check([
        ("a volume fits", claim("c").seen().near([volume("v")]), Do(reserve("v"))),
        ("nothing fits: ask the provisioner", claim("c").seen(), request()),
        ("asked", requested(claim("c"), DRIVER).seen(), Wait(Why::External(DRIVER.into()))),
        ("asked another before", requested(claim("c"), "old.example.com").seen(), request()),
        ("provisioning is off", off, Wait(Why::ProvisioningOff)),
        ("first consumer", claim("c").seen().with_class(wffc()), Wait(Why::Consumer)),
        (
            "a free volume is not for us to take before the scheduler did",
            claim("c").seen().with_class(wffc()).near([volume("v")]),
            Wait(Why::Consumer),
        ),
        (
            "the scheduler took it",
            claim("c").seen().with_class(wffc()).near([volume("v").reserved_for("c")]),
            Do(mark_bound()),
        ),
        ("pods wait", two_pods, Wait(Why::Pods(vec!["a".into(), "b".into()]))),
        ("node chosen", selected().seen().with_class(wffc()), request()),
        ("no class, none wanted", no_class(), Wait(Why::NoVolumeNoClass)),
        ("no class, default there", no_class().default_class("d"), Do(Action::AssignClass("d".into()))),
        (
            "no class, volume without class fits before the default applies (9.1.4)",
            no_class().default_class("d").near([volume("v").class("")]),
            Do(reserve("v")),
        ),
        (
            "the empty class opts out of the default",
            claim("c").class(Some("")).seen().with_class(None).default_class("d"),
            Wait(Why::NoVolumeNoClass),
        ),
        ("class gone", claim("c").seen().with_class(None), Wait(Why::NoClass("fast".into()))),
        (
            "class gone, static volume there (9.1.5)",
            claim("c").seen().with_class(None).near([volume("v")]),
            Do(reserve("v")),
        ),
        (
            "no-provisioner (9.1.15)",
            claim("c").seen().with_class(Some(build::class("fast", keys::NO_PROVISIONER).build())),
            Wait(Why::NoPlugin(keys::NO_PROVISIONER.into())),
        ),
        (
            "migrated plugin: the driver is asked",
            claim("c").seen().with_class(Some(build::class("fast", "kubernetes.io/aws-ebs").build())),
            Do(Action::Request { provisioner: "ebs.csi.aws.com".into() }),
        ),
        ("on its way out", claim("c").deleting().seen().near([volume("v")]), Wait(Why::Deleting)),
        (
            "on its way out, but begun",
            claim("c").deleting().seen().near([volume("v").reserved_for("c")]),
            Do(mark_bound()),
        ),
        ("no phase yet", claim("c").class(Some("")).phase("").seen(), Do(Action::MarkClaimPending)),
    ]);
}

#[test]
fn a_claim_that_names_a_volume() {
    let named = || claim("c").naming("v");
    check([
        ("not there", named().seen(), Wait(Why::NamedMissing("v".into()))),
        ("free", named().seen().named(volume("v")), Do(reserve("v"))),
        (
            "does not fit",
            named().size("2Gi").seen().named(volume("v")),
            Wait(Why::Mismatch { volume: "v".into(), problem: "requested PV is too small".into() }),
        ),
        ("reserved by name", named().seen().named(volume("v").reserved_as("c", "")), Do(reserve("v"))),
        (
            "named by both: trusted unseen (9.1.2)",
            named().size("9Gi").block().seen().named(volume("v").reserved_for("c")),
            Do(mark_bound()),
        ),
        ("taken", named().seen().named(volume("v").bound_to("d")), Wait(Why::Taken("v".into()))),
        (
            "taken by a dead namesake",
            named().seen().named(volume("v").reserved_as("c", "old")),
            Wait(Why::Taken("v".into())),
        ),
        (
            "taken, named by the controller",
            named().annotated(keys::BOUND_BY_CONTROLLER, keys::YES).seen().named(volume("v").bound_to("d")),
            Wait(Why::Taken("v".into())),
        ),
        ("on its way out", named().deleting().seen().named(volume("v")), Wait(Why::Deleting)),
        ("was Lost, link removed", named().phase(api::LOST).seen(), Do(Action::MarkClaimPending)),
    ]);
}

#[test]
fn every_prefix_of_a_bind_goes_on() {
    let bound = || claim("c").complete("v").phase(api::BOUND).showing("1Gi");
    check([
        ("nothing written", claim("c").seen().near([volume("v")]), Do(reserve("v"))),
        ("reserved", claim("c").seen().near([volume("v").reserved_for("c")]), Do(mark_bound())),
        ("volume Bound", claim("c").seen().near([volume("v").bound_to("c")]), Do(complete())),
        (
            "provisioned: Pending with the full reference",
            claim("c").seen().near([volume("v").reserved_for("c").phase(api::PENDING)]),
            Do(mark_bound()),
        ),
        (
            "claim named by a person, link not complete",
            claim("c").naming("v").seen().named(volume("v").bound_to("c")),
            Do(complete()),
        ),
        (
            "claim complete, status behind",
            claim("c").complete("v").seen().named(volume("v").bound_to("c")),
            Do(mark_claim_bound()),
        ),
        ("all four", bound().seen().named(volume("v").bound_to("c")), Done),
        (
            "bound, the volume has grown: capacity belongs to the expansion (9.1.6)",
            bound().seen().named(volume("v").bound_to("c").size("5Gi")),
            Done,
        ),
        (
            "bound, modes changed: always in step",
            bound().seen().named(volume("v").bound_to("c").modes(&[api::READ_WRITE_MANY])),
            Do(mark_claim_bound()),
        ),
    ]);
}

#[test]
fn a_complete_claim() {
    let bound = || claim("c").complete("v").phase(api::BOUND).showing("1Gi");
    let lost = || claim("c").complete("v").phase(api::LOST);
    check([
        (
            "no reference",
            claim("c").annotated(keys::BIND_COMPLETED, "").phase(api::BOUND).seen(),
            Do(Action::MarkClaimLost(Loss::NoReference)),
        ),
        ("no volume", bound().seen(), Do(Action::MarkClaimLost(Loss::NoVolume))),
        ("lost already", lost().seen(), Done),
        ("reference of the volume removed", bound().seen().named(volume("v")), Do(reserve("v"))),
        (
            "volume of another",
            bound().seen().named(volume("v").bound_to("d")),
            Do(Action::MarkClaimLost(Loss::Misbound)),
        ),
        (
            "volume released",
            bound().seen().named(volume("v").bound_to("c").phase(api::RELEASED)),
            Do(mark_bound()),
        ),
        (
            "volume going, still ours (9.1.17)",
            bound().seen().named(volume("v").bound_to("c").deleting()),
            Done,
        ),
        ("lost, volume back (9.1.16)", lost().seen().named(volume("v")), Do(reserve("v"))),
        (
            "lost, volume back and Bound",
            lost().seen().named(volume("v").bound_to("c")),
            Do(mark_claim_bound()),
        ),
    ]);
}

#[test]
fn the_migration_annotation_follows_the_provisioner() {
    let in_tree = "kubernetes.io/aws-ebs";
    check([
        ("missing", requested(claim("c"), in_tree).seen(), Do(Action::MigrateClaim(Some("ebs.csi.aws.com")))),
        (
            "known from the old annotation",
            claim("c").annotated(keys::STORAGE_PROVISIONER_BETA, in_tree).seen(),
            Do(Action::MigrateClaim(Some("ebs.csi.aws.com"))),
        ),
        (
            "wrong",
            requested(claim("c"), DRIVER).annotated(keys::MIGRATED_TO, "ebs.csi.aws.com").seen(),
            Do(Action::MigrateClaim(None)),
        ),
    ]);
}

#[test]
fn texts_and_reasons_that_people_see() {
    let table = [
        (Why::Consumer, "WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
        (Why::Pods(vec!["a".into()]), "WaitForPodScheduled", "waiting for pod a to be scheduled"),
        (
            Why::Pods(vec!["a".into(), "b".into()]),
            "WaitForPodScheduled",
            "waiting for pods a,b to be scheduled",
        ),
        (
            Why::NoVolumeNoClass,
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        ),
        (Why::NoClass("x".into()), "ProvisioningFailed", "storageclass.storage.k8s.io \"x\" not found"),
        (Why::NoPlugin("x".into()), "ProvisioningFailed", "no volume plugin matched name: x"),
        (Why::Taken("v".into()), "FailedBinding", "volume \"v\" already bound to a different claim."),
        (
            Why::Mismatch { volume: "v".into(), problem: "incompatible accessMode".into() },
            "VolumeMismatch",
            "Cannot bind to requested volume \"v\": incompatible accessMode",
        ),
    ];
    for (why, reason, text) in table {
        assert_eq!((why.event().map(|e| e.1), why.to_string().as_str()), (Some(reason), text));
    }
}
