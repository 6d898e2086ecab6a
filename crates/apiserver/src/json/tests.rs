use super::*;
use serde_json::json;

/// What upstream says of each.
#[test]
fn what_is_no_json() {
    let cases = [
        ("", "unexpected end of JSON input"),
        (" ", "unexpected end of JSON input"),
        ("{\"a\"", "unexpected end of JSON input"),
        ("{\"a\":", "unexpected end of JSON input"),
        ("{\"a\":1", "unexpected end of JSON input"),
        ("[", "unexpected end of JSON input"),
        ("\"a", "unexpected end of JSON input"),
        ("-", "unexpected end of JSON input"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
        ("{\"a\":tru}", "invalid character '}' in literal true (expecting 'e')"),
        ("{\"a\":01}", "invalid character '1' after object key:value pair"),
        ("{\"a\":1 \"b\":2}", "invalid character '\"' after object key:value pair"),
        ("{\"a\":[1,]}", "invalid character ']' looking for beginning of value"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{\"a\":\"\n\"}", "invalid character '\\n' in string literal"),
        ("{\"a\":\"\\q\"}", "invalid character 'q' in string escape code"),
        ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
        ("{\"a\":-}", "invalid character '}' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("nope", "invalid character 'o' in literal null (expecting 'u')"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("{}{}", "invalid character '{' after top-level value"),
        ("\u{feff}{}", "invalid character 'ï' looking for beginning of value"),
    ];
    for (text, want) in cases {
        assert_eq!(read(text.as_bytes()), Err(want.to_owned()), "{text:?}");
    }
}

#[test]
fn depth_has_an_end() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert_eq!(depth(&read(nested(DEPTH_MAX).as_bytes()).expect("readable").value), DEPTH_MAX);
    assert_eq!(read(nested(DEPTH_MAX + 1).as_bytes()), Err("exceeded max depth".to_owned()), "ours");
    assert_eq!(read(nested(1000).as_bytes()), Err("exceeded max depth".to_owned()), "ours");
    let upstream = "invalid character '[' exceeded max depth".to_owned();
    assert_eq!(read(nested(100_000).as_bytes()), Err(upstream), "upstream's");
    let objects = "{\"a\":".repeat(100_000);
    assert_eq!(read(objects.as_bytes()), Err("invalid character '{' exceeded max depth".to_owned()));
}

#[test]
fn what_is_no_text_gets_a_mark() {
    assert_eq!(read(b"{\"a\":\"\xff\"}").expect("readable").value, json!({"a": "\u{fffd}"}));
    for (text, want) in [
        (r#""\ud800""#, "\u{fffd}"),
        (r#""\udc00x""#, "\u{fffd}x"),
        (r#""\ud83d\ude00\ud83d""#, "😀\u{fffd}"),
        (r#""\\ud800\udfff""#, "\\ud800\u{fffd}"),
    ] {
        assert_eq!(read(text.as_bytes()).expect("readable").value, json!(want), "{text}");
    }
    assert_eq!(read(b" null\n").expect("readable").value, Value::Null);
}

#[test]
fn duplicates_are_told_once_and_the_last_counts() {
    let text = r#"{"a":1,"b":[{"x":1,"x":2},{"y":{"z":1,"z":2}}],"a":2,"a":3}"#;
    let reading = read(text.as_bytes()).expect("readable");
    assert_eq!(reading.value, json!({"a": 3, "b": [{"x": 2}, {"y": {"z": 2}}]}));
    assert_eq!(reading.duplicates, ["b[0].x", "b[1].y.z", "a"]);
}

#[test]
fn notes_stand_in_the_order_of_the_text() {
    let body = br#"{"foo":{"x":1,"x":2},"data":{"a":"1","a":"2"},"bar":1,"foo":2,"data":{}}"#;
    let duplicates = read(body).expect("readable").duplicates;
    assert_eq!(duplicates, ["foo.x", "data.a", "foo", "data"]);
    let unknown = ["bar".to_owned(), "foo".to_owned()];
    let told = [
        "unknown field \"foo\"",
        "duplicate field \"data.a\"",
        "unknown field \"bar\"",
        "duplicate field \"data\"",
    ];
    assert_eq!(notes(body, &unknown, &duplicates), told);
    assert_eq!(notes(body, &[], &["data.a".to_owned()]), [told[1]]);
}

#[test]
fn notes_have_an_end() {
    let twice = |count: usize| (0..count).map(|n| format!("\"k{n}\":1,\"k{n}\":2,")).collect::<String>();
    let many = format!("{{{}\"z\":1}}", twice(10_000));
    assert_eq!(read(many.as_bytes()).expect("readable").duplicates.len(), NOTES_MAX);
    // Each of these has the long name in its path.
    let long = format!("{{\"{}\":{{{}\"z\":1}}}}", "x".repeat(1 << 20), twice(1000));
    assert_eq!(read(long.as_bytes()).expect("readable").duplicates.len(), 1);
}
