//! Rules of pods beyond volumes: every text was seen on upstream's server.

use serde_json::json;

use super::*;
use crate::kinds::pod::PodRules;

fn base() -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

fn spec(patch: Value) -> Value {
    json!({"spec": patch})
}

fn container(patch: Value) -> Value {
    spec(json!({"containers": [patched(&json!({"name": "c", "image": "i:1"}), &patch)]}))
}

#[test]
fn probes_and_hooks() {
    check_create::<PodRules>(
        &base(),
        &[
            (
                "no handler",
                container(json!({"livenessProbe": {}})),
                &["spec.containers[0].livenessProbe: Required value: must specify a handler type"],
            ),
            (
                "two handlers",
                container(
                    json!({"readinessProbe": {"exec": {}, "httpGet": {"port": 0}, "terminationGracePeriodSeconds": 1}}),
                ),
                &[
                    "spec.containers[0].readinessProbe.exec.command: Required value",
                    "spec.containers[0].readinessProbe.httpGet: Forbidden: may not specify more than 1 handler type",
                    "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes",
                ],
            ),
            (
                "http",
                container(
                    json!({"startupProbe": {"httpGet": {"port": "A_B", "scheme": "x", "httpHeaders": [{"name": "a b"}]}, "successThreshold": 2}}),
                ),
                &[
                    "spec.containers[0].startupProbe.httpGet.port: Invalid value: \"A_B\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                    "spec.containers[0].startupProbe.httpGet.port: Invalid value: \"A_B\": must contain at least one letter (a-z)",
                    "spec.containers[0].startupProbe.httpGet.scheme: Unsupported value: \"x\": supported values: \"HTTP\", \"HTTPS\"",
                    "spec.containers[0].startupProbe.httpGet.httpHeaders: Invalid value: \"a b\": a valid HTTP header…",
                    "spec.containers[0].startupProbe.successThreshold: Invalid value: 2: must be 1",
                ],
            ),
            (
                "sleep",
                container(json!({"lifecycle": {"preStop": {"sleep": {"seconds": -3}}}})),
                &[
                    "spec.containers[0].lifecycle.preStop.sleep: Invalid value: -3: must be non-negative and less than terminationGracePeriodSeconds (30)",
                ],
            ),
        ],
    );
}

#[test]
fn variables() {
    let env = |variable: Value| container(json!({"env": [variable]}));
    let at = "spec.containers[0].env[0]";
    let from = |source: Value| env(json!({"name": "A", "valueFrom": source}));
    check_create::<PodRules>(
        &base(),
        &[
            (
                "name",
                env(json!({"name": "a=b"})),
                &[&format!("{at}.name: Invalid value: \"a=b\": a valid environment variable name…")],
            ),
            (
                "no source",
                from(json!({})),
                &[&format!(
                    "{at}.valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
                )],
            ),
            (
                "two values",
                env(
                    json!({"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
                ),
                &[&format!(
                    "{at}.valueFrom: Invalid value: \"\": may not be specified when `value` is not empty"
                )],
            ),
            (
                "no field",
                from(json!({"fieldRef": {"fieldPath": "spec.foo"}})),
                &[&format!(
                    "{at}.valueFrom.fieldRef.fieldPath: Invalid value: \"spec.foo\": error converting fieldPath: field label not supported: spec.foo"
                )],
            ),
            (
                "a field for files",
                from(json!({"fieldRef": {"fieldPath": "metadata.labels"}})),
                &[&format!(
                    "{at}.valueFrom.fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \"metadata.name\"…"
                )],
            ),
            ("one label", from(json!({"fieldRef": {"fieldPath": "metadata.labels['a/b']"}})), &[]),
            (
                "one name",
                from(json!({"fieldRef": {"fieldPath": "metadata.name['x']"}})),
                &[&format!(
                    "{at}.valueFrom.fieldRef.fieldPath: Invalid value: \"metadata.name['x']\": error converting fieldPath: field label does not support subscript: metadata.name['x']"
                )],
            ),
            (
                "divisor",
                from(json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}})),
                &[&format!(
                    "{at}.valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource"
                )],
            ),
            (
                "all keys of nothing",
                container(json!({"envFrom": [{}]})),
                &[
                    "spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
                ],
            ),
            (
                "a file nowhere",
                from(json!({"fileKeyRef": {"key": "k", "volumeName": "v", "path": "p"}})),
                &[&format!("{at}.valueFrom.fileKeyRef.volumeName: Not found: \"v\"")],
            ),
        ],
    );
}

