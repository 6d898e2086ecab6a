//! docs/pod-fields.md against upstream's schema, and against the code.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;

const TABLE: &str = include_str!("../../../../../../docs/pod-fields.md");
const SCHEMA: &str = include_str!("../../../../../apiserver/schema/kubernetes.json");
const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";

/// A row of the table.
struct Row {
    here: String,
    why: String,
}

/// By type and field, and for types that are refused as a whole the field that they are refused with.
fn table() -> (BTreeMap<String, Row>, BTreeMap<String, String>) {
    let (mut rows, mut whole) = (BTreeMap::new(), BTreeMap::new());
    let mut type_ = "";
    for line in TABLE.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            type_ = name;
        } else if let Some(with) = line.strip_prefix("Refused with `") {
            whole.insert(type_.to_owned(), with.trim_end_matches("`.").to_owned());
        } else if let Some(row) = line.strip_prefix("| `") {
            let cells: Vec<&str> = row.trim_end_matches(" |").splitn(3, " | ").collect();
            let [field, here, why] = cells[..] else { panic!("not a row: {line}") };
            let row = Row { here: here.into(), why: why.into() };
            let before = rows.insert(format!("{type_}.{}", field.trim_end_matches('`')), row);
            assert!(before.is_none(), "twice: {line}");
        }
    }
    (rows, whole)
}

/// Every field of every type that a pod's spec is made of.
fn fields() -> BTreeSet<String> {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let (mut known, mut todo) = (BTreeSet::new(), vec![POD_SPEC.to_owned()]);
    let mut fields = BTreeSet::new();
    while let Some(type_) = todo.pop() {
        if !known.insert(type_.clone()) {
            continue;
        }
        let short = type_.rsplit('.').next().unwrap();
        for field in schema["types"][&type_].as_array().expect("a type of the schema") {
            fields.extend(field["name"].as_str().map(|name| format!("{short}.{name}")));
            todo.extend(field["type"].as_str().unwrap().split_once('@').map(|(_, type_)| type_.to_owned()));
        }
    }
    fields
}

#[test]
fn every_field_of_a_pod_is_in_the_table_and_no_other() {
    let (rows, _) = table();
    let (listed, fields): (BTreeSet<_>, _) = (rows.keys().cloned().collect(), fields());
    let missing: Vec<_> = fields.difference(&listed).collect();
    let unknown: Vec<_> = listed.difference(&fields).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing {missing:?}, unknown {unknown:?}");
    assert!(fields.len() > 400, "the walk found only {}", fields.len());
    for (field, row) in &rows {
        let known = ["honoured", "refused", "no meaning here"].contains(&row.here.as_str());
        assert!(known && !row.why.is_empty(), "{field}: {}", row.here);
    }
}

