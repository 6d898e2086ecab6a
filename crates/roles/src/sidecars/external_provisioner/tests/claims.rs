use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::{CSINode, Meta, PersistentVolume, PersistentVolumeClaim, StorageClass, build, keys};
use bowline_machinery::Step;
use bowline_proto::csi::v1::volume_capability::AccessType;
use clap::Parser;
use k8s_openapi::api::core::v1::TypedLocalObjectReference;
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use proptest::prelude::*;

use super::super::Flags;
use super::super::decide::{decide, volume_name};
use super::super::model::{
    Action, Attempt, Claim, Cluster, Creation, Intent, Naming, Observed, Settings, Source, Stored, Unusable,
    Why,
};
use super::{DRIVER, settings, shared};

pub(super) type Decision = Step<Action, Why>;

pub(super) fn pending() -> PersistentVolumeClaim {
    let mut claim = build::claim("data").class("fast").build();
    claim.metadata.uid = Some("u-1".into());
    claim.set_annotation(keys::STORAGE_PROVISIONER, DRIVER);
    claim
}

pub(super) fn seen() -> Claim {
    Claim {
        settings: shared(settings()),
        object: Arc::new(pending()),
        exists: true,
        class: Some(Arc::new(build::class("fast", DRIVER).build())),
        attributes: None,
        source: Source::None,
        volume_exists: false,
        cluster: Cluster::default(),
        attempt: Attempt::default(),
    }
}

impl Claim {
    pub(super) fn claim(mut self, change: impl FnOnce(&mut PersistentVolumeClaim)) -> Self {
        change(Arc::make_mut(&mut self.object));
        self
    }
    pub(super) fn class(self, class: StorageClass) -> Self {
        Self { class: Some(Arc::new(class)), ..self }
    }
    pub(super) fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
    fn attempt(mut self, change: impl FnOnce(&mut Attempt)) -> Self {
        change(&mut self.attempt);
        self
    }
    fn on_node(self, node: &str) -> Self {
        self.claim(|claim| claim.set_annotation(keys::SELECTED_NODE, node))
    }
    fn delayed(self) -> Self {
        self.class(build::class("fast", DRIVER).wait_for_consumer().build())
    }
    pub(super) fn gone(self) -> Self {
        Self { exists: false, ..self }
    }
    /// With the call stored that is right now.
    pub(super) fn stored(self) -> Self {
        let intent = intent(&self).map(Arc::new);
        let stored = intent.map(|intent| Stored { intent, lease: None });
        self.attempt(|a| a.stored = stored)
    }
    /// Which may have taken effect.
    pub(super) fn open(self) -> Self {
        self.stored().attempt(|a| a.open = true)
    }
}

fn intent(seen: &Claim) -> Option<Intent> {
    match decision(seen) {
        Step::Do(Action::Store(intent)) => Some(*intent),
        Step::Do(_) | Step::Wait(_) | Step::Fail(_) | Step::Done => None,
    }
}

pub(super) fn decision(seen: &Claim) -> Decision {
    decide(&Observed::Claim(Box::new(seen.clone())))
}

/// The call that is stored or made.
pub(super) fn creation(seen: &Claim) -> Option<Creation> {
    match decision(seen) {
        Step::Do(Action::Store(intent)) => Some(intent.creation),
        Step::Do(Action::Create(intent)) => Some(intent.creation.clone()),
        Step::Do(_) | Step::Wait(_) | Step::Fail(_) | Step::Done => None,
    }
}

fn provisioner(claim: &mut PersistentVolumeClaim, key: &str, value: &str) {
    claim.metadata.annotations = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
}

