//! What an action writes (1.8).

use bowline_api::{keys, volume as api};

use super::super::act::{Write, write_for};
use super::super::model::{Loss, Observed};
use super::*;

fn volume_after(action: Action, seen: Observed) -> PersistentVolume {
    match write_for(&action, &seen) {
        Some(Write::Volume(volume) | Write::VolumeStatus(volume)) => volume,
        other => panic!("{action:?} wrote {other:?}"),
    }
}

fn claim_after(action: Action, seen: ClaimSeen) -> PersistentVolumeClaim {
    match write_for(&action, &Observed::Claim(seen)) {
        Some(Write::Claim(claim) | Write::ClaimStatus(claim)) => claim,
        other => panic!("{action:?} wrote {other:?}"),
    }
}

#[test]
fn a_reservation_names_the_claim_completely_and_says_who_made_it() {
    let after = |v: Volume| volume_after(reserve("v"), Observed::Claim(claim("c").seen().near([v])));
    let ours = after(volume("v"));
    let reference = api::claim_ref(&ours).unwrap();
    assert_eq!(
        (reference.kind.as_deref(), reference.api_version.as_deref(), reference.uid.as_deref()),
        (Some("PersistentVolumeClaim"), Some("v1"), Some("uid-c"))
    );
    assert_eq!(ours.annotation(keys::BOUND_BY_CONTROLLER), Some(keys::YES));

    let a_persons = after(volume("v").reserved_as("c", ""));
    assert_eq!(api::claim_ref(&a_persons).unwrap().uid.as_deref(), Some("uid-c"));
    assert_eq!(a_persons.annotation(keys::BOUND_BY_CONTROLLER), None);
}

#[test]
fn completion_says_who_chose_the_volume() {
    let complete = || Action::Complete { volume: "v".into() };
    let chosen = claim_after(complete(), claim("c").seen());
    assert!(api::bound(&chosen));
    assert_eq!(chosen.annotation(keys::BOUND_BY_CONTROLLER), Some(keys::YES));
    let named = claim_after(complete(), claim("c").naming("v").seen());
    assert!(api::bound(&named));
    assert_eq!(named.annotation(keys::BOUND_BY_CONTROLLER), None);
}

#[test]
fn letting_go_keeps_a_persons_reservation() {
    let after = |v: Volume| volume_after(Action::Unbind, Observed::Volume(v.seen(None)));
    let ours = after(volume("v").reserved_for("c").annotated(keys::BOUND_BY_CONTROLLER, keys::YES));
    assert_eq!((api::claim_ref(&ours), ours.annotation(keys::BOUND_BY_CONTROLLER)), (None, None));
    let a_persons = after(volume("v").reserved_for("c"));
    let reference = api::claim_ref(&a_persons).unwrap();
    assert_eq!((reference.name.as_deref(), reference.uid.as_deref()), (Some("c"), None));
}

#[test]
fn a_bound_claim_shows_its_volume() {
    let bound = Action::MarkClaimBound { volume: "v".into() };
    let status = |seen: ClaimSeen| claim_after(bound.clone(), seen).status.unwrap();
    let capacity = |status: PersistentVolumeClaimStatus| status.capacity.unwrap()[api::STORAGE].0.clone();

    let mut gold = volume("v").bound_to("c").size("3Gi");
    gold.spec().volume_attributes_class_name = Some("gold".into());
    let first = status(claim("c").complete("v").seen().named(gold));
    assert_eq!(first.phase.as_deref(), Some(api::BOUND));
    assert_eq!(first.current_volume_attributes_class_name.as_deref(), Some("gold"));
    assert_eq!(capacity(first), "3Gi");

    let resizing = volume("v").bound_to("c").size("3Gi").annotated(keys::PRE_RESIZE_CAPACITY, "2Gi");
    assert_eq!(capacity(status(claim("c").complete("v").seen().named(resizing))), "2Gi");
    let odd = volume("v").bound_to("c").size("3Gi").annotated(keys::PRE_RESIZE_CAPACITY, "big");
    assert_eq!(capacity(status(claim("c").complete("v").seen().named(odd))), "3Gi");

    let again = claim("c").complete("v").phase(api::BOUND).showing("1Gi").seen();
    assert_eq!(capacity(status(again.named(volume("v").bound_to("c").size("3Gi")))), "1Gi");
}

#[test]
fn a_lost_claim_shows_nothing() {
    let bound = claim("c").complete("v").phase(api::BOUND).showing("1Gi").seen();
    let status = claim_after(Action::MarkClaimLost(Loss::NoVolume), bound).status.unwrap();
    assert_eq!(
        (status.phase.as_deref(), status.capacity, status.access_modes),
        (Some(api::LOST), None, None)
    );
}

#[test]
fn a_request_wakes_old_and_new_provisioners() {
    let asked = claim_after(Action::Request { provisioner: DRIVER.into() }, claim("c").seen());
    assert_eq!(asked.annotation(keys::STORAGE_PROVISIONER), Some(DRIVER));
    assert_eq!(asked.annotation(keys::STORAGE_PROVISIONER_BETA), Some(DRIVER));
}

#[test]
fn what_does_not_belong_together_writes_nothing() {
    assert_eq!(write_for(&reserve("x"), &Observed::Claim(claim("c").seen())), None);
    assert_eq!(write_for(&Action::Unbind, &Observed::Claim(claim("c").seen())), None);
    assert_eq!(write_for(&reserve("v"), &Observed::Volume(volume("v").seen(None))), None);
}
