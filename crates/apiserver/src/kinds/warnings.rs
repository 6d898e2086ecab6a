//! What a new object asks for that works, or was meant, otherwise: texts for `Warning` headers, in upstream's words.

use std::collections::{BTreeMap, BTreeSet};

use bowline_api::{keys, name, quantity};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;

use super::plain::items;
use crate::metadata;
use crate::registry::Part;
use crate::status::Resource;

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";
const OLD_CLASS: &str = "deprecated since v1.8; use \"storageClassName\" attribute instead";
const OLD_OPTIONS: &str = "deprecated since v1.31; use \"mountOptions\" attribute instead";
const RECYCLE: &str = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
const TOKENS: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
/// Warnings of ports that collide.
const PORTS_MAX: usize = 128;
/// Volumes of plugins that are gone, and since when.
const GONE: [(&str, &str); 8] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Of a kind as a whole, whatever is done with it.
pub fn deprecation(resource: Resource<'_>) -> Option<&'static str> {
    let endpoints = resource == Resource { group: "", plural: "endpoints" };
    endpoints.then_some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
}

/// Of a new object.
pub fn of(resource: Resource<'_>, object: &Value) -> Vec<String> {
    let spec = &object["spec"];
    match (resource.group, resource.plural) {
        ("", "pods") => {
            let named = host_name(object, "the Pod's hostname");
            named.into_iter().chain(pod("", object)).collect()
        }
        ("", "podtemplates") => pod("template.", &object["template"]),
        ("", "replicationcontrollers") | ("apps", _) => pod("spec.template.", &spec["template"]),
        ("batch", "jobs") => {
            let named = host_name(object, "Pod names and hostnames");
            named.into_iter().chain(pod("spec.template.", &spec["template"])).collect()
        }
        ("batch", "cronjobs") => {
            pod("spec.jobTemplate.spec.template.", &spec["jobTemplate"]["spec"]["template"])
        }
        ("", "persistentvolumeclaims") => claim(object),
        ("", "persistentvolumes") => volume(object),
        ("storage.k8s.io", "storageclasses") => class(object),
        ("storage.k8s.io", "csidrivers") => {
            let asked = !items(&spec["tokenRequests"]).is_empty();
            let open = spec["serviceAccountTokenInSecrets"].is_null();
            (asked && open).then(|| TOKENS.to_owned()).into_iter().collect()
        }
        ("", "serviceaccounts") => {
            let text =
                "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
            annotated(object, keys::ENFORCE_SECRETS, text).into_iter().collect()
        }
        ("", "nodes") => {
            let text = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
            (!spec["externalID"].is_null()).then(|| text.to_owned()).into_iter().collect()
        }
        ("discovery.k8s.io", "endpointslices") if object["addressType"] == "FQDN" => {
            vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()]
        }
        _ => Vec::new(),
    }
}

