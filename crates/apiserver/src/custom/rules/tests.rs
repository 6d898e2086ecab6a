use serde_json::json;

use super::*;

fn errors(schema: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = Schema::parse(schema).unwrap();
    let rules = Rules::of(&schema, true).unwrap();
    rules.check(new, old).iter().map(ToString::to_string).collect()
}

fn spec(properties: Value, rules: Value) -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": properties, "x-kubernetes-validations": rules},
    }})
}

/// Seen on kube-apiserver v1.36.3.
#[test]
fn what_is_said_of_a_broken_rule() {
    let schema = spec(
        json!({"a": {"type": "integer"}, "b": {"type": "integer"}}),
        json!([
            {"rule": "self.a < self.b", "message": "a below b", "fieldPath": ".a"},
            {"rule": "self.a > 0", "messageExpression": "'a is ' + string(self.a)", "reason": "FieldValueForbidden"},
            {"rule": "self.b < 100"},
        ]),
    );
    let table: [(Value, &[&str]); 4] = [
        (json!({"a": 1, "b": 2}), &[]),
        (json!({"a": 5, "b": 3}), &["spec.a: Invalid value: a below b"]),
        (
            json!({"a": -1, "b": 300}),
            &["spec: Forbidden: a is -1", "spec: Invalid value: failed rule: self.b < 100"],
        ),
        (
            json!({"b": 3}),
            &[
                "spec: Invalid value: \"object\": no such key: a evaluating rule: a below b",
                "spec: Invalid value: \"object\": no such key: a evaluating rule: self.a > 0",
            ],
        ),
    ];
    for (spec, want) in table {
        assert_eq!(errors(&schema, &json!({"spec": spec}), None), want, "{spec}");
    }
}

#[test]
fn changes() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}]},
        "grows": {"type": "integer", "x-kubernetes-validations": [
            {"rule": "!oldSelf.hasValue() || self >= oldSelf.value()", "optionalOldSelf": true, "message": "shrinks"},
            {"rule": "self < 10", "message": "too much"},
        ]},
        "list": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "v shrinks"}],
            },
        },
        "set": {
            "type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"},
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "other set"}],
        },
    }, "x-kubernetes-validations": [{"rule": "!has(oldSelf.fixed) || has(self.fixed)", "message": "stays"}]}}});
    let table: [(&str, Value, Value, &[&str]); 11] = [
        ("same", json!({"fixed": "a"}), json!({"fixed": "a"}), &[]),
        (
            "other",
            json!({"fixed": "a"}),
            json!({"fixed": "b"}),
            &["spec.fixed: Invalid value: \"b\": immutable"],
        ),
        ("first", json!({}), json!({"fixed": "b"}), &[]),
        ("gone", json!({"fixed": "a"}), json!({}), &["spec: Invalid value: stays"]),
        ("more", json!({"grows": 1}), json!({"grows": 2}), &[]),
        ("less", json!({"grows": 2}), json!({"grows": 1}), &["spec.grows: Invalid value: 1: shrinks"]),
        ("too much before", json!({"grows": 20}), json!({"grows": 20, "fixed": "x"}), &[]),
        (
            "too much now",
            json!({"grows": 2}),
            json!({"grows": 20}),
            &["spec.grows: Invalid value: 20: too much"],
        ),
        (
            "by key",
            json!({"list": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]}),
            json!({"list": [{"k": "b", "v": 4}, {"k": "a", "v": 2}, {"k": "c", "v": 0}]}),
            &["spec.list[0]: Invalid value: v shrinks"],
        ),
        ("order", json!({"set": ["a", "b"]}), json!({"set": ["b", "a"]}), &[]),
        (
            "content",
            json!({"set": ["a", "b"]}),
            json!({"set": ["b"]}),
            &["spec.set: Invalid value: other set"],
        ),
    ];
    for (name, old, new, want) in table {
        let (old, new) = (json!({"spec": old}), json!({"spec": new}));
        assert_eq!(errors(&schema, &new, Some(&old)), want, "{name}");
    }
}

