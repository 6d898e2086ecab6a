//! GET of one object.

use std::sync::Arc;

use super::{Call, Outcome, Reply, list};
use crate::core::Core;
use crate::status::Status;

pub async fn run(core: &Arc<Core>, call: &Call) -> Result<Reply, Status> {
    if let Some(version) = list::version_of_one(call)? {
        list::wait_for(core, version).await?;
    }
    let object = core.object(call.kind.as_ref(), &call.key()).ok_or_else(|| call.not_found())?;
    Ok(Reply::plain(Outcome::Stored(object)))
}
