//! ConfigMap: text and bytes by key.

use bowline_api::ConfigMap;
use bowline_api::Meta;
use serde_json::Value;

use super::check::same::same;
use super::check::{self, names};
use super::{Column, Names, Rules, age, column};
use crate::field::Invalid;

/// Most that all values together may hold; Secrets share the limit.
pub const DATA_MAX: usize = 1 << 20;
/// Why a field of an immutable object did not change.
pub const FROZEN: &str = "field is immutable when `immutable` is set";

const COLUMNS: &[Column] = &[column::NAME, column::text("Data", "Number of keys."), column::AGE];

pub struct ConfigMapRules;

impl Rules for ConfigMapRules {
    type Object = ConfigMap;
    const NAMES: Names =
        Names { plural: "configmaps", singular: "configmap", short: &["cm"], categories: &[] };
    const NAMESPACED: bool = true;

    fn validate(map: &ConfigMap) -> Vec<Invalid> {
        let mut errors = Vec::new();
        for key in map.data.iter().flat_map(|data| data.keys()) {
            let at = format!("data[{key}]");
            errors.extend(names::config_key(&at, key));
            if map.binary_data.as_ref().is_some_and(|binary| binary.contains_key(key)) {
                errors.push(Invalid::invalid(at, key.as_str(), "duplicate of key present in binaryData"));
            }
        }
        for key in map.binary_data.iter().flat_map(|data| data.keys()) {
            errors.extend(names::config_key(&format!("binaryData[{key}]"), key));
        }
        let text: usize = map.data.iter().flatten().map(|(_, value)| value.len()).sum();
        let bytes: usize = map.binary_data.iter().flatten().map(|(_, value)| value.0.len()).sum();
        if text + bytes > DATA_MAX {
            errors.push(check::too_long("[]", DATA_MAX));
        }
        errors
    }

    fn validate_update(new: &ConfigMap, old: &ConfigMap) -> Vec<Invalid> {
        if old.immutable != Some(true) {
            return Vec::new();
        }
        let changed = [
            ("immutable", new.immutable != Some(true)),
            ("data", !same(&new.data, &old.data)),
            ("binaryData", !same(&new.binary_data, &old.binary_data)),
        ];
        let frozen = |(field, _)| Invalid::forbidden(field, FROZEN);
        changed.into_iter().filter(|(_, changed)| *changed).map(frozen).collect()
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(map: &ConfigMap, now: jiff::Timestamp) -> Vec<Value> {
        let keys = map.data.as_ref().map_or(0, |d| d.len()) + map.binary_data.as_ref().map_or(0, |d| d.len());
        vec![map.name().into(), keys.into(), age::age(&map.metadata, now).into()]
    }
}
