//! What a pod goes through, and what never happens on the way.

use bowline_api::pod as api;
use k8s_openapi::api::core::v1::{PodCondition, PodSchedulingGate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::super::decide::UNSCHEDULABLE;
use super::*;

fn told(text: &str) -> impl FnOnce(&mut Pod) {
    let condition = PodCondition {
        type_: api::POD_SCHEDULED.into(),
        status: "False".into(),
        reason: Some(UNSCHEDULABLE.into()),
        message: Some(text.into()),
        ..Default::default()
    };
    move |pod| pod.status.get_or_insert_default().conditions = Some(vec![condition])
}

#[test]
fn pods_that_are_not_to_be_placed() {
    let here = || pod().on([node("n")]);
    let gate = PodSchedulingGate { name: "g".into() };
    let no_nodes = "no nodes available to schedule pods";
    check([
        (
            "has a node",
            here().changed(|p| p.spec.get_or_insert_default().node_name = Some("m".into())),
            Step::Done,
        ),
        (
            "being deleted",
            here().changed(|p| p.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH))),
            Step::Done,
        ),
        (
            "gated",
            here().changed(|p| p.spec.get_or_insert_default().scheduling_gates = Some(vec![gate])),
            Step::Wait(Why::Gated),
        ),
        ("told already", pod().changed(told(no_nodes)), Step::Wait(Why::Unschedulable(no_nodes.into()))),
        ("another reason now", pod().changed(told("old")), refused(no_nodes)),
        ("told, but now it fits", here().changed(told(no_nodes)), bind("n")),
    ]);
}

/// One claim: bound, waiting, chosen, reserved; on one of two nodes or anywhere.
fn any_claim(name: &'static str) -> impl Strategy<Value = ClaimSeen> {
    let place = |place: usize, name: &str| match place {
        0 => volume_on(name, "m"),
        1 => volume_on(name, "n"),
        _ => volume(name),
    };
    (0..6usize, 0..3usize, any::<bool>()).prop_map(move |(state, at, other)| {
        let own = format!("v-{name}");
        let mut seen = match state {
            0 => claim(name).bound(place(at, &own)),
            1 => claim(name).selected(["m", "n", "dead"][at]),
            2 => claim(name).near([reserved_for(place(at, &own), name)]),
            3 => claim(name).near([place(at, "shared"), place(2, "other")]),
            4 => claim(name).naming(&own),
            _ => claim(name),
        };
        seen.other_user = other.then(|| "q".into());
        if other && state == 0 {
            seen = seen.changed(|c| {
                c.spec.as_mut().unwrap().access_modes = Some(vec![volume::READ_WRITE_ONCE_POD.into()]);
            });
        }
        seen
    })
}

fn any_seen() -> impl Strategy<Value = Observed> {
    (any_claim("a"), any_claim("b"), 0..3usize, 0..3usize)
        .prop_map(|(a, b, m, n)| pod().on([node("m").load(m), node("n").load(n)]).using([a, b]))
}

/// What the binder and the provisioner make of it: one claim gets further on its node.
fn advance(seen: &mut Observed, action: &Action) -> bool {
    match action {
        Action::Reserve { claim, volume } => {
            for other in &mut seen.claims {
                let name = other.name.clone();
                for candidate in other.candidates.iter_mut().filter(|c| c.name() == volume) {
                    *candidate = Arc::new(reserved_for((**candidate).clone(), claim));
                }
                let stays = |c: &Arc<PersistentVolume>| {
                    volume::claim_ref(c).is_none_or(|r| r.name.as_deref() == Some(&name))
                };
                other.candidates.retain(stays);
            }
            true
        }
        Action::SelectNode { claim, node } => {
            let at = seen.claims.iter().position(|c| c.name == *claim).unwrap();
            seen.claims[at] = seen.claims[at].clone().selected(node);
            true
        }
        Action::Bind { .. } | Action::MarkUnschedulable { .. } => false,
    }
}

proptest! {
    /// BIND-2: bound means every claim is bound to a volume in reach; a ReadWriteOncePod claim has no other user.
    #[test]
    fn a_pod_is_bound_only_where_its_volumes_are(seen in any_seen()) {
        if let Step::Do(Action::Bind { node }) = decide(&seen) {
            let node = seen.nodes.iter().find(|n| n.node.name() == node).unwrap();
            for claim in &seen.claims {
                let object = claim.claim.as_deref().unwrap();
                prop_assert!(volume::bound(object), "{} is not bound", claim.name);
                let at = claim.volume.as_deref().unwrap();
                prop_assert!(bowline_api::selector::volume_reachable(at, &node.node), "{}", claim.name);
                let exclusive = volume::claim_access_modes(object).contains(&volume::READ_WRITE_ONCE_POD.into());
                prop_assert!(!exclusive || claim.other_user.is_none(), "{}", claim.name);
            }
        }
    }

    /// BIND-1: only a volume that names nobody or this claim is taken.
    #[test]
    fn only_an_unclaimed_volume_is_taken(seen in any_seen()) {
        if let Step::Do(Action::Reserve { claim, volume: name }) = decide(&seen) {
            let seen = seen.claims.iter().find(|c| c.name == claim).unwrap();
            let taken = seen.candidates.iter().find(|v| v.name() == name).unwrap();
            let object = seen.claim.as_deref().unwrap();
            prop_assert!(volume::claim_ref(taken).is_none_or(|r| volume::refers_to(r, object)));
        }
    }

    /// Every write leads on: never another node for a claim that has one, and in the end a wait, a place or a reason.
    #[test]
    fn the_steps_come_to_an_end(seen in any_seen()) {
        let mut seen = seen;
        let mut nodes = BTreeSet::new();
        for _ in 0..8 {
            let Step::Do(action) = decide(&seen) else { return Ok(()) };
            if let Action::SelectNode { node, .. } = &action {
                nodes.insert(node.clone());
                prop_assert!(nodes.len() == 1, "torn between {nodes:?}");
            }
            if !advance(&mut seen, &action) {
                return Ok(());
            }
        }
        prop_assert!(false, "no end: {:?}", decide(&seen));
    }
}
