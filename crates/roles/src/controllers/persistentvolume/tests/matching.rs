//! Which volume a claim gets (1.3, 9.1.1, 9.1.3).

use bowline_api::volume::{READ_ONLY_MANY, READ_WRITE_MANY, READ_WRITE_ONCE};
use bowline_api::{Meta, volume as api};

use super::super::decide::matching::{free, objection, reserved};
use super::*;

/// Name of the volume that the claim would get: a reserved one first, then a free one.
fn best(claim: Claim, volumes: impl IntoIterator<Item = Volume>) -> Option<String> {
    let volumes: Vec<_> = volumes.into_iter().map(|v| Arc::new(v.0)).collect();
    let found = reserved(&claim.0, &volumes).or_else(|| free(&claim.0, &volumes, |_| true));
    found.map(|v| v.name().to_owned())
}

#[test]
fn one_volume_against_one_claim() {
    let table: [(&str, Claim, Volume, bool); 24] = [
        ("equal", claim("c"), volume("v"), true),
        ("larger", claim("c"), volume("v").size("2Gi"), true),
        ("smaller", claim("c"), volume("v").size("1023Mi"), false),
        ("another notation", claim("c").size("1024Mi"), volume("v"), true),
        ("unreadable size", claim("c"), volume("v").size("big"), false),
        ("block claim, file volume", claim("c").block(), volume("v"), false),
        ("file claim, block volume", claim("c"), volume("v").block(), false),
        ("block and block", claim("c").block(), volume("v").block(), true),
        ("reserved for another", claim("c"), volume("v").reserved_for("d"), false),
        ("reserved for a dead namesake", claim("c"), volume("v").reserved_as("c", "old"), false),
        ("reserved by name", claim("c"), volume("v").reserved_as("c", ""), true),
        ("reserved by uid", claim("c"), volume("v").reserved_for("c"), true),
        ("being deleted", claim("c"), volume("v").deleting(), false),
        ("reserved but being deleted", claim("c"), volume("v").reserved_for("c").deleting(), false),
        ("reserved but too small", claim("c"), volume("v").reserved_as("c", "").size("1Mi"), false),
        ("reserved and of another class", claim("c"), volume("v").reserved_as("c", "").class("x"), true),
        ("reserved and not available", claim("c"), volume("v").reserved_for("c").phase("Pending"), true),
        ("not available", claim("c"), volume("v").phase(api::RELEASED), false),
        ("pending", claim("c"), volume("v").phase(api::PENDING), false),
        ("another class", claim("c"), volume("v").class("slow"), false),
        ("no class on either side", claim("c").class(Some("")), volume("v").class(""), true),
        ("class not said, volume without", claim("c").class(None), volume("v").class(""), true),
        ("selected", claim("c").selecting("tier", "a"), volume("v").labelled("tier", "a"), true),
        ("not selected", claim("c").selecting("tier", "a"), volume("v").labelled("tier", "b"), false),
    ];
    for (name, claim, volume, fits) in table {
        assert_eq!(best(claim, [volume]).is_some(), fits, "{name}");
    }
}

#[test]
fn the_attributes_class_must_be_equal_and_empty_is_none() {
    for (on_claim, on_volume, fits) in [
        (None, None, true),
        (Some(""), None, true),
        (Some("gold"), None, false),
        (Some("gold"), Some("gold"), true),
    ] {
        let (mut claim, mut volume) = (claim("c"), volume("v"));
        claim.spec().volume_attributes_class_name = on_claim.map(String::from);
        volume.spec().volume_attributes_class_name = on_volume.map(String::from);
        assert_eq!(best(claim, [volume]).is_some(), fits, "{on_claim:?} {on_volume:?}");
    }
}

#[test]
fn the_best_of_several() {
    let (once, many) = (READ_WRITE_ONCE, [READ_WRITE_ONCE, READ_ONLY_MANY]);
    let table: [(&str, Claim, Vec<Volume>, Option<&str>); 7] = [
        ("the smallest", claim("c"), vec![volume("a").size("3Gi"), volume("b").size("2Gi")], Some("b")),
        ("ties by name", claim("c"), vec![volume("b"), volume("a")], Some("a")),
        (
            "fewest modes before size (9.1.3)",
            claim("c").modes(&[once]),
            vec![volume("a").modes(&many).size("10Gi"), volume("b").size("1Ti")],
            Some("b"),
        ),
        ("modes must be there", claim("c").modes(&[READ_WRITE_MANY]), vec![volume("a")], None),
        (
            "a reservation beats a better fit",
            claim("c"),
            vec![volume("a"), volume("b").modes(&many).size("5Gi").reserved_as("c", "")],
            Some("b"),
        ),
        (
            "a reservation by uid beats one by name",
            claim("c"),
            vec![volume("a").reserved_as("c", ""), volume("b").reserved_for("c")],
            Some("b"),
        ),
        (
            "a useless reservation is passed over (9.1.1)",
            claim("c"),
            vec![volume("a").reserved_as("c", "").size("1Mi"), volume("b")],
            Some("b"),
        ),
    ];
    for (name, claim, volumes, expected) in table {
        assert_eq!(best(claim, volumes).as_deref(), expected, "{name}");
    }
}

#[test]
fn objections_to_a_named_volume_in_upstreams_order() {
    let table = [
        ("fits", claim("c"), volume("v"), None),
        (
            "selector and phase do not count",
            claim("c").selecting("a", "b"),
            volume("v").phase("Failed"),
            None,
        ),
        ("deleting", claim("c"), volume("v").deleting(), Some("the volume is marked for deletion \"v\"")),
        ("small", claim("c").size("2Gi"), volume("v").class("x"), Some("requested PV is too small")),
        ("class", claim("c"), volume("v").class("x").block(), Some("storageClassName does not match")),
        ("mode", claim("c"), volume("v").block().modes(&[]), Some("incompatible volumeMode")),
        ("access", claim("c"), volume("v").modes(&[READ_ONLY_MANY]), Some("incompatible accessMode")),
    ];
    for (name, claim, volume, expected) in table {
        assert_eq!(objection(&claim.0, &volume.0).as_deref(), expected, "{name}");
    }
    let (claim, mut gold) = (claim("c"), volume("v"));
    gold.spec().volume_attributes_class_name = Some("gold".into());
    assert_eq!(objection(&claim.0, &gold.0).as_deref(), Some("volumeAttributesClassName does not match"));
}