/// A pod that uses each field in a way that is refused: what to merge into its spec, and into its container.
fn samples() -> Vec<(&'static str, Value, Value)> {
    let spec = |field, patch| (field, patch, json!({}));
    let own = |field, patch| (field, json!({}), patch);
    let volume = |field, source: Value| {
        (field, json!({"volumes": [{"name": "data", "emptyDir": null}]}), json!({"source": source}))
    };
    let security = |field, patch: Value| (field, json!({}), json!({"securityContext": patch}));
    let shared = |field, patch: Value| (field, json!({"securityContext": patch}), json!({}));
    let http = json!({"port": 80, "scheme": "HTTPS"});
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]});
    let near = json!({"affinity": {"podAffinity": required}});
    let apart = json!({"affinity": {"podAntiAffinity": required}});
    let spread = json!({"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]});
    let mut all = vec![
        spec(
            "PodSpec.ephemeralContainers",
            json!({"ephemeralContainers": [{"name": "debug", "image": "host"}]}),
        ),
        spec("PodSpec.dnsPolicy", json!({"dnsPolicy": "None"})),
        spec("PodSpec.hostPID", json!({"hostPID": true})),
        spec("PodSpec.hostIPC", json!({"hostIPC": true})),
        spec("PodSpec.shareProcessNamespace", json!({"shareProcessNamespace": true})),
        spec("PodSpec.hostAliases", json!({"hostAliases": [{"ip": "127.0.0.1"}]})),
        spec("PodSpec.dnsConfig", json!({"dnsConfig": {"searches": ["x"]}})),
        spec("PodSpec.runtimeClassName", json!({"runtimeClassName": "gvisor"})),
        spec("PodSpec.overhead", json!({"overhead": {"cpu": "1"}})),
        spec("PodSpec.setHostnameAsFQDN", json!({"setHostnameAsFQDN": true})),
        spec("PodSpec.os", json!({"os": {"name": "windows"}})),
        spec("PodOS.name", json!({"os": {"name": "windows"}})),
        spec("PodSpec.hostUsers", json!({"hostUsers": false})),
        spec("PodSpec.resourceClaims", json!({"resourceClaims": [{"name": "gpu"}]})),
        spec("PodSpec.resources", json!({"resources": {"limits": {"cpu": "1"}}})),
        spec("PodSpec.schedulingGroup", json!({"schedulingGroup": {"podGroupName": "x"}})),
        spec("PodSpec.affinity", near.clone()),
        spec("Affinity.podAffinity", near.clone()),
        spec("PodAffinity.requiredDuringSchedulingIgnoredDuringExecution", near),
        spec("Affinity.podAntiAffinity", apart.clone()),
        spec("PodAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", apart),
        spec("PodSpec.topologySpreadConstraints", spread.clone()),
        spec("TopologySpreadConstraint.whenUnsatisfiable", spread),
        own("Container.image", json!({"image": "nginx"})),
        own("Container.restartPolicy", json!({"restartPolicy": "Always"})),
        own("Container.restartPolicyRules", json!({"restartPolicyRules": [{"action": "Restart"}]})),
        own("Container.stdin", json!({"stdin": true})),
        own("Container.stdinOnce", json!({"stdinOnce": true})),
        own("Container.tty", json!({"tty": true})),
        own("ContainerPort.hostPort", json!({"ports": [{"containerPort": 80, "hostPort": 81}]})),
        own("ContainerPort.hostIP", json!({"ports": [{"containerPort": 80, "hostIP": "10.0.0.1"}]})),
        own(
            "EnvVarSource.fileKeyRef",
            json!({"env": [{"name": "A", "valueFrom": {
            "fileKeyRef": {"volumeName": "data", "path": "a", "key": "b"}}}]}),
        ),
        own("ResourceRequirements.limits", json!({"resources": {"limits": {"ephemeral-storage": "1Gi"}}})),
        own("ResourceRequirements.requests", json!({"resources": {"requests": {"example.com/gpu": "1"}}})),
        own("ResourceRequirements.claims", json!({"resources": {"claims": [{"name": "gpu"}]}})),
        own(
            "VolumeMount.mountPropagation",
            json!({"volumeMounts": [
            {"name": "data", "mountPath": "/data", "mountPropagation": "HostToContainer"}]}),
        ),
        own("ProbeHandler.grpc", json!({"livenessProbe": {"grpc": {"port": 80}}})),
        own("HTTPGetAction.scheme", json!({"livenessProbe": {"httpGet": http}})),
        own("Lifecycle.stopSignal", json!({"lifecycle": {"stopSignal": "SIGRTMIN"}})),
        own("LifecycleHandler.tcpSocket", json!({"lifecycle": {"preStop": {"tcpSocket": {"port": 80}}}})),
        security("SecurityContext.privileged", json!({"privileged": true})),
        security("SecurityContext.seLinuxOptions", json!({"seLinuxOptions": {"level": "s0"}})),
        security("SecurityContext.windowsOptions", json!({"windowsOptions": {"runAsUserName": "x"}})),
        security("SecurityContext.procMount", json!({"procMount": "Unmasked"})),
        security("SecurityContext.runAsNonRoot", json!({"runAsNonRoot": true})),
        security("SecurityContext.appArmorProfile", json!({"appArmorProfile": {"type": "RuntimeDefault"}})),
        security("AppArmorProfile.type", json!({"appArmorProfile": {"type": "RuntimeDefault"}})),
        security(
            "AppArmorProfile.localhostProfile",
            json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}),
        ),
        security("SeccompProfile.type", json!({"seccompProfile": {"type": "Localhost"}})),
        security(
            "SeccompProfile.localhostProfile",
            json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}),
        ),
        security("Capabilities.add", json!({"capabilities": {"add": ["SYS_ADMIN"]}})),
        shared("PodSecurityContext.seLinuxOptions", json!({"seLinuxOptions": {"level": "s0"}})),
        shared("PodSecurityContext.windowsOptions", json!({"windowsOptions": {"runAsUserName": "x"}})),
        shared("PodSecurityContext.sysctls", json!({"sysctls": [{"name": "a", "value": "b"}]})),
        shared("PodSecurityContext.appArmorProfile", json!({"appArmorProfile": {"type": "RuntimeDefault"}})),
        volume("EmptyDirVolumeSource.medium", json!({"emptyDir": {"medium": "HugePages"}})),
        volume("EmptyDirVolumeSource.sizeLimit", json!({"emptyDir": {"sizeLimit": "1Gi"}})),
        volume(
            "VolumeProjection.clusterTrustBundle",
            json!({"projected": {"sources": [{"clusterTrustBundle": {"path": "x"}}]}}),
        ),
        volume(
            "VolumeProjection.podCertificate",
            json!({"projected": {"sources": [{"podCertificate": {"keyType": "ED25519", "signerName": "x"}}]}}),
        ),
        volume("VolumeSource.hostPath", json!({"hostPath": {"path": "/"}})),
        volume("VolumeSource.nfs", json!({"nfs": {"server": "x", "path": "/"}})),
        volume("VolumeSource.iscsi", json!({"iscsi": {"targetPortal": "x", "iqn": "x", "lun": 0}})),
        volume("VolumeSource.image", json!({"image": {"reference": "x"}})),
        volume("VolumeSource.gitRepo", json!({"gitRepo": {"repository": "x"}})),
        volume("VolumeSource.gcePersistentDisk", json!({"gcePersistentDisk": {"pdName": "x"}})),
        volume("VolumeSource.awsElasticBlockStore", json!({"awsElasticBlockStore": {"volumeID": "x"}})),
        volume("VolumeSource.glusterfs", json!({"glusterfs": {"endpoints": "x", "path": "x"}})),
        volume("VolumeSource.rbd", json!({"rbd": {"monitors": ["x"], "image": "x"}})),
        volume("VolumeSource.flexVolume", json!({"flexVolume": {"driver": "x"}})),
        volume("VolumeSource.cinder", json!({"cinder": {"volumeID": "x"}})),
        volume("VolumeSource.cephfs", json!({"cephfs": {"monitors": ["x"]}})),
        volume("VolumeSource.flocker", json!({"flocker": {"datasetName": "x"}})),
        volume("VolumeSource.fc", json!({"fc": {"lun": 0}})),
        volume("VolumeSource.azureFile", json!({"azureFile": {"secretName": "x", "shareName": "x"}})),
        volume("VolumeSource.vsphereVolume", json!({"vsphereVolume": {"volumePath": "x"}})),
        volume("VolumeSource.quobyte", json!({"quobyte": {"registry": "x", "volume": "x"}})),
        volume("VolumeSource.azureDisk", json!({"azureDisk": {"diskName": "x", "diskURI": "x"}})),
        volume("VolumeSource.photonPersistentDisk", json!({"photonPersistentDisk": {"pdID": "x"}})),
        volume("VolumeSource.portworxVolume", json!({"portworxVolume": {"volumeID": "x"}})),
        volume("VolumeSource.storageos", json!({"storageos": {"volumeName": "x"}})),
    ];
    let scale = json!({"scaleIO": {"gateway": "x", "system": "x", "secretRef": {"name": "x"}}});
    all.push(volume("VolumeSource.scaleIO", scale));
    all
}

