//! What a CustomResourceDefinition says, as plain data, and the kind itself.

mod approval;
mod defaults;
mod internal;
mod kind;
mod names;
mod schema;
mod spec;
pub mod status;
mod structural;
mod types;

use serde::Deserialize;
use serde_json::Value;

pub use kind::DefinitionKind;

/// Where definitions are stored.
pub const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";
pub const GROUP: &str = "apiextensions.k8s.io";
pub const PLURAL: &str = "customresourcedefinitions";

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Definition {
    pub metadata: Metadata,
    pub spec: Spec,
    pub status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub deletion_timestamp: Option<String>,
    pub finalizers: Vec<String>,
    pub annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    pub group: String,
    pub names: Names,
    pub scope: String,
    pub versions: Vec<Version>,
    pub conversion: Option<Conversion>,
    pub preserve_unknown_fields: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Version {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    pub deprecated: bool,
    pub deprecation_warning: Option<String>,
    pub schema: Option<Validation>,
    pub subresources: Option<Subresources>,
    pub additional_printer_columns: Vec<PrinterColumn>,
    pub selectable_fields: Vec<SelectableField>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Validation {
    #[serde(rename = "openAPIV3Schema")]
    pub schema: Option<Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Subresources {
    pub status: Option<Value>,
    pub scale: Option<ScalePaths>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScalePaths {
    pub spec_replicas_path: String,
    pub status_replicas_path: String,
    pub label_selector_path: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrinterColumn {
    pub name: String,
    #[serde(rename = "type")]
    pub type_: String,
    pub format: String,
    pub description: String,
    pub priority: i32,
    pub json_path: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectableField {
    pub json_path: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Conversion {
    pub strategy: String,
    pub webhook: Option<Webhook>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Webhook {
    pub client_config: Option<Value>,
    pub conversion_review_versions: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub accepted_names: Names,
    pub conditions: Vec<Condition>,
    pub stored_versions: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
}

impl Definition {
    /// `None` if this is no definition; whatever is stored is one.
    pub fn parse(object: &Value) -> Option<Self> {
        Self::deserialize(object).ok()
    }

    pub fn is(&self, condition: &str) -> bool {
        self.status.conditions.iter().any(|known| known.type_ == condition && known.status == "True")
    }

    pub fn is_namespaced(&self) -> bool {
        self.spec.scope == "Namespaced"
    }

    /// Where its objects are stored.
    pub fn table(&self) -> String {
        format!("{}.{}", self.spec.names.plural, self.spec.group)
    }
}

impl Version {
    pub fn schema(&self) -> Option<&Value> {
        self.schema.as_ref().and_then(|validation| validation.schema.as_ref())
    }

    pub fn has_status(&self) -> bool {
        self.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
    }

    pub fn scale(&self) -> Option<&ScalePaths> {
        self.subresources.as_ref().and_then(|subresources| subresources.scale.as_ref())
    }
}
