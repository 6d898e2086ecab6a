//! Tokens that are good, tokens that are not, and tokens whose time has come.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::claims::{Claims, Found, Kubernetes, Objects, Reference};
use super::jwt::{self, Untrusted, Unverified};
use super::keys::{SigningKey, read_public};
use crate::auth::der::{BIT_STRING, OBJECT_ID, SEQUENCE, element};
use crate::auth::tests::{ISSUER, RBAC, Who, binding, done, get, masters, post, role, send, server, told};
use crate::server::Server;
use crate::testing::TestClock;
use bowline_host::Clock;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn claims() -> Claims {
    let second = TestClock.now().as_second();
    let serviceaccount = Reference { name: "sa".into(), uid: "u".into() };
    Claims {
        aud: vec![ISSUER.into()],
        exp: second + 3600,
        iat: second,
        iss: ISSUER.into(),
        jti: "id".into(),
        kubernetes: Kubernetes { namespace: "default".into(), serviceaccount, ..Kubernetes::default() },
        nbf: second,
        sub: "system:serviceaccount:default:sa".into(),
    }
}

/// The parts of a token with one of them changed.
fn with_part(token: &str, at: usize, part: &str) -> String {
    let mut parts: Vec<&str> = token.split('.').collect();
    parts[at] = part;
    parts.join(".")
}

#[test]
fn forgeries() {
    let (key, other) = (SigningKey::ephemeral().unwrap(), SigningKey::ephemeral().unwrap());
    let token = jwt::sign(&key, &claims()).unwrap();
    let encoded = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let kid = &key.public().id;
    let mut later = claims();
    later.exp += 1;
    let later = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&later).unwrap());
    let header = |alg: &str| encoded(json!({"alg": alg, "kid": kid}));
    let cut = &token[..token.len() - 4];
    let table = [
        ("untouched", token.clone(), Ok(())),
        ("no key id", with_part(&token, 0, &encoded(json!({"alg": "ES256"}))), Err(Untrusted::Signature)),
        ("alg none", with_part(&with_part(&token, 0, &header("none")), 2, ""), Err(Untrusted::Signature)),
        ("alg none, signed", with_part(&token, 0, &header("none")), Err(Untrusted::Signature)),
        ("another algorithm", with_part(&token, 0, &header("HS256")), Err(Untrusted::Signature)),
        ("an algorithm of another key", with_part(&token, 0, &header("RS256")), Err(Untrusted::Signature)),
        (
            "another key's name",
            with_part(&token, 0, &encoded(json!({"alg": "ES256", "kid": "x"}))),
            Err(Untrusted::NoKey),
        ),
        ("later claims", with_part(&token, 1, &later), Err(Untrusted::Signature)),
        ("no signature", with_part(&token, 2, ""), Err(Untrusted::Signature)),
        ("cut", cut.to_owned(), Err(Untrusted::Signature)),
        ("another key", jwt::sign(&other, &claims()).unwrap(), Err(Untrusted::NoKey)),
    ];
    for (case, token, want) in table {
        // What is cut may not even be readable, which is as good a refusal.
        let unread = || Err(Untrusted::Signature);
        let found =
            Unverified::parse(&token).map_or_else(unread, |read| read.verified(&[key.public().clone()]));
        assert_eq!(found.map(drop), want, "{case}");
    }
    let unread =
        ["", "a", "a.b", "a.b.c", "..", &token.replace('.', ","), &"x".repeat(1 << 20)].map(str::to_owned);
    for token in unread.into_iter().chain([format!("{token}.x"), format!("{token}=="), format!(" {token}")]) {
        let parsed = Unverified::parse(&token).and_then(|token| token.verified(&[key.public().clone()]).ok());
        assert!(parsed.is_none(), "{}", &token[..token.len().min(40)]);
    }
}

