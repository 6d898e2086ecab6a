//! `--node-labels` and `--register-with-taints`, refused for the reasons for which the API server would refuse the Node: it
//! would do so for ever.

use std::collections::BTreeMap;

use bowline_api::keys::is_kubelet_label;
use bowline_api::name::{label_value_errors, qualified_name_errors};
use k8s_openapi::api::core::v1::Taint;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// `key=value`, by commas or repeated.
pub(super) fn labels(given: &[String]) -> Result<BTreeMap<String, String>, String> {
    let pairs = given.iter().flat_map(|list| list.split(',')).filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let wrong = |why: &str| format!("--node-labels: `{pair}` {why}");
        let (key, value) = pair.split_once('=').ok_or_else(|| wrong("is not key=value"))?;
        check(key, value).map_err(|why| wrong(&why))?;
        if !is_kubelet_label(key) {
            return Err(wrong(
                "is a label of Kubernetes that a kubelet may not set on its node; use a key below node.kubernetes.io or kubelet.kubernetes.io, or of another domain",
            ));
        }
        Ok((key.to_owned(), value.to_owned()))
    };
    pairs.map(pair).collect()
}

/// `key=value:effect`, or `key:effect`.
pub(super) fn taints(given: &[String]) -> Result<Vec<Taint>, String> {
    let taint = |text: &String| {
        let wrong = |why: &str| format!("--register-with-taints: `{text}` {why}");
        let shape = || wrong("is not key=value:effect");
        let (rest, effect) = text.rsplit_once(':').ok_or_else(shape)?;
        if !EFFECTS.contains(&effect) {
            return Err(shape());
        }
        let (key, value) = rest.split_once('=').map_or((rest, None), |(key, value)| (key, Some(value)));
        check(key, value.unwrap_or_default()).map_err(|why| wrong(&why))?;
        let value = value.map(str::to_owned);
        Ok(Taint { key: key.to_owned(), value, effect: effect.to_owned(), time_added: None })
    };
    given.iter().filter(|text| !text.is_empty()).map(taint).collect()
}

fn check(key: &str, value: &str) -> Result<(), String> {
    let found = qualified_name_errors(key).into_iter().chain(label_value_errors(value)).next();
    found.map_or(Ok(()), |why| Err(format!("cannot be used: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn labels_and_taints_are_read_or_refused() {
        let found = labels(&words(&["a=1,b=", "example.com/c=x"])).expect("labels");
        assert_eq!(
            found.into_iter().map(|(key, value)| key + &value).collect::<Vec<_>>(),
            ["a1", "b", "example.com/cx"]
        );
        assert!(labels(&words(&["a"])).is_err());
        let found = taints(&words(&["k=v:NoSchedule", "only:NoExecute"])).expect("taints");
        assert_eq!((found[0].value.as_deref(), found[1].value.as_deref()), (Some("v"), None));
        assert!(taints(&words(&["k=v"])).is_err() && taints(&words(&["k:Later"])).is_err());
    }

    /// As upstream's kubelet, which ends then.
    #[test]
    fn what_the_api_server_would_refuse_is_refused_at_start() {
        let allowed = [
            "kubernetes.io/hostname=n",
            "topology.kubernetes.io/zone=a",
            "beta.kubernetes.io/os=linux",
            "node.kubernetes.io/pool=x",
            "a.kubelet.kubernetes.io/b=",
            "example.com/node-role=x",
        ];
        for label in allowed {
            assert!(labels(&words(&[label])).is_ok(), "{label}");
        }
        let refused = [
            ("kubernetes.io/role=x", "may not set"),
            ("node-role.kubernetes.io/worker=", "may not set"),
            ("node-restriction.kubernetes.io/x=y", "may not set"),
            ("storage.k8s.io/x=y", "may not set"),
            ("a b=c", "name part must consist of"),
            ("=c", "name part must be non-empty"),
            ("a=b c", "valid label must be"),
        ];
        for (label, why) in refused {
            let error = labels(&words(&[label])).expect_err(label);
            assert!(error.contains(why), "{label}: {error}");
        }
        for taint in ["a b=c:NoSchedule", "k=b c:NoExecute", "a=b=c:NoSchedule", ":NoSchedule"] {
            assert!(taints(&words(&[taint])).is_err(), "{taint}");
        }
    }
}
