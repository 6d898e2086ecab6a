use serde_json::json;

use super::*;

/// Name, schema, value, expected `field: text`.
type Table<'a> = &'a [(&'a str, Value, Value, &'a [&'a str])];

fn errors(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = Schema::parse(schema).unwrap();
    let replaces = old.map(|old| Correlated::root(value, old, &schema));
    validate("", value, &schema, replaces).iter().map(ToString::to_string).collect()
}

fn check(table: Table<'_>) {
    for (name, schema, value, want) in table {
        let schema = json!({"type": "object", "properties": {"x": schema}});
        assert_eq!(errors(&schema, &json!({"x": value}), None), *want, "{name}: {value}");
    }
}

/// Seen on kube-apiserver v1.36.3.
#[test]
fn types() {
    check(&[
        ("text", json!({"type": "string"}), json!("a"), &[]),
        (
            "number",
            json!({"type": "string"}),
            json!(5),
            &["x: Invalid value: \"integer\": x in body must be of type string: \"integer\""],
        ),
        (
            "null",
            json!({"type": "string"}),
            Value::Null,
            &["x: Invalid value: \"null\": x in body must be of type string: \"null\""],
        ),
        ("nullable", json!({"type": "string", "nullable": true}), Value::Null, &[]),
        ("whole", json!({"type": "integer"}), json!(5.0), &[]),
        (
            "fraction",
            json!({"type": "integer"}),
            json!(5.5),
            &[
                "x: Invalid value: \"number\": x in body must be of type integer: \"number\"",
                "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in x",
            ],
        ),
        ("int as number", json!({"type": "number"}), json!(5), &[]),
        (
            "int32",
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000_i64),
            &["<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in x"],
        ),
        ("int32 whole", json!({"type": "integer", "format": "int32"}), json!(5.0), &[]),
        (
            "int32 large float",
            json!({"type": "integer", "format": "int32"}),
            json!(3e9),
            &["<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in x"],
        ),
        ("either", json!({"x-kubernetes-int-or-string": true}), json!("5"), &[]),
        (
            "neither",
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            &["x: Invalid value: \"boolean\": x in body must be of type integer,string: \"boolean\""],
        ),
        ("anything", json!({"x-kubernetes-preserve-unknown-fields": true}), json!([1, {}]), &[]),
        (
            "list",
            json!({"type": "object"}),
            json!([1]),
            &["x: Invalid value: \"array\": x in body must be of type object: \"array\""],
        ),
        (
            "time",
            json!({"type": "string", "format": "date-time"}),
            json!(true),
            &["x: Invalid value: \"\": x in body must be of type date-time: \"\""],
        ),
    ]);
}

#[test]
fn limits() {
    let s = json!({"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"});
    let n = json!({"type": "integer", "minimum": 1, "maximum": 10});
    let x = json!({"type": "integer", "minimum": 1, "maximum": 10, "exclusiveMinimum": true, "exclusiveMaximum": true});
    let f = json!({"type": "number", "minimum": 0.5, "multipleOf": 0.5});
    let e = json!({"type": "string", "enum": ["A", "B"]});
    let l = json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2});
    let p = json!({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2});
    check(&[
        (
            "short",
            s.clone(),
            json!("a"),
            &["x: Invalid value: \"a\": x in body should be at least 2 chars long"],
        ),
        ("long", s.clone(), json!("abcde"), &["x: Too long: may not be more than 4 bytes"]),
        (
            "letters count",
            s.clone(),
            json!("ééé"),
            &["x: Invalid value: \"ééé\": x in body should match '^[a-z]+$'"],
        ),
        (
            "low",
            n.clone(),
            json!(0),
            &["x: Invalid value: 0: x in body should be greater than or equal to 1"],
        ),
        (
            "high",
            n.clone(),
            json!(11),
            &["x: Invalid value: 11: x in body should be less than or equal to 10"],
        ),
        ("at", x.clone(), json!(1), &["x: Invalid value: 1: x in body should be greater than 1"]),
        ("at the top", x, json!(10), &["x: Invalid value: 10: x in body should be less than 10"]),
        (
            "fraction",
            f.clone(),
            json!(0.25),
            &[
                "x: Invalid value: 0.25: x in body should be a multiple of 0.5",
                "x: Invalid value: 0.25: x in body should be greater than or equal to 0.5",
            ],
        ),
        ("multiple", f, json!(0.75), &["x: Invalid value: 0.75: x in body should be a multiple of 0.5"]),
        (
            "multiple of 3",
            json!({"type": "integer", "multipleOf": 3}),
            json!(4),
            &["x: Invalid value: 4: x in body should be a multiple of 3"],
        ),
        (
            "floats as Go prints them",
            json!({"type": "number", "maximum": 1_000_000}),
            json!(2_000_000.5),
            &["x: Invalid value: 2.0000005e+06: x in body should be less than or equal to 1e+06"],
        ),
        (
            "a limit next to an integer",
            json!({"type": "number", "maximum": 1_000_000.5}),
            json!(1_000_001),
            &["x: Invalid value: 1000001: x in body should be less than or equal to 1000000"],
        ),
        (
            "large integers",
            json!({"type": "integer", "maximum": 9_007_199_254_740_992_i64}),
            json!(9_007_199_254_740_993_i64),
            &[
                "x: Invalid value: 9007199254740993: x in body should be less than or equal to 9007199254740992",
            ],
        ),
        (
            "a limit that its type cannot hold",
            json!({"type": "integer", "maximum": 10.5}),
            json!(11),
            &[
                "<nil>: Invalid value: \"\": Maximum boundary value must be of type integer (default format) in x",
                "x: Invalid value: 11: x in body should be less than or equal to 10.5",
            ],
        ),
        (
            "a factor that is no integer",
            json!({"type": "number", "multipleOf": 0.5}),
            json!(2),
            &["x: Invalid value: 0: factor MultipleOf declared for x must be positive: 0"],
        ),
        ("nearly a multiple", json!({"type": "number", "multipleOf": 0.1}), json!(0.300_000_000_01), &[]),
        ("enum", e.clone(), json!("C"), &["x: Unsupported value: \"C\": supported values: \"A\", \"B\""]),
        (
            "enum and type",
            e,
            json!(5),
            &[
                "x: Invalid value: \"integer\": x in body must be of type string: \"integer\"",
                "x: Unsupported value: 5: supported values: \"A\", \"B\"",
            ],
        ),
        ("few", l.clone(), json!([]), &["x: Invalid value: 0: x in body should have at least 1 items"]),
        ("many", l.clone(), json!(["a", "b", "c"]), &["x: Too many: 3: must have at most 2 items"]),
        (
            "item",
            l,
            json!([1]),
            &["x[0]: Invalid value: \"integer\": x[0] in body must be of type string: \"integer\""],
        ),
        ("none", p.clone(), json!({}), &["x: Invalid value: 0: x in body should have at least 1 properties"]),
        ("three", p.clone(), json!({"a": 1, "b": 1, "c": 1}), &["x: Too many: 3: must have at most 2 items"]),
        (
            "value",
            p,
            json!({"a": "x"}),
            &["x.a: Invalid value: \"string\": x.a in body must be of type integer: \"string\""],
        ),
        (
            "required",
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
            json!({}),
            &["x.a: Required value"],
        ),
    ]);
}

