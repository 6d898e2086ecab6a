use serde_json::{Value, json};

use crate::store::{Limits, Store};
use crate::testing::*;

fn labelled(name: &str, value: &str) -> Value {
    let mut object = configmap(name);
    object["metadata"]["labels"] = json!({"l": value});
    object
}

fn brief(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test]
async fn from_a_version_and_from_now() {
    let server = server().await;
    let a = post(&server, CONFIGMAPS, &configmap("a")).await;
    post(&server, CONFIGMAPS, &configmap("b")).await.ok();
    let mut from_a =
        watch(&server, &format!("{CONFIGMAPS}?watch=true&resourceVersion={}", a.version()), "*/*").await;
    let mut with_state = watch(&server, "/api/v1/configmaps?watch=1", "*/*").await;
    let mut elsewhere = watch(&server, "/api/v1/namespaces/kube-system/configmaps?watch=1", "*/*").await;
    patch(&server, &format!("{CONFIGMAPS}/a"), "merge", &json!({"data": {"x": "y"}})).await.ok();
    delete(&server, &format!("{CONFIGMAPS}/b"), None).await.ok();
    post(&server, "/api/v1/namespaces/kube-system/configmaps", &configmap("s")).await.ok();
    for want in [brief("ADDED", "b"), brief("MODIFIED", "a"), brief("DELETED", "b")] {
        assert_eq!(from_a.brief().await, want);
    }
    for want in [
        brief("ADDED", "a"),
        brief("ADDED", "b"),
        brief("MODIFIED", "a"),
        brief("DELETED", "b"),
        brief("ADDED", "s"),
    ] {
        assert_eq!(with_state.brief().await, want);
    }
    assert_eq!(elsewhere.brief().await, brief("ADDED", "s"));
}

#[tokio::test]
async fn a_selector_turns_changes_into_comings_and_goings() {
    let server = server().await;
    let start = post(&server, CONFIGMAPS, &labelled("a", "no")).await.version();
    let path = format!("{CONFIGMAPS}/a");
    let label = |value: &str| json!({"metadata": {"labels": {"l": value}}, "data": {"now": value}});
    let mut watching =
        watch(&server, &format!("{CONFIGMAPS}?watch=1&labelSelector=l%3Dyes&resourceVersion={start}"), "*/*")
            .await;
    patch(&server, &path, "merge", &label("yes")).await.ok();
    patch(&server, &path, "merge", &json!({"data": {"b": "2"}})).await.ok();
    let left = patch(&server, &path, "merge", &label("no")).await.version();
    patch(&server, &path, "merge", &label("still-no")).await.ok();
    patch(&server, &path, "merge", &label("yes")).await.ok();
    delete(&server, &path, None).await.ok();
    assert_eq!(watching.brief().await, brief("ADDED", "a"));
    assert_eq!(watching.brief().await, brief("MODIFIED", "a"));
    let gone = watching.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["data"]["now"], "yes", "its old state");
    assert_eq!(version(&gone["object"]), left, "under the new version");
    assert_eq!(watching.brief().await, brief("ADDED", "a"));
    assert_eq!(watching.brief().await, brief("DELETED", "a"));
}

