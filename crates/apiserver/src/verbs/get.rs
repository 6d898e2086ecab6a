//! GET of one object.

use std::sync::Arc;

use http::StatusCode;

use super::{Call, Reply, list};
use crate::core::Core;
use crate::status::Status;

pub async fn run(core: &Arc<Core>, call: &Call) -> Result<Reply, Status> {
    if let Some(version) = list::wanted_version(call)? {
        list::wait_for(core, version).await?;
    }
    let object = core.object(call.kind.as_ref(), &call.key()).ok_or_else(|| call.not_found())?;
    Ok(Reply::object(StatusCode::OK, object.json.clone(), Vec::new()))
}