fn merge(into: &mut Value, patch: Value) {
    for (key, value) in patch.as_object().unwrap() {
        into[key] = value.clone();
    }
}

fn sample((_, spec, own): (&str, Value, Value)) -> Observed {
    let mut whole = serde_json::to_value(pod(|_| ())).unwrap();
    merge(&mut whole["spec"], spec);
    let mut own = own;
    if let Some(source) = own["source"].take().as_object() {
        let mut volume = json!({"name": "data"});
        merge(&mut volume, json!(source));
        whole["spec"]["volumes"] = json!([volume]);
    } else {
        own.as_object_mut().unwrap().remove("source");
        merge(&mut whole["spec"]["containers"][0], own);
    }
    seen(serde_json::from_value(whole).unwrap())
}

#[test]
fn what_the_table_calls_refused_is_refused() {
    let (rows, whole) = table();
    let samples = samples();
    let sampled: BTreeSet<&str> = samples.iter().map(|(field, ..)| *field).collect();
    for (field, row) in rows.iter().filter(|(_, row)| row.here == "refused") {
        let type_ = field.split('.').next().unwrap();
        let with = whole.get(type_).map_or(field.as_str(), String::as_str);
        let with = if with == "Probe.grpc" { "ProbeHandler.grpc" } else { with };
        assert!(sampled.contains(with), "no sample of {field} ({})", row.why);
    }
    for one in samples {
        let field = one.0;
        let row = rows.get(field).unwrap_or_else(|| panic!("{field} is not in the table"));
        let says = format!("{} {}", row.here, row.why);
        assert!(says.contains("refused"), "the table calls {field} {says}");
        let seen = sample(one);
        let pod = seen.pod.clone().unwrap();
        if field == "PodSpec.ephemeralContainers" {
            let running = seen.with("main", vec![running(0)]);
            let Step::Do(Action::PatchStatus(patch)) = decide(&running) else { panic!("{field}") };
            assert_eq!(super::super::status::newly_refused(&pod, &patch).len(), 1, "{patch}");
            continue;
        }
        let Step::Do(Action::PatchStatus(patch)) = decide(&seen) else {
            panic!("{field} is not refused: {}", short(&decide(&seen)))
        };
        assert_eq!(super::super::status::newly_refused(&pod, &patch).len(), 1, "{field}: {patch}");
        let mut told = seen;
        settle_status(&mut told);
        assert!(matches!(decide(&told), Step::Wait(Why::Refused(_))), "{field}: {}", short(&decide(&told)));
    }
}
