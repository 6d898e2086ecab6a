//! `/livez`, `/readyz` and their elder `/healthz`: one check each, or all of them.

use http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};

use crate::core::Core;
use crate::http::body::{Body, full};
use crate::http::query::Query;

/// What is looked at, by upstream's names, with what is wrong if anything is.
type Check = (&'static str, fn(&Core) -> Result<(), String>);

const PING: Check = ("ping", |_| Ok(()));
/// Reads go on without the disk, so a server that cannot write is alive, and not ready.
const STORE: Check = ("etcd", |core| core.store.trouble().map_or(Ok(()), Err));
const STORE_READINESS: Check = ("etcd-readiness", STORE.1);

/// All endpoints and their checks.
const ENDPOINTS: [(&str, &[Check]); 3] =
    [("healthz", &[PING, STORE]), ("livez", &[PING]), ("readyz", &[PING, STORE, STORE_READINESS])];

/// Every path below which something is served.
pub fn paths() -> impl Iterator<Item = String> {
    ENDPOINTS.into_iter().flat_map(|(endpoint, checks)| {
        let single = checks.iter().map(move |(name, _)| format!("/{endpoint}/{name}"));
        std::iter::once(format!("/{endpoint}")).chain(single)
    })
}

/// `None` if there is no such endpoint or check.
pub fn run(core: &Core, path: &[&str], query: &Query) -> Option<Response<Body>> {
    let (endpoint, rest) = path.split_first()?;
    let (endpoint, checks) = ENDPOINTS.into_iter().find(|(known, _)| known == endpoint)?;
    if rest.is_empty() {
        return Some(report(core, endpoint, checks, query));
    }
    let name = rest.join("/");
    let (_, check) = checks.iter().find(|(known, _)| *known == name)?;
    Some(match check(core) {
        Ok(()) => text(StatusCode::OK, "ok".into()),
        Err(why) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
    })
}

/// Why something failed stands in the log of the server, not in an answer to anybody.
fn report(core: &Core, endpoint: &str, checks: &[Check], query: &Query) -> Response<Body> {
    let excluded = query.all("exclude");
    let (mut lines, mut failed) = (String::new(), Vec::new());
    for (name, check) in checks {
        let outcome = if excluded.contains(name) { "excluded: ok" } else { "ok" };
        match check(core) {
            Err(why) if outcome == "ok" => {
                tracing::warn!(check = name, %why, "{endpoint} check failed");
                lines.push_str(&format!("[-]{name} failed: reason withheld\n"));
                failed.push(*name);
            }
            _ => lines.push_str(&format!("[+]{name} {outcome}\n")),
        }
    }
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|name| checks.iter().all(|(known, _)| known != *name))
        .map(|n| format!("{n:?}"))
        .collect();
    if !unknown.is_empty() {
        let names = unknown.join(",");
        lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
    }
    if !failed.is_empty() {
        return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{endpoint} check failed\n"));
    }
    let whole = query.has("verbose");
    text(StatusCode::OK, if whole { format!("{lines}{endpoint} check passed\n") } else { "ok".into() })
}

fn text(code: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