#[test]
fn needs() {
    let needs = |resources: Value| container(json!({"resources": resources}));
    let at = "spec.containers[0].resources";
    check_create::<PodRules>(
        &base(),
        &[
            (
                "unknown",
                needs(json!({"requests": {"foo": "1"}})),
                &[
                    &format!(
                        "{at}.requests[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified"
                    ),
                    &format!(
                        "{at}.requests[foo]: Invalid value: \"foo\": must be a standard resource for containers"
                    ),
                ],
            ),
            (
                "devices are whole",
                needs(json!({"limits": {"example.com/x": "1.5"}})),
                &[
                    &format!("{at}.limits[example.com/x]: Invalid value: \"1500m\": must be an integer"),
                    &format!("{at}.requests[example.com/x]: Invalid value: \"1500m\": must be an integer"),
                ],
            ),
            (
                "devices have limits",
                needs(json!({"requests": {"example.com/x": "1"}})),
                &[&format!(
                    "{at}.limits: Required value: Limit must be set for non overcommitable resources"
                )],
            ),
            (
                "more than allowed",
                needs(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})),
                &[&format!(
                    "{at}.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"
                )],
            ),
            (
                "pages",
                needs(
                    json!({"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}, "requests": {"hugepages-2Mi": "2Mi"}}),
                ),
                &[
                    &format!(
                        "{at}.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi"
                    ),
                    &format!(
                        "{at}.requests: Invalid value: \"2Mi\": must be equal to hugepages-2Mi limit of 3Mi"
                    ),
                ],
            ),
            (
                "a claim of nobody",
                needs(json!({"claims": [{"name": "x"}]})),
                &[&format!(
                    "{at}.claims[0]: Not found: \"x\": must be one of the names in pod.spec.resourceClaims which is empty"
                )],
            ),
            (
                "a claim of nothing",
                spec(json!({"resourceClaims": [{"name": "a"}]})),
                &[
                    "spec.resourceClaims[0]: Invalid value: {\"Name\":\"a\",\"ResourceClaimName\":null,\"ResourceClaimTemplateName\":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
                ],
            ),
            (
                "the whole is less",
                patched(
                    &needs(json!({"requests": {"cpu": "2"}})),
                    &spec(json!({"resources": {"requests": {"cpu": "1"}}})),
                ),
                &[
                    "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 2",
                ],
            ),
        ],
    );
    let whole = patched(
        &needs(json!({"limits": {"cpu": "2"}})),
        &spec(json!({"resources": {"limits": {"cpu": "4", "memory": "4Gi"}}})),
    );
    let stored = created::<PodRules>(&patched(&base(), &whole));
    assert_eq!(stored["spec"]["resources"]["requests"], json!({"cpu": "2", "memory": "4Gi"}));
}

