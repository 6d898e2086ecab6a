//! The SnapshotMetadata service: which parts of a snapshot hold data, and which differ from an earlier one.
//!
//! Answers are streams of stretches of any length (`VARIABLE_LENGTH`). The next message is only made when the
//! caller has taken the one before, so nothing piles up. The snapshots are shared meanwhile: they cannot be
//! deleted. A stream that ends without an error is complete; any other can be resumed at its last end.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use bowline_host::disk::Extent;
use bowline_proto::csi::v1::snapshot_metadata_server::SnapshotMetadata;
use bowline_proto::csi::v1::{self as csi, BlockMetadata, BlockMetadataType};
use futures::stream::{self, Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::driver::Driver;
use super::parse::snapshot as parse;
use super::snapshot;
use crate::error::{During, VolumeError};
use crate::inflight::Guard;

/// Stretches per message when the caller leaves it open.
const RESULTS_DEFAULT: usize = 256;
/// Most per message, whatever was asked.
const RESULTS_MAX: usize = 4_096;
/// Snapshots are compared in units of so many bytes.
const UNIT: u64 = 64 << 10;

pub struct MetadataService {
    pub driver: Arc<Driver>,
    /// Ends streams early, with an error.
    pub stop: CancellationToken,
}

type Result<T> = std::result::Result<T, VolumeError>;
type Stretches<T> = Pin<Box<dyn Stream<Item = std::result::Result<T, Status>> + Send>>;

/// One stream under way.
struct Reading {
    driver: Arc<Driver>,
    stop: CancellationToken,
    /// Compared with the image, or nothing.
    base: Option<PathBuf>,
    image: PathBuf,
    size: u64,
    /// Where the next message begins.
    from: u64,
    count: usize,
    _shared: Guard,
}

impl MetadataService {
    fn read(
        &self,
        base: Option<&str>,
        target: (&str, &'static str),
        offset: i64,
        max: i32,
    ) -> Result<Reading> {
        let pool = &self.driver.pool;
        let base = base.map(|base| parse::existing_snapshot(base, "base_snapshot_id")).transpose()?;
        let target = parse::existing_snapshot(target.0, target.1)?;
        let max = super::parse::page_size(max)?.unwrap_or(RESULTS_DEFAULT);
        let keys = std::iter::once(&target).chain(&base).map(|id| id.key()).collect();
        let shared = self.driver.work.share(keys)?;
        let record = snapshot::ready(&self.driver, &target)?;
        if let Some(base) = &base
            && snapshot::ready(&self.driver, base)?.volume != record.volume
        {
            let why = "is a snapshot of another volume than `target_snapshot_id`".into();
            return Err(VolumeError::Invalid { field: "base_snapshot_id", why });
        }
        // Where the last stretch ended may be the very end.
        let size = record.size;
        let from = u64::try_from(offset).ok().filter(|from| *from <= size);
        Ok(Reading {
            driver: self.driver.clone(),
            stop: self.stop.clone(),
            base: base.map(|base| pool.snapshot_image(&base)),
            image: pool.snapshot_image(&target),
            size,
            from: from.ok_or(VolumeError::PastEnd { offset, size })?,
            count: max.min(RESULTS_MAX),
            _shared: shared,
        })
    }
}

impl Reading {
    fn stream<T: 'static>(self, wrap: fn(i64, Vec<BlockMetadata>) -> T) -> Stretches<T> {
        let size = bytes(self.size);
        let messages = stream::try_unfold(self, |mut reading| async move {
            let found = reading.next().await?;
            Ok((!found.is_empty()).then_some((found, reading)))
        });
        Box::pin(messages.map(move |found| found.map(|found| wrap(size, found))))
    }

    async fn next(&mut self) -> std::result::Result<Vec<BlockMetadata>, Status> {
        let stop = self.stop.clone();
        let found = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(VolumeError::Stopping.into()),
            found = self.look() => found?,
        };
        let found: Vec<_> = found.into_iter().filter_map(|extent| self.inside(extent)).collect();
        self.from = found.last().map_or(self.size, |last| last.offset + last.length);
        let block = |extent: &Extent| BlockMetadata {
            byte_offset: bytes(extent.offset),
            size_bytes: bytes(extent.length),
        };
        Ok(found.iter().map(block).collect())
    }

    async fn look(&self) -> Result<Vec<Extent>> {
        let (disk, image) = (&self.driver.host.disk, &self.image);
        if self.from >= self.size {
            return Ok(Vec::new());
        }
        match &self.base {
            None => disk.extents(image, self.from, self.count).await.during("find data"),
            Some(base) => {
                let changed = disk.changed(base, image, UNIT, self.from, self.count).await;
                changed.during("compare snapshots")
            }
        }
    }

    /// The part within the snapshot: units go beyond its end.
    fn inside(&self, extent: Extent) -> Option<Extent> {
        let end = (extent.offset + extent.length).min(self.size);
        (extent.offset < end).then(|| Extent { length: end - extent.offset, ..extent })
    }
}

fn bytes(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[tonic::async_trait]
impl SnapshotMetadata for MetadataService {
    async fn get_metadata_allocated(
        &self,
        r: Request<csi::GetMetadataAllocatedRequest>,
    ) -> std::result::Result<Response<Stretches<csi::GetMetadataAllocatedResponse>>, Status> {
        let request = r.get_ref();
        let target = (request.snapshot_id.as_str(), "snapshot_id");
        let reading = self.read(None, target, request.starting_offset, request.max_results)?;
        let wrap = |volume_capacity_bytes, block_metadata| csi::GetMetadataAllocatedResponse {
            block_metadata_type: BlockMetadataType::VariableLength.into(),
            volume_capacity_bytes,
            block_metadata,
        };
        Ok(Response::new(reading.stream(wrap)))
    }

    async fn get_metadata_delta(
        &self,
        r: Request<csi::GetMetadataDeltaRequest>,
    ) -> std::result::Result<Response<Stretches<csi::GetMetadataDeltaResponse>>, Status> {
        let request = r.get_ref();
        let target = (request.target_snapshot_id.as_str(), "target_snapshot_id");
        let base = Some(request.base_snapshot_id.as_str());
        let reading = self.read(base, target, request.starting_offset, request.max_results)?;
        let wrap = |volume_capacity_bytes, block_metadata| csi::GetMetadataDeltaResponse {
            block_metadata_type: BlockMetadataType::VariableLength.into(),
            volume_capacity_bytes,
            block_metadata,
        };
        Ok(Response::new(reading.stream(wrap)))
    }
}
