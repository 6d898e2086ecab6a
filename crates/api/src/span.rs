//! Parts of the JSON of objects as they stand, without parsing the rest.

use std::borrow::Cow;
use std::ops::Range;

/// The value of a member of an object, whitespace around it excluded. `None` if it is absent or the text is broken.
pub fn member<'a>(json: &'a [u8], name: &str) -> Option<&'a [u8]> {
    json.get(range(json, name)?)
}

/// An object without the record of who set which field: a third of the bytes of most objects, and more of the time
/// that reading them takes. Absent means "as it is" to a server that the object is sent back to.
pub fn without_record(json: &[u8]) -> Cow<'_, [u8]> {
    without(json, record(json, 0..json.len()).into_iter().collect())
}

/// The same for the object in a line of a watch.
pub fn event_without_record(json: &[u8]) -> Cow<'_, [u8]> {
    let found = range(json, "object").and_then(|object| record(json, object));
    without(json, found.into_iter().collect())
}

/// The same for all objects of a list.
pub fn list_without_records(json: &[u8]) -> Cow<'_, [u8]> {
    let Some(items) = range(json, "items") else { return Cow::Borrowed(json) };
    let (mut at, mut found) = (blank(json, items.start + 1), Vec::new());
    while at < items.end - 1 {
        let Some(end) = value(json, at) else { break };
        found.extend(record(json, at..end));
        // Behind the comma.
        at = blank(json, blank(json, end) + 1);
    }
    without(json, found)
}

/// Where the record of the object stands that these bytes are.
fn record(json: &[u8], object: Range<usize>) -> Option<Range<usize>> {
    let metadata = range(json.get(object.clone())?, "metadata")?;
    let metadata = object.start + metadata.start..object.start + metadata.end;
    let record = range(json.get(metadata.clone())?, "managedFields")?;
    Some(metadata.start + record.start..metadata.start + record.end)
}

/// Null where these values stand.
fn without(json: &[u8], values: Vec<Range<usize>>) -> Cow<'_, [u8]> {
    if values.is_empty() {
        return Cow::Borrowed(json);
    }
    let (mut out, mut kept) = (Vec::with_capacity(json.len()), 0);
    for value in values {
        out.extend_from_slice(&json[kept..value.start]);
        out.extend_from_slice(b"null");
        kept = value.end;
    }
    out.extend_from_slice(&json[kept..]);
    Cow::Owned(out)
}

/// Where the value of a member stands.
fn range(json: &[u8], name: &str) -> Option<Range<usize>> {
    let mut at = blank(json, 0);
    if json.get(at) != Some(&b'{') {
        return None;
    }
    at = blank(json, at + 1);
    loop {
        let key_end = text(json, at)?;
        let key = json.get(at + 1..key_end - 1)?;
        at = blank(json, key_end);
        if json.get(at) != Some(&b':') {
            return None;
        }
        let start = blank(json, at + 1);
        let end = value(json, start)?;
        if key == name.as_bytes() {
            return Some(start..end);
        }
        at = blank(json, end);
        if json.get(at) != Some(&b',') {
            return None;
        }
        at = blank(json, at + 1);
    }
}

fn blank(json: &[u8], mut at: usize) -> usize {
    while json.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Behind the closing quote of the text that begins here.
fn text(json: &[u8], at: usize) -> Option<usize> {
    if json.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Behind the value that begins here.
fn value(json: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0_usize);
    loop {
        match json.get(at)? {
            b'"' => at = text(json, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth == 0 => return (at > start).then_some(at),
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            b',' if depth == 0 => return (at > start).then_some(at),
            _ => at += 1,
        }
        if depth == 0 && at > start && matches!(json[at - 1], b'"' | b'}' | b']') {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let json = br#"{"a":1, "b\"x" : [1,{"metadata":2}],"metadata": {"name":"x\\\"}","l":[{}]} ,"t":"y", "n":null}"#;
        let cases = [
            ("a", Some("1")),
            ("metadata", Some(r#"{"name":"x\\\"}","l":[{}]}"#)),
            ("t", Some("\"y\"")),
            ("n", Some("null")),
            ("b\\\"x", Some(r#"[1,{"metadata":2}]"#)),
            ("none", None),
            ("name", None),
        ];
        for (name, want) in cases {
            assert_eq!(member(json, name), want.map(str::as_bytes), "{name}");
        }
        for broken in ["", "[]", "{", "{}", "{\"a\"", "{\"a\":", "{\"a\":\"x", "{\"a\":{", "{\"a\":,"] {
            assert_eq!(member(broken.as_bytes(), "a"), None, "{broken:?}");
        }
    }

    #[test]
    fn the_record_is_cut_out_and_nothing_else() {
        let with = r#"{"kind":"X","metadata":{"managedFields":[{"a":["]",1]}],"name":"x"},"spec":{"managedFields":[1]}}"#;
        let cut = r#"{"kind":"X","metadata":{"managedFields":null,"name":"x"},"spec":{"managedFields":[1]}}"#;
        let cases = [
            (with, cut),
            (r#"{"metadata":{"name":"x"}}"#, r#"{"metadata":{"name":"x"}}"#),
            (r#"{"managedFields":[1]}"#, r#"{"managedFields":[1]}"#),
            ("[", "["),
        ];
        for (json, want) in cases {
            assert_eq!(without_record(json.as_bytes()), want.as_bytes());
            let event = |object| format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n");
            assert_eq!(event_without_record(event(json).as_bytes()), event(want).as_bytes());
        }
        let list = |object| format!(r#"{{"metadata":{{"managedFields":[]}},"items":[{object} , {object}]}}"#);
        assert_eq!(list_without_records(list(with).as_bytes()), list(cut).as_bytes());
        for other in [r#"{"items":[]}"#, r#"{"items":null}"#, r#"{"items":[1"#, "{}", r#"{"items":"x"}"#] {
            assert_eq!(list_without_records(other.as_bytes()), other.as_bytes());
        }
    }
}