/// Of an object that replaces another one. Most kinds warn only while they are created, and those that hold a pod only
/// when what they ask for changes.
pub fn of_update(resource: Resource<'_>, part: Part, old: &Value, new: &Value) -> Vec<String> {
    if part != Part::Main {
        return Vec::new();
    }
    let changed = |field: &str| old[field] != new[field];
    let annotated = |object: &Value, key: &str| !object["metadata"]["annotations"][key].is_null();
    let due = match (resource.group, resource.plural) {
        ("", "persistentvolumeclaims" | "persistentvolumes" | "nodes")
        | ("storage.k8s.io", "storageclasses") => true,
        // Upstream counts annotations of deployments among what they ask for.
        ("apps", "deployments") => {
            changed("spec") || old["metadata"]["annotations"] != new["metadata"]["annotations"]
        }
        ("", "replicationcontrollers") | ("apps", _) | ("batch", "cronjobs") => changed("spec"),
        ("batch", "jobs") if changed("spec") => return pod("spec.template.", &new["spec"]["template"]),
        ("", "podtemplates") => changed("template"),
        ("storage.k8s.io", "csidrivers") => of(resource, old).is_empty(),
        ("", "serviceaccounts") => !annotated(old, keys::ENFORCE_SECRETS),
        _ => false,
    };
    if due { of(resource, new) } else { Vec::new() }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn annotated(object: &Value, key: &str, why: &str) -> Option<String> {
    let found = !object["metadata"]["annotations"][key].is_null();
    found.then(|| format!("metadata.annotations[{key}]: {why}"))
}

/// Labels of nodes that got new names.
fn renamed(key: &str) -> Option<String> {
    let (old, new) = keys::RENAMED_NODE_LABELS.iter().find(|(old, _)| *old == key)?;
    let since =
        if matches!(*old, "beta.kubernetes.io/arch" | "beta.kubernetes.io/os") { "v1.14" } else { "v1.17" };
    Some(format!("deprecated since {since}; use {new:?} instead"))
}

fn renamed_in_terms(at: &str, terms: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (index, term) in items(terms).iter().enumerate() {
        for (position, rule) in items(&term["matchExpressions"]).iter().enumerate() {
            let key = text(&rule["key"]);
            let at = format!("{at}[{index}].matchExpressions[{position}].key");
            found.extend(renamed(key).map(|why| format!("{at}: {key} is {why}")));
        }
    }
    found
}

fn fractional(at: &str, amount: &Value) -> Option<String> {
    let amount = amount.as_str()?;
    let broken = quantity::is_whole(&Quantity(amount.to_owned())) == Ok(false);
    broken.then(|| format!("{at}: fractional byte value {amount:?} is invalid, must be an integer"))
}

/// A name that becomes one of a host should look like one.
fn host_name(object: &Value, what: &str) -> Option<String> {
    let name = metadata::name(object);
    let wrong = name::label_errors(name);
    let listed = wrong.join(" ");
    (!name.is_empty() && !wrong.is_empty()).then(|| {
        format!("metadata.name: this is used in {what}, which can result in surprising behavior; a DNS label is recommended: [{listed}]")
    })
}

fn claim(object: &Value) -> Vec<String> {
    let old = annotated(object, keys::STORAGE_CLASS_BETA, OLD_CLASS);
    old.into_iter().chain(claim_spec("spec", &object["spec"])).collect()
}

fn claim_spec(at: &str, spec: &Value) -> Vec<String> {
    let lists = ["requests", "limits"].into_iter();
    let amount = |list: &str| {
        fractional(&format!("{at}.resources.{list}[storage]"), &spec["resources"][list]["storage"])
    };
    lists.filter_map(amount).collect()
}

fn volume(object: &Value) -> Vec<String> {
    let spec = &object["spec"];
    let old = [(keys::STORAGE_CLASS_BETA, OLD_CLASS), (keys::MOUNT_OPTIONS_BETA, OLD_OPTIONS)];
    let mut found: Vec<String> =
        old.into_iter().filter_map(|(key, why)| annotated(object, key, why)).collect();
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        found.push(format!("spec.persistentVolumeReclaimPolicy: {RECYCLE}"));
    }
    let at = "spec.nodeAffinity.required.nodeSelectorTerms";
    found.extend(renamed_in_terms(at, &spec["nodeAffinity"]["required"]["nodeSelectorTerms"]));
    let gone = GONE.into_iter().filter(|(name, _)| !matches!(*name, "gitRepo" | "flocker"));
    found.extend(
        gone.filter(|(name, _)| has_source(spec, name)).map(|(name, why)| format!("spec.{name}: {why}")),
    );
    found
}

/// Upstream writes one of them differently in warnings than in objects.
fn has_source(object: &Value, name: &str) -> bool {
    !object[if name == "storageOS" { "storageos" } else { name }].is_null()
}

fn class(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (index, term) in items(&object["allowedTopologies"]).iter().enumerate() {
        for (position, rule) in items(&term["matchLabelExpressions"]).iter().enumerate() {
            let at = format!("allowedTopologies[{index}].matchLabelExpressions[{position}].key");
            found.extend(renamed(text(&rule["key"])).map(|why| format!("{at}: {why}")));
        }
    }
    found
}

