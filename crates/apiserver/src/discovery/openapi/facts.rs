//! What upstream's sources say of fields beside their types. Read when a document is made, and forgotten after.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// All types that have any.
#[derive(Default, Deserialize)]
pub struct Facts {
    enums: BTreeMap<String, Vec<String>>,
    types: BTreeMap<String, OfType>,
}

/// Facts of one type, by the name of the field.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct OfType {
    /// In the order of the type.
    pub required: Vec<String>,
    pub default: BTreeMap<String, Value>,
    #[serde(rename = "enum")]
    enums: BTreeMap<String, String>,
    /// Lists and maps that server-side apply treats as one value, and says so.
    pub atomic: Vec<String>,
    /// Objects that are owned field by field although their type is not.
    pub granular: Vec<String>,
}

impl Facts {
    /// Those of this build.
    pub fn load() -> Self {
        serde_json::from_str(include_str!("../../../schema/facts.json")).unwrap_or_else(|error| {
            // The file is part of the program, and a test reads it.
            tracing::error!(%error, "the built-in facts are unreadable");
            Self::default()
        })
    }

    pub fn of(&self, name: &str) -> Option<&OfType> {
        self.types.get(name)
    }

    /// The values that a field may have; none if it may have any.
    pub fn values(&self, of: &OfType, field: &str) -> Option<&[String]> {
        let name = of.enums.get(field)?;
        self.enums.get(name).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;

    #[test]
    fn the_built_in_facts_are_about_known_fields() {
        let facts: Facts =
            serde_json::from_str(include_str!("../../../schema/facts.json")).expect("readable");
        let schema = Schema::get();
        for (name, of) in &facts.types {
            let known = schema.named(name).unwrap_or_else(|| panic!("{name} is not in the schema"));
            let named = of
                .default
                .keys()
                .chain(of.enums.keys())
                .chain(&of.atomic)
                .chain(&of.granular)
                .chain(&of.required);
            for field in named {
                assert!(schema.field(known, field).is_some(), "{name} has no {field}");
            }
            for field in of.enums.keys() {
                assert!(facts.values(of, field).is_some_and(|all| !all.is_empty()), "{name} {field}");
            }
        }
        let port = facts.of("io.k8s.api.core.v1.ContainerPort").expect("has facts");
        assert_eq!(
            (&port.required[..], &port.default["protocol"]),
            (&["containerPort".into()][..], &"TCP".into())
        );
        assert_eq!(facts.values(port, "protocol"), Some(&["SCTP".into(), "TCP".into(), "UDP".into()][..]));
    }
}
