//! Decision table, and what is written.

use std::sync::Arc;

use bowline_api::{ConfigMap, Meta, Namespace, keys};
use bowline_machinery::Step::{Do, Done};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::act::written;
use super::decide;
use super::model::{Action, Observed, data};

fn seen(deleting: bool, content: Option<&str>) -> Observed {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("n".into());
    namespace.metadata.deletion_timestamp = deleting.then_some(Time(jiff::Timestamp::UNIX_EPOCH));
    let map = |content: &str| {
        let mut map = ConfigMap { data: Some(data(content)), ..ConfigMap::default() };
        map.set_annotation("own", "kept");
        Arc::new(map)
    };
    Observed { namespace: Arc::new(namespace), map: content.map(map), root: "pem".into() }
}

#[test]
fn decisions() {
    let mut more = seen(false, Some("pem"));
    let mut map = more.map.as_deref().cloned().unwrap();
    map.data.as_mut().unwrap().insert("other".into(), "x".into());
    more.map = Some(Arc::new(map));
    let table = [
        ("a new namespace", seen(false, None), Do(Action::Create)),
        ("one that has it", seen(false, Some("pem")), Done),
        ("another authority", seen(false, Some("old")), Do(Action::Restore)),
        ("something added", more, Do(Action::Restore)),
        ("one that goes", seen(true, None), Done),
        ("one that goes with another", seen(true, Some("old")), Done),
    ];
    for (name, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{name}");
    }
}

#[test]
fn what_is_written() {
    let made = written(Action::Create, &seen(false, None));
    assert_eq!((made.namespace(), made.name()), ("n", "kube-root-ca.crt"));
    assert_eq!(made.data, Some(data("pem")));
    assert!(made.annotation(keys::DESCRIPTION).is_some());
    let restored = written(Action::Restore, &seen(false, Some("old")));
    assert_eq!(restored.annotation("own"), Some("kept"));
    assert_eq!(restored.data, Some(data("pem")));
}
