use std::collections::BTreeMap;
use std::sync::LazyLock;

use bowline_api::Pod;
use serde_json::json;

use super::*;
use crate::admission::{Admission, AdmissionNotes, AdmissionRequest, Lister, Operation};
use crate::auth::User;
use crate::kinds::admission::*;

/// Objects by plural and name.
struct Objects(BTreeMap<(&'static str, &'static str), Value>);

impl Lister for Objects {
    fn get(&self, _group: &str, plural: &str, _namespace: &str, name: &str) -> Option<Value> {
        self.0.iter().find(|((p, n), _)| *p == plural && *n == name).map(|(_, object)| object.clone())
    }
    fn list(&self, _group: &str, plural: &str) -> Vec<Value> {
        self.0.iter().filter(|((p, _), _)| *p == plural).map(|(_, object)| object.clone()).collect()
    }
}

fn classes() -> Objects {
    let class = |name: &'static str, default: &str, created: &str, expands: bool| {
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": default});
        let metadata = json!({"name": name, "creationTimestamp": created, "annotations": annotations});
        let class = json!({"metadata": metadata, "provisioner": "d", "allowVolumeExpansion": expands});
        (("storageclasses", name), class)
    };
    Objects(BTreeMap::from([
        class("fixed", "true", CREATED, false),
        class("fast", "true", NOW, true),
        class("slow", "false", NOW, true),
    ]))
}

fn request<'a>(plural: &'a str, operation: Operation, old: Option<&'a Value>) -> AdmissionRequest<'a> {
    static USER: LazyLock<User> = LazyLock::new(User::server);
    let (group, kind, subresource, namespace, name) = ("", "", "", "default", "data");
    let user = &*USER;
    static NOTES: LazyLock<AdmissionNotes> = LazyLock::new(AdmissionNotes::default);
    let (now, notes) = (now(), &*NOTES);
    AdmissionRequest { operation, group, plural, kind, subresource, namespace, name, old, user, now, notes }
}

fn admitted(plugin: &dyn Admission, plural: &str, operation: Operation, object: Value) -> Value {
    let mut object = object;
    plugin.admit(&request(plural, operation, None), &mut object, &classes()).unwrap();
    object
}

#[test]
fn claims_without_a_class_get_the_newest_default() {
    let class = |spec: Value| {
        let object = json!({"metadata": {"name": "data"}, "spec": spec});
        admitted(&DefaultClass, "persistentvolumeclaims", Operation::Create, object)["spec"]["storageClassName"].clone()
    };
    assert_eq!(class(json!({})), "fast");
    assert_eq!(class(json!({"storageClassName": "slow"})), "slow");
    assert_eq!(class(json!({"storageClassName": ""})), "", "none on purpose");
    let annotated =
        json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": ""}}, "spec": {}});
    let stored = admitted(&DefaultClass, "persistentvolumeclaims", Operation::Create, annotated);
    assert_eq!(stored["spec"].get("storageClassName"), None);
    let object = json!({"metadata": {}, "spec": {}});
    let stored = admitted(&DefaultClass, "persistentvolumeclaims", Operation::Update, object);
    assert_eq!(stored["spec"].get("storageClassName"), None, "on create only");
    let mut claim = json!({"metadata": {}, "spec": {}});
    let nothing = Objects(BTreeMap::new());
    let creates = request("persistentvolumeclaims", Operation::Create, None);
    DefaultClass.admit(&creates, &mut claim, &nothing).unwrap();
    assert_eq!(claim["spec"].get("storageClassName"), None, "no default, no class");
}

#[test]
fn claims_and_volumes_are_protected() {
    let finalizers = |plural: &str, operation, finalizers: Value| {
        let object = json!({"metadata": {"finalizers": finalizers}});
        admitted(&StorageProtection, plural, operation, object)["metadata"]["finalizers"].clone()
    };
    let (claims, volumes) = ("persistentvolumeclaims", "persistentvolumes");
    let table = [
        (claims, Operation::Create, json!([]), json!(["kubernetes.io/pvc-protection"])),
        (
            claims,
            Operation::Create,
            json!(["kubernetes.io/pvc-protection"]),
            json!(["kubernetes.io/pvc-protection"]),
        ),
        (volumes, Operation::Create, json!(["a/b"]), json!(["a/b", "kubernetes.io/pv-protection"])),
        (claims, Operation::Update, json!([]), json!([])),
        ("pods", Operation::Create, json!([]), json!([])),
    ];
    for (plural, operation, before, after) in table {
        assert_eq!(finalizers(plural, operation, before), after, "{plural} {operation:?}");
    }
}

