//! `--config`: a KubeletConfiguration as the flags that its fields stand for, so that both mean the same and are refused for
//! the same reasons. Flags on the command line come later and win, as upstream has it.

use bowline_machinery::flags::{files, flags};
use serde_json::Value;

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "KubeletConfiguration";

/// Fields whose flag is not their name with dashes. A field below another one is joined by a dot.
const FLAGS: [(&str, &str); 24] = [
    ("authentication.x509.clientCAFile", "client-ca-file"),
    ("authentication.anonymous.enabled", "anonymous-auth"),
    ("authentication.webhook.enabled", "authentication-token-webhook"),
    ("authentication.webhook.cacheTTL", "authentication-token-webhook-cache-ttl"),
    ("authorization.mode", "authorization-mode"),
    ("authorization.webhook.cacheAuthorizedTTL", "authorization-webhook-cache-authorized-ttl"),
    ("authorization.webhook.cacheUnauthorizedTTL", "authorization-webhook-cache-unauthorized-ttl"),
    ("logging.format", "logging-format"),
    ("logging.verbosity", "v"),
    ("kubeAPIQPS", "kube-api-qps"),
    ("kubeAPIBurst", "kube-api-burst"),
    ("eventRecordQPS", "event-qps"),
    ("registryPullQPS", "registry-qps"),
    ("imageMinimumGCAge", "minimum-image-ttl-duration"),
    ("imageGCHighThresholdPercent", "image-gc-high-threshold"),
    ("imageGCLowThresholdPercent", "image-gc-low-threshold"),
    ("podPidsLimit", "pod-max-pids"),
    ("staticPodPath", "pod-manifest-path"),
    ("staticPodURL", "manifest-url"),
    ("staticPodURLHeader", "manifest-url-header"),
    ("serverTLSBootstrap", "rotate-server-certificates"),
    ("failCgroupV1", "fail-cgroupv1"),
    ("makeIPTablesUtilChains", "make-iptables-util-chains"),
    ("enableControllerAttachDetach", "enable-controller-attach-detach"),
];
/// Fields that group others.
const GROUPS: [&str; 7] = [
    "authentication",
    "authentication.x509",
    "authentication.anonymous",
    "authentication.webhook",
    "authorization",
    "authorization.webhook",
    "logging",
];
/// Fields without a flag that only tune what this kubelet does otherwise.
const TUNING: [&str; 5] = [
    "nodeStatusReportFrequency",
    "logging.flushFrequency",
    "logging.options",
    "maxParallelImagePulls",
    "containerLogMaxWorkers",
];
/// Numbers of which upstream takes zero for "not set"; any other zero counts.
const ZERO_IS_UNSET: [&str; 6] =
    ["maxPods", "port", "eventBurst", "registryBurst", "kubeAPIBurst", "maxOpenFiles"];
/// Flags of this program that upstream has only as fields.
const FIELDS: [&str; 1] = ["pod-logs-dir"];

/// Where a configuration has other defaults than the flags.
const DEFAULTS: [&str; 2] = ["--authentication-token-webhook=true", "--authorization-mode=Webhook"];

/// The words of a command line behind those of the configuration that it names.
pub(super) fn expand(words: &[String]) -> Result<Vec<String>, String> {
    let Some(path) = named(words) else { return Ok(words.to_vec()) };
    let text = std::fs::read_to_string(&path).map_err(|error| format!("read --config `{path}`: {error}"))?;
    let found = parse(&text).map_err(|why| format!("use --config `{path}`: {why}"))?;
    let defaults = DEFAULTS.map(str::to_owned).into_iter();
    Ok(defaults.chain(found).chain(words.iter().cloned()).collect())
}

fn named(words: &[String]) -> Option<String> {
    let mut found = None;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if let Some(path) = word.strip_prefix("--config=") {
            found = Some(path.to_owned());
        } else if word == "--config" {
            found = words.next().cloned();
        }
    }
    found.filter(|path| !path.is_empty())
}

fn parse(text: &str) -> Result<Vec<String>, String> {
    let config: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string().replace('\n', " "))?;
    if config["apiVersion"] != API_VERSION || config["kind"] != KIND {
        return Err(format!("it is not of kind {KIND} in {API_VERSION}"));
    }
    let known = flags(&[files::LOGGING, files::KUBELET])?;
    let mut words = Vec::new();
    for (field, value) in fields(&config, "") {
        if TUNING.contains(&field.as_str()) {
            continue;
        }
        let flag = FLAGS.iter().find(|(name, _)| *name == field).map(|(_, flag)| (*flag).to_owned());
        let flag = flag.unwrap_or_else(|| dashed(&field));
        if !FIELDS.contains(&flag.as_str()) && !known.iter().any(|one| one.name == flag) {
            return Err(format!("field `{field}` is not supported here; remove it"));
        }
        words.push(format!("--{flag}={}", written(&field, &value)?));
    }
    Ok(words)
}