#[test]
fn the_root_and_embedded_objects_have_names() {
    let schema = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('a') && self.kind == 'K'", "message": "name"}],
        "properties": {"template": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": [{"rule": "has(self.metadata.name)", "message": "template needs a name"}],
        }},
    });
    let object =
        |name: &str, template: Value| json!({"kind": "K", "metadata": {"name": name}, "template": template});
    let named = json!({"metadata": {"name": "x"}});
    assert_eq!(errors(&schema, &object("ab", named.clone()), None), Vec::<String>::new());
    assert_eq!(errors(&schema, &object("b", named), None), ["<nil>: Invalid value: name"]);
    assert_eq!(
        errors(&schema, &object("a", json!({"metadata": {}})), None),
        ["template: Invalid value: template needs a name"]
    );
}

/// A rule sees the metadata of what is embedded below it.
#[test]
fn embedded_objects_are_seen_from_above() {
    let template = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({
        "type": "object",
        "properties": {"template": template, "list": {"type": "array", "items": template}},
        "x-kubernetes-validations": [
            {"rule": "self.template.metadata.name == self.metadata.name", "message": "other name"},
            {"rule": "self.list.all(t, t.kind == 'T' && t.metadata.name != '')", "message": "list"},
        ],
    });
    let object = |name: &str| {
        let inner = json!({"kind": "T", "metadata": {"name": name}});
        json!({"metadata": {"name": "a"}, "template": inner, "list": [inner]})
    };
    assert_eq!(errors(&schema, &object("a"), None), Vec::<String>::new());
    assert_eq!(errors(&schema, &object("b"), None), ["<nil>: Invalid value: other name"]);
}

/// A field that is null in one object and absent in the other does not make up for one that is different.
#[test]
fn objects_with_different_fields_are_different() {
    let mut schema =
        spec(json!({"a": {"type": "integer", "nullable": true}, "b": {"type": "integer"}}), json!([]));
    schema["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{"rule": "self == oldSelf", "message": "fixed"}]);
    let (null, other) = (json!({"spec": {"a": null}}), json!({"spec": {"b": 1}}));
    for (new, old) in [(&null, &other), (&other, &null)] {
        assert_eq!(errors(&schema, new, Some(old)), ["spec: Invalid value: fixed"], "{new}");
    }
}

/// Many elements of one list break a rule: whether the list changed is asked once, and nobody reads all the answers.
#[test]
fn many_broken_elements_are_cheap() {
    let list = json!({"type": "array", "items": {
        "type": "string", "x-kubernetes-validations": [{"rule": "self == 'x'", "message": "x"}],
    }});
    let schema = spec(json!({"l": list, "other": {"type": "integer"}}), json!([]));
    let many = json!({"spec": {"l": vec!["y"; 30_000]}});
    let mut changed = many.clone();
    changed["spec"]["other"] = 1.into();
    assert_eq!(errors(&schema, &changed, Some(&many)), Vec::<String>::new());
    changed["spec"]["l"][0] = "z".into();
    assert_eq!(errors(&schema, &changed, Some(&many)).len(), FINDINGS_MAX);
}

/// A rule that would run for ever is given up, and the rest with it.
#[test]
fn cost_is_bounded() {
    let schema = spec(
        json!({"l": {"type": "array", "items": {"type": "integer"}}, "s": {"type": "string"}}),
        json!([
            {"rule": "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))", "message": "cubic"},
            {"rule": "size(self.s) >= 0"},
        ]),
    );
    let many: Vec<u32> = (0..500).collect();
    let found = errors(&schema, &json!({"spec": {"l": many, "s": ""}}), None);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains("operation cancelled: actual cost limit exceeded") && found[0].ends_with("cubic"),
        "{found:?}"
    );

    let growing =
        spec(json!({"s": {"type": "string"}}), json!([{"rule": "self.s.replace('', self.s).size() > 0"}]));
    let long = json!({"spec": {"s": "x".repeat(1 << 20)}});
    assert!(errors(&growing, &long, None)[0].contains("cost limit exceeded"));
}
