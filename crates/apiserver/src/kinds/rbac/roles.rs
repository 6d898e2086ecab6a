//! Role and ClusterRole: what may be done.

use k8s_openapi::api::rbac::v1::{AggregationRule, ClusterRole, PolicyRule, Role};
use serde_json::Value;

use super::Reach;
use crate::field::Invalid;
use crate::kinds::check::selectors;
use crate::kinds::{Column, Names, Rules};

pub struct RoleRules;
pub struct ClusterRoleRules;

impl Rules for RoleRules {
    type Object = Role;
    const NAMES: Names = Names { plural: "roles", singular: "role", short: &[], categories: &[] };
    const NAMESPACED: bool = true;
    const CREATE_ON_UPDATE: bool = true;

    fn validate(role: &Role) -> Vec<Invalid> {
        rule_errors(role.rules.as_deref().unwrap_or_default(), Reach::Namespace)
    }

    fn name_errors(name: &str) -> Vec<String> {
        bowline_api::name::path_segment_errors(name)
    }

    fn columns() -> &'static [Column] {
        &[]
    }

    fn cells(_: &Role, _: jiff::Timestamp) -> Vec<Value> {
        Vec::new()
    }
}

impl Rules for ClusterRoleRules {
    type Object = ClusterRole;
    const NAMES: Names =
        Names { plural: "clusterroles", singular: "clusterrole", short: &[], categories: &[] };
    const NAMESPACED: bool = false;
    const CREATE_ON_UPDATE: bool = true;

    fn validate(role: &ClusterRole) -> Vec<Invalid> {
        let mut errors = rule_errors(role.rules.as_deref().unwrap_or_default(), Reach::Cluster);
        errors.extend(role.aggregation_rule.as_ref().into_iter().flat_map(aggregation_errors));
        errors
    }

    fn name_errors(name: &str) -> Vec<String> {
        bowline_api::name::path_segment_errors(name)
    }

    fn columns() -> &'static [Column] {
        &[]
    }

    fn cells(_: &ClusterRole, _: jiff::Timestamp) -> Vec<Value> {
        Vec::new()
    }
}

fn rule_errors(rules: &[PolicyRule], reach: Reach) -> Vec<Invalid> {
    let rules = rules.iter().enumerate();
    rules.flat_map(|(index, rule)| one_rule_errors(&format!("rules[{index}]"), rule, reach)).collect()
}

fn one_rule_errors(at: &str, rule: &PolicyRule, reach: Reach) -> Vec<Invalid> {
    let set = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    let mut errors = Vec::new();
    if rule.verbs.is_empty() {
        errors.push(Invalid::required(format!("{at}.verbs"), "verbs must contain at least one value"));
    }
    if set(&rule.non_resource_urls) {
        let refused = |text: &str| {
            let urls = rule.non_resource_urls.clone().unwrap_or_default();
            Invalid::invalid(format!("{at}.nonResourceURLs"), urls, text)
        };
        if reach == Reach::Namespace {
            errors.push(refused("namespaced rules cannot apply to non-resource URLs"));
        }
        if set(&rule.api_groups) || set(&rule.resources) || set(&rule.resource_names) {
            errors.push(refused("rules cannot apply to both regular resources and non-resource URLs"));
        }
        return errors;
    }
    if !set(&rule.api_groups) {
        let text = "resource rules must supply at least one api group";
        errors.push(Invalid::required(format!("{at}.apiGroups"), text));
    }
    if !set(&rule.resources) {
        let text = "resource rules must supply at least one resource";
        errors.push(Invalid::required(format!("{at}.resources"), text));
    }
    errors
}

fn aggregation_errors(rule: &AggregationRule) -> Vec<Invalid> {
    let at = "aggregationRule.clusterRoleSelectors";
    let selectors = rule.cluster_role_selectors.as_deref().unwrap_or_default();
    if selectors.is_empty() {
        let text = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        return vec![Invalid::required(at, text)];
    }
    let mut errors = Vec::new();
    for (index, selector) in selectors.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let wrong = selectors::label_selector(&at, selector);
        let unusable = !wrong.is_empty();
        errors.extend(wrong);
        if unusable {
            errors.push(Invalid::invalid(at, Value::Null, "invalid label selector."));
        }
    }
    errors
}
