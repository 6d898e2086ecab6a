use super::*;
use serde_json::{Value, json};

fn value(text: &str) -> Value {
    read(text.as_bytes()).unwrap_or_else(|error| panic!("{text:?}: {error}")).value
}

/// Each line is what upstream's library makes of it.
#[test]
fn scalars() {
    let cases = [
        (json!(true), "y Y yes Yes YES on On true True TRUE"),
        (json!(false), "n N no off false FALSE"),
        (json!(null), "~ null Null NULL"),
        (json!(1), "1 +1 1_ 1. 1.0 1.0e0 0b1 0x1 01 0o1"),
        (json!(0), "0 -0 0.0 0."),
        (json!(1000), "1000 1_000 1e3 1E3 1e+3"),
        (json!(8), "08 8 010"),
        (json!(511), "0777"),
        (json!(-31), "-0x1F -31"),
        (json!(0.5), ".5 0.5"),
        (json!(-0.5), "-.5"),
        (json!(1e-7), "1e-7"),
        (json!(1e21), "1e21"),
        (json!(12345678901234567890_u64), "12345678901234567890"),
        (json!(-9223372036854775808_i64), "-9223372036854775808"),
        (json!(18446744073709552000.0), "18446744073709551616"),
    ];
    for (want, texts) in cases {
        for text in texts.split(' ') {
            assert_eq!(value(text), want, "{text}");
        }
    }
    let texts = "tRUE 1:30 190:20:30 2001-01-01 0x _1 1e e1 . + 1e400 0o8 0x7fffffffffffffffff =";
    for text in texts.split(' ') {
        assert_eq!(value(text), json!(text));
    }
}

#[test]
fn tags_and_quotes() {
    let cases = [
        ("\"y\"", json!("y")),
        ("'1'", json!("1")),
        ("!!str 1", json!("1")),
        ("!!int \"3\"", json!(3)),
        ("!!float 1", json!(1)),
        ("!!bool \"yes\"", json!(true)),
        ("!!binary aGVsbG8=", json!("hello")),
        ("!!null \"\"", json!(null)),
        ("!foo bar", json!("bar")),
        ("a: ! x", json!({"a": "x"})),
        ("a: !!timestamp 2001-01-01", json!({"a": "2001-01-01"})),
        ("a: 'it''s'", json!({"a": "it's"})),
        ("a: \"\\u00e9\\x41\"", json!({"a": "éA"})),
    ];
    for (text, want) in cases {
        assert_eq!(value(text), want, "{text}");
    }
}

#[test]
fn collections() {
    let cases = [
        ("", json!(null)),
        ("# only", json!(null)),
        ("-", json!([null])),
        ("- a\n- b", json!(["a", "b"])),
        ("--- \na: 1\n---\nb: 2", json!({"a": 1})),
        ("a: 1\n...\n", json!({"a": 1})),
        ("%YAML 1.1\n---\na: 1", json!({"a": 1})),
        ("1: a", json!({"1": "a"})),
        ("y: a", json!({"true": "a"})),
        ("1.5: a", json!({"1.5": "a"})),
        ("? a\n: b", json!({"a": "b"})),
        ("{a, b}", json!({"a": null, "b": null})),
        ("a: [1,2,]", json!({"a": [1, 2]})),
        ("a: |\n  x\n  y\n", json!({"a": "x\ny\n"})),
        ("a: >-\n  x\n  y\n", json!({"a": "x y"})),
        ("{a: 1, b: &x [1,2], c: *x}", json!({"a": 1, "b": [1, 2], "c": [1, 2]})),
        ("a: &x {k: 1}\nb:\n  <<: *x\n  l: 2", json!({"a": {"k": 1}, "b": {"k": 1, "l": 2}})),
        ("b:\n  <<: {k: 1}\n  k: 2", json!({"b": {"k": 2}})),
        ("b:\n  <<: [{k: 1},{k: 3, m: 2}]", json!({"b": {"k": 1, "m": 2}})),
        ("\u{feff}a: 1", json!({"a": 1})),
    ];
    for (text, want) in cases {
        assert_eq!(value(text), want, "{text}");
    }
}

#[test]
fn what_is_no_yaml() {
    let cases = [
        ("a: *x", "yaml: unknown anchor 'x' referenced"),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a: @x", "yaml: found character that cannot start any token"),
        ("a: \"x", "yaml: found unexpected end of stream"),
        ("a: \"\\q\"", "yaml: found unknown escape character"),
        ("<<: 1", "yaml: map merge requires map or sequence of maps as the value"),
        ("a: &a [*a]", "yaml: anchor 'a' value contains itself"),
        ("a: !!int abc", "yaml: cannot decode !!str `abc` as a !!int"),
        ("a: .inf", "json: unsupported value: +Inf"),
        ("~: a", "unsupported map key of type: %!s(<nil>), key: <nil>"),
    ];
    for (text, want) in cases {
        assert_eq!(read(text.as_bytes()).map_err(|error| error.to_string()), Err(want.to_owned()), "{text}");
    }
    for text in ["a: [", "a: {", "a: [1,,2]", "[1, 2", "a:\n  b: 1\n c: 2", "- a\nb: c", "{[1]: a}"] {
        assert!(read(text.as_bytes()).is_err(), "{text}");
    }
    assert!(read(b"a: \xff").is_err());
}