#[test]
fn placement() {
    let term = |term: Value| {
        spec(json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}))
    };
    let at = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    let spread = |constraint: Value| spec(json!({"topologySpreadConstraints": [constraint]}));
    check_create::<PodRules>(
        &base(),
        &[
            (
                "no topology",
                term(json!({"labelSelector": {}})),
                &[
                    &format!("{at}.topologyKey: Required value: can not be empty"),
                    &format!("{at}.topologyKey: Invalid value: \"\": name part must be non-empty"),
                    &format!("{at}.topologyKey: Invalid value: \"\": name part must consist…"),
                ],
            ),
            (
                "keys of no labels",
                term(json!({"topologyKey": "z", "matchLabelKeys": ["a"]})),
                &[&format!(
                    "{at}.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"
                )],
            ),
            (
                "spread",
                spread(json!({"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "x", "minDomains": 1})),
                &[
                    "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                    "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                    "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"x\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
                    "spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not x",
                ],
            ),
            (
                "weight",
                spec(
                    json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]}}}),
                ),
                &[
                    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
                ],
            ),
        ],
    );
    let keyed = json!({"topologyKey": "z", "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["q"], "mismatchLabelKeys": ["r"]});
    let object =
        patched(&patched(&base(), &term(keyed)), &json!({"metadata": {"labels": {"q": "1", "r": "2"}}}));
    let selector = created::<PodRules>(&object)["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"].clone();
    assert_eq!(
        selector["matchExpressions"],
        json!([{"key": "q", "operator": "In", "values": ["1"]}, {"key": "r", "operator": "NotIn", "values": ["2"]}])
    );
}

#[test]
fn security_and_network() {
    check_create::<PodRules>(
        &base(),
        &[
            (
                "ids",
                container(json!({"securityContext": {"runAsUser": -1}})),
                &[
                    "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                ],
            ),
            (
                "contradiction",
                container(
                    json!({"securityContext": {"allowPrivilegeEscalation": false, "privileged": true}}),
                ),
                &[
                    "spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy",
                    "spec.containers[0].securityContext: Invalid value: {\"Capabilities\":null,\"Privileged\":true,\"SELinuxOptions\":null,\"WindowsOptions\":null,\"RunAsUser\":null,\"RunAsGroup\":null,\"RunAsNonRoot\":null,\"ReadOnlyRootFilesystem\":null,\"AllowPrivilegeEscalation\":false,\"ProcMount\":null,\"SeccompProfile\":null,\"AppArmorProfile\":null}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
                ],
            ),
            (
                "profile",
                spec(json!({"securityContext": {"seccompProfile": {"type": "Localhost"}}})),
                &[
                    "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
                ],
            ),
            (
                "sysctl",
                spec(
                    json!({"hostNetwork": true, "securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}}),
                ),
                &[
                    "spec.securityContext.sysctls[0].name: Invalid value: \"net.core.somaxconn\": may not be specified when 'hostNetwork' is true",
                ],
            ),
            (
                "one port, two containers",
                spec(
                    json!({"containers": [{"name": "a", "image": "i:1", "ports": [{"containerPort": 1, "hostPort": 5}]}, {"name": "b", "image": "i:1", "ports": [{"containerPort": 2, "hostPort": 5}]}]}),
                ),
                &["spec.containers[1].ports[0].hostPort: Duplicate value: \"TCP//5\""],
            ),
            (
                "host network",
                spec(
                    json!({"hostNetwork": true, "containers": [{"name": "a", "image": "i:1", "ports": [{"containerPort": 1, "hostPort": 5}]}]}),
                ),
                &[
                    "spec.containers[0].ports[0].hostPort: Invalid value: 5: must match `containerPort` when `hostNetwork` is true",
                ],
            ),
            (
                "dns",
                spec(json!({"dnsPolicy": "None"})),
                &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
            ),
            (
                "servers",
                spec(json!({"dnsConfig": {"nameservers": ["x"], "searches": ["_a.b", "A"]}})),
                &[
                    "spec.dnsConfig.nameservers[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                    "spec.dnsConfig.searches[1]: Invalid value: \"A\": a lowercase RFC 1123 subdomain…",
                ],
            ),
            (
                "gates",
                spec(json!({"nodeName": "n", "schedulingGates": [{"name": "a"}]})),
                &["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
            ),
        ],
    );
}
