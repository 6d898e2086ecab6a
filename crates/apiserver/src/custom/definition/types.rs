//! The types of a definition, as upstream's Go types have them.

use crate::custom::go_type::{INT64, STRING, Shape, Struct, field, kept};
use crate::custom::object_meta::OBJECT_META;

pub static DEFINITION: Struct = Struct {
    name: "CustomResourceDefinition",
    fields: &[
        field("apiVersion", STRING),
        field("kind", STRING),
        kept("metadata", Shape::One(&OBJECT_META)),
        kept("spec", Shape::One(&SPEC)),
        kept("status", Shape::One(&STATUS)),
    ],
};

static SPEC: Struct = Struct {
    name: "CustomResourceDefinitionSpec",
    fields: &[
        kept("group", STRING),
        kept("names", Shape::One(&NAMES)),
        kept("scope", Shape::Text("v1.ResourceScope")),
        kept("versions", Shape::List(&VERSION)),
        field("conversion", Shape::One(&CONVERSION)),
        field("preserveUnknownFields", Shape::Bool),
    ],
};

static NAMES: Struct = Struct {
    name: "CustomResourceDefinitionNames",
    fields: &[
        kept("plural", STRING),
        field("singular", STRING),
        field("shortNames", Shape::Texts),
        kept("kind", STRING),
        field("listKind", STRING),
        field("categories", Shape::Texts),
    ],
};

static VERSION: Struct = Struct {
    name: "CustomResourceDefinitionVersion",
    fields: &[
        kept("name", STRING),
        kept("served", Shape::Bool),
        kept("storage", Shape::Bool),
        field("deprecated", Shape::Bool),
        kept("deprecationWarning", STRING),
        kept("schema", Shape::One(&VALIDATION)),
        kept("subresources", Shape::One(&SUBRESOURCES)),
        field("additionalPrinterColumns", Shape::List(&COLUMN)),
        field("selectableFields", Shape::List(&SELECTABLE)),
    ],
};

static VALIDATION: Struct =
    Struct { name: "CustomResourceValidation", fields: &[kept("openAPIV3Schema", Shape::One(&SCHEMA))] };

static SUBRESOURCES: Struct = Struct {
    name: "CustomResourceSubresources",
    fields: &[kept("status", Shape::One(&STATUS_SUBRESOURCE)), kept("scale", Shape::One(&SCALE))],
};

static STATUS_SUBRESOURCE: Struct = Struct { name: "CustomResourceSubresourceStatus", fields: &[] };

static SCALE: Struct = Struct {
    name: "CustomResourceSubresourceScale",
    fields: &[
        kept("specReplicasPath", STRING),
        kept("statusReplicasPath", STRING),
        kept("labelSelectorPath", STRING),
    ],
};

static COLUMN: Struct = Struct {
    name: "CustomResourceColumnDefinition",
    fields: &[
        kept("name", STRING),
        kept("type", STRING),
        field("format", STRING),
        field("description", STRING),
        field("priority", Shape::Int("int32")),
        kept("jsonPath", STRING),
    ],
};

static SELECTABLE: Struct = Struct { name: "SelectableField", fields: &[kept("jsonPath", STRING)] };

static CONVERSION: Struct = Struct {
    name: "CustomResourceConversion",
    fields: &[
        kept("strategy", Shape::Text("v1.ConversionStrategyType")),
        kept("webhook", Shape::One(&WEBHOOK)),
    ],
};

static WEBHOOK: Struct = Struct {
    name: "WebhookConversion",
    fields: &[kept("clientConfig", Shape::One(&CLIENT)), kept("conversionReviewVersions", Shape::Texts)],
};

static CLIENT: Struct = Struct {
    name: "WebhookClientConfig",
    fields: &[kept("url", STRING), kept("service", Shape::One(&SERVICE)), field("caBundle", STRING)],
};

static SERVICE: Struct = Struct {
    name: "ServiceReference",
    fields: &[
        kept("namespace", STRING),
        kept("name", STRING),
        kept("path", STRING),
        kept("port", Shape::Int("int32")),
    ],
};

static STATUS: Struct = Struct {
    name: "CustomResourceDefinitionStatus",
    fields: &[
        field("conditions", Shape::List(&CONDITION)),
        kept("acceptedNames", Shape::One(&NAMES)),
        kept("storedVersions", Shape::Texts),
        field("observedGeneration", INT64),
    ],
};

static CONDITION: Struct = Struct {
    name: "CustomResourceDefinitionCondition",
    fields: &[
        kept("type", Shape::Text("v1.CustomResourceDefinitionConditionType")),
        kept("status", Shape::Text("v1.ConditionStatus")),
        field("lastTransitionTime", Shape::Time),
        field("reason", STRING),
        field("message", STRING),
        field("observedGeneration", INT64),
    ],
};

static SCHEMA: Struct = Struct {
    name: "JSONSchemaProps",
    fields: &[
        field("id", STRING),
        field("$schema", Shape::Text("v1.JSONSchemaURL")),
        kept("$ref", STRING),
        field("description", STRING),
        field("type", STRING),
        field("format", STRING),
        field("title", STRING),
        kept("default", Shape::Raw),
        kept("maximum", Shape::Float),
        field("exclusiveMaximum", Shape::Bool),
        kept("minimum", Shape::Float),
        field("exclusiveMinimum", Shape::Bool),
        kept("maxLength", INT64),
        kept("minLength", INT64),
        field("pattern", STRING),
        kept("maxItems", INT64),
        kept("minItems", INT64),
        field("uniqueItems", Shape::Bool),
        kept("multipleOf", Shape::Float),
        field("enum", Shape::Values("[]v1.JSON")),
        kept("maxProperties", INT64),
        kept("minProperties", INT64),
        field("required", Shape::Texts),
        kept("items", Shape::OrList(&SCHEMA)),
        field("allOf", Shape::List(&SCHEMA)),
        field("oneOf", Shape::List(&SCHEMA)),
        field("anyOf", Shape::List(&SCHEMA)),
        kept("not", Shape::One(&SCHEMA)),
        field("properties", Shape::Named(&SCHEMA)),
        kept("additionalProperties", Shape::OrBool(&SCHEMA)),
        field("patternProperties", Shape::Named(&SCHEMA)),
        field("dependencies", Shape::Entries("v1.JSONSchemaDependencies")),
        kept("additionalItems", Shape::OrBool(&SCHEMA)),
        field("definitions", Shape::Named(&SCHEMA)),
        kept("externalDocs", Shape::One(&DOCUMENTATION)),
        kept("example", Shape::Raw),
        field("nullable", Shape::Bool),
        kept("x-kubernetes-preserve-unknown-fields", Shape::Bool),
        field("x-kubernetes-embedded-resource", Shape::Bool),
        field("x-kubernetes-int-or-string", Shape::Bool),
        field("x-kubernetes-list-map-keys", Shape::Texts),
        kept("x-kubernetes-list-type", STRING),
        kept("x-kubernetes-map-type", STRING),
        field("x-kubernetes-validations", Shape::List(&RULE)),
    ],
};

static DOCUMENTATION: Struct =
    Struct { name: "ExternalDocumentation", fields: &[field("description", STRING), field("url", STRING)] };

static RULE: Struct = Struct {
    name: "ValidationRule",
    fields: &[
        kept("rule", STRING),
        field("message", STRING),
        field("messageExpression", STRING),
        kept("reason", Shape::Text("v1.FieldValueErrorReason")),
        field("fieldPath", STRING),
        kept("optionalOldSelf", Shape::Bool),
    ],
};
