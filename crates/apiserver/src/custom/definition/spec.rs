//! The rules of a definition, in upstream's order and words.

use bowline_api::name::{label_1035_errors, subdomain_errors};
use serde_json::{Value, json};

use super::internal::{self, Shared};
use super::{Definition, PrinterColumn, ScalePaths, SelectableField, Spec, Version, names, schema, status};
use crate::custom::field_path;
use crate::custom::schema::Schema;
use crate::field::{Invalid, Reason};
use crate::kinds::check::required_one_of;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const SELECTABLE_MAX: usize = 8;
const WARNING_MAX: usize = 256;

/// What is wrong with a definition, whether it is new or not.
pub fn errors(definition: &Definition) -> Vec<Invalid> {
    let spec = &definition.spec;
    let shared = Shared::of(&spec.versions);
    let mut errors = group_errors(&spec.group);
    errors.extend(required_one_of("spec.scope", Some(&spec.scope), &["Cluster", "Namespaced"]));
    for (index, version) in spec.versions.iter().enumerate() {
        if version.schema().is_none() {
            errors.push(Invalid::required(format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
        }
    }
    if spec.preserve_unknown_fields && spec.versions.iter().any(has_defaults) {
        let why = "must be false in order to use defaults in the schema";
        errors.push(Invalid::invalid("spec.preserveUnknownFields", true, why));
    }
    for (index, version) in spec.versions.iter().enumerate() {
        errors.extend(version_errors(version, index, shared));
    }
    errors.extend(version_list_errors(spec, shared));
    errors.extend(names::missing(&spec.names, "spec.names"));
    errors.extend(names::errors(&spec.names, "spec.names"));
    errors.extend(shared_errors(spec, shared));
    errors.extend(conversion_errors(spec));
    errors
}

fn has_defaults(version: &Version) -> bool {
    let schema = version.schema().and_then(Schema::parse);
    schema.is_some_and(|schema| schema.any(&|node| node.default.is_some()))
}

fn group_errors(group: &str) -> Vec<Invalid> {
    let wrong = subdomain_errors(group);
    match group {
        "" => vec![Invalid::required("spec.group", "")],
        group if !wrong.is_empty() => vec![Invalid::invalid("spec.group", group, wrong.join(","))],
        group if !group.contains('.') => {
            vec![Invalid::invalid("spec.group", group, "should be a domain with at least one dot")]
        }
        _ => Vec::new(),
    }
}

/// What stands in one version; what all versions share is checked once for all.
fn version_errors(version: &Version, index: usize, shared: Shared) -> Vec<Invalid> {
    let path = format!("spec.versions[{index}]");
    let mut errors = Vec::new();
    let wrong = label_1035_errors(&version.name);
    if !wrong.is_empty() {
        errors.push(Invalid::invalid(format!("{path}.name"), version.name.as_str(), wrong.join(",")));
    }
    let warning = version.deprecation_warning.as_deref();
    for why in warning_errors(version.deprecated, warning) {
        errors.push(Invalid::invalid(format!("{path}.deprecationWarning"), warning.unwrap_or_default(), why));
    }
    if let Some(json) = version.schema().filter(|_| !shared.schema) {
        errors.extend(schema::errors(json, &format!("{path}.schema.openAPIV3Schema"), version.has_status()));
    }
    if let Some(scale) = version.scale().filter(|_| !shared.subresources) {
        errors.extend(scale_errors(scale, &format!("{path}.subresources")));
    }
    if !shared.columns {
        errors.extend(column_errors(
            &version.additional_printer_columns,
            &format!("{path}.additionalPrinterColumns"),
        ));
    }
    if !shared.selectable {
        errors.extend(selectable_errors(version, &format!("{path}.selectableFields")));
    }
    errors
}

/// Errors in what is the same for all versions stand at the top, where upstream keeps it internally.
fn shared_errors(spec: &Spec, shared: Shared) -> Vec<Invalid> {
    let Some(first) = spec.versions.first() else { return Vec::new() };
    let mut errors = Vec::new();
    if let Some(json) = first.schema().filter(|_| shared.schema) {
        let status = spec.versions.iter().any(Version::has_status);
        errors.extend(schema::errors(json, "spec.validation.openAPIV3Schema", status));
    }
    if let Some(scale) = first.scale().filter(|_| shared.subresources) {
        errors.extend(scale_errors(scale, "spec.subresources"));
    }
    if shared.columns {
        errors.extend(column_errors(&first.additional_printer_columns, "spec.additionalPrinterColumns"));
    }
    if shared.selectable {
        errors.extend(selectable_errors(first, "spec.selectableFields"));
    }
    errors
}

fn version_list_errors(spec: &Spec, shared: Shared) -> Vec<Invalid> {
    let listed = |why: &str| Invalid {
        reason: Reason::Invalid,
        field: "spec.versions".into(),
        value: None,
        detail: format!("{}: {why}", internal::versions(&spec.versions, shared)),
    };
    let mut errors = Vec::new();
    let repeated = |(index, version): (usize, &Version)| {
        spec.versions[..index].iter().any(|earlier| earlier.name == version.name)
    };
    if spec.versions.iter().enumerate().any(repeated) {
        errors.push(listed("must contain unique version names"));
    }
    if spec.versions.iter().filter(|version| version.storage).count() != 1 {
        errors.push(listed("must have exactly one version marked as storage version"));
    }
    if let Some(first) = spec.versions.first() {
        let wrong = label_1035_errors(&first.name);
        if !first.name.is_empty() && !wrong.is_empty() {
            errors.push(Invalid::invalid("spec.version", first.name.as_str(), wrong.join(",")));
        }
    }
    errors
}

fn warning_errors(deprecated: bool, warning: Option<&str>) -> Vec<String> {
    let Some(warning) = warning else { return Vec::new() };
    if !deprecated {
        return vec!["can only be set for deprecated versions".into()];
    }
    let mut errors = Vec::new();
    if warning.len() > WARNING_MAX {
        errors.push(format!("must be <= {WARNING_MAX} characters long"));
    }
    if warning.is_empty() {
        errors.push("must not be an empty string".into());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        errors.push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
    errors
}

fn path_error(path: &str, field: &str) -> Option<Invalid> {
    (!path.starts_with('.'))
        .then(|| Invalid::invalid(field, path, "must be a simple json path starting with ."))
}

fn scale_errors(scale: &ScalePaths, path: &str) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (name, value, under) in [
        ("specReplicasPath", &scale.spec_replicas_path, ".spec."),
        ("statusReplicasPath", &scale.status_replicas_path, ".status."),
    ] {
        let field = format!("{path}.scale.{name}");
        if value.is_empty() {
            errors.push(Invalid::required(field, ""));
        } else if let Some(error) = path_error(value, &field) {
            errors.push(error);
        } else if !value.starts_with(under) {
            let why = format!("should be a json path under {}", under.trim_end_matches('.'));
            errors.push(Invalid::invalid(field, value.as_str(), why));
        }
    }
    if let Some(selector) = scale.label_selector_path.as_deref().filter(|path| !path.is_empty()) {
        let field = format!("{path}.scale.labelSelectorPath");
        if let Some(error) = path_error(selector, &field) {
            errors.push(error);
        } else if ![".spec.", ".status."].iter().any(|under| selector.starts_with(under)) {
            let why = "should be a json path under either .spec or .status";
            errors.push(Invalid::invalid(field, selector, why));
        }
    }
    errors
}

fn column_errors(columns: &[PrinterColumn], path: &str) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let at = |field: &str| format!("{path}[{index}].{field}");
        if column.name.is_empty() {
            errors.push(Invalid::required(at("name"), ""));
        }
        let known = format!("must be one of {}", COLUMN_TYPES.join(","));
        match column.type_.as_str() {
            "" => errors.push(Invalid::required(at("type"), known)),
            type_ if !COLUMN_TYPES.contains(&type_) => {
                errors.push(Invalid::invalid(at("type"), type_, known))
            }
            _ => {}
        }
        let format = column.format.as_str();
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(Invalid::invalid(at("format"), format, why));
        }
        if column.json_path.is_empty() {
            errors.push(Invalid::required(at("JSONPath"), ""));
        } else {
            errors.extend(path_error(&column.json_path, &at("JSONPath")));
        }
    }
    errors
}