/// A pod, or the template of one; `at` is where it stands, with a dot at the end.
fn pod(at: &str, object: &Value) -> Vec<String> {
    // A pod itself is mended before anybody looks.
    let is_template = !at.is_empty();
    let spec = &object["spec"];
    let at = &format!("{at}spec");
    let mut found = placement(at, spec);
    for (index, volume) in items(&spec["volumes"]).iter().enumerate() {
        let at = format!("{at}.volumes[{index}]");
        let gone = GONE.into_iter().filter(|(name, _)| has_source(volume, name));
        found.extend(gone.map(|(name, why)| format!("{at}.{name}: {why}")));
        let template = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
        found.extend(claim_spec(&format!("{at}.ephemeral.volumeClaimTemplate.spec"), template));
    }
    found.extend(repeated(&format!("{at}.hostAliases"), &spec["hostAliases"], "ip"));
    found.extend(repeated(&format!("{at}.imagePullSecrets"), &spec["imagePullSecrets"], "name"));
    for (index, secret) in items(&spec["imagePullSecrets"]).iter().enumerate() {
        if text(&secret["name"]).is_empty() {
            found.push(format!("{at}.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    let containers = containers(at, spec);
    found.extend(containers.iter().flat_map(|(at, one)| container(at, one)));
    found.extend(ports(&containers));
    if is_template && spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        found.push(format!("{at}.terminationGracePeriodSeconds: {why}"));
    }
    found.extend(affinity(at, spec));
    found
}

fn placement(at: &str, spec: &Value) -> Vec<String> {
    let selected = spec["nodeSelector"].as_object().into_iter().flatten();
    let mut found: Vec<String> = selected
        .filter_map(|(key, _)| renamed(key).map(|why| format!("{at}.nodeSelector[{key}]: {why}")))
        .collect();
    let list = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let terms = list.split('.').fold(spec, |value, name| &value[name]);
    found.extend(renamed_in_terms(&format!("{at}.{list}"), terms));
    for (index, constraint) in items(&spec["topologySpreadConstraints"]).iter().enumerate() {
        let at = format!("{at}.topologySpreadConstraints[{index}]");
        let key = text(&constraint["topologyKey"]);
        found.extend(renamed(key).map(|why| format!("{at}.topologyKey: {key} is {why}")));
        if constraint["labelSelector"].is_null() {
            found.push(format!("{at}.labelSelector: {NO_SELECTOR}"));
        }
    }
    found
}

fn affinity(at: &str, spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (list, inner) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm"),
        ] {
            for (index, term) in items(&spec["affinity"][kind][list]).iter().enumerate() {
                let (term, dot) = if inner.is_empty() { (term, "") } else { (&term[inner], ".") };
                if term["labelSelector"].is_null() {
                    let at = format!("{at}.affinity.{kind}.{list}[{index}]{dot}{inner}.labelSelector");
                    found.push(format!("{at}: {NO_SELECTOR}"));
                }
            }
        }
    }
    found
}

fn repeated(at: &str, list: &Value, field: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let list = items(list).iter().enumerate().map(|(index, item)| (index, text(&item[field])));
    let twice = list.filter(|(_, value)| !seen.insert(*value));
    twice.map(|(index, value)| format!("{at}[{index}].{field}: duplicate {field} {value:?}")).collect()
}

/// In upstream's order of visiting.
fn containers<'a>(at: &str, spec: &'a Value) -> Vec<(String, &'a Value)> {
    let lists = ["initContainers", "containers", "ephemeralContainers"].into_iter();
    let each = |list: &'static str| {
        let at = at.to_owned();
        items(&spec[list]).iter().enumerate().map(move |(index, one)| (format!("{at}.{list}[{index}]"), one))
    };
    lists.flat_map(each).collect()
}

fn container(at: &str, one: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for resource in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            let amount = &one["resources"][list][resource];
            found.extend(fractional(&format!("{at}.resources.{list}[{resource}]"), amount));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, variable) in items(&one["env"]).iter().enumerate() {
        let name = text(&variable["name"]);
        let (value, reference) = (text(&variable["value"]), format!("$({name})"));
        let hides = !variable["valueFrom"].is_null() || value == reference || !value.contains(&reference);
        if !seen.insert(name) && hides {
            let why = format!("hides previous definition of {name:?}, which may be dropped when using apply");
            found.push(format!("{at}.env[{index}]: {why}"));
        }
    }
    found
}

