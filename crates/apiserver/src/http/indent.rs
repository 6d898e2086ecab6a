//! JSON for people.

/// The same JSON, indented by two spaces as Go does it: nothing inside braces that hold nothing.
pub fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut text, mut escaped) = (0_usize, false, false);
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
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
    out
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
            assert_eq!(String::from_utf8(indented(value.to_string().as_bytes())).unwrap(), want);
            // Once more changes nothing.
            assert_eq!(indented(want.as_bytes()), want.as_bytes());
            assert_eq!(serde_json::from_slice::<Value>(&indented(want.as_bytes())).unwrap(), value);
        }
    }
}