#[tokio::test]
async fn too_old_is_said_in_the_stream() {
    let limits = Limits { log_events: 4, ..Limits::default() };
    let server = server_on(Store::memory_with(limits)).await;
    let first = post(&server, CONFIGMAPS, &configmap("a")).await.version();
    let mut slow = watch(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={first}"), "*/*").await;
    for n in 0..9 {
        patch(&server, &format!("{CONFIGMAPS}/a"), "merge", &json!({"data": {"n": n.to_string()}}))
            .await
            .ok();
    }
    let mut late = watch(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={first}"), "*/*").await;
    for watching in [&mut slow, &mut late] {
        let event = watching.next().await.unwrap();
        assert_eq!(event["type"], "ERROR");
        assert_eq!((&event["object"]["code"], &event["object"]["reason"]), (&json!(410), &json!("Expired")));
        assert!(watching.next().await.is_none());
    }
}

#[tokio::test]
async fn after_a_restart_old_versions_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let old = {
        let server = server_on(Store::open_file(dir.path()).unwrap()).await;
        let old = post(&server, CONFIGMAPS, &configmap("a")).await.version();
        post(&server, CONFIGMAPS, &configmap("b")).await.ok();
        old
    };
    let server = server_on(Store::open_file(dir.path()).unwrap()).await;
    let mut late = watch(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={old}"), "*/*").await;
    assert_eq!(late.next().await.unwrap()["object"]["code"], 410);
    let list = get(&server, CONFIGMAPS).await.ok();
    let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={}", version(&list));
    let mut fresh = watch(&server, &path, "*/*").await;
    post(&server, CONFIGMAPS, &configmap("c")).await.ok();
    assert_eq!(fresh.brief().await, brief("ADDED", "c"));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_and_the_end() {
    let server = server().await;
    let started = tokio::time::Instant::now();
    let known = server.store().version();
    let path =
        format!("{CONFIGMAPS}?watch=1&timeoutSeconds=10&allowWatchBookmarks=true&resourceVersion={known}");
    let mut quiet = watch(&server, &path, "*/*").await;
    assert!(quiet.next().await.is_none(), "nothing moved, no bookmark");
    assert_eq!(started.elapsed().as_secs(), 10);

    let mut moved = watch(&server, &path, "*/*").await;
    let other = post(&server, CLAIMS, &claim("x")).await.version();
    let bookmark = moved.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["kind"], "ConfigMap");
    assert_eq!(version(&bookmark["object"]), other);
    assert_eq!(started.elapsed().as_secs(), 18, "two seconds before the end");
    assert!(moved.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute() {
    let server = server().await;
    let started = tokio::time::Instant::now();
    let known = server.store().version();
    let path =
        format!("{CONFIGMAPS}?watch=1&timeoutSeconds=150&allowWatchBookmarks=true&resourceVersion={known}");
    let mut watching = watch(&server, &path, "*/*").await;
    for (name, due) in [("a", 60), ("b", 120), ("c", 148)] {
        let moved = post(&server, CLAIMS, &claim(name)).await.version();
        let bookmark = watching.next().await.unwrap();
        assert_eq!((bookmark["type"].as_str(), version(&bookmark["object"])), (Some("BOOKMARK"), moved));
        assert_eq!(started.elapsed().as_secs(), due);
    }
    assert!(watching.next().await.is_none());
    assert_eq!(started.elapsed().as_secs(), 150);

    // What was said once is not said again.
    let mut watching = watch(&server, &path, "*/*").await;
    assert_eq!(watching.next().await.unwrap()["type"], "BOOKMARK");
    assert!(watching.next().await.is_none());
}

#[tokio::test]
async fn a_watch_may_be_wanted_for_ever() {
    let server = server().await;
    let mut watching =
        watch(&server, &format!("{CONFIGMAPS}?watch=1&timeoutSeconds=9223372036854775807"), "*/*").await;
    post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    assert_eq!(watching.brief().await, brief("ADDED", "a"));
}

#[tokio::test]
async fn a_streamed_list_says_where_it_ends() {
    let server = server().await;
    post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    let path = format!(
        "{CONFIGMAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion="
    );
    let mut watching = watch(&server, &path, "*/*").await;
    assert_eq!(watching.brief().await, brief("ADDED", "a"));
    let end = watching.next().await.unwrap();
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(version(&end["object"]), server.store().version());
    let path = format!("{CONFIGMAPS}?watch=1&sendInitialEvents=true");
    assert_eq!(get(&server, &path).await.code, 422);
}

#[tokio::test]
async fn a_table_shows_its_columns_once() {
    let server = server().await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut watching = watch(&server, &format!("{CONFIGMAPS}?watch=1"), accept).await;
    for name in ["a", "b"] {
        post(&server, CONFIGMAPS, &configmap(name)).await.ok();
    }
    let (first, second) = (watching.next().await.unwrap(), watching.next().await.unwrap());
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(second["object"]["columnDefinitions"], json!([]));
    assert_eq!(second["object"]["rows"][0]["cells"], json!(["b"]));
    assert_eq!(second["object"]["rows"][0]["object"]["metadata"]["name"], "b");
}

/// What stands in the path is decoded once: the object that the gate was asked about is the one that is watched.
#[tokio::test]
async fn the_name_in_a_watch_path_is_decoded_once() {
    let server = server().await;
    post(&server, CONFIGMAPS, &configmap("ab")).await.ok();
    post(&server, CONFIGMAPS, &configmap("c")).await.ok();
    for name in ["a%2562", "x%2Cmetadata.name%3Dab", "c%2526fieldSelector%253D", "c%26watch=false"] {
        let path = format!("/api/v1/watch/namespaces/default/configmaps/{name}?timeoutSeconds=1");
        let mut watching = watch(&server, &path, "*/*").await;
        assert_eq!(watching.next().await, None, "{name}");
    }
    let path =
        "/api/v1/watch/namespaces/default/configmaps/a%62?timeoutSeconds=1&fieldSelector=metadata.name%3Dc";
    let mut watching = watch(&server, path, "*/*").await;
    assert_eq!(watching.brief().await, brief("ADDED", "ab"));
}

/// What is there is gone through in parts, however little of it a client wants.
#[tokio::test]
async fn a_selector_that_matches_nothing_lets_others_run() {
    let server = server().await;
    for n in 0..2_000 {
        post(&server, CONFIGMAPS, &configmap(&format!("c{n}"))).await.ok();
    }
    let path = format!(
        "{CONFIGMAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=none"
    );
    let mut watching = watch(&server, &path, "*/*").await;
    let mut next = Box::pin(watching.next());
    let mut turns = 0;
    let first = loop {
        match futures::poll!(&mut next) {
            std::task::Poll::Ready(event) => break event.unwrap(),
            std::task::Poll::Pending => turns += 1,
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(first["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert!(turns >= 3, "{turns}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_watch_ends_in_time() {
    let server = server().await;
    let known = server.store().version();
    let path = format!("{CONFIGMAPS}?watch=1&timeoutSeconds=10&resourceVersion={known}");
    let mut watching = watch(&server, &path, "*/*").await;
    let mut seen = 0;
    for n in 0..20 {
        post(&server, CONFIGMAPS, &configmap(&format!("c{n}"))).await.ok();
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        if watching.next().await.is_none() {
            break;
        }
        seen += 1;
    }
    assert!((9..=10).contains(&seen), "{seen}");
}

/// The past of a kind is kept a while longer for those who still read what was there when they began.
#[tokio::test]
async fn a_slow_reader_of_the_initial_state_gets_all_of_it() {
    let limits = Limits { log_events: 100, ..Limits::default() };
    let server = server_on(Store::memory_with(limits)).await;
    for n in 0..600 {
        post(&server, CONFIGMAPS, &configmap(&format!("c{n:03}"))).await.ok();
    }
    let mut watching = watch(&server, &format!("{CONFIGMAPS}?watch=1"), "*/*").await;
    assert_eq!(watching.brief().await, brief("ADDED", "c000"));
    for n in 0..150 {
        patch(&server, &format!("{CONFIGMAPS}/c599"), "merge", &json!({"data": {"n": n.to_string()}}))
            .await
            .ok();
    }
    for n in 1..600 {
        assert_eq!(watching.brief().await, brief("ADDED", &format!("c{n:03}")));
    }
    for _ in 0..150 {
        assert_eq!(watching.brief().await, brief("MODIFIED", "c599"));
    }
    // Not for ever.
    let mut stuck = watch(&server, &format!("{CONFIGMAPS}?watch=1"), "*/*").await;
    assert_eq!(stuck.brief().await, brief("ADDED", "c000"));
    for n in 0..600 {
        patch(&server, &format!("{CONFIGMAPS}/c599"), "merge", &json!({"data": {"m": n.to_string()}}))
            .await
            .ok();
    }
    let last = loop {
        let event = stuck.next().await.unwrap();
        if event["type"] != "ADDED" {
            break event;
        }
    };
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(410)));
}
