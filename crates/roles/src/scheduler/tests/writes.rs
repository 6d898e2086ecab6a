//! What an action writes.

use bowline_api::pod as api;
use jiff::Timestamp;
use serde_json::json;

use super::super::act::{binding, unschedulable};
use super::*;

#[test]
fn a_binding_names_this_very_pod() {
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "default", "uid": "uid-p"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    });
    assert_eq!(binding(&pod().pod, "n"), expected);
}

#[test]
fn the_condition_keeps_its_first_time_and_its_neighbours() {
    let (first, later) = (Timestamp::from_second(10).unwrap(), Timestamp::from_second(20).unwrap());
    let mut this = (*pod().pod).clone();
    let other = k8s_openapi::api::core::v1::PodCondition { type_: "Ready".into(), ..Default::default() };
    this.status.get_or_insert_default().conditions = Some(vec![other]);
    let once = unschedulable(&this, "one reason", first);
    let twice = unschedulable(&once, "another reason", later);
    let condition = api::condition(&twice, api::POD_SCHEDULED).unwrap();
    assert_eq!(condition.last_transition_time.as_ref().map(|t| t.0), Some(first));
    assert_eq!(condition.message.as_deref(), Some("another reason"));
    assert_eq!(twice.status.unwrap().conditions.unwrap().len(), 2);
}
