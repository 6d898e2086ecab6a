//! Inline ephemeral volumes on the real kernel, and a driver that is killed at any step of them.

use std::fs;

use bowline_proto::csi::v1 as csi;

use crate::crash::Process;
use crate::journey::{Answer, Scratch, serve};
use crate::volume::{Volume, tool};

/// More failpoints than a publish and an unpublish have.
const HITS_MAX: u64 = 200;

async fn publish(volume: &Volume) -> Answer {
    let mut context = volume.parameters.clone();
    context.insert("csi.storage.k8s.io/ephemeral".into(), "true".into());
    let request = csi::NodePublishVolumeRequest {
        staging_target_path: String::new(),
        volume_context: context,
        ..volume.publish_request()
    };
    volume.node().node_publish_volume(request).await.map(drop)
}

/// Goal: one call makes a mounted filesystem of the size asked for, one call leaves nothing of it.
#[tokio::test]
async fn made_and_gone() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let scratch = Scratch::new();
        let (_running, stop) = serve(&scratch).await;
        let volume = Volume::new(&scratch, "csi-0123", "").set("fsType", fs_type).set("size", "320Mi");
        publish(&volume).await.unwrap();
        fs::write(volume.target.join("file"), "data").unwrap();
        publish(&volume).await.expect("repeated");
        assert_eq!(fs::read(volume.target.join("file")).unwrap(), b"data", "{fs_type}");
        assert_eq!(fs::metadata(&volume.image).unwrap().len(), 320 << 20);
        assert_eq!(
            tool("stat", &["-f", "-c", "%T", volume.target.to_str().unwrap()]).trim(),
            kernel_name(fs_type)
        );
        for _ in 0..2 {
            volume.unpublish().await.unwrap();
            scratch.assert_clean();
        }
        stop.cancel();
    }
}

fn kernel_name(fs_type: &str) -> &str {
    if fs_type == "ext4" { "ext2/ext3" } else { fs_type }
}

/// Publishes and unpublishes with a driver that dies at the n-th failpoint. Returns whether it died.
async fn survives(hit: u64) -> bool {
    let scratch = Scratch::new();
    let mut process = Process::start(&scratch, &hit.to_string()).await;
    let volume = Volume::new(&scratch, "csi-0123", "ext4");
    let mut died = false;
    for publishes in [true, false] {
        let call = async || if publishes { publish(&volume).await } else { volume.unpublish().await };
        if let Err(status) = call().await {
            assert!(!died && process.is_dead(), "hit {hit}: publish {publishes}: {status}");
            died = true;
            process = Process::start(&scratch, "off").await;
            call().await.unwrap_or_else(|status| panic!("hit {hit}: publish {publishes} again: {status}"));
        }
        assert_eq!(volume.target.exists(), publishes, "hit {hit}");
    }
    scratch.assert_clean();
    died
}

/// Goal: wherever the process is killed, repeating the call completes it and nothing leaks.
#[tokio::test]
async fn a_crash_at_any_failpoint() {
    let mut hit = 1;
    while survives(hit).await {
        hit += 1;
        assert!(hit < HITS_MAX);
    }
    println!("{} failpoints hit", hit - 1);
    assert!(hit > 20, "publish and unpublish have more failpoints than {hit}");
}
