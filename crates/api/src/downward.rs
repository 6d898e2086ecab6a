//! What a pod may be told about itself: fields by their path, resources of its containers by their name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::meta::Meta;
use crate::{pod, quantity};

/// A field of the pod's metadata, as volumes and environments show it; `None`: there is no such field.
pub fn metadata_field(pod: &Pod, path: &str) -> Option<String> {
    let keyed = |prefix: &str| path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']");
    if let Some(key) = keyed("metadata.labels") {
        return Some(pod.label(key).unwrap_or_default().to_owned());
    }
    if let Some(key) = keyed("metadata.annotations") {
        return Some(pod.annotation(key).unwrap_or_default().to_owned());
    }
    Some(match path {
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => pod.namespace().to_owned(),
        "metadata.uid" => pod.uid().to_owned(),
        "metadata.labels" => lines(pod.meta().labels.as_ref()),
        "metadata.annotations" => lines(pod.meta().annotations.as_ref()),
        _ => return None,
    })
}

/// One `key="value"` a line, in order.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quoted(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// As Go quotes a text.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            letter if letter.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(letter))),
            letter if letter.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// A request or limit of a container, in units of the divisor and rounded up. A limit that is not set is what the node
/// has to give.
pub fn resource(pod: &Pod, selector: &ResourceFieldSelector, node: Option<&Node>) -> Result<String, String> {
    let name = selector.container_name.as_deref().unwrap_or_default();
    let container = pod::containers(pod).find(|one| one.name == name);
    let container = container.ok_or_else(|| format!("container {name} not found"))?;
    let wrong = || format!("unsupported container resource : {}", selector.resource);
    let (kind, resource) = selector.resource.split_once('.').ok_or_else(wrong)?;
    let set = container.resources.as_ref();
    let amount = match kind {
        "limits" => {
            let own = set.and_then(|set| set.limits.as_ref()?.get(resource));
            own.or_else(|| node?.status.as_ref()?.allocatable.as_ref()?.get(resource))
        }
        "requests" => set.and_then(|set| set.requests.as_ref()?.get(resource)),
        _ => return Err(wrong()),
    };
    let nanos = |quantity: &Quantity| quantity::nanos(&quantity.0).map_err(|error| error.to_string());
    let amount = amount.map_or(Ok(0), nanos)?;
    let divisor = selector.divisor.as_ref().map_or(Ok(0), nanos)?;
    let divisor = if divisor == 0 { quantity::NANO } else { divisor };
    Ok((amount / divisor + i128::from(amount % divisor > 0)).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn example() -> Pod {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"b": "2", "a": "say \"1\"\n"}},
            "spec": {"containers": [{"name": "main", "resources": {
                "limits": {"memory": "64Mi"}, "requests": {"cpu": "1500m"}}}]},
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn fields() {
        let table = [
            ("metadata.name", Some("p")),
            ("metadata.namespace", Some("ns")),
            ("metadata.uid", Some("u")),
            ("metadata.labels", Some("a=\"say \\\"1\\\"\\n\"\nb=\"2\"")),
            ("metadata.labels['b']", Some("2")),
            ("metadata.labels['c']", Some("")),
            ("metadata.annotations", Some("")),
            ("spec.nodeName", None),
        ];
        for (path, want) in table {
            assert_eq!(metadata_field(&example(), path).as_deref(), want, "{path}");
        }
    }

    #[test]
    fn resources() {
        let node: Node = serde_json::from_value(json!({"status": {"allocatable": {"cpu": "2"}}})).unwrap();
        let asked = |resource: &str, divisor: &str| {
            let selector = json!({"containerName": "main", "resource": resource, "divisor": divisor});
            super::resource(&example(), &serde_json::from_value(selector).unwrap(), Some(&node))
        };
        assert_eq!(asked("limits.memory", "1Mi").as_deref(), Ok("64"));
        assert_eq!(asked("limits.memory", "0").as_deref(), Ok("67108864"));
        assert_eq!(asked("requests.cpu", "1").as_deref(), Ok("2"), "rounded up");
        assert_eq!(asked("requests.cpu", "1m").as_deref(), Ok("1500"));
        assert_eq!(asked("limits.cpu", "1").as_deref(), Ok("2"), "what the node has");
        assert_eq!(asked("requests.memory", "1").as_deref(), Ok("0"));
        assert!(asked("nonsense", "1").is_err());
        let mut huge = example();
        let resources = huge.spec.as_mut().unwrap().containers[0].resources.as_mut().unwrap();
        let most = Quantity("170141183460469231731687303715".into());
        resources.limits = Some([("cpu".to_owned(), most)].into());
        let selector = json!({"containerName": "main", "resource": "limits.cpu", "divisor": "1"});
        let selector = serde_json::from_value(selector).unwrap();
        let shown = super::resource(&huge, &selector, None);
        assert_eq!(shown.as_deref(), Ok("170141183460469231731687303715"), "no room to add before dividing");
    }
}
