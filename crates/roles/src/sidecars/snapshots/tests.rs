use std::collections::BTreeMap;

use bowline_api::keys;

use super::{Names, for_driver, secret};

fn parameters(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

const NAME: &str = "csi.storage.k8s.io/snapshotter-secret-name";
const NAMESPACE: &str = "csi.storage.k8s.io/snapshotter-secret-namespace";

fn resolve(name: &str, namespace: &str, snapshot: Option<(&str, &str)>) -> Result<String, String> {
    let given = parameters(&[(NAME, name), (NAMESPACE, namespace)]);
    let names = Names { content: "snapcontent-1", snapshot, group: false };
    let found = secret(Some(&given), keys::SNAPSHOTTER_SECRET, &names)?;
    let part = |part: Option<String>| part.unwrap_or_default();
    Ok(found.map(|found| format!("{}/{}", part(found.namespace), part(found.name))).unwrap_or_default())
}

#[test]
fn secret_templates_know_upstreams_tokens() {
    let snapshot = Some(("ns", "snap"));
    assert_eq!(resolve("a", "b", snapshot).unwrap(), "b/a");
    let name = "${volumesnapshot.name}-${volumesnapshot.namespace}-${volumesnapshotcontent.name}";
    assert_eq!(resolve(name, "${volumesnapshot.namespace}", snapshot).unwrap(), "ns/snap-ns-snapcontent-1");
    assert_eq!(resolve("a", "${volumesnapshotcontent.name}", None).unwrap(), "snapcontent-1/a");
}

/// Goal: a user who names a snapshot cannot reach another namespace's secret through a class, nor a class by a half template.
#[test]
fn hostile_secret_templates_are_refused() {
    let snapshot = Some(("ns", "../x"));
    assert!(resolve("a", "${volumesnapshot.name}", snapshot).unwrap_err().contains("invalid tokens"));
    assert!(
        resolve("${volumesnapshot.name}", "b", snapshot).unwrap_err().contains("not a valid secret name")
    );
    assert!(resolve("${volumesnapshot.name}", "b", None).unwrap_err().contains("invalid tokens"));
    assert!(resolve("${pvc.name}", "b", Some(("ns", "s"))).unwrap_err().contains("invalid tokens"));
    assert!(resolve("", "b", Some(("ns", "s"))).is_err(), "name and namespace belong together");
    assert!(
        resolve("A_b", "b", Some(("ns", "s"))).unwrap_err().contains("\"A_b\" is not a valid secret name")
    );
}

#[test]
fn the_driver_gets_parameters_without_our_prefix() {
    let given = parameters(&[(NAME, "a"), (NAMESPACE, "b"), ("fast", "yes")]);
    assert_eq!(for_driver(Some(&given)).unwrap(), parameters(&[("fast", "yes")]));
    let unknown = parameters(&[("csi.storage.k8s.io/typo", "a")]);
    assert!(for_driver(Some(&unknown)).unwrap_err().contains("csi.storage.k8s.io/typo"));
    assert!(for_driver(None).unwrap().is_empty());
}
