//! GET of many objects: selectors, pages, versions.

use std::sync::Arc;
use std::time::Duration;

use bowline_api::ObjectKey;
use http::Method;

use super::{Call, Listed, Outcome, Reply, continuation, list_options};
use crate::core::Core;
use crate::golang::{parse_fault, quoted};
use crate::selector::Selector;
use crate::status::Status;

/// How long a request for a version of the future waits for it, as upstream does.
const FUTURE_WAIT: Duration = Duration::from_secs(3);
/// Objects looked at per look into the store while a page fills.
const SCAN: usize = 1000;

/// What a page that comes too late is told.
const TOO_LATE: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

pub async fn run(core: &Arc<Core>, call: &Call) -> Result<Reply, Status> {
    Ok(Reply::plain(Outcome::List(listed(core, call).await?)))
}

/// What the selectors of a call match, or one page of it.
pub async fn listed(core: &Core, call: &Call) -> Result<Listed, Status> {
    list_options::check_list(&call.query)?;
    let limit = call.query.count("limit")?;
    let exact = match call.query.get("resourceVersionMatch") {
        // A bare version with a limit means exactly that version, for old clients.
        "" => limit.is_some() && wanted_version(call)?.is_some(),
        wanted => wanted == "Exact",
    };
    let (after, at) = match call.query.get("continue") {
        "" => {
            let version = wanted_version(call)?;
            if let Some(version) = version {
                wait_for(core, version).await?;
            }
            (None, version.filter(|_| exact))
        }
        token => {
            let position = continuation::parse(call.namespace.as_deref(), call.info().namespaced, token)?;
            if !matches!(call.query.get("resourceVersion"), "" | "0") {
                let why = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(why));
            }
            if let Some(version) = position.version {
                // Another server may have answered with the page before.
                wait_for(core, version).await?;
            }
            (Some(position.after), position.version)
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
        let page = core
            .page(kind, namespace, after.as_ref(), at, scan)
            .map_err(|_| expired(call, after.as_ref()))?;
        // Later looks see the version of the first one.
        (listed.version, at) = (page.version, Some(page.version));
        let last = page.objects.last().map(|object| object.key.clone());
        for (position, object) in page.objects.iter().enumerate() {
            if selector.matches(object, kind) {
                listed.objects.push(object.clone());
            }
            let rest = page.objects.len() - position - 1 + page.remaining;
            if listed.objects.len() == limit && rest > 0 {
                listed.continue_ = continuation::token(namespace, &object.key, Some(page.version));
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
fn wanted_version(call: &Call) -> Result<Option<u64>, Status> {
    let wrong = |why| Status::bad_request(format!("invalid resource version: {why}"));
    version(call).map_err(wrong)
}

/// The same for requests about one object. Upstream tells its clients of a wrong one as if it were its own fault.
pub fn version_of_one(call: &Call) -> Result<Option<u64>, Status> {
    version(call).map_err(Status::bare)
}

/// The same; the error is upstream's text.
fn version(call: &Call) -> Result<Option<u64>, String> {
    match call.query.get("resourceVersion") {
        "" => Ok(None),
        text => {
            let wrong = |error| {
                let text = quoted(text);
                let why = parse_fault(&error);
                format!("resourceVersion: Invalid value: {text}: strconv.ParseUint: parsing {text}: {why}")
            };
            text.parse::<u64>().map(|version| Some(version).filter(|version| *version > 0)).map_err(wrong)
        }
    }
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

/// The history that a list asks for is no longer kept. `after` is where its page begins.
fn expired(call: &Call, after: Option<&ObjectKey>) -> Status {
    match after.filter(|_| call.query.has("continue")) {
        None => Status::expired("The resourceVersion for the provided list is too old."),
        Some(after) => {
            let mut status = Status::expired(TOO_LATE);
            status.continue_ = continuation::token(call.namespace.as_deref(), after, None);
            status
        }
    }
}
