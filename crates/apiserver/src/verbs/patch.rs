//! PATCH: three kinds of patch, one way of writing.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::input::{self, Input, Source};
use super::options::{self, Verb};
use super::update::change;
use super::{Call, Reply, apply};
use crate::core::Core;
use crate::patch::{APPLY, MEDIA_TYPES, Patch};
use crate::registry::Part;
use crate::status::Status;

pub async fn run(core: &Arc<Core>, call: &Call, part: Part) -> Result<Reply, Status> {
    let unsupported = || Status::unsupported_media_type(&MEDIA_TYPES);
    if !MEDIA_TYPES.contains(&call.content_type.as_str()) {
        return Err(unsupported());
    }
    options::check(call, Verb::Patch)?;
    if call.content_type == APPLY {
        return apply::run(core, call, part).await;
    }
    let body = crate::http::body::parse(&call.body)?;
    let patch = Patch::new(&call.content_type, body).ok_or_else(unsupported)?;
    patched(core, call, part, &patch).await
}

async fn patched(core: &Core, call: &Call, part: Part, patch: &Patch) -> Result<Reply, Status> {
    let mut warnings = Vec::new();
    let make = |old: &Value| {
        let patched = patch.apply(old)?;
        let input: Input = input::decode(call, patched, Source::Patch)?;
        input::check_place(call, &input.object)?;
        input::check_version(call, &input.object, old)?;
        warnings = input.warnings;
        Ok(input.object)
    };
    let json = change(core, call, part, None, make).await?;
    Ok(Reply::object(StatusCode::OK, json, warnings))
}
