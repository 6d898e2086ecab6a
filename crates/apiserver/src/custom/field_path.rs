//! Paths of the form `.spec.names['a.b']` into a schema.

use super::schema::Schema;

/// Where a path leads.
#[derive(Debug)]
pub struct Found<'a> {
    /// As errors spell it.
    pub path: String,
    pub schema: &'a Schema,
}

/// Follows a path. `brackets` says whether keys may stand in brackets.
pub fn resolve<'a>(path: &str, schema: &'a Schema, brackets: bool) -> Result<Found<'a>, String> {
    let mut found = Found { path: String::new(), schema };
    let mut rest = path;
    while !rest.is_empty() {
        let (key, after) = if let Some(after) = rest.strip_prefix('[') {
            if !brackets {
                return Err("array notation is not allowed".into());
            }
            quoted(after)?
        } else if let Some(after) = rest.strip_prefix('.') {
            if after.is_empty() {
                return Err("unexpected end of JSON path".into());
            }
            // A delimiter in place of a name is taken for the name.
            let end = after.find(['.', '[', ']']).unwrap_or(after.len()).max(1);
            (after[..end].to_owned(), &after[end..])
        } else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
            return Err(format!("expected [ or . but got: {}", &rest[..end]));
        };
        found = step(found, &key)?;
        rest = after;
    }
    Ok(found)
}

fn step<'a>(found: Found<'a>, key: &str) -> Result<Found<'a>, String> {
    let invalid = || "does not refer to a valid field".to_owned();
    let Found { path, schema } = found;
    if !schema.properties.is_empty() {
        let below = schema.properties.get(key).ok_or_else(invalid)?;
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        return Ok(Found { path, schema: below });
    }
    let below = schema.additional().ok_or_else(invalid)?;
    Ok(Found { path: format!("{path}[{key}]"), schema: below })
}

/// `'key']`, and what follows it.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let Some(body) = text.strip_prefix('\'') else {
        let end = text.find(['.', '[', ']']).unwrap_or(text.len());
        return Err(format!("expected single quoted string but got {}", &text[..end]));
    };
    let mut key = String::new();
    let mut chars = body.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => {
                let after = body[at + 1..].strip_prefix(']');
                return after.map(|after| (key, after)).ok_or_else(|| "expected ]".to_owned());
            }
            '\\' => match chars.next() {
                Some((_, c @ ('\'' | '\\'))) => key.push(c),
                Some((_, 'n')) => key.push('\n'),
                Some((_, 't')) => key.push('\t'),
                Some((_, 'r')) => key.push('\r'),
                other => {
                    let c = other.map(|(_, c)| c).unwrap_or_default();
                    return Err(format!("invalid string literal: invalid escape char \\{c}"));
                }
            },
            c => key.push(c),
        }
    }
    Err("unexpected end of JSON path".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn table() {
        let schema = Schema::parse(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"a.b": {"type": "string"}, "c": {"type": "integer"}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }}))
        .unwrap();
        let good = [
            (".spec.c", "spec.c", "integer"),
            (".spec['a.b']", "spec.a.b", "string"),
            (".map.x", "map[x]", "string"),
            (".map['x y']", "map[x y]", "string"),
            (".spec", "spec", "object"),
        ];
        for (path, want, type_) in good {
            let found = resolve(path, &schema, true).unwrap();
            assert_eq!((found.path.as_str(), found.schema.type_.as_str()), (want, type_), "{path}");
        }
        let bad = [
            (".spec.x", "does not refer to a valid field"),
            ("spec", "expected [ or . but got: spec"),
            (".", "unexpected end of JSON path"),
            (".spec[0]", "expected single quoted string but got 0"),
            (".spec['c", "unexpected end of JSON path"),
        ];
        for (path, want) in bad {
            assert_eq!(resolve(path, &schema, true).unwrap_err(), want, "{path}");
        }
        assert_eq!(resolve(".spec['c']", &schema, false).unwrap_err(), "array notation is not allowed");
    }
}
