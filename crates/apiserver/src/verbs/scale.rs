//! `x/scale`: how many of something there are to be, whatever its kind.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::input::{self, Input};
use super::precondition::check_uid;
use super::update::change;
use super::{Call, Outcome, Reply, list, other};
use crate::core::Core;
use crate::field::Invalid;
use crate::kinds::check;
use crate::kinds::check::selectors;
use crate::patch;
use crate::registry::{Part, Scale, Text};
use crate::status::Status;

const API_VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";
/// What a patch sees, and may not leave, of replicas that nobody set.
const UNSET: i64 = i32::MIN as i64;

pub async fn run(core: &Arc<Core>, method: &Method, call: &Call) -> Result<Reply, Status> {
    let Some(paths) = &call.info().scale else { return Err(Status::no_such_resource()) };
    match *method {
        Method::GET => {
            if let Some(version) = list::version_of_one(call)? {
                list::wait_for(core, version).await?;
            }
            let object = core.object(call.kind.as_ref(), &call.key()).ok_or_else(|| call.not_found())?;
            let object = object.value();
            if is_unset(call, paths, &object) {
                let field = shown(paths);
                return Err(Status::internal(format!("the spec replicas field {field:?} does not exist")));
            }
            Ok(answer(paths, &object, Vec::new()))
        }
        Method::PUT => replace(core, call, paths).await,
        Method::PATCH => patched(core, call, paths).await,
        _ => Err(Status::method_not_allowed()),
    }
}

async fn replace(core: &Core, call: &Call, paths: &Scale) -> Result<Reply, Status> {
    let body = input::parse(call)?;
    // Upstream first looks for the name, whatever else is wrong.
    input::check_place(call, &body)?;
    let Input { object: scale, warnings } = other::decode(call, body, API_VERSION, KIND)?;
    let json = change(core, call, Part::Main, |old| {
        check_uid(call, &scale, old)?;
        input::check_version(call, &scale, old)?;
        scaled(call, paths, old, &scale)
    })
    .await?;
    changed(paths, &json, warnings)
}

async fn patched(core: &Core, call: &Call, paths: &Scale) -> Result<Reply, Status> {
    let patch = patch::read(&call.content_type, &call.body)?.patch;
    let mut warnings = Vec::new();
    let json = change(core, call, Part::Main, |old| {
        let mut before = scale_of(paths, old);
        if is_unset(call, paths, old) {
            before["spec"]["replicas"] = UNSET.into();
        }
        let patched = patch.apply(&before)?;
        let scale = other::decode(call, patched, API_VERSION, KIND)?;
        input::check_version(call, &scale.object, old)?;
        warnings = scale.warnings;
        scaled(call, paths, old, &scale.object)
    })
    .await?;
    changed(paths, &json, warnings)
}

fn changed(paths: &Scale, json: &Bytes, warnings: Vec<String>) -> Result<Reply, Status> {
    let object: Value = serde_json::from_slice(json).map_err(Status::internal)?;
    Ok(answer(paths, &object, warnings))
}

fn answer(paths: &Scale, object: &Value, warnings: Vec<String>) -> Reply {
    let json = scale_of(paths, object).to_string().into();
    Reply { outcome: Outcome::Other { code: StatusCode::OK, json }, warnings }
}

/// Whether an object does not say how many; kinds of this build have a number of their own then.
fn is_unset(call: &Call, paths: &Scale, object: &Value) -> bool {
    call.kind.custom().is_some() && at(object, &paths.spec_replicas).is_null()
}

/// Where the replicas stand, as a definition writes it.
fn shown(paths: &Scale) -> String {
    format!(".{}", paths.spec_replicas.join("."))
}

/// The object with the replicas of a scale.
fn scaled(call: &Call, paths: &Scale, old: &Value, scale: &Value) -> Result<Value, Status> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if call.kind.custom().is_some() && replicas == UNSET {
        let field = shown(paths);
        return Err(Status::bad_request(format!("the spec replicas field {field:?} cannot be empty")));
    }
    if let Some(error) = check::non_negative("spec.replicas", replicas) {
        return Err(Status::invalid("autoscaling", KIND, call.name(), &[error]));
    }
    let mut new = old.clone();
    let place = paths.spec_replicas.iter().try_fold(&mut new, |value, name| {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        value.as_object_mut().map(|fields| fields.entry(name.as_ref()).or_insert(Value::Null))
    });
    match place {
        Some(place) => *place = replicas.into(),
        None => {
            let field = paths.spec_replicas.join(".");
            let why = Invalid::invalid(field, Value::Null, "must be a field of an object");
            return Err(Status::invalid(&call.info().group, &call.info().kind, call.name(), &[why]));
        }
    }
    Ok(new)
}

fn scale_of(paths: &Scale, object: &Value) -> Value {
    let count = |path: &[Text]| at(object, path).as_i64().unwrap_or(0);
    let mut meta = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        let value = &object["metadata"][field];
        if !value.is_null() {
            meta.insert(field.into(), value.clone());
        }
    }
    let mut spec = json!({});
    if count(&paths.spec_replicas) != 0 {
        spec["replicas"] = count(&paths.spec_replicas).into();
    }
    let mut status = json!({"replicas": count(&paths.status_replicas)});
    let selector = paths.selector.as_deref().map(|path| selector_text(at(object, path))).unwrap_or_default();
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({"kind": KIND, "apiVersion": API_VERSION, "metadata": meta, "spec": spec, "status": status})
}

fn at<'a>(object: &'a Value, path: &[Text]) -> &'a Value {
    path.iter().fold(object, |value, name| &value[name.as_ref()])
}

/// Selectors come as text, as LabelSelector objects and, the oldest, as plain maps.
fn selector_text(selector: &Value) -> String {
    match selector {
        Value::String(text) => text.clone(),
        Value::Object(map) if map.values().all(Value::is_string) => {
            let pairs =
                map.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
            pairs.collect::<Vec<_>>().join(",")
        }
        other => serde_json::from_value(other.clone())
            .map(|selector| selectors::text(&selector))
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_in_three_notations() {
        let table = [
            (json!("a=b"), "a=b"),
            (json!({"b": "c", "a": "b"}), "a=b,b=c"),
            (
                json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["y", "x"]}]}),
                "a=b,c in (x,y)",
            ),
            (
                json!({"matchExpressions": [{"key": "c", "operator": "DoesNotExist"}, {"key": "b", "operator": "Exists"}]}),
                "b,!c",
            ),
            (json!({}), ""),
            (Value::Null, ""),
        ];
        for (selector, want) in table {
            assert_eq!(selector_text(&selector), want);
        }
    }
}
