//! Properties: whatever the schema and whatever the object.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::custom::cel::{OBJECT_MAX, Program, Scope, Type, Val, Variables};
use crate::custom::correlate::Correlated;
use crate::custom::definition::{Definition, DefinitionKind};
use crate::custom::json_path::JsonPath;
use crate::custom::kind::Kinds;
use crate::custom::prune::{fill_defaults, prune, prune_nulls};
use crate::custom::schema::{Schema, compile};
use crate::custom::validate::validate;
use crate::registry::{Kind, Part};
use crate::testing::clock;
use bowline_host::Clock;

/// Few names, so that objects and schemas meet.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "metadata", "kind", "apiVersion", "spec", "status", "k"])
        .prop_map(str::to_owned)
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-9_i64..9).prop_map(Value::from),
        any::<f64>().prop_map(|n| serde_json::Number::from_f64(n).map_or(Value::Null, Value::Number)),
        "[a-z0-9é%. -]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(name(), inner, 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A schema that the rules for definitions let pass, mostly.
fn schema() -> impl Strategy<Value = Value> {
    let limits = prop_oneof![
        Just(json!({})),
        Just(json!({"minLength": 2, "maxLength": 3, "pattern": "^[a-c]+$"})),
        Just(json!({"minimum": -1, "maximum": 3.5, "multipleOf": 0.5, "exclusiveMinimum": true})),
        Just(json!({"enum": ["a", 1, null], "nullable": true})),
        Just(json!({"format": "date-time"})),
        Just(
            json!({"maxItems": 1, "minItems": 1, "maxProperties": 1, "minProperties": 1, "required": ["a"]})
        ),
        Just(
            json!({"anyOf": [{"required": ["a"]}, {"minLength": 1}], "not": {"maxItems": 0}, "oneOf": [{"minimum": 0}, {}]})
        ),
    ];
    let leaf = prop_oneof![
        prop::sample::select(vec!["string", "integer", "number", "boolean"])
            .prop_map(|type_| json!({"type": type_})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "object"})),
        Just(json!({"type": "string", "default": "d"})),
        Just(
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})
        ),
    ];
    let node = leaf.prop_recursive(4, 30, 4, |inner| {
        prop_oneof![
            btree_map(name(), inner.clone(), 0..4).prop_map(|fields| json!({"type": "object", "properties": fields})),
            btree_map(name(), inner.clone(), 0..3)
                .prop_map(|fields| json!({"type": "object", "properties": fields, "x-kubernetes-preserve-unknown-fields": true, "default": {}})),
            inner.clone().prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items, "x-kubernetes-list-type": "set"})),
            inner.prop_map(|item| json!({
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string", "default": "kk"}, "a": item}},
            })),
        ]
    });
    (node, limits).prop_map(|(mut node, limits)| {
        node.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
        node
    })
}

fn definition(schema: Value) -> Value {
    super::definition(
        "widgets",
        "Widget",
        &[super::version("v1", schema.clone()), super::version("v2", schema)],
    )
}

