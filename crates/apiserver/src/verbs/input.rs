//! From a body to an object of the kind of the call.

use serde_json::Value;

use super::options::{FieldValidation, field_validation};
use super::{Call, ownership};
use crate::core::OBJECT_MAX;
use crate::custom::type_meta;
use crate::field::Invalid;
use crate::golang::json_type;
use crate::http::yaml;
use crate::json;
use crate::metadata;
use crate::protobuf;
use crate::schema::Schema;
use crate::status::Status;

const JSON: &str = "application/json";
/// What bodies of creates, updates and deletions may be.
const MEDIA_TYPES: [&str; 3] = [JSON, yaml::MEDIA_TYPE, protobuf::MEDIA_TYPE];

/// Where an object came from; what is said of its faults differs.
pub enum Source<'a> {
    Body,
    /// A JSON or merge patch; shown is what it made.
    Patch,
    /// A strategic merge patch, which cannot change what an object is and is itself shown.
    Strategic(&'a Value),
    Apply,
}

/// An object and what to warn of.
pub struct Input {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// What a strict reader would refuse, and how a lenient one warns of it.
#[derive(Default)]
pub struct Notes {
    pub strict: Vec<String>,
    pub warnings: Vec<String>,
}

impl Notes {
    /// Where both are the same.
    pub fn plain(notes: Vec<String>) -> Self {
        Self { strict: notes.clone(), warnings: notes }
    }
}

/// A body as it was written. The error is upstream's.
struct Written {
    value: Value,
    /// Fields that stand twice.
    duplicates: Vec<String>,
    notes: Notes,
}

/// The value of a body, whatever it is about.
pub fn parse(call: &Call) -> Result<Value, Status> {
    let info = call.info();
    Ok(written(call, (&info.api_version, &info.kind), Status::bad_request)?.value)
}

/// The same for options, which say what they are or are of this kind.
pub fn parse_options(call: &Call, kind: &str) -> Result<Value, Status> {
    let value = written(call, ("v1", kind), Status::bad_request)?.value;
    interpret(&value).map_err(Status::bad_request)?;
    Ok(value)
}

fn written(
    call: &Call,
    expected: (&str, &str),
    refused: impl Fn(String) -> Status,
) -> Result<Written, Status> {
    let is = |media: &str| call.content_type.eq_ignore_ascii_case(media);
    // Kinds that clients define have no binary form.
    let served = if call.kind.custom().is_some() { &MEDIA_TYPES[..2] } else { &MEDIA_TYPES[..] };
    if is(protobuf::MEDIA_TYPE) && served.contains(&protobuf::MEDIA_TYPE) {
        let envelope = protobuf::open(&call.body, expected).map_err(|error| refused(error.to_string()))?;
        let value = envelope.object().map_err(|error| {
            let (kind, version) = (&envelope.kind, version_of(&envelope.api_version));
            let wanted = &call.info().kind;
            Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {wanted}: {error}"
            ))
        })?;
        return Ok(Written { value, duplicates: Vec::new(), notes: Notes::default() });
    }
    if is(yaml::MEDIA_TYPE) {
        let document = yaml::read(&call.body).map_err(|error| refused(error.to_string()))?;
        let notes =
            Notes { strict: document.strict_error().into_iter().collect(), warnings: document.warnings() };
        return Ok(Written { value: document.value, duplicates: Vec::new(), notes });
    }
    // A client that names no type means JSON.
    if !is(JSON) && !call.content_type.is_empty() {
        return Err(Status::unsupported_media_type(served));
    }
    let reading = json::read(&call.body)
        .map_err(|why| refused(format!("couldn't get version/kind; json parse error: {why}")))?;
    let json::Reading { value, duplicates } = reading;
    Ok(Written { value, duplicates, notes: Notes::default() })
}

/// The object in the body of a create or update.
pub fn body(call: &Call) -> Result<Input, Status> {
    let unrecognized = |why: String| {
        let (kind, shown) = (&call.info().kind, summary(&call.body));
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
        ))
    };
    let info = call.info();
    let Written { mut value, duplicates, notes } =
        written(call, (&info.api_version, &info.kind), unrecognized)?;
    if call.kind.custom().is_some() {
        type_meta::check(call.info(), &call.body, &value)?;
    }
    interpret(&value).map_err(unrecognized)?;
    if let Some((kind, version, why)) = foreign(call, &value) {
        let expected = &call.info().kind;
        return Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {expected}: {why}"
        )));
    }
    complete(call, &mut value);
    finish(call, value, &Source::Body, |unknown| {
        // What clients define is read in two steps, so its unknown fields are not told in their order.
        let mut all = if call.kind.custom().is_some() {
            let mut notes = json::notes(&call.body, &[], &duplicates);
            notes.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
            Notes::plain(notes)
        } else {
            Notes::plain(json::notes(&call.body, unknown, &duplicates))
        };
        all.strict.splice(0..0, notes.strict);
        all.warnings.splice(0..0, notes.warnings);
        all
    })
}