struct Fixed(BTreeMap<&'static str, Found>);

impl Objects for Fixed {
    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Found> {
        let place = if plural == "nodes" { "" } else { "default" };
        self.0.get(format!("{plural}/{name}").as_str()).filter(|_| namespace == place).cloned()
    }
}

#[test]
fn what_ends_a_token() {
    let now = TestClock.now();
    let at = |seconds: i64| now + SignedDuration::from_secs(seconds);
    let found = |uid: &str, deleted: Option<Timestamp>| Found { uid: uid.into(), deleted };
    let bound = |name: &str| Some(Reference { name: name.into(), uid: "u".into() });
    type Change = fn(&mut Claims);
    let plain: Change = |_| {};
    let pod: Change = |claims| claims.kubernetes.pod = Some(Reference { name: "p".into(), uid: "u".into() });
    let secret: Change =
        |claims| claims.kubernetes.secret = Some(Reference { name: "s".into(), uid: "u".into() });
    let node: Change =
        |claims| claims.kubernetes.node = Some(Reference { name: "n".into(), uid: "u".into() });
    let account = ("serviceaccounts/sa", found("u", None));
    let invalidated = Some("service account token has been invalidated");
    let expired = Some("service account token has expired");
    let table: [(&str, Change, i64, Vec<(&'static str, Found)>, Option<&str>); 17] = [
        ("good", plain, 0, vec![account.clone()], None),
        ("just over", plain, 3660, vec![account.clone()], None),
        ("expired", plain, 3661, vec![account.clone()], expired),
        ("clocks that disagree", plain, -60, vec![account.clone()], None),
        ("not yet", plain, -61, vec![account.clone()], Some("service account token is not valid yet")),
        ("no account", plain, 0, vec![], Some("serviceaccounts \"sa\" not found")),
        (
            "another account of that name",
            plain,
            0,
            vec![("serviceaccounts/sa", found("v", None))],
            Some("service account UID (v) does not match claim (u)"),
        ),
        ("an account that goes", plain, 0, vec![("serviceaccounts/sa", found("u", Some(at(-60))))], None),
        (
            "an account that went",
            plain,
            0,
            vec![("serviceaccounts/sa", found("u", Some(at(-61))))],
            Some("service account default/sa has been deleted"),
        ),
        ("a pod", pod, 0, vec![account.clone(), ("pods/p", found("u", None))], None),
        ("no pod", pod, 0, vec![account.clone()], invalidated),
        (
            "a pod that went",
            pod,
            0,
            vec![account.clone(), ("pods/p", found("u", Some(at(-61))))],
            invalidated,
        ),
        (
            "another pod of that name",
            pod,
            0,
            vec![account.clone(), ("pods/p", found("v", None))],
            Some("pod UID (v) does not match service account pod ref claim (u)"),
        ),
        ("no secret", secret, 0, vec![account.clone()], invalidated),
        ("a secret", secret, 0, vec![account.clone(), ("secrets/s", found("u", None))], None),
        ("no node", node, 0, vec![account.clone()], invalidated),
        ("a node", node, 0, vec![account.clone(), ("nodes/n", found("u", None))], None),
    ];
    for (case, change, seconds, objects, want) in table {
        let mut claims = claims();
        change(&mut claims);
        let refusal = claims.refusal(&Fixed(objects.into_iter().collect()), at(seconds));
        assert_eq!(refusal.as_deref(), want, "{case}");
    }
    // The node of a pod is only told of.
    let mut claims = claims();
    (claims.kubernetes.pod, claims.kubernetes.node) = (bound("p"), bound("gone"));
    let objects = Fixed([account, ("pods/p", found("u", None))].into_iter().collect());
    assert_eq!(claims.refusal(&objects, now), None);
    let user = claims.user();
    assert_eq!(user.extra["authentication.kubernetes.io/node-name"], ["gone"]);
    assert_eq!(user.extra["authentication.kubernetes.io/pod-uid"], ["u"]);
}

#[test]
fn keys_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let made = SigningKey::open(dir.path()).unwrap();
    let again = SigningKey::open(dir.path()).unwrap();
    assert_eq!(made.public(), again.public(), "kept");
    let path = dir.path().join("pki/sa.key");
    assert_eq!(read_public(&path).unwrap(), [made.public().clone()]);

    // An RSA key in both spellings, an EC key in the older one, and their public halves, as openssl wrote them.
    let file = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("src/auth/testdata").join(name);
    let rsa = SigningKey::read(&file("rsa-pkcs1.pem")).unwrap();
    assert_eq!(SigningKey::read(&file("rsa-pkcs8.pem")).unwrap().public(), rsa.public());
    assert_eq!(read_public(&file("rsa-public.pem")).unwrap(), [rsa.public().clone()]);
    let ec = SigningKey::read(&file("ec-sec1.pem")).unwrap();
    assert_eq!(read_public(&file("ec-public.pem")).unwrap(), [ec.public().clone()]);
    for key in [&made, &rsa, &ec] {
        let token = jwt::sign(key, &claims()).unwrap();
        let keys = [made.public().clone(), rsa.public().clone(), ec.public().clone()];
        assert_eq!(Unverified::parse(&token).unwrap().verified(&keys).unwrap(), claims());
        let jwk = key.public().to_jwk();
        assert_eq!(jwk["kid"], *key.public().id);
    }
    let jwk = rsa.public().to_jwk();
    assert_eq!(
        (jwk["kty"].as_str(), jwk["alg"].as_str(), jwk["e"].as_str()),
        (Some("RSA"), Some("RS256"), Some("AQAB"))
    );
    assert_eq!(jwk["n"].as_str().unwrap().len(), 342);
    let jwk = ec.public().to_jwk();
    assert_eq!((jwk["crv"].as_str(), jwk["x"].as_str().unwrap().len()), (Some("P-384"), 64));
    let junk = dir.path().join("junk");
    std::fs::write(&junk, "nothing").unwrap();
    assert!(SigningKey::read(&junk).is_err() && read_public(&junk).is_err());
    assert!(SigningKey::read(&file("rsa-public.pem")).is_err(), "a public key signs nothing");
    assert!(read_public(&dir.path().join("missing")).is_err());
}

/// A key that is none is refused when the server starts, not when somebody asks for it.
#[test]
fn points_that_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.pem");
    let p256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    let p384: &[u8] = &[0x2b, 0x81, 0x04, 0, 0x22];
    let point = |first: u8, length: usize| [vec![first], vec![7; length]].concat();
    let table = [
        (p256, point(4, 64), Some(43)),
        (p384, point(4, 96), Some(64)),
        (p256, Vec::new(), None),
        (p256, point(4, 0), None),
        (p256, point(2, 32), None),
        (p256, point(3, 64), None),
        (p256, point(4, 96), None),
        (p384, point(4, 64), None),
    ];
    for (curve, point, want) in table {
        let id = element(OBJECT_ID, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1]);
        let kind = element(SEQUENCE, &[id, element(OBJECT_ID, curve)].concat());
        let bits = element(BIT_STRING, &[&[0][..], &point].concat());
        let text = STANDARD.encode(element(SEQUENCE, &[kind, bits].concat()));
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n");
        std::fs::write(&path, pem).unwrap();
        let jwk = read_public(&path).ok().map(|keys| keys[0].to_jwk());
        let lengths = jwk.map(|jwk| ["x", "y"].map(|field| jwk[field].as_str().unwrap().len()));
        assert_eq!(lengths, want.map(|length| [length; 2]), "{point:?}");
    }
}

