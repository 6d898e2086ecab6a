//! What a pod, or a volume, needs its node to read. Plain functions of JSON.

use std::collections::BTreeSet;

use serde_json::Value;

/// Volume types whose one secret is at `secretRef.name`.
const WITH_SECRET_REF: [&str; 7] = ["cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"];
/// Secrets of a CSI volume that the kubelet hands to the driver; the others are the controllers'.
const CSI_NODE_SECRETS: [&str; 3] = ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"];

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

fn add(names: &mut BTreeSet<String>, value: &Value) {
    names.extend(value.as_str().filter(|name| !name.is_empty()).map(str::to_owned));
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|list| items(&pod["spec"], list))
}

/// Secrets in a pod's namespace that it needs: for its images, its containers' environment and its volumes.
pub fn secrets(pod: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    items(&pod["spec"], "imagePullSecrets").for_each(|secret| add(&mut names, &secret["name"]));
    for container in containers(pod) {
        items(container, "env").for_each(|env| add(&mut names, &env["valueFrom"]["secretKeyRef"]["name"]));
        items(container, "envFrom").for_each(|env| add(&mut names, &env["secretRef"]["name"]));
    }
    for volume in items(&pod["spec"], "volumes") {
        add(&mut names, &volume["secret"]["secretName"]);
        add(&mut names, &volume["azureFile"]["secretName"]);
        add(&mut names, &volume["csi"]["nodePublishSecretRef"]["name"]);
        WITH_SECRET_REF.iter().for_each(|kind| add(&mut names, &volume[kind]["secretRef"]["name"]));
        items(&volume["projected"], "sources").for_each(|source| add(&mut names, &source["secret"]["name"]));
    }
    names
}

/// Config maps in a pod's namespace that it needs.
pub fn config_maps(pod: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for container in containers(pod) {
        items(container, "env").for_each(|env| add(&mut names, &env["valueFrom"]["configMapKeyRef"]["name"]));
        items(container, "envFrom").for_each(|env| add(&mut names, &env["configMapRef"]["name"]));
    }
    for volume in items(&pod["spec"], "volumes") {
        add(&mut names, &volume["configMap"]["name"]);
        items(&volume["projected"], "sources")
            .for_each(|source| add(&mut names, &source["configMap"]["name"]));
    }
    names
}

/// Claims that a pod names, or that are made for it.
pub fn claims(pod: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let owner = pod["metadata"]["name"].as_str().unwrap_or_default();
    for volume in items(&pod["spec"], "volumes") {
        add(&mut names, &volume["persistentVolumeClaim"]["claimName"]);
        if let (Some(_), Some(name)) = (volume["ephemeral"].as_object(), volume["name"].as_str()) {
            names.insert(format!("{owner}-{name}"));
        }
    }
    names
}

/// Secrets that a node needs for a volume, as namespace and name. Those without a namespace are in the claim's.
pub fn volume_secrets(volume: &Value) -> BTreeSet<(String, String)> {
    let spec = &volume["spec"];
    let claim = spec["claimRef"]["namespace"].as_str().unwrap_or_default();
    let csi = CSI_NODE_SECRETS.iter().map(|field| &spec["csi"][field]);
    let others = WITH_SECRET_REF.iter().map(|kind| &spec[kind]["secretRef"]);
    let pairs = csi.chain(others).map(|secret| (&secret["namespace"], &secret["name"]));
    let azure = &spec["azureFile"];
    let all = pairs.chain(std::iter::once((&azure["secretNamespace"], &azure["secretName"])));
    let named = all.filter_map(|(namespace, name)| {
        let namespace = namespace.as_str().filter(|text| !text.is_empty()).unwrap_or(claim);
        name.as_str().filter(|name| !name.is_empty()).map(|name| (namespace.to_owned(), name.to_owned()))
    });
    named.collect()
}

/// What else of the API a pod refers to, in upstream's words: a kubelet may make no such pod. `Err` names a volume of
/// an unknown kind.
pub fn api_objects(pod: &Value) -> Result<Option<&'static str>, String> {
    let spec = &pod["spec"];
    if spec["serviceAccountName"].as_str().is_some_and(|name| !name.is_empty()) {
        return Ok(Some("serviceaccounts"));
    }
    // Volumes are found here too, under the shorter of their two descriptions, as upstream has it.
    if !secrets(pod).is_empty() {
        return Ok(Some("secrets"));
    }
    if !config_maps(pod).is_empty() {
        return Ok(Some("configmaps"));
    }
    if items(spec, "resourceClaims").next().is_some() {
        return Ok(Some("resourceclaims"));
    }
    for volume in items(spec, "volumes") {
        if let Some(found) = volume_objects(volume)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn volume_objects(volume: &Value) -> Result<Option<&'static str>, String> {
    const HARMLESS: [&str; 21] = [
        "awsElasticBlockStore",
        "azureDisk",
        "cephfs",
        "cinder",
        "downwardAPI",
        "emptyDir",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "hostPath",
        "image",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
    ];
    const REFERRING: [(&str, &str); 7] = [
        ("configMap", "configmaps (via configmap volumes)"),
        ("secret", "secrets (via secret volumes)"),
        ("csi", "csidrivers (via CSI volumes)"),
        ("glusterfs", "endpoints (via glusterFS volumes)"),
        ("persistentVolumeClaim", "persistentvolumeclaims"),
        ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
        ("azureFile", "secrets (via azureFile volumes)"),
    ];
    const SOURCES: [(&str, &str); 5] = [
        ("configMap", "configmaps (via projected volumes)"),
        ("secret", "secrets (via projected volumes)"),
        ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
        ("clusterTrustBundle", "clustertrustbundles"),
        ("podCertificate", "podcertificates"),
    ];
    let has = |value: &Value, field: &str| !value[field].is_null();
    let name = volume["name"].as_str().unwrap_or_default();
    if HARMLESS.iter().any(|kind| has(volume, kind)) || has(volume, "vsphereVolume") {
        return Ok(None);
    }
    if let Some((_, found)) = REFERRING.iter().find(|(kind, _)| has(volume, kind)) {
        return Ok(Some(found));
    }
    if !has(volume, "projected") {
        return Err(format!("unknown volume type for volume  {name:?}"));
    }
    for source in items(&volume["projected"], "sources") {
        if let Some((_, found)) = SOURCES.iter().find(|(kind, _)| has(source, kind)) {
            return Ok(Some(found));
        }
        if !has(source, "downwardAPI") {
            return Err(format!("unknown source for projected volume {name:?}"));
        }
    }
    Ok(None)
}
