//! `serviceaccounts/x/token`: a token for an account, bound to a pod, a secret or a node, for some time.

use std::sync::Arc;

use bowline_api::ObjectKey;
use http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::claims::{Claims, Kubernetes, Reference};
use super::{Tokens, jwt};
use crate::admission::{AdmissionRequest, Operation};
use crate::auth::user::account_name;
use crate::core::Core;
use crate::field::Invalid;
use crate::metadata;
use crate::registry::KindInfo;
use crate::schema::Schema;
use crate::status::{Resource, Status};
use crate::verbs::{Call, Outcome, Reply};

const GROUP: &str = "authentication.k8s.io";
const API_VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenRequest";
/// Where upstream puts the kind in place of the plural.
const REQUESTS: Resource<'static> = Resource { group: GROUP, plural: KIND };
const DEFAULT_SECONDS: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;
/// What the kubelet asks for; such a token of a pod lives on, and is only complained of after this time.
const WARN_SECONDS: i64 = 3607;
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

pub fn applies(info: &KindInfo) -> bool {
    info.resource() == Resource { group: "", plural: "serviceaccounts" }
}

/// The name of the call is the account's.
pub fn run(core: &Arc<Core>, method: &Method, call: &Call) -> Result<Reply, Status> {
    let Some(tokens) = core.access.tokens() else { return Err(Status::no_such_resource()) };
    if *method != Method::POST {
        return Err(Status::method_not_allowed());
    }
    let (now, namespace) = (core.clock.now(), call.namespace.as_deref().unwrap_or_default());
    let (mut request, mut warnings) = read(call, namespace)?;
    let admission = admission(call, namespace, now);
    // As it was sent: what a kubelet may ask for depends on what it left out.
    core.admit(&admission, &mut request)?;
    check_name(call, &request)?;
    let account = core.store.get("serviceaccounts", &call.key());
    let account = account.ok_or_else(|| Status::not_found(call.info().resource(), call.name()))?.value();
    complete(&mut request, &account, tokens, now)?;
    core.validate(&admission, &request)?;

    let bound = bound(core, call.name(), namespace, &request)?;
    let mut seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    if let Some(most) = tokens.settings.max_expiration_seconds.filter(|most| *most > 0 && seconds > *most) {
        warnings.push(format!("requested expiration of {seconds} seconds shortened to {most} seconds"));
        request["spec"]["expirationSeconds"] = most.into();
        seconds = most;
    }
    let claims = claims(tokens, &request, &account, bound, seconds, core.random.uuid(), now);
    let token = jwt::sign(&tokens.settings.signing, &claims)
        .ok_or_else(|| Status::internal("failed to generate token: the machine offers no randomness"))?;
    let until = now.checked_add(SignedDuration::from_secs(seconds)).map_err(Status::internal)?;
    request["status"] = json!({"token": token, "expirationTimestamp": metadata::timestamp(until)});
    let outcome = Outcome::Other { code: StatusCode::CREATED, json: request.to_string().into() };
    Ok(Reply { outcome, warnings })
}

/// The body, if it is a request for this account, and what to warn of.
fn read(call: &Call, namespace: &str) -> Result<(Value, Vec<String>), Status> {
    let body = crate::verbs::parse_body(call)?;
    let text = |field: &str| body[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if !matches!((api_version, kind), ("" | API_VERSION, "" | KIND)) {
        let why = format!("{kind} in version {api_version:?} cannot be handled as a {KIND}");
        return Err(Status::bad_request(why));
    }
    let schema = Schema::get();
    let shape = schema.kind(API_VERSION, KIND).ok_or_else(Status::no_such_resource)?;
    let accepted = schema.accept(shape, &body).map_err(|why| {
        Status::bad_request(format!("{KIND} in version \"v1\" cannot be handled as a {KIND}: {why}"))
    })?;
    let mut request = accepted.object;
    (request["apiVersion"], request["kind"]) = (API_VERSION.into(), KIND.into());
    for field in ["metadata", "spec"] {
        if !request[field].is_object() {
            request[field] = json!({});
        }
    }
    crate::verbs::place(&mut request, true, namespace)?;
    let warnings = accepted.unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    Ok((request, warnings))
}

fn check_name(call: &Call, request: &Value) -> Result<(), Status> {
    let name = metadata::name(request);
    if name.is_empty() || name == call.name() {
        return Ok(());
    }
    let error = Invalid::invalid("metadata.name", name, "must match the service account name if specified");
    Err(Status::invalid(GROUP, KIND, call.name(), &[error]))
}

/// Fills what the client left out and checks what it did not.
fn complete(request: &mut Value, account: &Value, tokens: &Tokens, now: Timestamp) -> Result<(), Status> {
    let (wanted, uid) = (metadata::text(request, "uid"), metadata::text(account, "uid"));
    if !wanted.is_empty() && wanted != uid {
        let why = format!(
            "the UID in the token request ({wanted}) does not match the UID of the service account ({uid})"
        );
        return Err(Status::conflict(REQUESTS, metadata::name(account), &why));
    }
    for field in ["name", "namespace", "uid"] {
        metadata::set(request, field, Some(metadata::text(account, field).into()));
    }
    metadata::set(request, "creationTimestamp", Some(metadata::timestamp(now)));
    let spec = &mut request["spec"];
    if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
        spec["audiences"] = tokens.audiences().into();
    }
    if spec["expirationSeconds"].is_null() {
        spec["expirationSeconds"] = DEFAULT_SECONDS.into();
    }
    spec["boundObjectRef"] = spec["boundObjectRef"].take();
    let seconds = &spec["expirationSeconds"];
    let wrong = |why: &str| {
        let error = Invalid::invalid("spec.expirationSeconds", seconds.clone(), why);
        Err(Status::invalid(GROUP, KIND, "", &[error]))
    };
    match seconds.as_i64() {
        Some(seconds) if seconds < SECONDS_MIN => wrong("may not specify a duration less than 10 minutes"),
        Some(seconds) if seconds <= SECONDS_MAX => Ok(()),
        Some(_) => wrong("may not specify a duration larger than 2^32 seconds"),
        None => Err(Status::bad_request("spec.expirationSeconds must be a whole number")),
    }
}

