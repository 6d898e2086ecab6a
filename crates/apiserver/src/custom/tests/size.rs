//! Small requests must not become large objects, and large objects of earlier days must not be stuck.

use std::time::{Duration, Instant};

use bowline_api::ObjectKey;
use serde_json::json;

use super::*;
use crate::core::OBJECT_MAX;
use crate::store::{Change, Expect, Write};

/// Generous: these tests also run beside two busy cores, in a debug build. Unbounded, this took 50 s in a release build.
const AT_ONCE: Duration = Duration::from_secs(20);

/// Each `{}` in `spec.list` gets a default of `size` bytes.
fn with_default(size: usize) -> Value {
    let item =
        json!({"type": "object", "properties": {"fill": {"type": "string", "default": "x".repeat(size)}}});
    let list = json!({"type": "array", "items": item});
    definition("widgets", "Widget", &[version("v1", json!({"type": "object", "properties": {"list": list}}))])
}

/// Ten levels of lists whose default has ten items each: one field asks for ten billion objects.
fn with_nested_defaults() -> Value {
    let mut schema = json!({"type": "object", "properties": {"leaf": {"type": "string", "default": "leaf"}}});
    for _ in 0..10 {
        let empty = vec![json!({}); 10];
        let list = json!({"type": "array", "default": empty, "items": schema});
        schema = json!({"type": "object", "properties": {"list": list}});
    }
    definition("widgets", "Widget", &[version("v1", schema)])
}

async fn refused(server: &Server, path: &str, answer: Answer, begun: Instant) {
    assert_eq!((answer.code, &answer.body["reason"]), (413, &json!("RequestEntityTooLarge")));
    let message = answer.body["message"].as_str().unwrap();
    assert!(message.contains(&OBJECT_MAX.to_string()), "{message}");
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    assert_eq!(get(server, path).await.code, 404, "nothing is stored");
}

#[tokio::test]
async fn defaults_are_filled_in_up_to_a_limit() {
    let server = server().await;
    post(&server, DEFINITIONS, &with_default(100_000)).await.ok();
    let fits = widget("fits", json!({"list": vec![json!({}); 10]}));
    post(&server, WIDGETS, &fits).await.ok();
    let begun = Instant::now();
    let large = widget("large", json!({"list": vec![json!({}); 1000]}));
    assert!(large.to_string().len() < 4096);
    let answer = post(&server, WIDGETS, &large).await;
    assert!(answer.body["message"].as_str().unwrap().contains("defaults"), "{}", answer.body);
    refused(&server, &format!("{WIDGETS}/large"), answer, begun).await;

    let begun = Instant::now();
    let spec = json!({"spec": {"list": vec![json!({}); 1000]}});
    let grown = patch(&server, &format!("{WIDGETS}/fits"), "merge", &spec).await;
    assert_eq!((grown.code, &grown.body["reason"]), (413, &json!("RequestEntityTooLarge")));
    assert!(begun.elapsed() < AT_ONCE);
    let kept = get(&server, &format!("{WIDGETS}/fits")).await.ok();
    assert_eq!(kept["spec"]["list"].as_array().unwrap().len(), 10);
}

#[tokio::test]
async fn defaults_inside_defaults_are_counted() {
    let server = server().await;
    post(&server, DEFINITIONS, &with_nested_defaults()).await.ok();
    let begun = Instant::now();
    let answer = post(&server, WIDGETS, &widget("large", json!({}))).await;
    refused(&server, &format!("{WIDGETS}/large"), answer, begun).await;
}

/// A patch may add to what is there with each request; an applied configuration too.
#[tokio::test]
async fn an_object_does_not_grow_beyond_the_limit_by_patches() {
    let server = server().await;
    post(&server, DEFINITIONS, &widgets()).await.ok();
    post(&server, WIDGETS, &widget("a", json!({"part": "x".repeat(OBJECT_MAX / 2)}))).await.ok();
    let path = format!("{WIDGETS}/a");
    let more = json!({"spec": {"more": "x".repeat(OBJECT_MAX / 2)}});
    let copied = json!([{"op": "copy", "from": "/spec/part", "path": "/spec/more"}]);
    let applied = widget("a", more["spec"].clone()).to_string().into_bytes();
    let apply = format!("{path}?fieldManager=m&force=true");
    let yaml = Some(("application/apply-patch+yaml", applied));
    let answers = [
        patch(&server, &path, "merge", &more).await,
        patch(&server, &path, "json", &copied).await,
        send(&server, http::Method::PATCH, &apply, "*/*", yaml).await,
    ];
    for answer in answers {
        assert_eq!((answer.code, &answer.body["reason"]), (413, &json!("RequestEntityTooLarge")));
    }
    assert_eq!(get(&server, &path).await.ok()["spec"].as_object().unwrap().len(), 1);
}

/// Earlier versions of this server stored larger objects.
#[tokio::test]
async fn larger_objects_of_earlier_versions_can_be_read_changed_and_deleted() {
    let server = server().await;
    post(&server, DEFINITIONS, &widgets()).await.ok();
    let mut object = widget("a", json!({"fill": "x".repeat(2 * OBJECT_MAX)}));
    let metadata = json!({"name": "a", "namespace": "default", "uid": "u", "finalizers": ["example.com/f"]});
    object["metadata"] = metadata;
    let key = ObjectKey::new("default", "a");
    let resource = "widgets.example.com".into();
    let write = Write { resource, key, expect: Expect::Absent, change: Change::Put(object) };
    server.store().write(write).await.unwrap();

    let path = format!("{WIDGETS}/a");
    assert_eq!(get(&server, &path).await.ok()["spec"]["fill"].as_str().unwrap().len(), 2 * OBJECT_MAX);
    let more = json!({"spec": {"more": "x".repeat(100_000)}});
    assert_eq!(patch(&server, &path, "merge", &more).await.code, 413, "it does not grow");
    delete(&server, &path, None).await.ok();
    assert!(get(&server, &path).await.ok()["metadata"]["deletionTimestamp"].is_string());
    let released = json!({"metadata": {"finalizers": null}});
    patch(&server, &path, "merge", &released).await.ok();
    assert_eq!(get(&server, &path).await.code, 404);
}