#[test]
fn who_may_grow() {
    let claim = |size: &str, class: Value, phase: &str| {
        json!({
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
            "status": {"phase": phase},
        })
    };
    const NOT_BOUND: &str =
        "persistentvolumeclaims \"data\" is forbidden: Only bound persistent volume claims can be expanded";
    const NOT_DYNAMIC: &str = "persistentvolumeclaims \"data\" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    let table = [
        ("grows", "2Gi", json!("fast"), json!("fast"), "Bound", None),
        ("same", "1024Mi", json!("fixed"), json!("fixed"), "Bound", None),
        ("shrinks", "1Mi", json!("fixed"), json!("fixed"), "Bound", None),
        ("pending", "2Gi", json!("fast"), json!("fast"), "Pending", Some(NOT_BOUND)),
        ("class does not expand", "2Gi", json!("fixed"), json!("fixed"), "Bound", Some(NOT_DYNAMIC)),
        ("no such class", "2Gi", json!("gone"), json!("gone"), "Bound", Some(NOT_DYNAMIC)),
        ("no class", "2Gi", json!(""), json!(""), "Bound", Some(NOT_DYNAMIC)),
        ("class comes at the same time", "2Gi", json!("fast"), json!(null), "Bound", Some(NOT_DYNAMIC)),
    ];
    for (name, size, class, old_class, phase, want) in table {
        let (new, old) = (claim(size, class, phase), claim("1Gi", old_class, phase));
        let update = request("persistentvolumeclaims", Operation::Update, Some(&old));
        let got = ClaimResize.validate(&update, &new, &classes());
        assert_eq!(got.as_ref().err().map(|status| status.message.as_str()), want, "{name}");
        assert!(got.is_ok() || got.is_err_and(|status| status.code == 403), "{name}");
    }
}

#[test]
fn pods_run_as_somebody_and_outlast_lost_nodes() {
    let object = json!({"metadata": {"name": "p"}, "spec": {"containers": []}});
    let stored = admitted(&ServiceAccounts { tokens: false }, "pods", Operation::Create, object.clone());
    assert_eq!(
        (&stored["spec"]["serviceAccountName"], &stored["spec"]["serviceAccount"]),
        (&json!("default"), &json!("default"))
    );
    let own = patched(&object, &json!({"spec": {"serviceAccountName": "me"}}));
    assert_eq!(
        admitted(&ServiceAccounts { tokens: false }, "pods", Operation::Create, own)["spec"]["serviceAccount"],
        "me"
    );

    let tolerate = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let (lost, silent) =
        (tolerate("node.kubernetes.io/not-ready"), tolerate("node.kubernetes.io/unreachable"));
    let brief = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
    let everything = json!({"operator": "Exists"});
    let schedule =
        json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"});
    let table = [
        (json!([]), json!([lost, silent])),
        (json!([brief]), json!([brief, silent])),
        (json!([everything]), json!([everything])),
        (json!([schedule]), json!([schedule, lost, silent])),
    ];
    for (before, after) in table {
        let pod = patched(&object, &json!({"spec": {"tolerations": before}}));
        let stored = admitted(&DefaultTolerations, "pods", Operation::Create, pod);
        assert_eq!(stored["spec"]["tolerations"], after, "{before}");
    }
}

#[test]
fn pods_prove_who_they_are() {
    let path = "/var/run/secrets/kubernetes.io/serviceaccount";
    let pod = |spec: Value| {
        let base = json!({"metadata": {"name": "p"}, "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}});
        patched(&base, &json!({"spec": spec}))
    };
    let mounted = json!([{"name": "c", "volumeMounts": [{"name": "x", "mountPath": path}]}]);
    let table = [
        ("says nothing", json!({}), json!({}), vec!["i", "c"], true),
        ("account says no", json!({}), json!({"automountServiceAccountToken": false}), vec![], false),
        (
            "pod says yes",
            json!({"automountServiceAccountToken": true}),
            json!({"automountServiceAccountToken": false}),
            vec!["i", "c"],
            true,
        ),
        ("pod says no", json!({"automountServiceAccountToken": false}), json!({}), vec![], false),
        (
            "a mount is there",
            json!({"containers": mounted, "initContainers": null}),
            json!({}),
            vec!["c"],
            false,
        ),
    ];
    for (name, spec, account, want, added) in table {
        let mut object: Pod = serde_json::from_value(pod(spec)).unwrap();
        equip(&mut object, &serde_json::from_value(account).unwrap(), "p");
        let spec = object.spec.unwrap();
        let all = spec.init_containers.iter().flatten().chain(&spec.containers);
        let has = |one: &&bowline_api::Container| {
            one.volume_mounts.iter().flatten().any(|mount| mount.mount_path == path)
        };
        let found: Vec<&str> = all.filter(has).map(|one| one.name.as_str()).collect();
        assert_eq!(found, want, "{name}");
        assert_eq!(spec.volumes.is_some_and(|volumes| !volumes.is_empty()), added, "{name}");
    }
    let mut object: Pod = serde_json::from_value(pod(json!({}))).unwrap();
    equip(&mut object, &serde_json::from_value(json!({"imagePullSecrets": [{"name": "s"}]})).unwrap(), "p");
    let stored = created::<crate::kinds::pod::PodRules>(&serde_json::to_value(&object).unwrap());
    let volume = &stored["spec"]["volumes"][0];
    assert!(volume["name"].as_str().unwrap().starts_with("kube-api-access-"));
    assert_eq!(volume["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"], 3607);
    assert_eq!(volume["projected"]["sources"][1]["configMap"]["name"], "kube-root-ca.crt");
    assert_eq!(stored["spec"]["imagePullSecrets"], json!([{"name": "s"}]));
    let mut mirror: Pod =
        serde_json::from_value(json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}))
            .unwrap();
    set_service_account(&mut mirror);
    assert_eq!(mirror.spec, None);
}