#[test]
fn combinations() {
    let with = |junctor: Value| {
        let mut schema =
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
        schema.as_object_mut().unwrap().append(&mut junctor.as_object().unwrap().clone());
        schema
    };
    let either = json!([{"required": ["a"]}, {"required": ["b"]}]);
    let one = with(json!({"oneOf": either}));
    let any = with(json!({"anyOf": either}));
    let all = with(json!({"allOf": either}));
    let none = json!({});
    check(&[
        (
            "none of one",
            one.clone(),
            none.clone(),
            &[
                "<nil>: Invalid value: \"\": \"x\" must validate one and only one schema (oneOf). Found none valid",
                "x.a: Required value",
            ],
        ),
        (
            "both of one",
            one.clone(),
            json!({"a": "1", "b": "2"}),
            &[
                "<nil>: Invalid value: \"\": \"x\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            ],
        ),
        ("one of one", one, json!({"b": "2"}), &[]),
        (
            "none of any",
            any.clone(),
            none.clone(),
            &[
                "<nil>: Invalid value: \"\": \"x\" must validate at least one schema (anyOf)",
                "x.a: Required value",
            ],
        ),
        ("any", any, json!({"b": "2"}), &[]),
        (
            "one of all",
            all.clone(),
            json!({"a": "x"}),
            &[
                "x.b: Required value",
                "<nil>: Invalid value: \"\": \"x\" must validate all the schemas (allOf)",
            ],
        ),
        (
            "none of all",
            all,
            none,
            &[
                "x.a: Required value",
                "x.b: Required value",
                "<nil>: Invalid value: \"\": \"x\" must validate all the schemas (allOf). None validated",
            ],
        ),
        (
            "not",
            with(json!({"not": {"required": ["a"]}})),
            json!({"a": "x"}),
            &["<nil>: Invalid value: \"\": \"x\" must not validate the schema (not)"],
        ),
        (
            "int or string",
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%$"}),
            json!(1.5),
            &[
                "x: Invalid value: \"number\": x in body must be of type integer,string: \"number\"",
                "<nil>: Invalid value: \"\": \"x\" must validate at least one schema (anyOf)",
                "x: Invalid value: \"number\": x in body must be of type integer: \"number\"",
                "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in x",
            ],
        ),
    ]);
}

/// Rules read what the format allows.
#[test]
fn durations() {
    let table = [
        ("1h30m", Some(5400)),
        ("2 days", Some(172_800)),
        ("1 week 1 Hour", Some(608_400)),
        ("-90s", Some(-90)),
        ("-", None),
        ("", None),
    ];
    for (text, seconds) in table {
        assert_eq!(duration(text).map(|span| span.as_secs()), seconds, "{text}");
    }
}

#[test]
fn formats() {
    let table = [
        ("date-time", "2026-01-01T00:00:00Z", true),
        ("date-time", "2026-01-01t00:00:00.5+01:00", true),
        ("date-time", "2026-01-01", false),
        ("date-time", "2026-01-01T24:00:00Z", false),
        ("date", "2026-02-29", false),
        ("date", "2024-02-29", true),
        ("uuid", "29e98fd4-b093-4534-8123-9435197af72a", true),
        ("uuid4", "29e98fd4-b093-4534-8123-9435197af72a", true),
        ("uuid3", "29e98fd4-b093-4534-8123-9435197af72a", false),
        ("uuid", "x", false),
        ("ipv4", "1.2.3.4", true),
        ("ipv4", "1.2.3", false),
        ("ipv4", "::1", false),
        ("ipv6", "::1", true),
        ("ipv6", "1.2.3.4", false),
        ("cidr", "10.0.0.0/8", true),
        ("cidr", "10.0.0.0/33", false),
        ("cidr", "fd00::/8", true),
        ("mac", "00:00:5e:00:53:01", true),
        ("mac", "00:00:5e", false),
        ("hostname", "a.example.com", true),
        ("hostname", "a_b", false),
        ("email", "a@example.com", true),
        ("email", "A <a@example.com>", true),
        ("email", "a", false),
        ("uri", "https://example.com/x", true),
        ("uri", "/x", true),
        ("uri", "x y", false),
        ("byte", "aGk=", true),
        ("byte", "aGk", false),
        ("duration", "1h30m", true),
        ("duration", "2 days", true),
        ("duration", "2 dayses", true),
        ("duration", "in 3 weeks", true),
        ("duration", "-", false),
        ("duration", "1 fortnight", false),
        ("duration", "x", false),
        ("hexcolor", "#fff", true),
        ("rgbcolor", "rgb(1,2,300)", false),
        ("ssn", "111-22-3333", true),
        ("isbn", "0321751043", true),
        ("isbn13", "978-0321751041", true),
        ("isbn10", "0321751044", false),
        ("creditcard", "4111 1111 1111 1111", true),
        ("creditcard", "4111 1111 1111 1112", false),
        ("password", "anything", true),
        ("k8s-short-name", "a-b", true),
        ("k8s-short-name", "a.b", false),
        ("k8s-long-name", "a.b", true),
        ("bsonobjectid", "507f1f77bcf86cd799439011", true),
        ("nonsense", "anything", true),
    ];
    for (format, text, want) in table {
        let schema = json!({"type": "object", "properties": {"x": {"type": "string", "format": format}}});
        let found = errors(&schema, &json!({"x": text}), None);
        assert_eq!(found.is_empty(), want, "{format} {text}: {found:?}");
        if !want {
            let text = format!("x: Invalid value: {text:?}: x in body must be of type {format}: {text:?}");
            assert_eq!(found, [text]);
        }
    }
}

/// What was wrong before and did not change is no reason to refuse an update.
#[test]
fn old_errors_are_excused() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1},
        "list": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string", "maxLength": 1}}},
        },
        "atomic": {"type": "array", "items": {"type": "string", "maxLength": 1}},
    }});
    let old =
        json!({"a": "long", "list": [{"k": "x", "v": "long"}, {"k": "y", "v": "1"}], "atomic": ["long"]});
    let changed = |patch: fn(&mut Value)| {
        let mut new = old.clone();
        patch(&mut new);
        errors(&schema, &new, Some(&old))
    };
    assert_eq!(changed(|new| new["b"] = 1.into()), Vec::<String>::new());
    assert_eq!(changed(|new| new["a"] = "more".into()), ["a: Too long: may not be more than 1 bytes"]);
    assert_eq!(
        changed(|new| new["list"] = json!([{"k": "y", "v": "2"}, {"k": "x", "v": "long"}])),
        Vec::<String>::new()
    );
    assert_eq!(
        changed(|new| new["list"][1]["v"] = "long".into()),
        ["list[1].v: Too long: may not be more than 1 bytes"]
    );
    assert_eq!(
        changed(|new| new["atomic"] = json!(["long", "x"])),
        ["atomic[0]: Too long: may not be more than 1 bytes"]
    );
}
