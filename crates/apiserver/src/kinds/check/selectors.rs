//! Label selectors, node selectors and topology terms.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, TopologySelectorLabelRequirement,
    TopologySelectorTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::names;
use crate::field::Invalid;

const BAD_OPERATOR: &str = "not a valid selector operator";
/// Complaints about terms that stand twice. Upstream makes one for each pair, which are many more than terms.
const TWINS_MAX: usize = 1_000;

pub fn labels(field: &str, labels: Option<&BTreeMap<String, String>>) -> Vec<Invalid> {
    let pairs = labels.into_iter().flatten();
    label_pairs(field, pairs.map(|(key, value)| (key.as_str(), value.as_str())))
}

pub fn label_pairs<'a>(field: &str, labels: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Invalid> {
    let each = |(key, value): (&str, &str)| {
        names::qualified(field, key).into_iter().chain(names::label_value(field, value))
    };
    labels.flat_map(each).collect()
}

pub fn label_selector(field: &str, selector: &LabelSelector) -> Vec<Invalid> {
    let mut errors = labels(&format!("{field}.matchLabels"), selector.match_labels.as_ref());
    for (index, rule) in selector.match_expressions.iter().flatten().enumerate() {
        let at = format!("{field}.matchExpressions[{index}]");
        let values = rule.values.as_deref().unwrap_or_default();
        errors.extend(operator(&at, &rule.operator, values, false));
        errors.extend(names::qualified(&format!("{at}.key"), &rule.key));
        errors.extend(label_values(&at, values));
    }
    errors
}

/// A selector in the notation of query parameters, sorted by key.
pub fn text(selector: &LabelSelector) -> String {
    let exact = selector.match_labels.iter().flatten().map(|(key, value)| (key, format!("{key}={value}")));
    let rules = selector.match_expressions.iter().flatten().map(|rule| {
        let mut values = rule.values.clone().unwrap_or_default();
        values.sort();
        let (key, values) = (&rule.key, values.join(","));
        let text = match rule.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        };
        (key, text)
    });
    let mut all: Vec<(&String, String)> = exact.chain(rules).collect();
    all.sort_by_key(|(key, _)| *key);
    all.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

fn label_values(field: &str, values: &[String]) -> Vec<Invalid> {
    let one =
        |(index, value): (usize, &String)| names::label_value(&format!("{field}.values[{index}]"), value);
    values.iter().enumerate().flat_map(one).collect()
}