/// The object that a patch made. `notes` are those of the patch itself.
pub fn decode(call: &Call, mut value: Value, source: &Source<'_>, notes: &[String]) -> Result<Input, Status> {
    if !matches!(source, Source::Strategic(_)) {
        interpret(&value).map_err(|why| refused(call, &value, source, why))?;
        if let Some((.., why)) = foreign(call, &value) {
            return Err(refused(call, &value, source, why));
        }
    }
    complete(call, &mut value);
    finish(call, value, source, |unknown| {
        let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
        Notes::plain(notes.iter().cloned().chain(unknown).collect())
    })
}

/// Checks types, drops unknown fields, sets defaults. `noted` makes notes of the paths of unknown fields.
fn finish(
    call: &Call,
    mut value: Value,
    source: &Source<'_>,
    noted: impl FnOnce(&[String]) -> Notes,
) -> Result<Input, Status> {
    // The rules of a kind do not look at it, so it goes beside unless there is something to say of it.
    let record = ownership::detach_whole(&mut value);
    let decoded = call.kind.decode(&value).map_err(|why| refused(call, &value, source, why))?;
    if decoded.oversized {
        return Err(Status::too_large(&format!(
            "limit is {OBJECT_MAX}, which the object exceeds with the defaults of its schema"
        )));
    }
    let notes = noted(&decoded.unknown);
    let mut warnings = match field_validation(&call.query).unwrap_or(FieldValidation::Warn) {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => notes.warnings,
        FieldValidation::Strict if notes.strict.is_empty() => Vec::new(),
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", notes.strict.join(", "));
            return Err(refused(call, &value, source, why));
        }
    };
    let mut object = decoded.object;
    ownership::attach(&mut object, record);
    let moment = match source {
        Source::Body => "",
        Source::Patch | Source::Strategic(_) | Source::Apply => " after mutating admission happens",
    };
    warnings.extend(metadata::fold_owners(&mut object, moment));
    Ok(Input { object, warnings })
}

/// The refusal of an object that is not one of its kind.
fn refused(call: &Call, value: &Value, source: &Source<'_>, why: String) -> Status {
    let info = call.info();
    let patch =
        |shown: String, why: String| Status::invalid("", "", "", &[Invalid::invalid("patch", shown, why)]);
    match source {
        Source::Body => Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}",
            kind = info.kind,
            version = info.version,
        )),
        Source::Patch => patch(value.to_string(), why),
        Source::Strategic(sent) => patch(crate::golang::plain(sent), converted(&why)),
        Source::Apply => {
            let shown = shown_kind(&info.api_version, &info.kind);
            let (namespace, name) = (metadata::text(value, "namespace"), metadata::name(value));
            let text = format!(
                "failed to convert new object ({namespace}/{name}; {shown}) to proper version: unable to convert unstructured object to {shown}: {}",
                converted(&why),
            );
            Status::bare(text)
        }
    }
}

/// What upstream's converter of unstructured objects says where its JSON decoder says something else.
fn converted(why: &str) -> String {
    if why.starts_with("illegal base64 data") {
        return format!("error decoding from json: {why}");
    }
    let Some(rest) = why.strip_prefix("json: cannot unmarshal ") else { return why.to_owned() };
    let Some((found, wanted)) = rest.split_once(" into ").zip(rest.rsplit_once(" of type ")) else {
        return why.to_owned();
    };
    let found = match found.0 {
        number if number.starts_with("number ") && number.contains('.') => "float64",
        number if number.starts_with("number") => "int64",
        "array" => "slice",
        "object" => "map",
        other => other,
    };
    match wanted.1 {
        list if list.starts_with("[]") => format!("cannot restore slice from {found}"),
        map if map.starts_with("map[") || map == "v1.ResourceList" => {
            format!("cannot restore map from {found}")
        }
        number @ ("int32" | "int64" | "float64" | "bool") if !found.ends_with("64") => {
            format!("unrecognized type: {number}")
        }
        structure if structure.contains('.') && matches!(found, "string" | "slice" | "map") => {
            format!("cannot restore struct from: {found}")
        }
        other => format!("cannot convert {found} to {other}"),
    }
}