fn admission<'a>(call: &'a Call, namespace: &'a str, now: Timestamp) -> AdmissionRequest<'a> {
    let info = call.info();
    AdmissionRequest {
        operation: Operation::Create,
        group: &info.group,
        plural: &info.names.plural,
        kind: KIND,
        subresource: "token",
        namespace,
        name: call.name(),
        old: None,
        user: &call.user,
        now,
        notes: &call.notes,
    }
}

/// What a token ends with.
#[derive(Default)]
struct Bound {
    pod: Option<Reference>,
    secret: Option<Reference>,
    node: Option<Reference>,
}

fn bound(core: &Core, account: &str, namespace: &str, request: &Value) -> Result<Bound, Status> {
    let reference = &request["spec"]["boundObjectRef"];
    if reference.is_null() {
        return Ok(Bound::default());
    }
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (kind, name) = (text("kind"), text("name"));
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let (plural, within) = match (group, kind) {
        ("", "Pod") => ("pods", namespace),
        ("", "Secret") => ("secrets", namespace),
        ("", "Node") => ("nodes", ""),
        _ => {
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(why));
        }
    };
    let found = core.store.get(plural, &ObjectKey::new(within, name));
    let found = found.ok_or_else(|| Status::not_found(Resource { group: "", plural }, name))?.value();
    if kind == "Pod" && found["spec"]["serviceAccountName"] != account {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        )));
    }
    let (wanted, uid) = (text("uid"), metadata::text(&found, "uid"));
    if !wanted.is_empty() && wanted != uid {
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(Resource { group, plural: kind }, name, &why));
    }
    let own = Some(Reference { name: name.into(), uid: uid.into() });
    Ok(match kind {
        "Pod" => Bound { pod: own, node: node_of(core, &found), ..Bound::default() },
        "Secret" => Bound { secret: own, ..Bound::default() },
        _ => Bound { node: own, ..Bound::default() },
    })
}

/// The node of a pod, by name alone if it is gone.
fn node_of(core: &Core, pod: &Value) -> Option<Reference> {
    let name = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
    let node = core.store.get("nodes", &ObjectKey::cluster(name)).map(|node| node.value());
    let uid = node.map(|node| metadata::text(&node, "uid").to_owned()).unwrap_or_default();
    Some(Reference { name: name.into(), uid })
}

fn claims(
    tokens: &Tokens,
    request: &Value,
    account: &Value,
    bound: Bound,
    seconds: i64,
    id: String,
    now: Timestamp,
) -> Claims {
    let text = |field: &str| metadata::text(account, field).to_owned();
    let audiences = request["spec"]["audiences"].as_array().into_iter().flatten();
    let aud: Vec<String> = audiences.filter_map(|audience| audience.as_str().map(str::to_owned)).collect();
    let own = aud.iter().all(|audience| tokens.audiences().contains(audience));
    let extended = tokens.settings.extend_expiration && bound.pod.is_some() && seconds == WARN_SECONDS && own;
    let second = now.as_second();
    Claims {
        aud,
        exp: second + if extended { EXTENDED_SECONDS } else { seconds },
        iat: second,
        iss: tokens.settings.issuers.first().cloned().unwrap_or_default(),
        jti: id,
        kubernetes: Kubernetes {
            namespace: text("namespace"),
            node: bound.node,
            pod: bound.pod,
            secret: bound.secret,
            serviceaccount: Reference { name: text("name"), uid: text("uid") },
            warnafter: extended.then_some(second + seconds),
        },
        nbf: second,
        sub: account_name(&text("namespace"), &text("name")),
    }
}