#[test]
fn states_that_end_without_a_call() {
    let class_missing = Claim { class: None, ..seen() };
    let made = Claim { volume_exists: true, ..seen() };
    let foreign = || build::class("fast", "other.example").build();
    let beta =
        |c: &mut PersistentVolumeClaim| provisioner(c, keys::STORAGE_PROVISIONER_BETA, "other.example");
    let no_driver = |c: &mut PersistentVolumeClaim| c.metadata.annotations = None;
    let bound = |c: &mut PersistentVolumeClaim| c.spec.as_mut().unwrap().volume_name = Some("pv-1".into());
    let other = |c: &mut PersistentVolumeClaim| provisioner(c, keys::STORAGE_PROVISIONER, "other.example");
    let empty_node = |c: &mut PersistentVolumeClaim| c.set_annotation(keys::SELECTED_NODE, "");
    let table: [(&str, Claim, Decision); 10] = [
        ("bound", seen().claim(bound), Step::Done),
        ("no provisioner yet", seen().claim(no_driver), Step::Done),
        ("another driver's", seen().claim(other), Step::Done),
        ("another driver's, older key", seen().claim(beta), Step::Done),
        ("class missing", class_missing, Step::Wait(Why::ClassMissing("fast".into()))),
        ("waits for the scheduler", seen().delayed(), Step::Wait(Why::NoNodeSelected)),
        ("empty node", seen().delayed().claim(empty_node), Step::Wait(Why::NoNodeSelected)),
        ("volume is there", made, Step::Done),
        ("class is another driver's now", seen().class(foreign()), Step::Done),
        ("called invalid", seen().attempt(|a| a.slow = true), Step::Wait(Why::Slow)),
    ];
    for (name, seen, expected) in table {
        assert_eq!(decision(&seen), expected, "{name}");
    }
}

#[test]
fn claims_that_get_a_volume() {
    let older = |c: &mut PersistentVolumeClaim| provisioner(c, keys::STORAGE_PROVISIONER_BETA, DRIVER);
    let alpha = |c: &mut PersistentVolumeClaim| c.set_annotation(keys::SELECTED_NODE_ALPHA, "n");
    let deleting = |c: &mut PersistentVolumeClaim| {
        c.metadata.deletion_timestamp = Some(serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap());
    };
    let table = [
        ("immediate", seen()),
        ("older key", seen().claim(older)),
        ("node selected", seen().delayed().on_node("n")),
        ("node selected, older key", seen().delayed().claim(alpha)),
        ("being deleted", seen().claim(deleting)),
        ("deleted while the call hung", seen().open().gone()),
    ];
    for (name, seen) in table {
        let creation = creation(&seen).unwrap_or_else(|| panic!("{name}: {:?}", decision(&seen)));
        assert_eq!(creation.request.name, "pvc-u-1", "{name}");
        assert_eq!(creation.request.capacity_range.unwrap().required_bytes, 1 << 30, "{name}");
    }
}

#[test]
fn what_was_made_comes_first() {
    let volume = Some(Arc::new(PersistentVolume::default()));
    let small = Unusable { handle: "v".into(), secret: None, why: "too small".into() };
    let discard = Step::Do(Action::Discard { handle: "v".into(), secret: None });
    let table: [(&str, Claim, Decision); 4] = [
        ("made", seen().attempt(|a| a.unsaved = volume.clone()), Step::Do(Action::Save)),
        ("made, claim gone", seen().gone().attempt(|a| a.unsaved = volume.clone()), Step::Do(Action::Save)),
        ("too small", seen().attempt(|a| a.unusable = Some(small.clone())), discard.clone()),
        ("too small, claim gone", seen().gone().attempt(|a| a.unusable = Some(small)), discard),
    ];
    for (name, seen, expected) in table {
        assert_eq!(decision(&seen), expected, "{name}");
    }
}

/// What is stored goes before what is asked for now, until its end is known.
#[test]
fn stored_calls() {
    let other = || build::class("fast", DRIVER).parameter("tier", "gold").build();
    let no_class = |seen: Claim| Claim { class: None, ..seen };
    let saved = |seen: Claim| Claim { volume_exists: true, ..seen };
    let bound = |c: &mut PersistentVolumeClaim| c.spec.as_mut().unwrap().volume_name = Some("pv-1".into());
    let sent = || Step::Do(Action::Create(Arc::new(intent(&seen()).unwrap())));
    let forget = || Step::Do(Action::Forget);
    let refused = |seen: Claim| seen.attempt(|a| a.refused = Some("no".into()));
    let full = |seen: Claim| seen.attempt(|a| a.exhausted = Some("full".into()));
    let store = |seen: &Claim| Step::Do(Action::Store(Box::new(intent(seen).unwrap())));
    let table = [
        ("nothing stored", seen(), store(&seen())),
        ("stored, not sent", seen().stored(), sent()),
        ("stored, not sent, class replaced", seen().stored().class(other()), forget()),
        ("stored, not sent, class gone", no_class(seen().stored()), forget()),
        ("stored, not sent, claim gone", seen().stored().gone(), forget()),
        ("stored, not sent, bound elsewhere", seen().stored().claim(bound), forget()),
        ("refused", refused(seen().stored()), forget()),
        ("refused, claim gone", refused(seen().stored().gone()), forget()),
        ("refused, not stored any more", refused(seen()), Step::Fail(Why::Refused("no".into()))),
        ("refused, not stored any more, claim gone", refused(seen().gone()), Step::Done),
        ("no room, stored", full(seen().delayed().on_node("n").stored()), forget()),
        ("open", seen().open(), sent()),
        ("open, class replaced", seen().open().class(other()), sent()),
        ("open, class gone", no_class(seen().open()), sent()),
        ("open, claim and class gone", no_class(seen().open().gone()), sent()),
        ("open, bound elsewhere", seen().open().claim(bound), sent()),
        ("open, the object is there", saved(seen().open()), forget()),
        ("saved, claim gone", saved(seen().stored().gone()), forget()),
    ];
    for (name, seen, expected) in table {
        assert_eq!(decision(&seen), expected, "{name}");
    }
}

