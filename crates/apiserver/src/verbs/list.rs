//! GET of many objects: selectors, pages, versions.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_api::ObjectKey;
use http::Method;
use serde::{Deserialize, Serialize};

use super::{Call, Listed, Outcome, Reply};
use crate::core::Core;
use crate::selector::Selector;
use crate::status::Status;
use crate::store::Gone;

/// How long a request for a version of the future waits for it, as upstream does.
const FUTURE_WAIT: Duration = Duration::from_secs(3);
/// Objects looked at per look into the store while a page fills.
const SCAN: usize = 1000;

/// Where a list goes on. Opaque to clients.
#[derive(Serialize, Deserialize)]
struct Token {
    v: String,
    rv: u64,
    namespace: String,
    name: String,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

pub async fn run(core: &Arc<Core>, call: &Call) -> Result<Reply, Status> {
    Ok(Reply::plain(Outcome::List(listed(core, call).await?)))
}

/// What the selectors of a call match, or one page of it.
pub async fn listed(core: &Core, call: &Call) -> Result<Listed, Status> {
    let limit = call.query.number("limit")?.filter(|limit| *limit > 0);
    let exact = match call.query.get("resourceVersionMatch") {
        // A bare version with a limit means exactly that version, for old clients.
        "" => limit.is_some() && wanted_version(call)?.is_some(),
        "Exact" => true,
        "NotOlderThan" => false,
        other => {
            let why = format!(
                "resourceVersionMatch: Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""
            );
            return Err(Status::bad_request(why));
        }
    };
    if call.query.has("resourceVersionMatch") && call.query.get("resourceVersion").is_empty() {
        const WHY: &str = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
        return Err(Status::bad_request(WHY));
    }
    let (after, at) = match call.query.get("continue") {
        "" => {
            let version = wanted_version(call)?;
            if let Some(version) = version {
                wait_for(core, version).await?;
            }
            (None, version.filter(|_| exact))
        }
        token => {
            let (after, version) = parse_token(token)?;
            // Another server may have answered with the page before.
            wait_for(core, version).await?;
            (Some(after), Some(version))
        }
    };
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    page(core, call, after, at, limit)
}

fn page(
    core: &Core,
    call: &Call,
    mut after: Option<ObjectKey>,
    mut at: Option<u64>,
    limit: usize,
) -> Result<Listed, Status> {
    let kind = call.kind.as_ref();
    let selector = Selector::parse(call.query.get("labelSelector"), call.query.get("fieldSelector"), kind)?;
    let namespace = call.namespace.as_deref();
    let mut listed = Listed::default();
    let scan = if selector.is_everything() { limit } else { SCAN };
    loop {
        let page =
            core.page(kind, namespace, after.as_ref(), at, scan).map_err(|gone| expired(call, gone))?;
        // Later looks see the version of the first one.
        (listed.version, at) = (page.version, Some(page.version));
        let last = page.objects.last().map(|object| object.key.clone());
        for (position, object) in page.objects.iter().enumerate() {
            if selector.matches(object, kind) {
                listed.objects.push(object.clone());
            }
            let rest = page.objects.len() - position - 1 + page.remaining;
            if listed.objects.len() == limit && rest > 0 {
                listed.continue_ = token(&object.key, page.version);
                // With a selector the rest is not counted, as upstream has it.
                listed.remaining = selector.is_everything().then_some(rest);
                return Ok(listed);
            }
        }
        if page.remaining == 0 {
            return Ok(listed);
        }
        after = last;
    }
}

/// The version a client asks for; absent and `0` mean "whatever is there".
pub fn wanted_version(call: &Call) -> Result<Option<u64>, Status> {
    Ok(call.query.number("resourceVersion")?.filter(|version| *version > 0))
}

/// Whether a request must see everything that was written before it: all but reads of a version of the client's
/// choice.
pub fn wants_latest(method: &Method, call: &Call) -> bool {
    let chosen = !call.query.get("resourceVersion").is_empty() || !call.query.get("continue").is_empty();
    *method != Method::GET || !chosen
}

/// Waits a little for a version that does not exist yet.
pub async fn wait_for(core: &Core, version: u64) -> Result<(), Status> {
    let reached = tokio::time::timeout(FUTURE_WAIT, core.store.reached(version)).await;
    reached.map_err(|_| Status::version_too_large(version, core.store.version()))
}

fn expired(call: &Call, gone: Gone) -> Status {
    if call.query.has("continue") {
        return Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.",
        );
    }
    Status::expired(format!(
        "The resourceVersion for the provided list is too old: {} ({})",
        gone.wanted, gone.oldest
    ))
}

fn token(after: &ObjectKey, version: u64) -> String {
    let ObjectKey { namespace, name } = after.clone();
    let token = Token { v: TOKEN_VERSION.into(), rv: version, namespace, name };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

fn parse_token(text: &str) -> Result<(ObjectKey, u64), Status> {
    let decoded = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
    let token: Option<Token> = decoded.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let token = token.filter(|token| token.v == TOKEN_VERSION);
    let token = token.ok_or_else(|| Status::bad_request("continue key is not valid"))?;
    Ok((ObjectKey::new(token.namespace, token.name), token.rv))
}