/// Fields that say something, with those of groups by their whole name. What is empty or zero is upstream's way to say
/// "as by default".
fn fields(object: &Value, above: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        let field = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        if GROUPS.contains(&field.as_str()) {
            found.extend(fields(value, &field));
        } else if !["apiVersion", "kind"].contains(&field.as_str()) && !is_unset(&field, value) {
            found.push((field, value.clone()));
        }
    }
    found
}

fn is_unset(field: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() || text == "0s",
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0) && ZERO_IS_UNSET.contains(&field),
        Value::Bool(_) => false,
    }
}

/// A value as a flag has it.
fn written(field: &str, value: &Value) -> Result<String, String> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    let text = match value {
        Value::Array(list) => list.iter().map(|one| scalar(one).or_else(|| taint(one))).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, one)| scalar(one).map(|text| format!("{key}={text}"))).collect()
        }
        other => scalar(other).map(|text| vec![text]),
    };
    let text: Option<Vec<String>> = text;
    text.map(|parts| parts.join(",")).ok_or_else(|| format!("field `{field}` has a value of another shape"))
}

/// `registerWithTaints` lists objects.
fn taint(value: &Value) -> Option<String> {
    let (key, effect) = (value["key"].as_str()?, value["effect"].as_str()?);
    Some(match value["value"].as_str() {
        Some(text) => format!("{key}={text}:{effect}"),
        None => format!("{key}:{effect}"),
    })
}

/// `clusterDNS` as `cluster-dns`, `cpuCFSQuota` as `cpu-cfs-quota`.
fn dashed(field: &str) -> String {
    let letters: Vec<char> = field.chars().collect();
    let mut text = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let after_small = index > 0 && !letters[index - 1].is_uppercase();
        let before_small = letters.get(index + 1).is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && index > 0 && (after_small || before_small) {
            text.push('-');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(fields: &str) -> Result<Vec<String>, String> {
        parse(&format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{fields}"))
    }

    #[test]
    fn fields_are_the_flags_that_they_stand_for() {
        let text = "
healthzPort: 10300
authentication: {x509: {clientCAFile: /ca.crt}, webhook: {enabled: false, cacheTTL: 0s}}
logging: {verbosity: 3, flushFrequency: 5s}
clusterDNS: []
shutdownGracePeriod: 0s
podLogsDir: /logs
failSwapOn: false
cpuCFSQuota: true
featureGates: {A: true}
registerWithTaints: [{key: a, value: b, effect: NoSchedule}, {key: c, effect: NoExecute}]
nodeStatusReportFrequency: 5m";
        let mut words = config(text).expect("a configuration");
        words.sort();
        let expected = [
            "--authentication-token-webhook=false",
            "--client-ca-file=/ca.crt",
            "--cpu-cfs-quota=true",
            "--fail-swap-on=false",
            "--feature-gates=A=true",
            "--healthz-port=10300",
            "--pod-logs-dir=/logs",
            "--register-with-taints=a=b:NoSchedule,c:NoExecute",
            "--v=3",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn zero_is_the_default_of_the_numbers_that_upstream_leaves_unset() {
        assert_eq!(config("maxPods: 0\nport: 0"), Ok(Vec::new()));
        assert_eq!(config("healthzPort: 0"), Ok(vec!["--healthz-port=0".to_owned()]), "serves none");
        assert_eq!(config("maxPods: 7"), Ok(vec!["--max-pods=7".to_owned()]));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let refused = |fields| config(fields).expect_err("refused");
        assert_eq!(
            refused("memorySwap: {swapBehavior: x}"),
            "field `memorySwap` is not supported here; remove it"
        );
        assert!(refused("logging: {format: {}}\nport: [[1]]").contains("`port`"));
        assert!(parse("kind: Pod").is_err() && parse("{").is_err());
    }

    #[test]
    fn the_file_comes_before_the_command_line() {
        let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
        assert_eq!(expand(&words("--v=2 -x")), Ok(words("--v=2 -x")));
        assert_eq!(named(&words("--config /a --config=/b --v=1")), Some("/b".into()));
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), format!("apiVersion: {API_VERSION}\nkind: {KIND}\nport: 7\n"))
            .expect("written");
        let given = format!("--config={}", file.path().display());
        let expected = format!("{} --port=7 {given}", DEFAULTS.join(" "));
        assert_eq!(expand(&[given]), Ok(words(&expected)), "what is said comes after what is meant");
        assert!(expand(&words("--config=/nonexistent/x")).is_err_and(|why| why.contains("/nonexistent/x")));
    }
}
