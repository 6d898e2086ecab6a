//! Names, scopes and flags of every kind, as discovery and verbs need them.

use crate::kinds::DeleteReply::{Object, Status};
use crate::kinds::register::{register, register_admission};
use crate::kinds::{DeleteReply, Rules};
use crate::registry::Registry;

#[test]
fn every_kind_as_upstream_has_it() {
    let mut registry = Registry::new();
    register(&mut registry);
    register_admission(&mut registry);
    let flag = |on: bool, text: &'static str| if on { text } else { "" };
    let shown: Vec<String> = registry
        .kinds()
        .map(|kind| {
            let info = kind.info();
            let (short, categories) = (info.names.short.join(","), info.names.categories.join(","));
            let words: [&str; 12] = [
                &info.api_version,
                &info.names.plural,
                &info.names.singular,
                &info.kind,
                &short,
                &categories,
                flag(info.namespaced, "namespaced"),
                flag(info.status, "status"),
                flag(!info.unconditional_update, "needs-version"),
                flag(info.create_on_update, "put-creates"),
                flag(info.generation, "generation"),
                reply(info.delete_reply),
            ];
            words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
        })
        .collect();
    let want = [
        "v1 bindings binding Binding namespaced",
        "v1 configmaps configmap ConfigMap cm namespaced",
        "v1 endpoints endpoints Endpoints ep namespaced put-creates",
        "v1 events event Event ev namespaced put-creates",
        "v1 limitranges limitrange LimitRange limits namespaced put-creates",
        "v1 namespaces namespace Namespace ns status replies-object",
        "v1 nodes node Node no status",
        "v1 persistentvolumeclaims persistentvolumeclaim PersistentVolumeClaim pvc namespaced status replies-object",
        "v1 persistentvolumes persistentvolume PersistentVolume pv status replies-object",
        "v1 pods pod Pod po all namespaced status generation replies-object",
        "v1 podtemplates podtemplate PodTemplate namespaced generation replies-object",
        "v1 replicationcontrollers replicationcontroller ReplicationController rc all namespaced status generation",
        "v1 resourcequotas resourcequota ResourceQuota quota namespaced status replies-object",
        "v1 secrets secret Secret namespaced",
        "v1 serviceaccounts serviceaccount ServiceAccount sa namespaced replies-object",
        "v1 services service Service svc all namespaced status put-creates replies-object",
        "apiextensions.k8s.io/v1 customresourcedefinitions customresourcedefinition CustomResourceDefinition crd,crds api-extensions status needs-version generation replies-object",
        "apps/v1 controllerrevisions controllerrevision ControllerRevision namespaced",
        "apps/v1 daemonsets daemonset DaemonSet ds all namespaced status generation",
        "apps/v1 deployments deployment Deployment deploy all namespaced status generation",
        "apps/v1 replicasets replicaset ReplicaSet rs all namespaced status generation",
        "apps/v1 statefulsets statefulset StatefulSet sts all namespaced status generation",
        "authentication.k8s.io/v1 selfsubjectreviews selfsubjectreview SelfSubjectReview",
        "authentication.k8s.io/v1 tokenreviews tokenreview TokenReview",
        "authorization.k8s.io/v1 localsubjectaccessreviews localsubjectaccessreview LocalSubjectAccessReview namespaced",
        "authorization.k8s.io/v1 selfsubjectaccessreviews selfsubjectaccessreview SelfSubjectAccessReview",
        "authorization.k8s.io/v1 selfsubjectrulesreviews selfsubjectrulesreview SelfSubjectRulesReview",
        "authorization.k8s.io/v1 subjectaccessreviews subjectaccessreview SubjectAccessReview",
        "autoscaling/v2 horizontalpodautoscalers horizontalpodautoscaler HorizontalPodAutoscaler hpa all namespaced status",
        "batch/v1 cronjobs cronjob CronJob cj all namespaced status generation",
        "batch/v1 jobs job Job all namespaced status generation",
        "coordination.k8s.io/v1 leases lease Lease namespaced needs-version put-creates",
        "discovery.k8s.io/v1 endpointslices endpointslice EndpointSlice namespaced generation",
        "events.k8s.io/v1 events event Event ev namespaced put-creates",
        "node.k8s.io/v1 runtimeclasses runtimeclass RuntimeClass needs-version put-creates",
        "policy/v1 poddisruptionbudgets poddisruptionbudget PodDisruptionBudget pdb namespaced status needs-version generation",
        "rbac.authorization.k8s.io/v1 clusterrolebindings clusterrolebinding ClusterRoleBinding put-creates",
        "rbac.authorization.k8s.io/v1 clusterroles clusterrole ClusterRole put-creates",
        "rbac.authorization.k8s.io/v1 rolebindings rolebinding RoleBinding namespaced put-creates",
        "rbac.authorization.k8s.io/v1 roles role Role namespaced put-creates",
        "resource.k8s.io/v1 deviceclasses deviceclass DeviceClass generation replies-object",
        "resource.k8s.io/v1 resourceclaims resourceclaim ResourceClaim namespaced status replies-object",
        "resource.k8s.io/v1 resourceclaimtemplates resourceclaimtemplate ResourceClaimTemplate namespaced replies-object",
        "resource.k8s.io/v1 resourceslices resourceslice ResourceSlice generation replies-object",
        "scheduling.k8s.io/v1 priorityclasses priorityclass PriorityClass pc",
        "storage.k8s.io/v1 csidrivers csidriver CSIDriver needs-version replies-object",
        "storage.k8s.io/v1 csinodes csinode CSINode needs-version replies-object",
        "storage.k8s.io/v1 csistoragecapacities csistoragecapacity CSIStorageCapacity namespaced needs-version",
        "storage.k8s.io/v1 storageclasses storageclass StorageClass sc replies-object",
        "storage.k8s.io/v1 volumeattachments volumeattachment VolumeAttachment status needs-version replies-object",
        "storage.k8s.io/v1 volumeattributesclasses volumeattributesclass VolumeAttributesClass vac replies-object",
    ];
    assert_eq!(shown, want);
    assert_eq!(registry.admission().len(), 11);
}

