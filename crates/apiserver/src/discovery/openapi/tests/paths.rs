//! Operations, their ids and their parameters.

use serde_json::json;

use super::*;

/// `method id action [parameters]` of everything at a path.
fn brief(document: &Value, path: &str) -> Vec<String> {
    let names = |value: &Value| -> Vec<String> {
        let all = value.as_array().into_iter().flatten();
        all.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let item = document["paths"][path].as_object().unwrap_or_else(|| panic!("no path {path}"));
    let operations = item.iter().filter(|(method, _)| *method != "parameters");
    let mut all: Vec<String> = operations
        .map(|(method, operation)| {
            let (id, action) =
                (operation["operationId"].as_str().unwrap(), &operation["x-kubernetes-action"]);
            let action = action.as_str().unwrap_or_default();
            format!("{method} {id} {action} {}", names(&operation["parameters"]).join(","))
        })
        .collect();
    all.push(format!("all {}", names(&document["paths"][path]["parameters"]).join(",")));
    all
}

#[test]
fn of_a_kind_in_namespaces() {
    let document = build::group_version(&kinds(""));
    assert_eq!(
        brief(&document, "/api/v1/namespaces/{namespace}/pods/{name}"),
        [
            "delete deleteCoreV1NamespacedPod delete dryRun,gracePeriodSeconds,orphanDependents,propagationPolicy",
            "get readCoreV1NamespacedPod get ",
            "patch patchCoreV1NamespacedPod patch dryRun,fieldManager,fieldValidation,force",
            "put replaceCoreV1NamespacedPod put dryRun,fieldManager,fieldValidation",
            "all name,namespace,pretty",
        ]
    );
    assert_eq!(
        brief(&document, "/api/v1/pods"),
        [
            "get listCoreV1PodForAllNamespaces list ",
            "all allowWatchBookmarks,continue,fieldSelector,labelSelector,limit,pretty,resourceVersion,resourceVersionMatch,sendInitialEvents,timeoutSeconds,watch",
        ]
    );
    assert_eq!(
        brief(&document, "/api/v1/namespaces/{namespace}/pods/{name}/status"),
        [
            "get readCoreV1NamespacedPodStatus get ",
            "patch patchCoreV1NamespacedPodStatus patch dryRun,fieldManager,fieldValidation,force",
            "put replaceCoreV1NamespacedPodStatus put dryRun,fieldManager,fieldValidation",
            "all name,namespace,pretty",
        ]
    );
    assert_eq!(
        brief(&document, "/api/v1/namespaces/{namespace}/pods/{name}/binding"),
        [
            "post createCoreV1NamespacedPodBinding post ",
            "all dryRun,fieldManager,fieldValidation,name,namespace,pretty",
        ]
    );
    let binding = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/binding"]["post"];
    assert_eq!(
        binding["x-kubernetes-group-version-kind"],
        json!({"group": "", "version": "v1", "kind": "Binding"})
    );
}

#[test]
fn of_a_kind_without_namespace() {
    let document = build::group_version(&kinds("storage.k8s.io"));
    let collection = brief(&document, "/apis/storage.k8s.io/v1/csinodes");
    assert!(collection[0].starts_with("delete deleteStorageV1CollectionCSINode deletecollection continue,"));
    assert!(collection[1].starts_with("get listStorageV1CSINode list allowWatchBookmarks,"));
    assert_eq!(
        collection[2..],
        ["post createStorageV1CSINode post dryRun,fieldManager,fieldValidation", "all pretty"]
    );
    assert_eq!(brief(&document, "/apis/storage.k8s.io/v1/"), ["get getStorageV1APIResources  ", "all "]);
}

#[test]
fn requests_and_answers_name_their_schemas() {
    let document = build::group_version(&kinds("storage.k8s.io"));
    let item = &document["paths"]["/apis/storage.k8s.io/v1/storageclasses/{name}"];
    let class = json!({"$ref": "#/components/schemas/io.k8s.api.storage.v1.StorageClass"});
    let patch = &item["patch"];
    assert_eq!(patch["responses"]["201"]["content"]["application/vnd.kubernetes.protobuf"]["schema"], class);
    let types: Vec<&String> = patch["requestBody"]["content"].as_object().unwrap().keys().collect();
    assert_eq!(
        types,
        [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json"
        ]
    );
    // A class that is deleted is answered with; a node is answered with a Status.
    assert_eq!(item["delete"]["responses"]["200"]["content"]["application/json"]["schema"], class);
    let nodes = build::group_version(&kinds(""));
    let deleted = &nodes["paths"]["/api/v1/nodes/{name}"]["delete"]["responses"]["200"];
    let status = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Status";
    assert_eq!(deleted["content"]["application/json"]["schema"]["$ref"], status);
}
