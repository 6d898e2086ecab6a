//! Figures of a volume beside those that the real kernel gives.

use std::fs;
use std::path::{Path, PathBuf};

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessType, BlockVolume};
use bowline_proto::csi::v1::volume_usage::Unit;
use tonic::{Code, Status};

use crate::filesystem;
use crate::journey::{Caller, Scratch, VOLUME, serve, text};
use crate::sizes::{MIB, end, expand, pattern, run, statfs};

async fn stats(caller: &Caller, path: &Path) -> Result<Vec<csi::VolumeUsage>, Status> {
    let request = csi::NodeGetVolumeStatsRequest {
        volume_id: VOLUME.into(),
        volume_path: text(path),
        ..Default::default()
    };
    Ok(caller.node().node_get_volume_stats(request).await?.into_inner().usage)
}

#[tokio::test]
async fn figures_are_those_of_the_filesystem() {
    for fs_type in ["ext4", "xfs"] {
        let scratch = Scratch::new();
        let (_running, stop) = serve(&scratch).await;
        let caller = Caller::new(&scratch, filesystem(fs_type), Mode::SingleNodeWriter);
        caller.create().await.unwrap();
        caller.set_up().await.unwrap();
        fs::write(caller.target.join("data"), pattern(8 << 20, 4)).unwrap();
        run("sync", &["-f", &text(&caller.target)]);
        for path in [&caller.target, &caller.staging] {
            let usage = stats(&caller, path).await.unwrap();
            let inodes = run("stat", &["-f", "-c", "%c %d", &text(path)]);
            let bytes = &usage[0];
            assert_eq!((bytes.total, bytes.available), statfs(path), "{fs_type}");
            assert!(bytes.used >= 8 * MIB && bytes.unit() == Unit::Bytes, "{fs_type}: {bytes:?}");
            assert_eq!(format!("{} {}", usage[1].total, usage[1].available), inodes, "{fs_type}");
            assert_eq!(usage[1].unit(), Unit::Inodes, "{fs_type}");
        }
        for path in [scratch.path("pods"), caller.target.join("data"), PathBuf::from("some/path")] {
            let refused = stats(&caller, &path).await.unwrap_err();
            assert_eq!(refused.code(), Code::NotFound, "{fs_type}: {}", path.display());
        }
        end(&scratch, &caller).await;
        stop.cancel();
    }
}

#[tokio::test]
async fn figures_of_a_device_are_its_size() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let caller = Caller::new(&scratch, AccessType::Block(BlockVolume {}), Mode::SingleNodeWriter);
    caller.create().await.unwrap();
    caller.set_up().await.unwrap();
    for size in [64 * MIB, 70 * MIB] {
        expand(&caller, size).await.unwrap();
        let usage = stats(&caller, &caller.target).await.unwrap();
        assert_eq!((usage.len(), usage[0].total, usage[0].used), (1, size, 0));
    }
    end(&scratch, &caller).await;
    stop.cancel();
}