/// How many values each operator takes. Only node selectors compare numbers.
fn operator(field: &str, operator: &str, values: &[String], numeric: bool) -> Option<Invalid> {
    let at = format!("{field}.values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            Some(Invalid::required(at, "must be specified when `operator` is 'In' or 'NotIn'"))
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            Some(Invalid::forbidden(at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
        }
        "Gt" | "Lt" if numeric && values.len() != 1 => {
            Some(Invalid::required(at, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => None,
        "Gt" | "Lt" if numeric => None,
        other => Some(Invalid::invalid(format!("{field}.operator"), other, BAD_OPERATOR)),
    }
}

pub fn node_selector(field: &str, selector: &NodeSelector) -> Vec<Invalid> {
    let at = format!("{field}.nodeSelectorTerms");
    if selector.node_selector_terms.is_empty() {
        return vec![Invalid::required(at, "must have at least one node selector term")];
    }
    let terms = selector.node_selector_terms.iter().enumerate();
    terms.flat_map(|(index, term)| node_term(&format!("{at}[{index}]"), term)).collect()
}

fn node_term(field: &str, term: &NodeSelectorTerm) -> Vec<Invalid> {
    term_errors(field, term, true)
}

/// A term that only weighs: its values may be anything.
pub fn preferred_node_term(field: &str, term: &NodeSelectorTerm) -> Vec<Invalid> {
    term_errors(field, term, false)
}

fn term_errors(field: &str, term: &NodeSelectorTerm, strict: bool) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (index, rule) in term.match_expressions.iter().flatten().enumerate() {
        let at = format!("{field}.matchExpressions[{index}]");
        let values = rule.values.as_deref().unwrap_or_default();
        errors.extend(operator(&at, &rule.operator, values, true));
        errors.extend(names::qualified(&format!("{at}.key"), &rule.key));
        if strict {
            errors.extend(label_values(&at, values));
        }
    }
    for (index, rule) in term.match_fields.iter().flatten().enumerate() {
        errors.extend(node_field(&format!("{field}.matchFields[{index}]"), rule));
    }
    errors
}

/// Nodes can be matched by one field only, their name, and one value at a time.
fn node_field(field: &str, rule: &NodeSelectorRequirement) -> Vec<Invalid> {
    let values = rule.values.as_deref().unwrap_or_default();
    let mut errors = Vec::new();
    match rule.operator.as_str() {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => errors.push(Invalid::required(
            format!("{field}.values"),
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )),
        other => errors.push(Invalid::invalid(format!("{field}.operator"), other, BAD_OPERATOR)),
    }
    if rule.key != "metadata.name" {
        let key = rule.key.as_str();
        errors.push(Invalid::invalid(format!("{field}.key"), key, "not a valid field selector key"));
        return errors;
    }
    for (index, value) in values.iter().enumerate() {
        errors.extend(names::subdomain(&format!("{field}.values[{index}]"), value));
    }
    errors
}

/// Terms of a class's `allowedTopologies`: no key twice in a term, no term twice.
pub fn topology_terms(field: &str, terms: &[TopologySelectorTerm]) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let mut seen: BTreeMap<BTreeMap<&str, BTreeSet<&str>>, usize> = BTreeMap::new();
    let mut told = 0;
    for (index, term) in terms.iter().enumerate() {
        let at = format!("{field}[{index}].matchLabelExpressions");
        let mut rules = BTreeMap::new();
        for (index, rule) in term.match_label_expressions.iter().flatten().enumerate() {
            let at = format!("{at}[{index}]");
            errors.extend(topology_rule(&at, rule));
            let values = rule.values.iter().map(String::as_str).collect();
            if rules.insert(rule.key.as_str(), values).is_some() {
                errors.push(Invalid::duplicate(format!("{at}.key"), rule.key.as_str()));
            }
        }
        // To upstream a term that asks for nothing is like one that it has not looked at yet.
        let unseen = if rules.is_empty() { terms.len() } else { 0 };
        let earlier = seen.entry(rules).or_default();
        let twins = (unseen + *earlier).min(TWINS_MAX - told);
        errors.extend((0..twins).map(|_| Invalid::duplicate(at.as_str(), "")));
        *earlier += 1;
        told += twins;
    }
    errors
}

fn topology_rule(field: &str, rule: &TopologySelectorLabelRequirement) -> Vec<Invalid> {
    let at = format!("{field}.values");
    let mut errors = Vec::new();
    if rule.values.is_empty() {
        errors.push(Invalid::required(at.as_str(), ""));
    }
    let mut seen = BTreeSet::new();
    for (index, value) in rule.values.iter().enumerate() {
        if !seen.insert(value) {
            errors.push(Invalid::duplicate(format!("{at}[{index}]"), value.as_str()));
        }
    }
    errors.extend(names::qualified(&format!("{field}.key"), &rule.key));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To upstream each of two empty terms is a twin of both, and the second one of the first.
    #[test]
    fn empty_terms() {
        let errors = |count: usize| topology_terms("allowedTopologies", &vec![Default::default(); count]);
        let places = |index: usize| format!("allowedTopologies[{index}].matchLabelExpressions");
        let found: Vec<String> = errors(2).into_iter().map(|error| error.field).collect();
        assert_eq!(found, [0, 0, 1, 1, 1].map(places));
        assert_eq!(errors(100_000).len(), TWINS_MAX);
    }
}
