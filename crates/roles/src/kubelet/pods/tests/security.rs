//! As whom containers run, what they may do and use up, and what is refused.

use bowline_host::containers::{DEFAULT_CAPABILITIES, Resources, Seccomp, Security};
use serde_json::{Value, json};

use super::super::spec::{resources, security};
use super::*;

fn with_contexts(shared: Value, own: Value) -> Pod {
    pod(|pod| {
        let spec = pod.spec.as_mut().unwrap();
        spec.security_context = Some(serde_json::from_value(shared).unwrap());
        spec.containers[0].security_context = Some(serde_json::from_value(own).unwrap());
    })
}

fn made(pod: &Pod, allow_privileged: bool) -> Result<Security, String> {
    let container = &pod.spec.as_ref().unwrap().containers[0];
    security(pod, container, allow_privileged).map_err(|problem| problem.message)
}

/// S4: a pod that asks for user 1000 does not run as root.
#[test]
fn a_container_is_started_as_the_user_that_its_pod_asks_for() {
    let shared = json!({"runAsUser": 1000, "runAsGroup": 1001, "supplementalGroups": [7, 5], "fsGroup": 6});
    let asking = with_contexts(
        shared,
        json!({"runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "seccompProfile": {"type": "RuntimeDefault"}}),
    );
    let Step::Do(Action::Start { spec, .. }) = decide(&seen(asking)) else { panic!() };
    let expected = Security {
        uid: 1000,
        gid: 1001,
        groups: vec![5, 6, 7],
        capabilities: [].into(),
        no_new_privileges: true,
        read_only_root: true,
        seccomp: Seccomp::RuntimeDefault,
    };
    assert_eq!(spec.security, expected);
}

#[test]
fn the_container_overrides_the_pod() {
    let shared = json!({"runAsUser": 1000, "runAsGroup": 1, "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    let own = json!({"runAsUser": 0, "runAsGroup": 2, "runAsNonRoot": false, "seccompProfile": {"type": "Unconfined"}});
    let made = made(&with_contexts(shared, own), false).unwrap();
    assert_eq!((made.uid, made.gid, made.seccomp), (0, 2, Seccomp::Unconfined));
}

#[test]
fn a_pod_without_a_security_context_gets_the_defaults() {
    let made = made(&pod(|_| ()), false).unwrap();
    assert_eq!(made, Security::default());
    assert!(!made.no_new_privileges, "upstream's default");
}

#[test]
fn containers_that_must_not_be_root_are_not() {
    let image =
        "container has runAsNonRoot and image will run as root (pod: \"p_default(uid)\", container: main)";
    let asked = "container's runAsUser breaks non-root policy (pod: \"p_default(uid)\", container: main)";
    let table = [
        (json!({"runAsNonRoot": true}), json!({}), Err(image)),
        (json!({"runAsNonRoot": true, "runAsUser": 0}), json!({}), Err(asked)),
        (json!({"runAsNonRoot": true, "runAsUser": 1}), json!({"runAsUser": 0}), Err(asked)),
        (json!({"runAsNonRoot": true}), json!({"runAsUser": 5}), Ok(5)),
        (json!({"runAsNonRoot": true}), json!({"runAsNonRoot": false}), Ok(0)),
    ];
    for (shared, own, expected) in table {
        let made = made(&with_contexts(shared.clone(), own.clone()), false);
        assert_eq!(made.as_ref().map(|made| made.uid).map_err(String::as_str), expected, "{shared} {own}");
    }
}

#[test]
fn capabilities_are_added_and_dropped_as_runtimes_do() {
    let all_but_chown =
        || DEFAULT_CAPABILITIES.into_iter().filter(|name| *name != "CHOWN").collect::<Vec<_>>();
    let table = [
        (
            json!({"drop": ["ALL"], "add": ["CAP_CHOWN", "net_bind_service"]}),
            vec!["CHOWN", "NET_BIND_SERVICE"],
        ),
        (json!({"drop": ["CAP_CHOWN"]}), all_but_chown()),
        (json!({"add": ["CHOWN"], "drop": ["CHOWN"]}), all_but_chown()),
    ];
    for (asked, expected) in table {
        let made = made(&with_contexts(json!({}), json!({"capabilities": asked})), false).unwrap();
        let expected = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(made.capabilities, expected, "{asked}");
    }
}

#[test]
fn what_reaches_beyond_a_container_needs_the_nodes_consent() {
    let dangerous = [
        "SYS_ADMIN",
        "CAP_SYS_ADMIN",
        "MKNOD",
        "SYS_RAWIO",
        "SYS_MODULE",
        "BPF",
        "SYS_PTRACE",
        "DAC_READ_SEARCH",
        "NET_ADMIN",
        "NET_RAW",
        "ALL",
    ];
    for name in dangerous {
        let asking = with_contexts(json!({}), json!({"capabilities": {"add": [name]}}));
        let refused = made(&asking, false).unwrap_err();
        assert!(refused.contains("--allow-privileged"), "{name}: {refused}");
        let bare = name.trim_start_matches("CAP_");
        let granted = made(&asking, true).unwrap().capabilities;
        assert!(bare == "ALL" && granted.len() == 41 || granted.contains(bare), "{name}: {granted:?}");
    }
    let privileged = with_contexts(json!({}), json!({"privileged": true}));
    assert!(made(&privileged, false).unwrap_err().contains("--allow-privileged"));
    let granted = made(&privileged, true).unwrap();
    assert_eq!((granted.seccomp, granted.capabilities.len()), (Seccomp::Unconfined, 41));
    let nonsense = with_contexts(json!({}), json!({"capabilities": {"add": ["FLY"]}}));
    assert_eq!(made(&nonsense, true).unwrap_err(), "capability \"FLY\" is not known");
}

#[test]
fn resources_are_in_the_kernels_units() {
    let of = |asked: Value| {
        let pod = pod(|pod| {
            pod.spec.as_mut().unwrap().containers[0].resources = serde_json::from_value(asked).unwrap()
        });
        resources(&pod.spec.unwrap().containers[0]).map_err(|problem| problem.message)
    };
    let some = |memory_max, cpu_shares, cpu_quota| {
        Ok(Resources { memory_max, cpu_shares: Some(cpu_shares), cpu_quota, pids_max: Some(4096) })
    };
    let table = [
        (json!({}), some(None, 2, None)),
        (json!({"limits": {"memory": "32Mi"}}), some(Some(32 << 20), 2, None)),
        (json!({"limits": {"cpu": "1500m"}, "requests": {"cpu": "250m"}}), some(None, 256, Some(150_000))),
        (json!({"limits": {"cpu": "2"}}), some(None, 2048, Some(200_000))),
        (json!({"limits": {"cpu": "1m"}}), some(None, 2, Some(1000))),
        (json!({"requests": {"cpu": "1000"}}), some(None, 262_144, None)),
        (json!({"requests": {"ephemeral-storage": "1Gi"}}), some(None, 2, None)),
    ];
    for (asked, expected) in table {
        assert_eq!(of(asked.clone()), expected, "{asked}");
    }
    for asked in [
        json!({"limits": {"ephemeral-storage": "1Gi"}}),
        json!({"limits": {"hugepages-2Mi": "2Mi"}}),
        json!({"requests": {"example.com/gpu": "1"}}),
        json!({"claims": [{"name": "gpu"}]}),
    ] {
        assert!(of(asked.clone()).is_err(), "{asked}");
    }
}
