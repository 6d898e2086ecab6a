//! DeleteOptions: from the body or from the query, never from both, as upstream has it.

use serde_json::Value;

use crate::field::{Invalid, Reason};
use crate::http::query::Query;
use crate::status::Status;
use crate::verbs::Call;

const KIND: &str = "DeleteOptions";
const GROUP: &str = "meta.k8s.io";
const DRY_RUN: &str = "All";

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They go first.
    Foreground,
    /// They go afterwards.
    Background,
    /// They stay and lose their reference.
    Orphan,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Options {
    /// Not negative: a negative request means one second.
    pub grace_period_seconds: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub propagation: Option<Propagation>,
    pub dry_run: bool,
}

/// The options as the client wrote them.
#[derive(Debug, Default)]
struct Written {
    grace_period_seconds: Option<i64>,
    uid: Option<String>,
    resource_version: Option<String>,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    dry_run: Vec<String>,
}

/// A body, even an empty object, makes the query count for nothing.
pub fn parse(call: &Call) -> Result<Options, Status> {
    if call.body.is_empty() {
        return checked(from_query(&call.query)?);
    }
    if !matches!(call.content_type.as_str(), "" | "application/json") {
        return Err(Status::unsupported_media_type(&["application/json"]));
    }
    let body: Value = serde_json::from_slice(&call.body).map_err(|error| {
        Status::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
    })?;
    checked(from_body(&body)?)
}

fn from_query(query: &Query) -> Result<Written, Status> {
    let present = |name: &str| query.has(name).then(|| query.get(name).to_owned());
    let grace_period_seconds = match present("gracePeriodSeconds") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
        })?),
    };
    Ok(Written {
        grace_period_seconds,
        orphan_dependents: query.has("orphanDependents").then(|| query.flag("orphanDependents")),
        propagation_policy: present("propagationPolicy"),
        dry_run: query.all("dryRun").into_iter().map(str::to_owned).collect(),
        ..Written::default()
    })
}

fn from_body(body: &Value) -> Result<Written, Status> {
    if !body.is_object() && !body.is_null() {
        return Err(mismatch("", body, "DeleteOptions"));
    }
    check_kind(body)?;
    let preconditions = &body["preconditions"];
    if !preconditions.is_object() && !preconditions.is_null() {
        return Err(mismatch("DeleteOptions.preconditions", preconditions, "v1.Preconditions"));
    }
    let text = |value: &Value, field: &str, type_: &str| match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        other => Err(mismatch(field, other, type_)),
    };
    let dry_run = match &body["dryRun"] {
        Value::Null => Vec::new(),
        Value::Array(all) => {
            let texts = all.iter().map(|one| text(one, "DeleteOptions.dryRun", "string"));
            texts.map(|one| one.map(Option::unwrap_or_default)).collect::<Result<_, _>>()?
        }
        other => return Err(mismatch("DeleteOptions.dryRun", other, "[]string")),
    };
    Ok(Written {
        grace_period_seconds: match &body["gracePeriodSeconds"] {
            Value::Null => None,
            value => Some(
                value.as_i64().ok_or_else(|| mismatch("DeleteOptions.gracePeriodSeconds", value, "int64"))?,
            ),
        },
        uid: text(&preconditions["uid"], "Preconditions.preconditions.uid", "types.UID")?,
        resource_version: text(
            &preconditions["resourceVersion"],
            "Preconditions.preconditions.resourceVersion",
            "string",
        )?,
        orphan_dependents: match &body["orphanDependents"] {
            Value::Null => None,
            Value::Bool(value) => Some(*value),
            other => return Err(mismatch("DeleteOptions.orphanDependents", other, "bool")),
        },
        propagation_policy: text(
            &body["propagationPolicy"],
            "DeleteOptions.propagationPolicy",
            "v1.DeletionPropagation",
        )?,
        dry_run,
    })
}

/// Options belong to every group, so only the kind has to be right.
fn check_kind(body: &Value) -> Result<(), Status> {
    let kind = body["kind"].as_str().unwrap_or_default();
    if matches!(kind, "" | KIND) {
        return Ok(());
    }
    let version = body["apiVersion"].as_str().filter(|version| !version.is_empty());
    Err(Status::bad_request(format!(
        "no kind {kind:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
        version.unwrap_or("meta.k8s.io/v1")
    )))
}

/// A value of the wrong type, in the words of upstream's decoder.
fn mismatch(field: &str, value: &Value, type_: &str) -> Status {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        // A number that could be one but does not fit is named.
        Value::Number(number) if type_ == "int64" => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    let place = if field.is_empty() { "Go value".to_owned() } else { format!("Go struct field {field}") };
    Status::bad_request(format!("json: cannot unmarshal {found} into {place} of type {type_}"))
}

fn checked(written: Written) -> Result<Options, Status> {
    const POLICY: &str = "propagationPolicy";
    let mut errors = Vec::new();
    let policy = written.propagation_policy.as_deref();
    if let (Some(policy), Some(_)) = (policy, written.orphan_dependents) {
        const BOTH: &str = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(Invalid::invalid(POLICY, policy, BOTH));
    }
    let named = match policy {
        None => None,
        Some("Foreground") => Some(Propagation::Foreground),
        Some("Background") => Some(Propagation::Background),
        Some("Orphan") => Some(Propagation::Orphan),
        Some(other) => {
            // Upstream lists these unsorted.
            const KNOWN: &str = r#"supported values: "Foreground", "Background", "Orphan", "nil""#;
            errors.push(unsupported(POLICY, other.into(), KNOWN));
            None
        }
    };
    if written.dry_run.iter().any(|value| value != DRY_RUN) {
        errors.push(unsupported("dryRun", written.dry_run.clone().into(), r#"supported values: "All""#));
    }
    if !errors.is_empty() {
        return Err(Status::invalid(GROUP, KIND, "", &errors));
    }
    let legacy = written.orphan_dependents.map(|orphan| match orphan {
        true => Propagation::Orphan,
        false => Propagation::Background,
    });
    Ok(Options {
        grace_period_seconds: written
            .grace_period_seconds
            .map(|seconds| if seconds < 0 { 1 } else { seconds }),
        uid: written.uid,
        resource_version: written.resource_version,
        propagation: named.or(legacy),
        dry_run: !written.dry_run.is_empty(),
    })
}

fn unsupported(field: &str, value: Value, detail: &str) -> Invalid {
    Invalid { reason: Reason::NotSupported, field: field.into(), value: Some(value), detail: detail.into() }
}