#[test]
fn attributes_classes_give_their_parameters() {
    let named = |c: &mut PersistentVolumeClaim| {
        c.spec.as_mut().unwrap().volume_attributes_class_name = Some("gold".into());
    };
    let class = |driver: &str| VolumeAttributesClass {
        driver_name: driver.into(),
        parameters: Some([("iops".to_owned(), "9".to_owned())].into()),
        ..Default::default()
    };
    let seen = |attributes| Claim { attributes, ..seen().claim(named).settings(|s| s.modifies = true) };
    assert_eq!(creation(&seen(Some(class(DRIVER)))).unwrap().request.mutable_parameters["iops"], "9");
    for (attributes, part) in [
        (None, "not found"),
        (Some(class("other.example")), "is for driver other.example which does not match"),
    ] {
        assert!(matches!(decision(&seen(attributes)), Step::Fail(Why::Invalid(text)) if text.contains(part)));
    }
}

#[test]
fn another_node_is_asked_for() {
    let full = || seen().delayed().on_node("n").attempt(|a| a.exhausted = Some("full".into()));
    assert_eq!(decision(&full()), Step::Do(Action::Reschedule(Why::Exhausted("full".into()))));

    let unregistered = || seen().delayed().on_node("n").settings(|s| s.topology = true);
    let missing = || Why::NodeMissing("n".into());
    assert_eq!(decision(&unregistered()), Step::Do(Action::Reschedule(missing())));
    let sent = seen().open().attempt;
    let repeated = Claim { attempt: sent, ..unregistered() };
    assert!(creation(&repeated).is_some(), "a repeat sends what was sent, though the node is gone");

    let mut node = CSINode::default();
    node.metadata.name = Some("n".into());
    let no_keys =
        Claim { cluster: Cluster { csi_nodes: vec![Arc::new(node)], nodes: vec![] }, ..unregistered() };
    assert!(matches!(decision(&no_keys), Step::Fail(Why::Invalid(_))));
}