fn selectable_errors(version: &Version, path: &str) -> Vec<Invalid> {
    let fields: &[SelectableField] = &version.selectable_fields;
    let Some(schema) = version.schema().and_then(Schema::parse).filter(|_| !fields.is_empty()) else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let (at, json_path) = (format!("{path}[{index}].jsonPath"), field.json_path.as_str());
        if json_path.is_empty() {
            errors.push(Invalid::required(at, ""));
            continue;
        }
        let found = match field_path::resolve(json_path, &schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(Invalid::invalid(at, json_path, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if found.path.split('.').next() == Some("metadata") {
            errors.push(Invalid::invalid(at.as_str(), json_path, "must not point to fields in metadata"));
        }
        if !matches!(found.schema.type_.as_str(), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(Invalid::invalid(at.as_str(), json_path, why));
        }
        if seen.contains(&found.path) {
            errors.push(Invalid::duplicate(at, json_path));
        } else {
            seen.push(found.path);
        }
    }
    if seen.len() > SELECTABLE_MAX {
        let detail = format!("must have at most {SELECTABLE_MAX} items");
        let value = Some(seen.len().into());
        errors.push(Invalid { reason: Reason::TooMany, field: path.to_owned(), value, detail });
    }
    errors
}

fn conversion_errors(spec: &Spec) -> Vec<Invalid> {
    let Some(conversion) = &spec.conversion else { return Vec::new() };
    let mut errors = Vec::new();
    let strategy = conversion.strategy.as_str();
    if spec.preserve_unknown_fields && strategy != "None" {
        let why = "must be None if spec.preserveUnknownFields is true";
        errors.push(Invalid::invalid("spec.conversion.strategy", strategy, why));
    }
    errors.extend(required_one_of("spec.conversion.strategy", Some(strategy), &["None", "Webhook"]));
    let (client, reviews) =
        ("spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions");
    let webhook = conversion.webhook.clone().unwrap_or_default();
    if strategy == "Webhook" {
        match &webhook.client_config {
            None => errors.push(Invalid::required(client, "required when strategy is set to Webhook")),
            Some(config) if config["url"].is_null() == config["service"].is_null() => {
                errors.push(Invalid::required(client, "exactly one of url or service is required"));
            }
            Some(_) => {}
        }
        if webhook.conversion_review_versions.is_empty() {
            errors.push(Invalid::required(reviews, ""));
        } else if !webhook.conversion_review_versions.iter().any(|v| matches!(v.as_str(), "v1" | "v1beta1")) {
            let shown = json!(webhook.conversion_review_versions);
            errors.push(Invalid::invalid(reviews, shown, "must include at least one of v1, v1beta1"));
        }
        if errors.is_empty() && spec.versions.len() > 1 {
            // Upstream would call the webhook; here it is said at once that nobody will.
            let why = "webhook conversion is not supported by this server; use strategy None";
            errors.push(Invalid::forbidden("spec.conversion.strategy", why));
        }
    } else {
        let why = "should not be set when strategy is not set to Webhook";
        if webhook.client_config.is_some() {
            errors.push(Invalid::forbidden(client, why));
        }
        if !webhook.conversion_review_versions.is_empty() {
            errors.push(Invalid::forbidden(reviews, why));
        }
    }
    errors
}

/// Versions that objects may be stored in stay.
pub fn stored_version_errors(definition: &Definition) -> Vec<Invalid> {
    let stored = &definition.status.stored_versions;
    if stored.is_empty() {
        let why = "must have at least one stored version";
        return vec![Invalid::invalid("status.storedVersions", Value::Null, why)];
    }
    let versions = &definition.spec.versions;
    let mut errors = Vec::new();
    for version in versions.iter().filter(|version| version.storage && !stored.contains(&version.name)) {
        let why = format!("must have the storage version {}", version.name);
        errors.push(Invalid::invalid("status.storedVersions", stored.clone(), why));
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version.name == *name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(Invalid::invalid(format!("status.storedVersions[{index}]"), name.as_str(), why));
        }
    }
    errors
}

/// What an update may not change.
pub fn update_errors(new: &Definition, old: &Definition) -> Vec<Invalid> {
    const WHY: &str = "field is immutable";
    let mut fixed = Vec::new();
    if old.is(status::ESTABLISHED) {
        fixed.push(("spec.scope", &new.spec.scope, &old.spec.scope));
        fixed.push(("spec.names.kind", &new.spec.names.kind, &old.spec.names.kind));
    }
    fixed.push(("spec.group", &new.spec.group, &old.spec.group));
    fixed.push(("spec.names.plural", &new.spec.names.plural, &old.spec.names.plural));
    let changed = fixed.into_iter().filter(|(_, new, old)| new != old);
    changed.map(|(field, new, _)| Invalid::invalid(field, new.as_str(), WHY)).collect()
}
