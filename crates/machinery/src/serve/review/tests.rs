//! A reviewer in front of an API server that answers reviews by a table.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_host::fake;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::super::access::{Access, Denied};
use super::{Attributes, CertificateUser, Kept, Reviewer, UntrustedCertificate, User, path_attributes};
use crate::client::in_process;

const KEPT: Kept = Kept {
    tokens: Duration::from_secs(120),
    allowed: Duration::from_secs(300),
    denied: Duration::from_secs(30),
};

/// What was asked, and whether the API server is there.
#[derive(Clone, Default)]
struct Api {
    asked: Arc<Mutex<Vec<Value>>>,
    down: Arc<Mutex<bool>>,
}

impl Api {
    /// `good` is a token of alice, who may read `/metrics` and the proxy part of nodes.
    fn client(&self) -> Client {
        let api = self.clone();
        in_process(tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let body = request.into_body().collect_bytes().await.unwrap();
                let mut review: Value = serde_json::from_slice(&body).unwrap();
                if *api.down.lock().unwrap() {
                    let status = json!({"kind": "Status", "status": "Failure", "code": 403, "message": "no right", "reason": "Forbidden"});
                    return answer(StatusCode::FORBIDDEN, &status);
                }
                api.asked.lock().unwrap().push(review["spec"].clone());
                review["status"] = if review["kind"] == "TokenReview" {
                    match review["spec"]["token"] == "good" {
                        true => {
                            json!({"authenticated": true, "user": {"username": "alice", "groups": ["dev"]}})
                        }
                        false => json!({"authenticated": false}),
                    }
                } else {
                    let spec = &review["spec"];
                    let path = spec["nonResourceAttributes"]["path"] == "/metrics";
                    let part = spec["resourceAttributes"]["subresource"] == "proxy";
                    json!({"allowed": spec["user"] == "alice" && (path || part)})
                };
                answer(StatusCode::CREATED, &review)
            }
        }))
    }

    fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn answer(status: StatusCode, body: &Value) -> Result<Response<Body>, std::io::Error> {
    let answer = Response::builder().status(status).header("content-type", "application/json");
    Ok(answer.body(Body::from(body.to_string().into_bytes())).unwrap())
}

fn reviewer(api: &Api) -> Reviewer {
    let (host, _) = fake::host(1);
    Reviewer::new(&host, KEPT, path_attributes).tokens(Some(api.client())).rights(Some(api.client()))
}

fn request(path: &str, token: Option<&str>) -> http::request::Parts {
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(()).unwrap().into_parts().0
}

fn forbidden(user: &str) -> Result<(), Denied> {
    Err(Denied::Forbidden { user: user.to_owned() })
}

#[tokio::test(start_paused = true)]
async fn tokens_and_rights_are_reviewed_and_kept_for_a_while() {
    let api = Api::default();
    let reviewer = reviewer(&api);
    assert_eq!(reviewer.allow(&request("/metrics", Some("good"))).await, Ok(()));
    let asked = api.asked();
    assert_eq!(asked[0]["token"], "good");
    let spec = json!({
        "user": "alice", "groups": ["dev", "system:authenticated"],
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    });
    assert_eq!(asked[1], spec);
    assert_eq!(reviewer.allow(&request("/configz", Some("good"))).await, forbidden("alice"));
    assert_eq!(api.asked().len(), 1, "the token is known");
    tokio::time::sleep(Duration::from_secs(31)).await;
    for path in ["/metrics", "/configz"] {
        let _ = reviewer.allow(&request(path, Some("good"))).await;
    }
    assert_eq!(api.asked().len(), 1, "a denial is kept for 30 seconds, the rest for longer");
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(reviewer.allow(&request("/metrics", Some("good"))).await, Ok(()));
    assert_eq!(api.asked().len(), 1, "the token is reviewed again");
}

#[tokio::test(start_paused = true)]
async fn requests_without_credentials_are_anonymous_or_refused() {
    let api = Api::default();
    let closed = reviewer(&api);
    let open = reviewer(&api).anonymous(true);
    assert_eq!(closed.allow(&request("/metrics", None)).await, Err(Denied::Unauthorized));
    assert_eq!(open.allow(&request("/metrics", None)).await, forbidden("system:anonymous"));
    assert_eq!(api.asked()[0]["groups"], json!(["system:unauthenticated"]));
    for reviewer in [&closed, &open] {
        let wrong = reviewer.allow(&request("/metrics", Some("wrong"))).await;
        assert_eq!(wrong, Err(Denied::Unauthorized), "a wrong token is not anonymous");
    }
    let mut untrusted = request("/metrics", None);
    untrusted.extensions.insert(UntrustedCertificate);
    assert_eq!(open.allow(&untrusted).await, Err(Denied::Unauthorized), "nor is a wrong certificate");
    let (host, _) = fake::host(1);
    let no_tokens = Reviewer::new(&host, KEPT, path_attributes).anonymous(true).rights(Some(api.client()));
    assert_eq!(no_tokens.allow(&request("/metrics", Some("good"))).await, forbidden("system:anonymous"));
}

#[tokio::test(start_paused = true)]
async fn one_of_several_rights_is_enough() {
    let api = Api::default();
    let (host, _) = fake::host(1);
    let parts = |request: &http::request::Parts| {
        let part = |subresource: &str| Attributes::Node {
            verb: "get".into(),
            subresource: subresource.into(),
            name: "n-1".into(),
        };
        vec![part(request.uri.path().trim_matches('/')), part("proxy")]
    };
    let reviewer = Reviewer::new(&host, KEPT, parts).rights(Some(api.client()));
    let mut pods = request("/pods", None);
    let user = |name: &str| CertificateUser(Arc::new(User { name: name.into(), ..User::default() }));
    pods.extensions.insert(user("alice"));
    assert_eq!(reviewer.allow(&pods).await, Ok(()));
    let asked: Vec<Value> = api.asked().into_iter().map(|spec| spec["resourceAttributes"].clone()).collect();
    let part = |name| json!({"verb": "get", "version": "v1", "resource": "nodes", "subresource": name, "name": "n-1"});
    assert_eq!(asked, [part("pods"), part("proxy")]);
    pods.extensions.insert(user("bob"));
    assert_eq!(reviewer.allow(&pods).await, forbidden("bob"), "kept answers are those of one user");
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_review_lets_nothing_pass_and_is_not_kept() {
    let api = Api::default();
    let reviewer = reviewer(&api);
    *api.down.lock().unwrap() = true;
    assert_eq!(reviewer.allow(&request("/metrics", Some("good"))).await, Err(Denied::Unauthorized));
    *api.down.lock().unwrap() = false;
    assert_eq!(reviewer.allow(&request("/other", Some("good"))).await, forbidden("alice"));
    *api.down.lock().unwrap() = true;
    let unknown = reviewer.allow(&request("/metrics", Some("good"))).await;
    assert!(matches!(unknown, Err(Denied::Unknown(_))), "{unknown:?}");
    *api.down.lock().unwrap() = false;
    assert_eq!(reviewer.allow(&request("/metrics", Some("good"))).await, Ok(()));
}