#[test]
fn refused_before_any_call() {
    let source = |kind: &str, group: &str| TypedLocalObjectReference {
        kind: kind.into(),
        name: "s".into(),
        api_group: Some(group.into()),
    };
    let snapshot = source("VolumeSnapshot", "example.org");
    let with_source =
        |s: TypedLocalObjectReference| seen().claim(|c| c.spec.as_mut().unwrap().data_source = Some(s));
    let modes = |modes: &[&str]| {
        let modes = modes.iter().map(ToString::to_string).collect();
        seen().claim(|c| c.spec.as_mut().unwrap().access_modes = Some(modes))
    };
    let class =
        |key: &str, value: &str| seen().class(build::class("fast", DRIVER).parameter(key, value).build());
    let twice = build::class("fast", DRIVER).fs_type("ext4").parameter("FsType", "xfs").build();
    let vac = |c: &mut PersistentVolumeClaim| {
        c.spec.as_mut().unwrap().volume_attributes_class_name = Some("gold".into());
    };
    let table = [
        (
            "snapshot of another group",
            with_source(snapshot),
            "right APIGroup. Expected snapshot.storage.k8s.io",
        ),
        ("driver cannot", seen().settings(|s| s.creates = false), "does not support dynamic provisioning"),
        ("attributes class", seen().claim(vac), "does not support VolumeAttributesClass"),
        (
            "selector",
            seen().claim(|c| c.spec.as_mut().unwrap().selector = Some(LabelSelector::default())),
            "Selector",
        ),
        ("no prefix", seen().settings(|s| s.naming.prefix.clear()), "prefix"),
        ("two filesystems", seen().class(twice), "both"),
        ("unknown mode", modes(&["ReadSometimes"]), "access mode"),
        ("unknown parameter", class("csi.storage.k8s.io/colour", "red"), "unknown parameter key"),
        ("half a secret", class("csi.storage.k8s.io/provisioner-secret-name", "s"), "together"),
    ];
    for (name, seen, part) in table {
        match decision(&seen) {
            Step::Fail(Why::Invalid(text)) => assert!(text.contains(part), "{name}: {text}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn populators_are_left_alone() {
    let source = TypedLocalObjectReference { kind: "Hello".into(), name: "h".into(), ..Default::default() };
    let seen = seen().claim(|c| c.spec.as_mut().unwrap().data_source = Some(source));
    assert_eq!(decision(&seen), Step::Do(Action::TellPopulator));
    let told = seen.attempt(|a| a.told_populator = true);
    assert_eq!(decision(&told), Step::Wait(Why::Populator("Hello".into())));
}

#[test]
fn capabilities_of_the_request() {
    let spec = |c: &mut PersistentVolumeClaim| {
        let spec = c.spec.as_mut().unwrap();
        spec.access_modes = Some(vec!["ReadOnlyMany".into(), "ReadWriteOnce".into()]);
    };
    let class = build::class("fast", DRIVER).fs_type("xfs").parameter("tier", "gold");
    let mut class = class.build();
    class.mount_options = Some(vec!["noatime".into()]);
    let two = creation(&seen().claim(spec).class(class.clone())).unwrap();
    assert_eq!(two.request.volume_capabilities.len(), 2, "one per access mode");
    assert_eq!(two.request.parameters, BTreeMap::from([("tier".to_owned(), "gold".to_owned())]));
    match &two.request.volume_capabilities[0].access_type {
        Some(AccessType::Mount(mount)) => {
            assert_eq!(
                (mount.fs_type.as_str(), mount.mount_flags.as_slice()),
                ("xfs", &["noatime".to_owned()][..])
            );
        }
        other => panic!("{other:?}"),
    }
    let block = |c: &mut PersistentVolumeClaim| c.spec.as_mut().unwrap().volume_mode = Some("Block".into());
    let block = creation(&seen().claim(block).class(class)).unwrap();
    assert!(matches!(block.request.volume_capabilities[0].access_type, Some(AccessType::Block(_))));
    let told = creation(&seen().settings(|s| s.extra_create_metadata = true)).unwrap();
    assert_eq!(told.request.parameters.get(keys::CLAIM_NAME_PARAMETER).map(String::as_str), Some("data"));
}

#[test]
fn names_are_derived() {
    let mut claim = pending();
    claim.metadata.uid = Some("12ab-34cd".into());
    assert_eq!(volume_name(&settings().naming, &claim), "pvc-12ab-34cd");
    let short = Naming { uuid_length: Some(6), prefix: "x".into() };
    assert_eq!(volume_name(&short, &claim), "x-12ab34");
}

#[test]
fn every_name_has_a_part_of_the_uid() {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }
    let length = |text: &str| {
        let line = Line::try_parse_from(["", &format!("--volume-name-uuid-length={text}")]);
        line.map(|line| line.flags.volume_name_uuid_length).ok()
    };
    assert_eq!([length("-1"), length("1"), length("32")], [Some(-1), Some(1), Some(32)]);
    assert_eq!([length("0"), length("-2"), length("33"), length("x")], [None; 4]);
}

prop_compose! {
    fn any_claim()(
        (exists, delayed, selected, topology, volume_exists) in any::<(bool, bool, bool, bool, bool)>(),
        (class, ours) in any::<(bool, bool)>(),
        (stored, open, slow, told_populator) in any::<(bool, bool, bool, bool)>(),
        (unsaved, unusable, exhausted) in any::<(bool, bool, bool)>(),
    ) -> Claim {
        let attempt = if stored { seen().stored().attempt } else { Attempt::default() };
        let mut seen = Claim { exists, volume_exists, attempt, ..seen() }.settings(|s| s.topology = topology);
        if delayed {
            seen = seen.delayed();
        }
        if selected {
            seen = seen.on_node("n");
        }
        if !class {
            seen.class = None;
        }
        if !ours {
            seen = seen.claim(|c| c.metadata.annotations = None);
        }
        let small = Unusable { handle: "v".into(), secret: None, why: "too small".into() };
        seen.attempt(|a| {
            a.open = stored && open;
            a.slow = slow;
            a.told_populator = told_populator;
            a.unsaved = unsaved.then(Arc::default);
            a.unusable = unusable.then_some(small);
            a.exhausted = exhausted.then(|| "full".into());
        })
    }
}

proptest! {
    #[test]
    fn every_call_for_a_claim_has_the_same_name(seen in any_claim()) {
        if let Some(creation) = creation(&seen) {
            prop_assert_eq!(creation.request.name, "pvc-u-1", "PROV-1: {:?}", seen);
            prop_assert!(!seen.volume_exists && seen.attempt.unsaved.is_none(), "PROV-1: {seen:?}");
        }
    }

    #[test]
    fn what_exists_is_never_forgotten(seen in any_claim()) {
        let decision = decision(&seen);
        if seen.attempt.unsaved.is_some() {
            prop_assert_eq!(decision, Step::Do(Action::Save), "PROV-2: {:?}", seen);
        } else if seen.attempt.unusable.is_some() {
            prop_assert!(matches!(decision, Step::Do(Action::Discard { .. })), "PROV-2: {seen:?}");
        } else if seen.attempt.open && !seen.volume_exists {
            prop_assert!(matches!(decision, Step::Do(Action::Create(_))), "PROV-1: repeated: {seen:?}");
        } else if let Step::Do(Action::Create(intent)) = decision {
            let stored = seen.attempt.stored.as_ref().map(|stored| &stored.intent);
            prop_assert_eq!(stored, Some(&intent), "PROV-2: stored before it is sent");
        }
    }
}

#[test]
fn edge_2_15_1_a_call_without_an_answer_is_repeated_for_a_claim_that_is_gone() {
    let sent = creation(&seen().open());
    assert!(sent.is_some());
    assert_eq!(creation(&seen().open().gone()), sent);
}

/// A failed check before the repeat (a secret, a class, a node) does not end what may have been made.
#[test]
fn edge_2_15_2_and_3_a_repeat_is_identical_whatever_has_become_of_class_and_nodes() {
    let sent = creation(&seen().open());
    let nodeless = seen().open().settings(|s| s.topology = true).on_node("gone");
    assert_eq!(creation(&Claim { class: None, ..nodeless }), sent);
}

#[test]
fn edge_2_15_9_each_access_mode_is_a_capability_and_block_has_no_filesystem() {
    let modes = |c: &mut PersistentVolumeClaim| {
        let modes = ["ReadOnlyMany", "ReadWriteOnce"].map(String::from);
        c.spec.as_mut().unwrap().access_modes = Some(modes.into());
    };
    let block = |c: &mut PersistentVolumeClaim| c.spec.as_mut().unwrap().volume_mode = Some("Block".into());
    let creation = creation(&seen().claim(modes).claim(block)).unwrap();
    let capabilities = creation.request.volume_capabilities;
    assert_eq!(capabilities.len(), 2);
    assert!(capabilities.iter().all(|one| matches!(one.access_type, Some(AccessType::Block(_)))));
}

#[test]
fn edge_2_15_10_an_unknown_parameter_with_the_prefix_is_refused_and_an_old_secret_key_is_passed_on() {
    let class = |key: &str| build::class("fast", DRIVER).parameter(key, "x");
    let unknown = seen().class(class("csi.storage.k8s.io/colour").build());
    assert!(matches!(decision(&unknown), Step::Fail(Why::Invalid(_))));
    let old = class("csiProvisionerSecretName").parameter("csiProvisionerSecretNamespace", "ns").build();
    let creation = creation(&seen().class(old)).unwrap();
    assert!(creation.secrets.provisioner.is_some());
    assert_eq!(creation.request.parameters["csiProvisionerSecretName"], "x");
}

#[test]
fn edge_2_15_14_a_populators_claim_ends_with_one_event_and_no_failure() {
    let source = TypedLocalObjectReference { kind: "Hello".into(), name: "h".into(), ..Default::default() };
    let seen = seen().claim(|c| c.spec.as_mut().unwrap().data_source = Some(source));
    assert_eq!(decision(&seen), Step::Do(Action::TellPopulator));
    let told = seen.attempt(|a| a.told_populator = true);
    assert!(matches!(decision(&told), Step::Wait(Why::Populator(_))));
}