fn reply(reply: DeleteReply) -> &'static str {
    match reply {
        Object => "replies-object",
        Status => "",
    }
}

#[test]
fn the_first_column_is_the_name_but_for_events() {
    let mut registry = Registry::new();
    register(&mut registry);
    for kind in registry.kinds() {
        let info = kind.info();
        let column = if info.kind == "Event" { info.columns.last() } else { info.columns.first() };
        // Without columns a kind is printed as `Name, Created At`.
        let Some(column) = column else { continue };
        let shown = [&*column.name, &*column.format, &*column.type_];
        assert_eq!(shown, ["Name", "name", "string"], "{}", info.kind);
    }
}

#[test]
fn every_kind_is_in_the_schema() {
    let mut registry = Registry::new();
    register(&mut registry);
    for kind in registry.kinds() {
        let object = serde_json::json!({"metadata": {"name": "a"}});
        assert_eq!(
            kind.decode(&object).map(|decoded| decoded.unknown),
            Ok(Vec::new()),
            "{}",
            kind.info().kind
        );
    }
}

#[test]
fn names_of_objects() {
    use crate::kinds::event::EventRules;
    use crate::kinds::namespace::NamespaceRules;
    use crate::kinds::serviceaccount::ServiceAccountRules;
    assert!(ServiceAccountRules::name_errors("a.b").is_empty());
    assert_eq!(ServiceAccountRules::name_errors("A").len(), 1);
    assert_eq!(NamespaceRules::name_errors("a.b").len(), 1, "a label, not a subdomain");
    assert!(EventRules::name_errors("Data.17a8f").is_empty());
    assert_eq!(EventRules::name_errors("a/b%c"), ["may not contain '/'", "may not contain '%'"]);
    assert_eq!(EventRules::name_errors(".."), ["may not be '..'"]);
}

#[test]
fn decoding_loses_nothing() {
    use serde_json::json;
    let mut registry = Registry::new();
    register(&mut registry);
    let table = [
        ("", "secrets", json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}})),
        ("", "pods", super::pod::base()),
        ("", "persistentvolumes", super::volume::base()),
        ("", "persistentvolumeclaims", super::claim::base()),
        (
            "",
            "persistentvolumeclaims",
            json!({"spec": {"dataSource": {"apiGroup": "a", "kind": "X", "name": "y"}}}),
        ),
        ("storage.k8s.io", "csidrivers", json!({"spec": {"preventPodSchedulingIfMissing": true}})),
    ];
    for (group, plural, object) in table {
        let kind = registry.kind(group, "v1", plural).unwrap();
        assert_eq!(kind.decode(&object).unwrap().unknown, Vec::<String>::new(), "{object}");
    }
}
