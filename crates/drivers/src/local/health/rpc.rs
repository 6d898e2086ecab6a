//! Findings as callers read them: conditions of CSI 1.12, health of CSI 1.13.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::node_get_storage_health_response::StorageBackendHealth;
use bowline_proto::csi::v1::volume_health::VolumeHealthEntry;

use super::judge::Finding;
use super::{Result, of, storage};
use crate::calls::about;
use crate::id::VolumeId;
use crate::local::driver::Driver;
use crate::local::list::PAGE_MAX;
use crate::local::parse;

/// What CSI 1.12 has: one flag, and a sentence for people, which it requires even when all is well.
pub fn condition(findings: &[Finding]) -> csi::VolumeCondition {
    let messages: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
    match messages.is_empty() {
        true => csi::VolumeCondition { abnormal: false, message: "no problem is known".into() },
        false => csi::VolumeCondition { abnormal: true, message: messages.join("; ") },
    }
}

pub async fn of_volume(
    driver: &Driver,
    request: &csi::ControllerGetVolumeHealthRequest,
) -> Result<csi::ControllerGetVolumeHealthResponse> {
    let id = parse::existing(&request.volume_id)?;
    driver.pool.ready(&id)?;
    Ok(csi::ControllerGetVolumeHealthResponse { volume_health: Some(looked_at(driver, &id).await?) })
}

/// Controller and node are one machine here, so both see the same.
pub async fn of_node(
    driver: &Driver,
    request: &csi::NodeGetVolumeHealthRequest,
) -> Result<csi::NodeGetVolumeHealthResponse> {
    let id = parse::node_volume_health(request)?;
    Ok(csi::NodeGetVolumeHealthResponse { volume_health: Some(looked_at(driver, &id).await?) })
}

/// Volumes that something is wrong with, as the last looks found them.
pub fn list(
    driver: &Driver,
    request: &csi::ControllerListVolumeHealthRequest,
) -> Result<csi::ControllerListVolumeHealthResponse> {
    let count = parse::page_size(request.max_entries)?.map_or(PAGE_MAX, |count| count.min(PAGE_MAX));
    let last = parse::page_token(&request.starting_token)?;
    let (page, more) = driver.health.page(last.as_ref(), count);
    let next = page.last().filter(|_| more).map(|(id, _)| parse::format_page_token(id));
    Ok(csi::ControllerListVolumeHealthResponse {
        entries: page.iter().map(|(id, findings)| health(id, findings)).collect(),
        next_token: next.unwrap_or_default(),
    })
}

pub async fn of_storage(driver: &Driver) -> csi::NodeGetStorageHealthResponse {
    let backend = |found: storage::StorageFinding| StorageBackendHealth {
        status: found.status.into(),
        reason: found.reason.into(),
        message: found.message,
        volume_capability: None,
    };
    let backend_health = storage::of(driver).await.into_iter().map(backend).collect();
    csi::NodeGetStorageHealthResponse { backend_health }
}

async fn looked_at(driver: &Driver, id: &VolumeId) -> Result<csi::VolumeHealth> {
    about(&id.key());
    Ok(health(id, &of(driver, id).await?))
}

fn health(id: &VolumeId, findings: &[Finding]) -> csi::VolumeHealth {
    let entry = |finding: &Finding| VolumeHealthEntry {
        status: finding.status.into(),
        reason: finding.reason.into(),
        message: finding.message.clone(),
    };
    csi::VolumeHealth { volume_id: id.to_string(), health_statuses: findings.iter().map(entry).collect() }
}