/// Ports of one number and protocol that were seen, by position.
#[derive(Default)]
struct Twins<'a> {
    all: Vec<usize>,
    /// Those that are not on the host.
    inside: Vec<usize>,
    by_place: BTreeMap<(&'a str, i64), Vec<usize>>,
}

impl<'a> Twins<'a> {
    /// Those at the same place, in order, and those that overlap with it.
    fn of(&self, place: (&'a str, i64)) -> Vec<(usize, &'static str)> {
        let same = self.by_place.get(&place).map(Vec::as_slice).unwrap_or_default();
        let others = if place.1 == 0 { &self.all } else { &self.inside };
        let mut found: Vec<(usize, &str)> = same.iter().map(|at| (*at, "duplicate")).collect();
        let overlapping = others.iter().filter(|at| same.binary_search(at).is_err());
        found.extend(overlapping.take(PORTS_MAX).map(|at| (*at, "overlapping")));
        found.sort_unstable();
        found
    }

    fn add(&mut self, position: usize, place: (&'a str, i64)) {
        self.all.push(position);
        self.by_place.entry(place).or_default().push(position);
        if place.1 == 0 {
            self.inside.push(position);
        }
    }
}

fn ports(containers: &[(String, &Value)]) -> Vec<String> {
    let all = containers.iter().flat_map(|(at, one)| {
        items(&one["ports"])
            .iter()
            .enumerate()
            .map(move |(index, port)| (format!("{at}.ports[{index}]"), port))
    });
    let all: Vec<(String, &Value)> = all.collect();
    let mut found = Vec::new();
    let mut seen: BTreeMap<(Option<i64>, &str), Twins<'_>> = BTreeMap::new();
    for (position, (at, port)) in all.iter().enumerate() {
        let place = (text(&port["hostIP"]), port["hostPort"].as_i64().unwrap_or(0));
        let twins = seen.entry((port["containerPort"].as_i64(), text(&port["protocol"]))).or_default();
        for (other, how) in twins.of(place) {
            found.push(format!("{at}: {how} port definition with {}", all[other].0));
        }
        twins.add(position, place);
        if found.len() >= PORTS_MAX {
            // Pairs are many more than ports, and nobody reads on.
            found.truncate(PORTS_MAX);
            break;
        }
    }
    let mut names = BTreeMap::new();
    for (at, port) in all.iter().filter(|(_, port)| !port["name"].is_null()) {
        let name = text(&port["name"]);
        let other = *names.entry(name).or_insert(at);
        if other != at {
            found.push(format!("{at}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn table() {
        let pod = |spec: Value| json!({"metadata": {"name": "p"}, "spec": spec});
        let in_container =
            |field: &str, value: Value| pod(json!({"containers": [{"name": "c", (field): value}]}));
        let table = [
            ("", "pods", pod(json!({"containers": []})), vec![]),
            (
                "",
                "pods",
                pod(json!({"topologySpreadConstraints": [{"topologyKey": "z"}]})),
                vec![
                    "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
                ],
            ),
            (
                "",
                "pods",
                pod(
                    json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {}}]}}}),
                ),
                vec![
                    "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: a null labelSelector results in matching no pod",
                ],
            ),
            (
                "",
                "pods",
                in_container(
                    "env",
                    json!([{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A", "value": "3"}]),
                ),
                vec![
                    "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply",
                ],
            ),
            (
                "",
                "pods",
                in_container("resources", json!({"limits": {"memory": "1500m"}})),
                vec![
                    "spec.containers[0].resources.limits[memory]: fractional byte value \"1500m\" is invalid, must be an integer",
                ],
            ),
            (
                "",
                "pods",
                in_container(
                    "ports",
                    json!([{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 1, "protocol": "TCP"}]),
                ),
                vec![
                    "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
                ],
            ),
            (
                "apps",
                "deployments",
                json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": -1}}}}),
                vec![
                    "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
                ],
            ),
            (
                "",
                "persistentvolumeclaims",
                json!({"spec": {"resources": {"requests": {"storage": "1500m"}}}}),
                vec![
                    "spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
                ],
            ),
            (
                "storage.k8s.io",
                "storageclasses",
                json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone"}]}]}),
                vec![
                    "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
                ],
            ),
        ];
        for (group, plural, object, want) in table {
            assert_eq!(of(Resource { group, plural }, &object), want, "{object}");
        }
    }

    #[test]
    fn ports_that_collide() {
        let pod = |ports: Vec<Value>| json!({"metadata": {"name": "p"}, "spec": {"containers": [{"ports": ports}]}});
        let warned = |ports: Vec<Value>| of(Resource { group: "", plural: "pods" }, &pod(ports));
        let at = |host: i64| json!({"containerPort": 1, "protocol": "TCP", "hostPort": host});
        let how = |position: usize, how: &str, other: usize| {
            format!(
                "spec.containers[0].ports[{position}]: {how} port definition with spec.containers[0].ports[{other}]"
            )
        };
        let other = json!({"containerPort": 1, "protocol": "UDP"});
        assert_eq!(
            warned(vec![at(0), at(5), at(6), at(5), other, at(0)]),
            [
                how(1, "overlapping", 0),
                how(2, "overlapping", 0),
                how(3, "overlapping", 0),
                how(3, "duplicate", 1),
                how(5, "duplicate", 0),
                how(5, "overlapping", 1),
                how(5, "overlapping", 2),
                how(5, "overlapping", 3),
            ]
        );
        assert_eq!(warned(vec![at(0); 10_000]).len(), PORTS_MAX, "of fifty million pairs");
        let named = |name: &str, port: i64| json!({"containerPort": port, "name": name});
        assert_eq!(
            warned(vec![named("a", 1), named("b", 2), named("a", 3)]),
            [
                r#"spec.containers[0].ports[2]: duplicate port name "a" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]"#
            ]
        );
    }

    /// Whether upstream's server warned of the change from the first to the second.
    #[test]
    fn of_changes() {
        let template = json!({"spec": {"terminationGracePeriodSeconds": -1}});
        let workload =
            |replicas: u32| json!({"metadata": {}, "spec": {"replicas": replicas, "template": template}});
        let noted = |object: &Value| {
            let mut object = object.clone();
            object["metadata"]["annotations"] = json!({(keys::ENFORCE_SECRETS): "true"});
            object
        };
        let (one, two, plain) = (workload(1), workload(2), json!({"metadata": {}}));
        let old_volume = json!({"metadata": {}, "spec": {"persistentVolumeReclaimPolicy": "Recycle"}});
        let driver = json!({"metadata": {}, "spec": {"tokenRequests": [{"audience": "a"}]}});
        let table = [
            ("", "persistentvolumes", Part::Main, &old_volume, &old_volume, true),
            ("", "persistentvolumes", Part::Status, &old_volume, &old_volume, false),
            ("storage.k8s.io", "csidrivers", Part::Main, &driver, &driver, false),
            ("storage.k8s.io", "csidrivers", Part::Main, &plain, &driver, true),
            ("apps", "deployments", Part::Main, &one, &two, true),
            ("apps", "deployments", Part::Main, &one, &noted(&one), true),
            ("apps", "deployments", Part::Main, &one, &one, false),
            ("apps", "statefulsets", Part::Main, &one, &two, true),
            ("apps", "statefulsets", Part::Main, &one, &noted(&one), false),
            ("batch", "jobs", Part::Main, &one, &two, true),
            ("", "pods", Part::Main, &template, &template, false),
            ("", "serviceaccounts", Part::Main, &plain, &noted(&plain), true),
            ("", "serviceaccounts", Part::Main, &noted(&plain), &noted(&plain), false),
        ];
        for (group, plural, part, old, new, warned) in table {
            let seen = of_update(Resource { group, plural }, part, old, new);
            assert_eq!(!seen.is_empty(), warned, "{plural}: {seen:?}");
        }
    }
}
