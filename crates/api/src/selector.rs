//! Label selectors and node affinity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::meta::Meta;

type Labels = BTreeMap<String, String>;

/// Whether labels satisfy a selector. An operator we do not know matches nothing.
pub fn matches(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    let value = |key: &str| labels.and_then(|l| l.get(key)).map(String::as_str);
    let exact = selector.match_labels.iter().flatten().all(|(key, want)| value(key) == Some(want));
    let expressions = selector.match_expressions.iter().flatten();
    exact
        && expressions
            .into_iter()
            .all(|e| holds(&e.operator, value(&e.key), e.values.as_deref().unwrap_or_default()))
}

fn holds(operator: &str, value: Option<&str>, values: &[String]) -> bool {
    let listed = value.is_some_and(|v| values.iter().any(|w| w == v));
    let number = |text: &str| text.parse::<i64>().ok();
    let compare = || Some((number(value?)?, number(values.first()?)?));
    match operator {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare().is_some_and(|(have, want)| have > want),
        "Lt" => compare().is_some_and(|(have, want)| have < want),
        _ => false,
    }
}

/// Terms are alternatives; requirements inside a term must all hold; an empty term matches nothing.
pub fn node_matches(terms: &[NodeSelectorTerm], node: &Node) -> bool {
    terms.iter().any(|term| {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        let label = |r: &NodeSelectorRequirement| {
            holds(&r.operator, node.label(&r.key), r.values.as_deref().unwrap_or_default())
        };
        let field = |r: &NodeSelectorRequirement| {
            let value = (r.key == "metadata.name").then_some(node.name());
            holds(&r.operator, value, r.values.as_deref().unwrap_or_default())
        };
        !(expressions.is_empty() && fields.is_empty())
            && expressions.iter().all(label)
            && fields.iter().all(field)
    })
}

/// Whether a volume can be reached from a node. No affinity: from everywhere.
pub fn volume_reachable(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|s| s.node_affinity.as_ref());
    affinity.and_then(|a| a.required.as_ref()).is_none_or(|r| node_matches(&r.node_selector_terms, node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

    #[test]
    fn operators() {
        let labels: Labels = [("zone".into(), "b".into()), ("n".into(), "5".into())].into();
        let table = [
            ("zone", "In", vec!["a", "b"], true),
            ("zone", "NotIn", vec!["b"], false),
            ("disk", "NotIn", vec!["b"], true),
            ("zone", "Exists", vec![], true),
            ("disk", "Exists", vec![], false),
            ("disk", "DoesNotExist", vec![], true),
            ("zone", "Near", vec![], false),
        ];
        for (key, operator, values, want) in table {
            let values = values.into_iter().map(String::from).collect();
            let requirement =
                LabelSelectorRequirement { key: key.into(), operator: operator.into(), values: Some(values) };
            let selector = LabelSelector { match_expressions: Some(vec![requirement]), match_labels: None };
            assert_eq!(matches(&selector, Some(&labels)), want, "{key} {operator}");
        }
        assert!(matches(&LabelSelector::default(), None), "an empty selector matches everything");
    }

    #[test]
    fn an_empty_node_term_matches_nothing() {
        let node = Node::default();
        assert!(!node_matches(&[NodeSelectorTerm::default()], &node));
        assert!(!node_matches(&[], &node));
    }
}