#[test]
fn duplicates_are_told() {
    let document = read(b"a: 1\nb: {x: 1, x: 2}\na: 2").expect("readable");
    assert_eq!(document.value, json!({"a": 2, "b": {"x": 2}}));
    let told = "yaml: unmarshal errors:\n  line 2: key \"x\" already set in map\n  line 3: key \"a\" already set in map";
    assert_eq!(document.strict_error().as_deref(), Some(told));
    assert_eq!(read(b"a: 1").expect("readable").strict_error(), None);
}

#[test]
fn hostile_documents_end_soon() {
    let levels = 100_000;
    let flow = "[".repeat(levels) + &"]".repeat(levels);
    let block: String = (0..2000).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    let inline = "- ".repeat(levels);
    for text in [flow, block, inline] {
        let error = read(text.as_bytes()).expect_err("too deep");
        assert_eq!(error.to_string(), "yaml: exceeded max depth of 127");
    }
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    // Few values can be many bytes, and what is only named is copied too.
    let long = format!("a: &a {}\nb: [{}]", "x".repeat(100_000), vec!["*a"; 1000].join(","));
    let keys = format!("a: &a {{{}: 1}}\nb: [{}]", "x".repeat(1000), vec!["*a"; 10_000].join(","));
    let open: String = (0..100).map(|level| format!("&a{level} [")).collect();
    let named = format!("{open}{}{}", vec!["x"; 20_000].join(","), "]".repeat(100));
    for bomb in [bomb, long, keys, named] {
        let error = read(bomb.as_bytes()).expect_err("a bomb");
        assert_eq!(error.to_string(), "yaml: document contains excessive aliasing");
    }
    let harmless = format!("a: &a {}\nb: [*a, *a]", "x".repeat(1 << 20));
    assert!(read(harmless.as_bytes()).is_ok());
}

/// As upstream's library writes it.
#[test]
fn written() {
    let value = json!({
        "apiVersion": "v1", "items": [{"a": "y", "b": []}, {"c": {}}, [1, ["x"]], "plain"], "kind": "List",
        "metadata": {"time": "2026-11-15T16:50:10Z", "message": "configmaps \"nope\" not found", "empty": "",
            "colon": "a: b", "dash": "-", "lines": "x\ny\n", "open": "x\ny", "f:a": {".": {}}, "n": null,
            "number": "1", "quote": "it's: 'x'", "tab": "a\tb", "true": true, "ratio": 1.5},
    });
    let want = r#"apiVersion: v1
items:
- a: "y"
  b: []
- c: {}
- - 1
  - - x
- plain
kind: List
metadata:
  colon: 'a: b'
  dash: '-'
  empty: ""
  f:a:
    .: {}
  lines: |
    x
    y
  message: configmaps "nope" not found
  "n": null
  number: "1"
  open: |-
    x
    y
  quote: 'it''s: ''x'''
  ratio: 1.5
  tab: "a\tb"
  time: "2026-11-15T16:50:10Z"
  "true": true
"#;
    assert_eq!(write(&value), want);
}

#[test]
fn what_is_written_reads_the_same() {
    let texts = [
        "",
        " ",
        "a",
        "y",
        "~",
        "1",
        "0x1",
        "1e3",
        ".5",
        ".inf",
        "a b",
        " a",
        "a ",
        "a:",
        "a: b",
        ":a",
        "- a",
        "-a",
        "?",
        "? x",
        "#",
        "a #b",
        "a#b",
        "[",
        "{x}",
        "&a",
        "*a",
        "!x",
        "|",
        ">",
        "'",
        "\"",
        "%",
        "@",
        "`",
        "\n",
        "a\n",
        "a\nb",
        "a\n\n",
        "\na",
        "a\n b\n",
        " a\nb",
        "a \nb",
        "a\tb",
        "\u{1}",
        "\u{7f}",
        "é",
        "\u{2028}",
        "\u{feff}x",
        "\\",
        "a\\b",
        "---",
        "--- a",
        "...",
        "1:30",
        "2001-01-01",
        "<<",
        "=",
        "a,b",
        "a\r\nb",
        "null",
        "true",
        "a\u{0}b",
        "\ta",
        "a\n\tb\n",
        "a\n#b\n",
    ];
    for text in texts {
        let nested = json!({"k": {"l": [text, {text: text}]}, (text): text});
        let written = write(&nested);
        assert_eq!(value(&written), nested, "{text:?}\n{written}");
        let alone = json!(text);
        assert_eq!(value(&write(&alone)), alone, "{text:?}");
    }
}
