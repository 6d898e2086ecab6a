//! Namespaces go although the requests that asked for it did not see it through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_api::ObjectKey;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Server;
use crate::store::{AppendError, Backend, Change, Expect, Loaded, Options, Record, Store, Write};
use crate::testing::*;

const TEAM: &str = "/api/v1/namespaces/team";
const MAPS: &str = "/api/v1/namespaces/team/configmaps";

fn team() -> Value {
    json!({"metadata": {"name": "team"}, "spec": {"finalizers": ["kubernetes"]}})
}

fn held(name: &str) -> Value {
    let mut object = configmap(name);
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object
}

fn followed(server: &Server) -> (JoinHandle<()>, CancellationToken) {
    let (server, stop) = (server.clone(), CancellationToken::new());
    let token = stop.clone();
    (tokio::spawn(async move { server.follow_namespaces(token).await }), stop)
}

async fn gone(server: &Server, path: &str) {
    let gone = async {
        while get(server, path).await.code != 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect(path);
}

/// As if the request that wrote it had been dropped before it could look around.
async fn write_alone(server: &Server, name: &str, expect: Expect, change: Change) {
    let key = ObjectKey::new("team", name);
    server.store().write(Write { resource: "configmaps".into(), key, expect, change }).await.unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_does_not_keep_its_namespace() {
    let server = server().await;
    post(&server, "/api/v1/namespaces", &team()).await.ok();
    for n in 0..400 {
        post(&server, MAPS, &configmap(&format!("m{n}"))).await.ok();
    }
    // A task that did much lets others run soon; this one begins anew.
    tokio::task::yield_now().await;
    {
        let asked = std::pin::pin!(delete(&server, TEAM, None));
        assert!(futures::poll!(asked).is_pending(), "so much takes more than one go");
    }
    let left = get(&server, TEAM).await.ok();
    assert_eq!(left["status"]["phase"], "Terminating");
    assert!(!get(&server, MAPS).await.ok()["items"].as_array().unwrap().is_empty());

    let (following, stop) = followed(&server);
    gone(&server, TEAM).await;
    stop.cancel();
    following.await.unwrap();
}

#[tokio::test]
async fn what_nobody_looked_at_afterwards_is_seen() {
    let server = server().await;
    let (following, stop) = followed(&server);
    post(&server, "/api/v1/namespaces", &team()).await.ok();
    let last = post(&server, MAPS, &held("last")).await.ok();
    delete(&server, TEAM, None).await.ok();
    assert_eq!(get(&server, TEAM).await.code, 200, "held by its content");

    // It comes before the namespace goes, and nobody asks whether it may stay.
    write_alone(&server, "early", Expect::Absent, Change::Put(stored(&last, "early"))).await;
    gone(&server, &format!("{MAPS}/early")).await;
    let last = get(&server, &format!("{MAPS}/last")).await;
    write_alone(&server, "last", Expect::Version(last.version()), Change::Delete).await;
    gone(&server, TEAM).await;

    // And one that comes after.
    write_alone(&server, "late", Expect::Absent, Change::Put(stored(&last.body, "late"))).await;
    gone(&server, &format!("{MAPS}/late")).await;

    // A new namespace of the name keeps what it gets.
    post(&server, "/api/v1/namespaces", &team()).await.ok();
    post(&server, MAPS, &configmap("kept")).await.ok();
    let other = json!({"metadata": {"name": "other"}, "spec": {"finalizers": ["kubernetes"]}});
    post(&server, "/api/v1/namespaces", &other).await.ok();
    delete(&server, "/api/v1/namespaces/other", None).await.ok();
    gone(&server, "/api/v1/namespaces/other").await;
    assert_eq!(get(&server, &format!("{MAPS}/kept")).await.code, 200);
    stop.cancel();
    following.await.unwrap();
}

/// An object as an earlier one of its kind, which nothing holds.
fn stored(like: &Value, name: &str) -> Value {
    let mut object = like.clone();
    object["metadata"]["name"] = name.into();
    object["metadata"]["uid"] = format!("uid-of-{name}").into();
    for field in ["finalizers", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object
}

/// Takes no change of a namespace while it is told so.
struct Moody {
    refuses: Arc<AtomicBool>,
    version: u64,
}

impl Backend for Moody {
    fn append(&mut self, batch: &[Record], version: u64) -> Result<(), AppendError> {
        let concerned = batch.iter().any(|record| *record.resource == *"namespaces");
        if concerned && self.refuses.load(Ordering::SeqCst) {
            return Err(AppendError { why: "not now".into(), full: false });
        }
        self.version = version;
        Ok(())
    }

    fn reopen(&mut self) -> Result<Loaded, String> {
        Ok(Loaded { version: self.version, ..Loaded::default() })
    }
}

#[tokio::test]
async fn a_deletion_that_is_done_is_answered_so() {
    let refuses = Arc::new(AtomicBool::new(false));
    let moody = Moody { refuses: refuses.clone(), version: 0 };
    let store = Store::on_thread(Box::new(moody), Loaded::default(), Options::default()).unwrap();
    let server = server_on(store).await;
    post(&server, "/api/v1/namespaces", &team()).await.ok();
    post(&server, MAPS, &held("a")).await.ok();
    delete(&server, TEAM, None).await.ok();

    refuses.store(true, Ordering::SeqCst);
    let free = json!({"metadata": {"finalizers": null}});
    let answer = patch(&server, &format!("{MAPS}/a"), "merge", &free).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert_eq!((get(&server, &format!("{MAPS}/a")).await.code, get(&server, TEAM).await.code), (404, 200));
    let (following, stop) = followed(&server);
    refuses.store(false, Ordering::SeqCst);
    gone(&server, TEAM).await;
    stop.cancel();
    following.await.unwrap();
}
