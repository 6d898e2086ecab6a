//! ControllerPublishVolume and ControllerUnpublishVolume: which node has the volume.

use std::collections::BTreeMap;

use super::NAME;
use super::driver::Driver;
use super::parse::PublishVolume;
use super::plan::{self, Publish};
use crate::error::VolumeError;
use crate::id::VolumeId;

/// Gives the volume to one node and says so durably. The context is the same in every answer.
pub async fn publish(driver: &Driver, want: PublishVolume) -> Result<BTreeMap<String, String>, VolumeError> {
    let have = driver.pool.ready(&want.id)?;
    let Some(node) = driver.config.find(&want.node) else {
        return Err(VolumeError::UnknownNode { node: want.node });
    };
    let context = BTreeMap::from([(format!("{NAME}/volume"), want.id.to_string())]);
    let Publish::Record(attachment) = plan::publish(&want, &have, node)? else { return Ok(context) };

    // Two volumes at once would both see the last free place.
    let _counting = driver.attaching.lock().await;
    let limit = driver.config.max_volumes;
    if limit > 0 && driver.pool.published_to(&want.node) >= limit as usize {
        return Err(VolumeError::AttachLimit { node: want.node, limit });
    }
    driver.point("local.controller-publish.before-record");
    let mut record = (*have).clone();
    record.published.insert(want.node, attachment);
    driver.pool.volumes.put(&want.id, record).await?;
    driver.point("local.controller-publish.after-record");
    Ok(context)
}

/// Takes the volume from a node; an empty `node` means whichever has it. Not published there is done.
pub async fn unpublish(driver: &Driver, id: &VolumeId, node: &str) -> Result<(), VolumeError> {
    let Some(have) = driver.pool.volumes.get(id) else { return Ok(()) };
    let mut record = (*have).clone();
    record.published.retain(|holder, _| !node.is_empty() && holder != node);
    if record.published == have.published {
        return Ok(());
    }
    driver.point("local.controller-unpublish.before-record");
    driver.pool.volumes.put(id, record).await?;
    driver.point("local.controller-unpublish.after-record");
    Ok(())
}
