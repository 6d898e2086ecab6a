//! Where a list goes on: upstream's token, which is opaque to clients, and what is said of tokens that are none.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_api::ObjectKey;
use serde_json::{Value, json};

use crate::golang::json_type;
use crate::json;
use crate::status::Status;

const TOKEN_VERSION: &str = "meta.k8s.io/v1";
/// Stands after the last name of a page, so that the next one begins behind it.
const BEHIND: char = '\0';
/// The version of a token that does not mind what changed since the first page.
const ANY_VERSION: i64 = -1;

/// A token that was read.
#[derive(Debug, PartialEq)]
pub struct Position {
    pub after: ObjectKey,
    /// The state that all pages show; `None` for the latest one.
    pub version: Option<u64>,
}

/// `within` is the namespace that is listed, if it is only one.
pub fn token(within: Option<&str>, after: &ObjectKey, version: Option<u64>) -> String {
    let version = version.map_or(Some(ANY_VERSION), |version| i64::try_from(version).ok());
    let start = match within {
        None if !after.namespace.is_empty() => format!("{}/{}{BEHIND}", after.namespace, after.name),
        _ => format!("{}{BEHIND}", after.name),
    };
    let token = json!({"v": TOKEN_VERSION, "rv": version, "start": start});
    URL_SAFE_NO_PAD.encode(token.to_string())
}

pub fn parse(within: Option<&str>, namespaced: bool, text: &str) -> Result<Position, Status> {
    let (start, version) = read(text).map_err(|why| {
        Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
    })?;
    let start = start.strip_suffix(BEHIND).unwrap_or(&start);
    let start = start.strip_prefix('/').unwrap_or(start);
    let (namespace, name) = match within {
        Some(namespace) => (namespace, start),
        None if namespaced => start.split_once('/').unwrap_or((start, "")),
        None => ("", start),
    };
    Ok(Position { after: ObjectKey::new(namespace, name), version: u64::try_from(version).ok() })
}

/// Where a token starts and at which version. The error is upstream's.
fn read(text: &str) -> Result<(String, i64), String> {
    let decoded = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| format!("illegal base64 data at input byte {}", first_fault(text)))?;
    let token = json::read(&decoded)?.value;
    let mismatch =
        |value: &Value, wanted: &str| format!("json: cannot unmarshal {} into Go {wanted}", json_type(value));
    if !token.is_object() && !token.is_null() {
        return Err(mismatch(&token, "value of type storage.continueToken"));
    }
    let field = |name: &str, go_type: &str| format!("struct field continueToken.{name} of type {go_type}");
    let words = |name: &str| match &token[name] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        other => Err(mismatch(other, &field(name, "string"))),
    };
    let version = match &token["rv"] {
        Value::Null => 0,
        Value::Number(number) if number.is_i64() => number.as_i64().unwrap_or_default(),
        other => return Err(mismatch(other, &field("rv", "int64"))),
    };
    let (api_version, start) = (words("v")?, words("start")?);
    if api_version != TOKEN_VERSION {
        return Err(format!("server does not recognize this encoded version {api_version}"));
    }
    if version == 0 {
        return Err(format!("incorrect encoded start resourceVersion (version {TOKEN_VERSION})"));
    }
    if start.is_empty() {
        return Err(format!("encoded start key empty (version {TOKEN_VERSION})"));
    }
    // Nobody gets out of what is listed.
    let parts = start.strip_prefix('/').unwrap_or(&start).split('/');
    if parts.clone().any(|part| matches!(part, "" | "." | "..")) {
        return Err(start);
    }
    Ok((start, version))
}

/// The byte that Go points at: the first that is no letter of the alphabet, or the one that misses its fellows.
fn first_fault(text: &str) -> usize {
    let known = |byte: u8| URL_SAFE.as_str().as_bytes().contains(&byte);
    text.bytes().position(|byte| !known(byte)).unwrap_or(text.len() & !3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let key = ObjectKey::new("space", "name");
        for within in [None, Some("space")] {
            let position = parse(within, true, &token(within, &key, Some(7)));
            assert_eq!(position, Ok(Position { after: key.clone(), version: Some(7) }));
        }
        let wide = ObjectKey::new("", "node");
        let position = parse(None, false, &token(None, &wide, None));
        assert_eq!(position, Ok(Position { after: wide, version: None }));
    }

    /// As upstream's server answered.
    #[test]
    fn what_is_no_token() {
        let encoded = |token: &str| URL_SAFE_NO_PAD.encode(token);
        let v1 = |rest: &str| encoded(&format!(r#"{{"v":"meta.k8s.io/v1",{rest}}}"#));
        let table = [
            ("!!".to_owned(), "illegal base64 data at input byte 0"),
            ("abcde".to_owned(), "illegal base64 data at input byte 4"),
            ("e30=".to_owned(), "illegal base64 data at input byte 3"),
            ("abc".to_owned(), "invalid character 'i' looking for beginning of value"),
            ("nonsense".to_owned(), "invalid character '\\u009e' looking for beginning of value"),
            (encoded("[]"), "json: cannot unmarshal array into Go value of type storage.continueToken"),
            (encoded("{}"), "server does not recognize this encoded version "),
            (encoded(r#"{"v":"1"}"#), "server does not recognize this encoded version 1"),
            (v1(r#""rv":0,"start":"a""#), "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
            (v1(r#""rv":5,"start":"""#), "encoded start key empty (version meta.k8s.io/v1)"),
            (v1(r#""rv":5,"start":"../x""#), "../x"),
            (
                v1(r#""rv":"s""#),
                "json: cannot unmarshal string into Go struct field continueToken.rv of type int64",
            ),
        ];
        for (token, why) in table {
            let refused = parse(Some("a"), true, &token).map_err(|status| status.message);
            assert_eq!(refused, Err(format!("invalid continue token: continue key is not valid: {why}")));
        }
    }
}
