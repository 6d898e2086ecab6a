use serde_json::{Value, json};

use crate::server::Server;
use crate::testing::{PODS, full_server, get, pod, post, put};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// A pod that runs on a node, ready or not.
async fn running(server: &Server, name: &str, ready: bool) -> Value {
    let mut object = pod(name);
    object["metadata"]["labels"] = json!({"app": "a"});
    object["spec"]["nodeName"] = "n".into();
    let mut object = post(server, PODS, &object).await.ok();
    let status = if ready { "True" } else { "False" };
    object["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": status}]});
    put(server, &format!("{PODS}/{name}/status"), &object).await.ok()
}

/// A budget as its controller left it.
async fn budget(server: &Server, name: &str, status: Value) {
    let object = json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    let mut object = post(server, BUDGETS, &object).await.ok();
    object["status"] = status;
    put(server, &format!("{BUDGETS}/{name}/status"), &object).await.ok();
}

async fn evict(server: &Server, name: &str, query: &str, options: Value) -> (u16, Value) {
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options});
    let answer = post(server, &format!("{PODS}/{name}/eviction{query}"), &body).await;
    (answer.code, answer.body)
}

fn healthy(allowed: i64) -> Value {
    json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 1, "expectedPods": 3})
}

#[tokio::test]
async fn without_a_budget_a_pod_just_goes() {
    let server = full_server().await;
    running(&server, "a", true).await;
    let (code, status) = evict(&server, "a", "", json!({})).await;
    assert_eq!((code, &status["status"], &status["code"]), (201, &json!("Success"), &json!(201)));
    let gone = get(&server, &format!("{PODS}/a")).await.ok();
    assert_eq!(gone["metadata"]["deletionGracePeriodSeconds"], 30);
    let told = &gone["status"]["conditions"][1];
    assert_eq!(
        (&told["type"], &told["reason"]),
        (&json!("DisruptionTarget"), &json!("EvictionByEvictionAPI"))
    );
    assert_eq!(evict(&server, "nobody", "", json!({})).await.0, 404);
}

#[tokio::test]
async fn budgets_are_kept() {
    let server = full_server().await;
    for name in ["a", "b"] {
        running(&server, name, true).await;
    }
    budget(&server, "one", healthy(1)).await;
    assert_eq!(evict(&server, "a", "?dryRun=All", json!({})).await.0, 201);
    let path = format!("{BUDGETS}/one");
    assert_eq!(get(&server, &path).await.ok()["status"]["disruptionsAllowed"], 1, "a dry run takes nothing");
    assert_eq!(evict(&server, "a", "", json!({"gracePeriodSeconds": 5})).await.0, 201);
    assert_eq!(get(&server, &format!("{PODS}/a")).await.ok()["metadata"]["deletionGracePeriodSeconds"], 5);
    let left = get(&server, &path).await.ok()["status"].clone();
    assert_eq!((&left["disruptionsAllowed"], left["disruptedPods"]["a"].is_string()), (&json!(0), true));
    assert_eq!(
        (&left["conditions"][0]["type"], &left["conditions"][0]["status"]),
        (&json!("DisruptionAllowed"), &json!("False"))
    );
    let (code, refused) = evict(&server, "b", "", json!({})).await;
    assert_eq!((code, refused["reason"].as_str()), (429, Some("TooManyRequests")));
    assert_eq!(refused["message"], "Cannot evict pod as it would violate the pod's disruption budget.");
    let cause = &refused["details"]["causes"][0];
    assert_eq!(
        (&cause["reason"], &cause["message"]),
        (
            &json!("DisruptionBudget"),
            &json!("The disruption budget one does not allow evicting pods currently")
        )
    );
    assert!(get(&server, &format!("{PODS}/b")).await.ok()["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test]
async fn who_counts() {
    let server = full_server().await;
    running(&server, "sick", false).await;
    running(&server, "well", true).await;
    post(&server, PODS, &pod("new")).await.ok();
    budget(&server, "one", json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2})).await;
    let (code, refused) = evict(&server, "well", "", json!({})).await;
    assert_eq!(
        (code, &refused["details"]["causes"][0]["message"]),
        (429, &json!("The disruption budget one needs 1 healthy pods and has 1 currently"))
    );
    assert_eq!(evict(&server, "sick", "", json!({})).await.0, 201, "nobody misses it");
    assert_eq!(evict(&server, "new", "", json!({})).await.0, 201, "it has not started");
    budget(&server, "two", healthy(1)).await;
    let (code, refused) = evict(&server, "well", "", json!({})).await;
    assert_eq!(
        (code, refused["message"].as_str()),
        (
            500,
            Some(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            )
        )
    );
}

#[tokio::test]
async fn a_budget_nobody_looked_at_yet_and_other_refusals() {
    let server = full_server().await;
    let stored = running(&server, "a", true).await;
    let wrong = json!({"metadata": {"name": "b"}});
    let answer = post(&server, &format!("{PODS}/a/eviction"), &wrong).await;
    assert_eq!(
        (answer.code, answer.body["message"].as_str()),
        (400, Some("name in URL does not match name in Eviction object"))
    );
    let (code, refused) = evict(&server, "a", "", json!({"preconditions": {"resourceVersion": "1"}})).await;
    let version = stored["metadata"]["resourceVersion"].as_str().unwrap();
    let want = format!(
        "Operation cannot be fulfilled on Pod \"a\": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The object might have been modified"
    );
    assert_eq!((code, refused["message"].as_str()), (409, Some(want.as_str())));
    let object = json!({"metadata": {"name": "new"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    post(&server, BUDGETS, &object).await.ok();
    let (code, refused) = evict(&server, "a", "", json!({})).await;
    assert_eq!((code, &refused["details"]["retryAfterSeconds"]), (429, &json!(10)));
}
