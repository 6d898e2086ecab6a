//! JSON for people.

/// So many times its size may JSON become by being indented. Usual objects double; a deep one could become a hundred
/// times as large.
const GROWTH_MAX: usize = 16;

/// Nothing that becomes no larger than this matters.
const SMALL: usize = 64 << 10;

/// The same JSON, indented by two spaces as Go does it: nothing inside braces that hold nothing. `None` if that would
/// make it much larger.
pub fn indented(json: &[u8]) -> Option<Vec<u8>> {
    let max = json.len().saturating_mul(GROWTH_MAX).max(SMALL);
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut text, mut escaped) = (0_usize, false, false);
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if out.len() > max {
            return None;
        }
        if text {
            out.push(byte);
            (text, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
            continue;
        }
        match byte {
            b'"' => {
                text = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                while bytes.next_if(u8::is_ascii_whitespace).is_some() {}
                if let Some(closing) = bytes.next_if(|next| matches!(next, b'}' | b']')) {
                    out.push(closing);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            byte if byte.is_ascii_whitespace() => {}
            byte => out.push(byte),
        }
    }
    Some(out)
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn as_serde_would() {
        let values = [
            json!({}),
            json!([]),
            json!({"a": [1, {"b": {}, "c": []}], "quote\"d \\": "x:{},[\\\"]", "d": null}),
            json!([[[]], [{}], ""]),
        ];
        for value in values {
            let want = serde_json::to_string_pretty(&value).unwrap();
            let shown = |json: &str| String::from_utf8(indented(json.as_bytes()).unwrap()).unwrap();
            assert_eq!(shown(&value.to_string()), want);
            // Once more changes nothing.
            assert_eq!(shown(&want), want);
            assert_eq!(serde_json::from_str::<Value>(&shown(&want)).unwrap(), value);
        }
    }

    #[test]
    fn what_would_become_huge_stays_as_it_is() {
        let (levels, items) = (100, 1000);
        let deep = format!("{}{}0{}", "[".repeat(levels), "0,".repeat(items), "]".repeat(levels));
        assert_eq!(indented(deep.as_bytes()), None);
        let flat = format!("[{}0]", "0,".repeat(items));
        assert!(indented(flat.as_bytes()).is_some());
    }
}