/// The beginning of a body that makes no sense.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let (shown, more) = match body.get(..SHOWN) {
        Some(shown) if body.len() > SHOWN => (shown, " ..."),
        _ => (body, ""),
    };
    match shown.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + more,
    }
}

/// Whether a value says what it is at all, or nothing.
fn interpret(value: &Value) -> Result<(), String> {
    const HEAD: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let refused = |why: String| {
        Err(format!("couldn't get version/kind; json parse error: json: cannot unmarshal {why}"))
    };
    if !value.is_object() && !value.is_null() {
        return refused(format!("{} into Go value of type {HEAD}", json_type(value)));
    }
    for field in ["apiVersion", "kind"] {
        let given = &value[field];
        if !given.is_string() && !given.is_null() {
            return refused(format!("{} into Go struct field .{field} of type string", json_type(given)));
        }
    }
    let api_version = value["apiVersion"].as_str().unwrap_or_default();
    match api_version.matches('/').count() {
        0 | 1 => Ok(()),
        _ => Err(format!("unexpected GroupVersion string: {api_version}")),
    }
}

/// Kind and version of an object of another kind than that of the call, and why it will not do.
fn foreign(call: &Call, value: &Value) -> Option<(String, String, String)> {
    let info = call.info();
    foreign_to((&info.group, &info.api_version, &info.kind), value)
}

/// The same for an object that should be of this group, version and kind.
pub fn foreign_to(
    (group, expected_version, expected_kind): (&str, &str, &str),
    value: &Value,
) -> Option<(String, String, String)> {
    let text = |field: &str, default: &str| match value[field].as_str() {
        None | Some("") => default.to_owned(),
        Some(text) => text.to_owned(),
    };
    let (api_version, kind) = (text("apiVersion", expected_version), text("kind", expected_kind));
    if api_version == expected_version && kind == expected_kind {
        return None;
    }
    let version = version_of(&api_version).to_owned();
    let why = if Schema::get().kind(&api_version, &kind).is_some() {
        let package = match group.split('.').next() {
            None | Some("") => "core",
            Some(first) => first,
        };
        format!("converting ({version}.{kind}) to ({package}.{expected_kind}): unknown conversion")
    } else {
        format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )
    };
    Some((kind, version, why))
}

fn version_of(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or_default()
}

/// A client may leave out what the path says anyway.
fn complete(call: &Call, value: &mut Value) {
    if value.is_null() {
        *value = Value::Object(Default::default());
    }
    let Some(fields) = value.as_object_mut() else { return };
    fields.insert("apiVersion".into(), call.info().api_version.as_ref().into());
    fields.insert("kind".into(), call.info().kind.as_ref().into());
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Default::default()));
    if metadata.is_null() {
        *metadata = Value::Object(Default::default());
    }
}

/// The object is that of the path.
pub fn check_place(call: &Call, object: &Value) -> Result<(), Status> {
    let own = metadata::text(object, "namespace");
    if call.info().namespaced && !own.is_empty() && own != call.namespace.as_deref().unwrap_or_default() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let (name, expected) = (metadata::name(object), call.name());
    match name {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
        ))),
        name if name != expected => Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({expected})"
        ))),
        _ => Ok(()),
    }
}

/// The same for an object that may leave out where it is.
pub fn place(call: &Call, object: &mut Value) -> Result<(), Status> {
    check_place(call, object)?;
    metadata::set(object, "namespace", call.namespace.as_deref().map(Into::into));
    Ok(())
}

/// A patch may name the version it was made for.
pub fn check_version(call: &Call, object: &Value, old: &Value) -> Result<(), Status> {
    let same = metadata::text(object, "resourceVersion") == metadata::text(old, "resourceVersion");
    if !same && metadata::version(object)?.is_some() && !old.is_null() {
        return Err(Status::modified(call.info().resource(), call.name()));
    }
    Ok(())
}

/// A kind as upstream's errors show it, e.g. `apps/v1, Kind=Deployment`.
pub fn shown_kind(api_version: &str, kind: &str) -> String {
    let group = if api_version.contains('/') { "" } else { "/" };
    format!("{group}{api_version}, Kind={kind}")
}
