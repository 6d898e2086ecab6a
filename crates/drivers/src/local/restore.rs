//! Volumes that begin with the bytes of a snapshot or of another volume.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};

use super::driver::Driver;
use super::moment::{self, Copy};
use super::parse::CreateVolume;
use super::plan::snapshot::Origin;
use super::record::{Contents, Phase, Source, VolumeRecord};
use super::snapshot;
use crate::error::{During, VolumeError};
use crate::id::VolumeId;

type Result<T> = std::result::Result<T, VolumeError>;

/// What the volume is to be made from. One that is made already needs its source no longer.
pub fn origin(driver: &Driver, want: &CreateVolume, have: Option<&VolumeRecord>) -> Result<Option<Origin>> {
    let made = have.is_some_and(|have| have.phase == Phase::Ready);
    match want.source.as_ref().filter(|_| !made) {
        None => Ok(None),
        Some(Source::Snapshot(id)) => Ok(Some(Origin::of_snapshot(&*snapshot::ready(driver, id)?))),
        Some(Source::Volume(id)) => Ok(Some(Origin::of_volume(&*driver.pool.ready(id)?))),
    }
}

/// Makes the image. The copy takes its place in one step, so a crash leaves none or all of it; only then is it
/// grown, and the filesystem in it when the volume is staged.
pub async fn make_image(driver: &Driver, id: &VolumeId, record: &VolumeRecord) -> Result<()> {
    let image = driver.pool.image(id);
    match (&record.source, record.contents) {
        (None, _) => {}
        // The bytes of an earlier try are not this volume's.
        (Some(_), Contents::Blank) => driver.host.disk.remove_file(&image).await.during("remove image")?,
        (Some(Source::Snapshot(source)), _) => {
            let from = driver.pool.snapshot_image(source);
            driver.host.disk.copy(&from, &image).await.during("copy image")?;
        }
        (Some(Source::Volume(source)), _) => {
            moment::copy(driver, &[Copy { volume: source.clone(), to: image }]).await?;
        }
    }
    driver.point("local.create-volume.before-grow");
    driver.pool.make_image(id, record.capacity).await
}

/// The source as it was asked for; callers compare.
pub fn content_source(source: &Source) -> csi::VolumeContentSource {
    let source = match source {
        Source::Snapshot(id) => Type::Snapshot(SnapshotSource { snapshot_id: id.to_string() }),
        Source::Volume(id) => Type::Volume(VolumeSource { volume_id: id.to_string() }),
    };
    csi::VolumeContentSource { r#type: Some(source) }
}
