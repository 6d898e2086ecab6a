//! What happens to a volume (1.9, 1.10, 9.1).

use bowline_api::{keys, volume as api};
use bowline_machinery::Step::{self, Do, Done, Wait};

use super::super::decide::decide;
use super::super::model::{Failure, Observed, Why};
use super::*;

fn check(table: impl IntoIterator<Item = (&'static str, VolumeSeen, Step<Action, Why>)>) {
    for (name, seen, expected) in table {
        assert_eq!(decide(&Observed::Volume(seen)), expected, "{name}");
    }
}

#[test]
fn a_volume_and_its_claim() {
    let mark_bound = || Do(Action::MarkBound { volume: "v".into() });
    let provisioned = || volume("v").annotated(keys::PROVISIONED_BY, DRIVER);
    let elsewhere = || Some(claim("c").complete("w"));
    check([
        ("new", volume("v").phase(api::PENDING).seen(None), Do(Action::MarkAvailable)),
        ("free", volume("v").seen(None), Done),
        (
            "reserved by name",
            volume("v").reserved_as("c", "").phase("").seen(None),
            Do(Action::MarkAvailable),
        ),
        ("reserved by name, shown", volume("v").reserved_as("c", "").seen(None), Done),
        (
            "its claim will take it: the phase stays (9.1.13)",
            volume("v").reserved_for("c").phase(api::PENDING).seen(Some(claim("c"))),
            Wait(Why::ClaimUnbound),
        ),
        (
            "another mode",
            volume("v").reserved_for("c").block().seen(Some(claim("c"))),
            Wait(Why::ModeMismatch { volume: "v".into(), claim: "c".into() }),
        ),
        ("claimed", volume("v").reserved_for("c").seen(Some(claim("c").complete("v"))), mark_bound()),
        ("bound", volume("v").bound_to("c").seen(Some(claim("c").complete("v"))), Done),
        (
            "claim back after a release",
            volume("v").bound_to("c").phase(api::RELEASED).seen(Some(claim("c").complete("v"))),
            mark_bound(),
        ),
        ("claim bound elsewhere", volume("v").reserved_for("c").seen(elsewhere()), Do(Action::Unbind)),
        (
            "claim bound elsewhere, made for it (9.1.12)",
            provisioned().reserved_for("c").seen(elsewhere()),
            Do(Action::MarkReleased),
        ),
        (
            "claim bound elsewhere, made for it, to be kept",
            provisioned().policy(api::RETAIN).reserved_for("c").seen(elsewhere()),
            Do(Action::Unbind),
        ),
        ("claim gone", volume("v").bound_to("c").seen(None), Do(Action::MarkReleased)),
        (
            "reference removed by a person",
            volume("v").phase(api::FAILED).seen(None),
            Do(Action::MarkAvailable),
        ),
    ]);
}

#[test]
fn a_released_volume() {
    let gone = |volume: Volume| volume.reserved_for("c").phase(api::RELEASED);
    let failed = |volume: Volume| volume.reserved_for("c").phase(api::FAILED);
    let made_by = |plugin: &str| volume("v").annotated(keys::PROVISIONED_BY, plugin);
    let foreign = || volume("v").without_source();
    let no_plugin = Failure::NoPlugin("kubernetes.io/host-path".into());
    check([
        ("Retain", gone(volume("v").policy(api::RETAIN)).seen(None), Done),
        ("Delete, CSI: the provisioner's turn (9.1.19)", gone(volume("v")).seen(None), Done),
        ("Delete, provisioner known", gone(made_by(DRIVER).without_source()).seen(None), Done),
        (
            "Delete, in-tree plugin that is not here",
            gone(made_by("kubernetes.io/host-path")).seen(None),
            Do(Action::MarkFailed(no_plugin)),
        ),
        (
            "Delete, CSI took over",
            gone(made_by("kubernetes.io/aws-ebs").annotated(keys::MIGRATED_TO, "ebs.csi.aws.com")).seen(None),
            Done,
        ),
        (
            "Delete, nobody can",
            gone(foreign()).seen(None),
            Do(Action::MarkFailed(Failure::NoDeleter("v".into()))),
        ),
        (
            "Recycle",
            gone(foreign().policy(api::RECYCLE)).seen(None),
            Do(Action::MarkFailed(Failure::NoRecycler)),
        ),
        (
            "odd policy",
            gone(volume("v").policy("Burn")).seen(None),
            Do(Action::MarkFailed(Failure::UnknownPolicy)),
        ),
        (
            "Failed stays Failed (9.1.9)",
            failed(foreign()).seen(None),
            Wait(Why::Failed(Failure::NoDeleter("v".into()))),
        ),
        ("Failed, policy changed to Retain", failed(foreign().policy(api::RETAIN)).seen(None), Done),
    ]);
}

#[test]
fn migration_annotation_and_finalizer() {
    let ebs = || volume("v").annotated(keys::PROVISIONED_BY, "kubernetes.io/aws-ebs");
    let guarded = |volume: Volume| volume.finalized(keys::PV_CONTROLLER_FINALIZER);
    check([
        ("not marked", ebs().seen(None), Do(Action::Tidy)),
        ("marked", ebs().annotated(keys::MIGRATED_TO, "ebs.csi.aws.com").seen(None), Done),
        (
            "marked, still guarded",
            guarded(ebs().annotated(keys::MIGRATED_TO, "ebs.csi.aws.com")).seen(None),
            Do(Action::Tidy),
        ),
        ("to be kept, guarded", guarded(volume("v").policy(api::RETAIN)).seen(None), Do(Action::Tidy)),
        ("to be deleted, guarded", guarded(volume("v")).seen(None), Done),
    ]);
}
