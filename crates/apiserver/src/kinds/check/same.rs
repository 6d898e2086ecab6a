//! Equality as upstream sees it, and fields that may not change.

use std::cmp::Ordering;

use bowline_api::quantity;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;
use serde_json::Value;

use crate::field::Invalid;
use crate::schema::{Schema, Shape, Type};

/// Whether two values are the same. Both come from objects that the schema settled, so absent and empty are one
/// wherever they are one to upstream.
pub fn same<T: Serialize>(one: &T, other: &T) -> bool {
    json(one) == json(other)
}

/// `field is immutable`, unless nothing changed.
pub fn immutable<T: Serialize>(field: &str, new: &T, old: &T) -> Option<Invalid> {
    (!same(new, old)).then(|| Invalid::invalid(field, json(new), "field is immutable"))
}

/// An object as JSON; our types always have one.
pub fn json<T: Serialize>(object: &T) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// Like [`same`], for values of a type like `core.v1.PodSpec` that hold amounts, which are equal in any notation.
pub fn alike<T: Serialize>(type_name: &str, one: &T, other: &T) -> bool {
    let schema = Schema::get();
    let (one, other) = (json(one), json(other));
    match schema.named(&format!("io.k8s.api.{type_name}")) {
        Some(of) => one == other || alike_fields(schema, of, &one, &other),
        None => one == other,
    }
}

fn alike_fields(schema: &Schema, of: &Type, one: &Value, other: &Value) -> bool {
    each_alike(one, other, |name, one, other| match schema.field(of, name) {
        Some(field) => alike_values(schema, &field.shape, one, other),
        None => one == other,
    })
}

fn alike_values(schema: &Schema, shape: &Shape, one: &Value, other: &Value) -> bool {
    match (shape, one, other) {
        (Shape::Quantity, Value::String(one), Value::String(other)) => {
            let amount = |text: &String| Quantity(text.clone());
            one == other || quantity::compare(&amount(one), &amount(other)) == Ok(Ordering::Equal)
        }
        (Shape::Message(id), _, _) => alike_fields(schema, schema.of(*id), one, other),
        (Shape::Map(element), _, _) => {
            each_alike(one, other, |_, one, other| alike_values(schema, element, one, other))
        }
        (Shape::List(element), Value::Array(one), Value::Array(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.all(|(one, other)| alike_values(schema, element, one, other))
        }
        _ => one == other,
    }
}

/// Whether two objects have the same keys, and values that are alike under each.
fn each_alike(one: &Value, other: &Value, alike: impl Fn(&str, &Value, &Value) -> bool) -> bool {
    let (Value::Object(ours), Value::Object(theirs)) = (one, other) else { return one == other };
    let found =
        |(name, value): (&String, &Value)| theirs.get(name).is_some_and(|other| alike(name, value, other));
    ours.len() == theirs.len() && ours.iter().all(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn amounts_are_numbers() {
        let pod = |amount: &str, name: &str| json!({"containers": [{"name": name, "resources": {"requests": {"memory": amount}}}], "nodeSelector": {"a": amount}});
        let table = [
            (pod("1Gi", "a"), pod("1Gi", "a"), true),
            (pod("1Gi", "a"), pod("1Gi", "b"), false),
            (pod("1Gi", "a"), pod("1073741824", "a"), false),
            (json!({"overhead": {"cpu": "1"}}), json!({"overhead": {"cpu": "1000m"}}), true),
            (json!({"overhead": {"cpu": "1"}}), json!({"overhead": {"cpu": "2"}}), false),
            (json!({"overhead": {"cpu": "1"}}), json!({"overhead": {}}), false),
            (json!({"overhead": {"cpu": "1"}}), json!({"priority": 1}), false),
            (json!({"containers": [{"name": "a"}]}), json!({"containers": []}), false),
        ];
        for (one, other, want) in table {
            assert_eq!(alike("core.v1.PodSpec", &one, &other), want, "{one} {other}");
        }
        let sized = |amount: &str| json!({"resources": {"requests": {"storage": amount}}});
        assert!(alike("core.v1.PersistentVolumeClaimSpec", &sized("1Gi"), &sized("1073741824")));
    }
}