proptest! {
    #[test]
    fn pruning_and_defaulting_twice_is_doing_it_once(schema in schema(), object in anything()) {
        let schema = Schema::parse(&schema).unwrap();
        let mut once = object;
        prune(&mut once, &schema);
        prune_nulls(&mut once, Some(&schema));
        prop_assert!(fill_defaults(&mut once, &schema, usize::MAX));
        let mut twice = once.clone();
        prop_assert_eq!(prune(&mut twice, &schema), Vec::<String>::new());
        prune_nulls(&mut twice, Some(&schema));
        prop_assert!(fill_defaults(&mut twice, &schema, usize::MAX));
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn any_object_is_validated(schema in schema(), new in anything(), old in anything()) {
        let schema = Schema::parse(&schema).unwrap();
        let fresh = validate("", &new, &schema, None);
        let excused = validate("", &new, &schema, Some(Correlated::root(&new, &old, &schema)));
        prop_assert!(excused.len() <= fresh.len(), "an old object only excuses");
        let same = validate("", &new, &schema, Some(Correlated::root(&new, &new, &schema)));
        prop_assert_eq!(same, Vec::new(), "what does not change is not refused");
    }

    /// Every step of a write on whatever comes; reading what was read changes nothing.
    #[test]
    fn kinds_take_anything(schema in schema(), new in anything(), old in anything()) {
        let definition = Definition::parse(&definition(schema)).unwrap();
        let kinds = Kinds::of(&definition, &Default::default());
        for kind in &kinds.served {
            let mut new = json!({"apiVersion": kind.info().api_version, "kind": "Widget", "metadata": {"name": "n"}, "spec": new});
            let old = json!({"apiVersion": kind.info().api_version, "kind": "Widget", "metadata": {"name": "n"}, "spec": old});
            if let Ok(decoded) = kind.decode(&new) {
                new = decoded.object;
            }
            let _ = kind.prepare_create(new.clone(), clock().now());
            for part in [Part::Main, Part::Status] {
                let _ = kind.prepare_update(new.clone(), &old, part, clock().now());
            }
            let read = kind.from_stored(kind.to_stored(new));
            prop_assert_eq!(kind.from_stored(read.clone()), read.clone());
            let bytes = serde_json::to_vec(&read).unwrap();
            prop_assert!(kind.cells(&bytes, clock().now()).is_ok() && kind.field_labels(&bytes).is_ok());
        }
    }

    /// Definitions are data from outside like any other.
    #[test]
    fn definitions_take_anything(spec in anything(), schema in anything()) {
        let kind = DefinitionKind::default();
        let mut definition = definition(schema);
        if spec.is_object() {
            definition["spec"]["names"] = spec;
        }
        if let Ok(decoded) = kind.decode(&definition) {
            let _ = kind.prepare_create(decoded.object, clock().now());
        }
    }

    #[test]
    fn schemas_that_pass_make_kinds(schema in schema()) {
        let kind = DefinitionKind::default();
        let decoded = kind.decode(&definition(schema)).unwrap();
        let prepared = kind.prepare_create(decoded.object, clock().now()).unwrap();
        if prepared.errors.is_empty() {
            let definition = Definition::parse(&prepared.object).unwrap();
            prop_assert_eq!(Kinds::of(&definition, &Default::default()).served.len(), 2);
        }
    }

    #[test]
    fn any_text_is_an_expression_or_refused(text in "[-a-c0-9.()\\[\\]{}?:!&|<>=+*/%,'\" xself\\\\]{0,40}", this in anything()) {
        let schema = Schema::parse(&json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true}, "b": {"type": "array", "items": {"type": "string"}}}})).unwrap();
        let variables = Variables { this: Type::of(&schema).unwrap(), optional_old: true };
        if let (Ok(program), Ok(value)) = (Program::compile(&text, &variables), Val::read(&this, &schema)) {
            let mut budget = OBJECT_MAX;
            let _ = program.run(&Scope { this: value, old: None }, &mut budget);
        }
    }

    #[test]
    fn any_text_is_a_pattern_or_refused(text in "[-a-c0-9.()\\[\\]{}?:^$|*+,\\\\dwsQEpL&~]{0,20}") {
        if let Ok(pattern) = compile(&text) {
            let _ = pattern.is_match("aé1 b");
        }
    }

    #[test]
    fn any_text_is_a_path_or_refused(text in "[-a-c0-9.()\\[\\]?@=<>*:'\"\\\\]{0,20}", object in anything()) {
        if let Some(path) = JsonPath::parse(&text) {
            let _ = path.first(&object);
        }
    }
}

/// As deep as a body may be, in a thread with a small part of the stack that the server's have.
#[test]
fn deep_objects() {
    let run = || {
        let (mut schema, mut object) = (json!({"type": "string", "default": "x"}), json!("x"));
        for _ in 0..60 {
            let rule = json!([{"rule": "has(self.a)"}]);
            schema = json!({"type": "object", "properties": {"a": schema}, "x-kubernetes-validations": rule});
            object = json!({"a": object});
        }
        let kind = DefinitionKind::default();
        let decoded = kind.decode(&definition(schema)).unwrap();
        let prepared = kind.prepare_create(decoded.object, clock().now()).unwrap();
        assert_eq!(
            prepared
                .errors
                .iter()
                .map(ToString::to_string)
                .filter(|e| !e.contains("storage version"))
                .count(),
            0
        );
        let kinds = Kinds::of(&Definition::parse(&prepared.object).unwrap(), &Default::default());
        let mut widget = super::widget("n", object);
        widget["apiVersion"] = kinds.served[0].info().api_version.as_ref().into();
        let decoded = kinds.served[0].decode(&widget).unwrap();
        assert_eq!(decoded.unknown, Vec::<String>::new());
        let created = kinds.served[0].prepare_create(decoded.object, clock().now()).unwrap();
        assert_eq!(created.errors, Vec::new());

        let (mut free, mut deep) = (json!({}), json!("x"));
        for _ in 0..120 {
            free = json!({"not": free});
            deep = json!([deep]);
        }
        let _ =
            kind.decode(&definition(free)).map(|decoded| kind.prepare_create(decoded.object, clock().now()));
        let any = Definition::parse(&definition(super::free())).unwrap();
        let _ = Kinds::of(&any, &Default::default()).served[0].decode(&super::widget("n", deep));
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn wide_objects() {
    let wide = Schema::parse(
        &json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "integer"}, "v": {"type": "string"}}}}),
    )
    .unwrap();
    let list: Value = (0..20_000).map(|k| json!({"k": k, "v": k})).collect();
    let found = validate("", &list, &wide, Some(Correlated::root(&list, &json!([]), &wide)));
    assert_eq!(found.len(), 1000, "an answer has an end");
}
