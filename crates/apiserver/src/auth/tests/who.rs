//! Who is recognised, and what nobody gets.

use std::sync::Arc;

use crate::auth::certificate::Holder;
use crate::auth::{Identity, Mode, Settings, User};
use crate::testing::TestClock;
use bowline_host::Clock;
use serde_json::{Value, json};

use super::{Who, get, post, send, server, server_with, static_tokens, told};

const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn certificate(name: &str, days: i64) -> Identity {
    let user = User { name: name.into(), groups: vec!["dev".into()], ..User::default() };
    let until = TestClock.now() + jiff::SignedDuration::from_hours(24 * days);
    Identity::Certificate(Arc::new(Holder { user: Arc::new(user.authenticated()), until }))
}

#[tokio::test]
async fn anonymous_gets_health_and_version_only() {
    let server = server().await;
    let nobody = Who::anonymous();
    for path in ["/version", "/version/", "/healthz", "/livez", "/readyz"] {
        assert_eq!(get(&server, &nobody, path).await.0, 200, "{path}");
    }
    let cannot = |what: &str| format!(r#"forbidden: User "system:anonymous" cannot {what}"#);
    let table = [
        ("/", cannot(r#"get path "/""#)),
        ("/api", cannot(r#"get path "/api""#)),
        ("/apis", cannot(r#"get path "/apis""#)),
        ("/metrics", cannot(r#"get path "/metrics""#)),
        ("/openapi/v3", cannot(r#"get path "/openapi/v3""#)),
        ("/readyz/verbose", cannot(r#"get path "/readyz/verbose""#)),
        ("/<b>&", cannot(r#"get path "/&lt;b&gt;&amp;""#)),
        (
            "/api/v1/pods",
            format!("pods is {}", cannot(r#"list resource "pods" in API group "" at the cluster scope"#)),
        ),
        (
            "/apis/nope.io/v1/namespaces/a/x/y/z",
            format!(
                r#"x.nope.io "y" is {}"#,
                cannot(r#"get resource "x/z" in API group "nope.io" in the namespace "a""#)
            ),
        ),
    ];
    for (path, want) in table {
        let uri = path.replace('<', "%3C").replace('>', "%3E");
        assert_eq!(told(get(&server, &nobody, &uri).await), (403, want), "{path}");
    }
    assert_eq!(told(send(&server, &nobody, http::Method::POST, "/version", None).await).0, 403);
}

#[tokio::test]
async fn the_answer_to_a_refusal_is_a_whole_status() {
    let server = server().await;
    let (code, body) = get(&server, &Who::anonymous(), "/api/v1/namespaces/default").await;
    assert_eq!(code, 403);
    assert_eq!(body["details"], json!({"name": "default", "kind": "namespaces"}));
    assert_eq!(body["reason"], "Forbidden");
    let (code, body) = get(&server, &Who::bearer("wrong"), "/version").await;
    assert_eq!((code, &body["details"], &body["reason"]), (401, &Value::Null, &json!("Unauthorized")));
}

#[tokio::test]
async fn what_is_shown_and_wrong_is_refused() {
    let tokens = static_tokens("secret,ann,7,\"dev,ops\"\n");
    let server = server_with(Settings { static_tokens: tokens, ..Settings::default() }).await;
    let peer = |identity: Identity| Who::Peer(identity, Default::default());
    let basic = Who::anonymous().with("authorization", "Basic YTpi");
    let table = [
        ("a bad token", Who::bearer("wrong"), 401, ""),
        ("a good token", Who::bearer("secret"), 201, "ann"),
        ("another spelling", Who::anonymous().with("authorization", "bearer secret"), 201, "ann"),
        ("another scheme", basic, 403, ""),
        ("no token after all", Who::anonymous().with("authorization", "Bearer "), 403, ""),
        ("a certificate", peer(certificate("bob", 1)), 201, "bob"),
        ("an old certificate", peer(certificate("bob", -1)), 401, ""),
        ("an untrusted certificate", peer(Identity::Untrusted), 401, ""),
        (
            "an untrusted one with a token",
            peer(Identity::Untrusted).with("authorization", "Bearer secret"),
            201,
            "ann",
        ),
        (
            "a good one with a bad token",
            peer(certificate("bob", 1)).with("authorization", "Bearer x"),
            201,
            "bob",
        ),
    ];
    for (case, who, code, name) in table {
        let (found, body) = post(&server, &who, WHOAMI, json!({})).await;
        assert_eq!(found, code, "{case}: {body}");
        assert_eq!(body["status"]["userInfo"]["username"].as_str().unwrap_or_default(), name, "{case}");
    }
    let (_, body) = post(&server, &Who::bearer("secret"), WHOAMI, json!({})).await;
    let info = json!({"username": "ann", "uid": "7", "groups": ["dev", "ops", "system:authenticated"]});
    assert_eq!(body["status"]["userInfo"], info);
}

#[tokio::test]
async fn without_anonymous_access_everybody_shows_something() {
    let server = server_with(Settings { anonymous: false, ..Settings::default() }).await;
    assert_eq!(get(&server, &Who::anonymous(), "/version").await.0, 401);
}

#[tokio::test]
async fn inside_the_process_everything_is_allowed() {
    let server = server().await;
    let found = crate::testing::get(&server, "/api/v1/namespaces").await;
    assert_eq!(found.code, 200);
}

#[tokio::test]
async fn modes() {
    let table = [
        (vec![Mode::AlwaysAllow], 200),
        (vec![Mode::AlwaysDeny], 403),
        (vec![Mode::AlwaysDeny, Mode::Rbac], 403),
        (vec![Mode::Node, Mode::AlwaysAllow], 200),
    ];
    for (modes, code) in table {
        let server = server_with(Settings { modes: modes.clone(), ..Settings::default() }).await;
        let joe = Who::named("joe", &[]);
        assert_eq!(get(&server, &joe, "/api/v1/pods").await.0, code, "{modes:?}");
    }
    let names = ["AlwaysAllow", "AlwaysDeny", "Node", "RBAC"];
    assert!(names.iter().all(|name| name.parse::<Mode>().is_ok()) && "ABAC".parse::<Mode>().is_err());
}