async fn token(server: &Server, spec: Value) -> Value {
    done(post(server, &masters(), &format!("{ACCOUNTS}/sa/token"), json!({"spec": spec})).await)
}

async fn with_account() -> Server {
    let server = server().await;
    done(post(&server, &masters(), ACCOUNTS, json!({"metadata": {"name": "sa"}})).await);
    server
}

#[tokio::test]
async fn requests_for_tokens() {
    let server = with_account().await;
    let issued = token(&server, json!({})).await;
    assert_eq!((&issued["kind"], &issued["metadata"]["name"]), (&json!("TokenRequest"), &json!("sa")));
    let spec = json!({"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": null});
    assert_eq!(issued["spec"], spec);
    assert_eq!(issued["status"]["expirationTimestamp"], "2026-01-01T01:00:00Z");

    let path = format!("{ACCOUNTS}/sa/token");
    let invalid =
        |name: &str, what: &str| format!(r#"TokenRequest.authentication.k8s.io "{name}" is invalid: {what}"#);
    let seconds = |text: &str| invalid("", &format!("spec.expirationSeconds: Invalid value: {text}"));
    let uid = issued["metadata"]["uid"].as_str().unwrap();
    let bound = |kind: &str, name: &str| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}}});
    let table = [
        (
            path.clone(),
            json!({"spec": {"expirationSeconds": 60}}),
            422,
            seconds("60: may not specify a duration less than 10 minutes"),
        ),
        (
            path.clone(),
            json!({"spec": {"expirationSeconds": 99_999_999_999_999_i64}}),
            422,
            seconds("99999999999999: may not specify a duration larger than 2^32 seconds"),
        ),
        (
            path.clone(),
            json!({"metadata": {"name": "x"}}),
            422,
            invalid(
                "sa",
                r#"metadata.name: Invalid value: "x": must match the service account name if specified"#,
            ),
        ),
        (
            path.clone(),
            json!({"metadata": {"uid": "x"}}),
            409,
            format!(
                r#"Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "sa": the UID in the token request (x) does not match the UID of the service account ({uid})"#
            ),
        ),
        (path.clone(), bound("Pod", "nope"), 404, r#"pods "nope" not found"#.into()),
        (
            path.clone(),
            bound("ConfigMap", "x"),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap".into(),
        ),
        (format!("{ACCOUNTS}/none/token"), json!({}), 404, r#"serviceaccounts "none" not found"#.into()),
    ];
    for (path, body, code, message) in table {
        assert_eq!(told(post(&server, &masters(), &path, body).await), (code, message));
    }
    assert_eq!(get(&server, &masters(), &path).await.0, 405);
}

#[tokio::test]
async fn a_token_lives_as_long_as_its_account_and_its_pod() {
    let server = with_account().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |account: &str| {
        json!({
            "metadata": {"name": account},
            "spec": {"nodeName": "n", "serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]},
        })
    };
    done(post(&server, &masters(), pods, pod("sa")).await);
    done(post(&server, &masters(), pods, pod("other")).await);
    let bound = |pod: &str| json!({"expirationSeconds": 3607, "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod}});
    let wrong =
        post(&server, &masters(), &format!("{ACCOUNTS}/sa/token"), json!({"spec": bound("other")})).await;
    let message =
        r#"cannot bind token for serviceaccount "sa" to pod running with different serviceaccount name."#;
    assert_eq!(told(wrong), (400, message.into()));

    let free = token(&server, json!({})).await["status"]["token"].as_str().unwrap().to_owned();
    let issued = token(&server, bound("sa")).await;
    assert_eq!(issued["status"]["expirationTimestamp"], "2026-01-01T01:00:07Z");
    let tied = issued["status"]["token"].as_str().unwrap().to_owned();
    let payload = URL_SAFE_NO_PAD.decode(tied.split('.').nth(1).unwrap()).unwrap();
    let payload: Claims = serde_json::from_slice(&payload).unwrap();
    assert_eq!(payload.exp - payload.iat, 365 * 24 * 3600, "a pod's token lives on");
    assert_eq!(payload.kubernetes.warnafter, Some(payload.iat + 3607));
    assert_eq!(payload.kubernetes.node.unwrap(), Reference { name: "n".into(), uid: String::new() });

    let me = done(post(&server, &Who::bearer(&tied), WHOAMI, json!({})).await)["status"]["userInfo"].clone();
    assert_eq!(me["username"], "system:serviceaccount:default:sa");
    assert_eq!(
        me["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    assert_eq!(me["extra"]["authentication.kubernetes.io/pod-name"], json!(["sa"]));
    assert_eq!(
        me["extra"]["authentication.kubernetes.io/credential-id"],
        json!([format!("JTI={}", payload.jti)])
    );

    done(send(&server, &masters(), Method::DELETE, &format!("{pods}/sa?gracePeriodSeconds=0"), None).await);
    assert_eq!(get(&server, &Who::bearer(&tied), "/api").await.0, 401, "its pod is gone");
    assert_eq!(get(&server, &Who::bearer(&free), "/api").await.0, 200);
    done(send(&server, &masters(), Method::DELETE, &format!("{ACCOUNTS}/sa"), None).await);
    assert_eq!(get(&server, &Who::bearer(&free), "/api").await.0, 401, "its account is gone");
    done(post(&server, &masters(), ACCOUNTS, json!({"metadata": {"name": "sa"}})).await);
    assert_eq!(get(&server, &Who::bearer(&free), "/api").await.0, 401, "another account of the same name");
}

#[tokio::test]
async fn an_account_may_do_what_it_is_bound_to() {
    let server = with_account().await;
    let token = token(&server, json!({})).await["status"]["token"].as_str().unwrap().to_owned();
    let nodes = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["nodes"]}]);
    done(
        post(&server, &masters(), &format!("{RBAC}/clusterroles"), role("ClusterRole", "nodes", nodes)).await,
    );
    assert_eq!(get(&server, &Who::bearer(&token), "/api/v1/nodes").await.0, 403);
    let bound = binding("ClusterRoleBinding", "b", "ClusterRole/nodes", "ServiceAccount/sa");
    done(post(&server, &masters(), &format!("{RBAC}/clusterrolebindings"), bound).await);
    assert_eq!(get(&server, &Who::bearer(&token), "/api/v1/nodes").await.0, 200);
}

#[tokio::test]
async fn reviews_of_tokens() {
    let server = with_account().await;
    let text = |value: &Value| value["status"]["token"].as_str().unwrap().to_owned();
    let own = text(&token(&server, json!({})).await);
    let other = text(&token(&server, json!({"audiences": ["other", "more"]})).await);
    let review = |spec: Value| {
        let server = server.clone();
        async move { done(post(&server, &masters(), REVIEWS, json!({"spec": spec})).await)["status"].clone() }
    };
    let good = review(json!({"token": own})).await;
    assert_eq!((&good["authenticated"], &good["audiences"]), (&json!(true), &json!([ISSUER])));
    assert_eq!(good["user"]["username"], "system:serviceaccount:default:sa");
    let good = review(json!({"token": other, "audiences": ["x", "other"]})).await;
    assert_eq!((&good["authenticated"], &good["audiences"]), (&json!(true), &json!(["other"])));
    let error = |why: &str| json!({"user": {}, "error": why});
    let audience = format!(
        r#"[invalid bearer token, token audiences ["other" "more"] is invalid for the target audiences ["{ISSUER}"]]"#
    );
    let table = [
        (json!({"token": other}), error(&audience)),
        (json!({"token": "garbage"}), error("invalid bearer token")),
        (
            json!({"token": format!("{own}AAAA")}),
            error("[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]"),
        ),
    ];
    for (spec, want) in table {
        assert_eq!(review(spec).await, want);
    }
    assert_eq!(get(&server, &Who::bearer(&other), "/version").await.0, 401, "for somebody else");
    let empty = told(post(&server, &masters(), REVIEWS, json!({"spec": {}})).await);
    assert_eq!(empty, (400, "token is required for TokenReview in authentication".into()));
}

#[tokio::test]
async fn documents_for_others() {
    let server = server().await;
    let account = Who::named("system:serviceaccount:a:b", &["system:serviceaccounts"]);
    let found = done(get(&server, &account, "/.well-known/openid-configuration").await);
    assert_eq!(found["issuer"], ISSUER);
    assert_eq!(found["id_token_signing_alg_values_supported"], json!(["ES256"]));
    let keys = done(get(&server, &account, "/openid/v1/jwks").await);
    assert_eq!(keys["keys"][0]["crv"], "P-256");
    assert_eq!(get(&server, &Who::anonymous(), "/openid/v1/jwks").await.0, 403);
}
