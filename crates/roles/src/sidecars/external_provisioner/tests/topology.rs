//! The worked example of the reference: keys `zone` and `rack`; n4 has no rack.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::{CSINode, Node};
use bowline_proto::csi::v1::{Topology, TopologyRequirement};
use k8s_openapi::api::core::v1::{TopologySelectorLabelRequirement, TopologySelectorTerm};
use k8s_openapi::api::storage::v1::CSINodeDriver;

use super::super::decide::topology::{Request, flattened, requirement, spread};
use super::super::model::{Cluster, Why};
use super::DRIVER;

fn node(name: &str, labels: &[(&str, &str)]) -> Arc<Node> {
    let mut node = Node::default();
    node.metadata.name = Some(name.into());
    node.metadata.labels = Some(term(labels));
    Arc::new(node)
}

fn csi_node(name: &str, keys: &[&str]) -> Arc<CSINode> {
    let keys = keys.iter().map(ToString::to_string).collect();
    let driver = CSINodeDriver { name: DRIVER.into(), topology_keys: Some(keys), ..Default::default() };
    let mut node = CSINode::default();
    node.metadata.name = Some(name.into());
    node.spec.drivers = vec![driver];
    Arc::new(node)
}

fn cluster() -> Cluster {
    let csi_nodes = ["n1", "n2", "n3", "n4"].map(|name| csi_node(name, &["zone", "rack"])).into();
    let nodes = vec![
        node("n1", &[("zone", "a"), ("rack", "r1")]),
        node("n2", &[("zone", "a"), ("rack", "r2")]),
        node("n3", &[("zone", "b"), ("rack", "r1")]),
        node("n4", &[("zone", "c")]),
    ];
    Cluster { csi_nodes, nodes }
}

fn term(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn place(rack: &str, zone: &str) -> Topology {
    Topology { segments: term(&[("rack", rack), ("zone", zone)]) }
}

fn zone(zone: &str) -> Topology {
    Topology { segments: term(&[("zone", zone)]) }
}

fn zones(values: &[&str]) -> TopologySelectorTerm {
    let values = values.iter().map(ToString::to_string).collect();
    let zone = TopologySelectorLabelRequirement { key: "zone".into(), values };
    TopologySelectorTerm { match_label_expressions: Some(vec![zone]) }
}

fn request<'a>(selected: Option<&'a str>, allowed: &'a [TopologySelectorTerm]) -> Request<'a> {
    Request { driver: DRIVER, claim: "data-web-1", selected, allowed, strict: false, immediate: true }
}

fn terms(requisite: &[Topology], preferred: &[Topology]) -> Option<TopologyRequirement> {
    Some(TopologyRequirement { requisite: requisite.to_vec(), preferred: preferred.to_vec() })
}

#[test]
fn worked_example() {
    let all = [place("r1", "a"), place("r1", "b"), place("r2", "a")];
    let rotated = [place("r1", "b"), place("r2", "a"), place("r1", "a")];
    let n3 = [place("r1", "b")];
    let (ab, b) = ([zones(&["b", "a"])], [zones(&["b"])]);
    let strict = |allowed| Request { strict: true, ..request(Some("n3"), allowed) };
    let table = [
        ("delayed, n3", request(Some("n3"), &[]), terms(&all, &rotated)),
        ("delayed, n3, strict", strict(&[]), terms(&n3, &n3)),
        ("immediate", request(None, &[]), terms(&all, &rotated)),
        ("immediate, off", Request { immediate: false, ..request(None, &[]) }, None),
        (
            "delayed, n3, zones a and b",
            request(Some("n3"), &ab),
            terms(&[zone("a"), zone("b")], &[zone("b"), zone("a")]),
        ),
        ("strict, n3, zone b: the full term", strict(&b), terms(&n3, &n3)),
        ("immediate, zone b", request(None, &b), terms(&[zone("b")], &[zone("b")])),
    ];
    for (name, request, expected) in table {
        assert_eq!(requirement(&request, &cluster()).unwrap(), expected, "{name}");
    }
}

#[test]
fn places_that_cannot_be_found() {
    let a = [zones(&["a"])];
    let lonely = Cluster { nodes: vec![], ..cluster() };
    let error = |request: &Request<'_>, cluster: &Cluster| requirement(request, cluster).unwrap_err();
    assert_eq!(error(&request(Some("n9"), &[]), &cluster()), Why::NodeMissing("n9".into()));
    let table = [
        ("label missing", error(&request(Some("n4"), &[]), &cluster()), "do not have all"),
        ("node missing", error(&request(Some("n3"), &[]), &lonely), "not found"),
        ("not allowed", error(&request(Some("n3"), &a), &cluster()), "not in allowedTopologies"),
        ("no keys anywhere", error(&request(None, &[]), &Cluster::default()), "no available topology"),
    ];
    for (name, why, part) in table {
        assert!(matches!(&why, Why::Invalid(text) if text.contains(part)), "{name}: {why:?}");
    }
}

#[test]
fn allowed_topologies_are_multiplied_and_sorted() {
    let expression = |key: &str, values: &[&str]| TopologySelectorLabelRequirement {
        key: key.into(),
        values: values.iter().map(ToString::to_string).collect(),
    };
    let product = TopologySelectorTerm {
        match_label_expressions: Some(vec![expression("zone", &["b", "a"]), expression("rack", &["r1"])]),
    };
    let flat = flattened(&[product.clone(), zones(&["z"]), product, TopologySelectorTerm::default()]);
    let both = |zone| term(&[("rack", "r1"), ("zone", zone)]);
    assert_eq!(flat, [term(&[("zone", "z")]), both("a"), both("b")]);
}

#[test]
fn claims_of_a_set_are_spread() {
    let (hash, index) = spread("data-web-1");
    assert_eq!((hash, index), (0x4666_1985, 1), "FNV-1 of `web`, not FNV-1a");
    assert_eq!(spread("logs-web-1"), (hash, 1), "claims of one pod go together");
    assert_eq!(spread("web-7"), (hash, 7));
    assert_eq!(spread("web"), (hash, 0));
    assert_eq!(spread("web-x").1, 0);
    assert_eq!(spread("web-+1").1, 0);
    assert_eq!(spread("web-99999999999").1, 0, "more than 32 bits");
}

#[test]
fn edge_2_15_5_only_a_missing_csi_node_asks_for_another_node() {
    let nowhere = requirement(&request(Some("n9"), &[]), &cluster());
    assert_eq!(nowhere, Err(Why::NodeMissing("n9".into())));
    assert!(matches!(requirement(&request(Some("n4"), &[]), &cluster()), Err(Why::Invalid(_))), "no label");
    let nodeless = Cluster { nodes: Vec::new(), ..cluster() };
    assert!(matches!(requirement(&request(Some("n1"), &[]), &nodeless), Err(Why::Invalid(_))), "no Node");
}

#[test]
fn edge_2_15_13_allowed_topologies_match_a_node_that_has_more_keys() {
    let allowed = [zones(&["a", "b"])];
    let found = requirement(&request(Some("n3"), &allowed), &cluster()).unwrap();
    assert_eq!(found, terms(&[zone("a"), zone("b")], &[zone("b"), zone("a")]));
    let elsewhere = [zones(&["a"])];
    assert!(requirement(&request(Some("n3"), &elsewhere), &cluster()).is_err());
}
