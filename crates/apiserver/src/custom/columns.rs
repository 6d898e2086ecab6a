//! What `kubectl get` shows of custom resources.

use jiff::Timestamp;
use serde_json::Value;

use super::definition::PrinterColumn;
use super::json_path::JsonPath;
use crate::golang::number;
use crate::kinds::{Column, age};

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Columns beside the name.
#[derive(Debug)]
pub struct Columns {
    pub headers: Vec<Column>,
    cells: Vec<(String, JsonPath)>,
}

impl Columns {
    /// A definition without columns gets the age; one with a path that is not understood ends there.
    pub fn of(declared: &[PrinterColumn]) -> Self {
        let mut out = Self { headers: vec![header("Name", "string", "name", NAME, 0)], cells: Vec::new() };
        let creation = PrinterColumn {
            name: "Age".into(),
            type_: "date".into(),
            description: AGE.into(),
            json_path: ".metadata.creationTimestamp".into(),
            ..PrinterColumn::default()
        };
        let declared = if declared.is_empty() { std::slice::from_ref(&creation) } else { declared };
        for column in declared {
            let Some(path) = JsonPath::parse(&column.json_path) else { break };
            let described = match column.description.as_str() {
                "" => format!("Custom resource definition column (in JSONPath format): {}", column.json_path),
                text => text.to_owned(),
            };
            out.headers.push(header(
                &column.name,
                &column.type_,
                &column.format,
                &described,
                column.priority,
            ));
            out.cells.push((column.type_.clone(), path));
        }
        out
    }

    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = object["metadata"]["name"].clone();
        let rest = self.cells.iter().map(|(type_, path)| cell(type_, path.first(object), now));
        std::iter::once(name).chain(rest).collect()
    }
}

fn header(name: &str, type_: &str, format: &str, description: &str, priority: i32) -> Column {
    Column {
        name: name.to_owned().into(),
        type_: type_.to_owned().into(),
        format: format.to_owned().into(),
        description: description.to_owned().into(),
        priority,
    }
}

/// A value that does not fit its column is not shown.
fn cell(type_: &str, value: Option<&Value>, now: Timestamp) -> Value {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Value::Null };
    match (type_, value) {
        ("string", Value::String(text)) => text.as_str().into(),
        ("string", Value::Number(value)) => number(value).into(),
        ("string", other) => other.to_string().into(),
        #[expect(clippy::cast_possible_truncation, reason = "as upstream cuts off fractions")]
        ("integer", Value::Number(number)) => {
            number.as_i64().or_else(|| number.as_f64().map(|n| n as i64)).map_or(Value::Null, Value::from)
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(at) => age::since(Some(at), now).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_by_type() {
        let now = "2026-01-01T00:10:00Z".parse().unwrap();
        let column = |name: &str, type_: &str| PrinterColumn {
            name: name.into(),
            type_: type_.into(),
            json_path: ".x".into(),
            ..PrinterColumn::default()
        };
        let table = [
            ("string", json!("a"), json!("a")),
            ("string", json!(5), json!("5")),
            ("string", json!(1.5), json!("1.5")),
            ("string", json!(["a", 1]), json!("[\"a\",1]")),
            ("string", json!({"a": true}), json!("{\"a\":true}")),
            ("integer", json!(5), json!(5)),
            ("integer", json!(5.9), json!(5)),
            ("integer", json!("5"), Value::Null),
            ("number", json!(1.5), json!(1.5)),
            ("boolean", json!(true), json!(true)),
            ("boolean", json!("true"), Value::Null),
            ("date", json!("2026-01-01T00:00:00Z"), json!("10m")),
            ("date", json!("x"), json!("<invalid>")),
            ("date", Value::Null, Value::Null),
        ];
        for (type_, value, want) in table {
            let columns = Columns::of(&[column("X", type_)]);
            let cells = columns.cells(&json!({"metadata": {"name": "n"}, "x": value}), now);
            assert_eq!(cells, [json!("n"), want], "{type_} {value}");
        }
        let plain = Columns::of(&[]);
        assert_eq!(plain.headers.iter().map(|h| h.name.as_ref()).collect::<Vec<_>>(), ["Name", "Age"]);
        let broken = Columns::of(&[
            column("A", "string"),
            PrinterColumn { json_path: ".x[".into(), ..column("B", "string") },
        ]);
        assert_eq!(broken.headers.len(), 2);
    }
}
