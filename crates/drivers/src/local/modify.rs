//! ControllerModifyVolume: settings of a volume that already exists.

use bowline_proto::csi::v1 as csi;

use super::driver::Driver;
use super::record::VolumeRecord;
use super::settings::Settings;
use super::{fit, parse};
use crate::error::VolumeError;
use crate::id::VolumeId;

#[derive(Debug)]
pub struct ModifyVolume {
    pub id: VolumeId,
    pub settings: Settings,
}

impl ModifyVolume {
    pub fn parse(request: &csi::ControllerModifyVolumeRequest) -> Result<Self, VolumeError> {
        parse::volume_id(&request.volume_id)?;
        let settings = Settings::parse("mutable_parameters", &request.mutable_parameters)?;
        Ok(Self { id: parse::existing(&request.volume_id)?, settings })
    }
}

/// Records the settings, then applies them if the volume is attached.
///
/// # Crash safety
/// Dying in between leaves a record that is applied by the repeated call, by the next start, and by the next staging.
/// For the same reason an error while applying is never the caller's fault: the settings are valid and stay recorded.
///
/// Discards that were off cannot pass again before the next attachment, says the kernel; the caller is told so.
pub async fn modify(driver: &Driver, want: ModifyVolume) -> Result<(), VolumeError> {
    let have = driver.pool.ready(&want.id)?;
    let record = VolumeRecord { mutable: want.settings.over(have.mutable), ..(*have).clone() };
    if record != *have {
        driver.point("local.controller-modify.before-record");
        driver.pool.volumes.put(&want.id, record).await?;
        driver.point("local.controller-modify.after-record");
    }
    match fit::attached(driver, &want.id).await? {
        Some(device) => fit::queue(driver, &want.id, want.settings.queue(), &device).await,
        None => Ok(()),
    }
}
