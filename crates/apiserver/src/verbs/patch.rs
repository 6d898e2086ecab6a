//! PATCH: three kinds of patch, one way of writing.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::input::{self, Input, Source};
use super::options::{self, Verb};
use super::update::change;
use super::{Call, Reply, apply};
use crate::core::Core;
use crate::patch::{self, APPLY, MEDIA_TYPES, Patch, STRATEGIC, Sent};
use crate::registry::Part;
use crate::status::Status;

pub async fn run(core: &Arc<Core>, call: &Call, part: Part) -> Result<Reply, Status> {
    let custom = call.kind.custom().is_some();
    if custom && call.content_type == STRATEGIC {
        let accepted: Vec<&str> = MEDIA_TYPES.into_iter().filter(|media| *media != STRATEGIC).collect();
        return Err(Status::unsupported_media_type(&accepted));
    }
    if !MEDIA_TYPES.contains(&call.content_type.as_str()) {
        return Err(Status::unsupported_patch());
    }
    options::check(call, Verb::Patch)?;
    if call.content_type == APPLY {
        return apply::run(core, call, part).await;
    }
    let sent = patch::read(&call.content_type, &call.body)?;
    patched(core, call, part, &sent).await
}

async fn patched(core: &Core, call: &Call, part: Part, sent: &Sent) -> Result<Reply, Status> {
    let mut warnings = Vec::new();
    let source = match &sent.patch {
        Patch::Strategic(patch) => Source::Strategic(patch),
        Patch::Json(_) | Patch::Merge(_) => Source::Patch,
    };
    let make = |old: &Value| {
        let patched = sent.patch.apply(old)?;
        let mut input: Input = input::decode(call, patched, &source, &sent.notes)?;
        input::place(call, &mut input.object)?;
        input::check_version(call, &input.object, old)?;
        warnings = input.warnings;
        warnings.extend(call.kind.warnings(&input.object, Some((old, part))));
        Ok(input.object)
    };
    let json = change(core, call, part, make).await;
    let json = json.map_err(|status| call.warned(status, &warnings))?;
    Ok(Reply::object(StatusCode::OK, json, warnings))
}
