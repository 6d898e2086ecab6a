//! A volume that belongs to a group.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use tonic::Code;

use crate::journey::{Scratch, serve};
use crate::volume::Volume;

const GROUP: u32 = 4321;

/// Group and mode, of a link itself.
fn access(path: &Path) -> (u32, u32) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.gid(), metadata.mode() & 0o7777)
}

/// Goal: whoever has the group can write what the owner can, now and later; nothing outside is touched.
#[tokio::test]
async fn everything_inside_and_nothing_outside() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let scratch = Scratch::new();
        let (_running, stop) = serve(&scratch).await;
        let mut volume = Volume::new(&scratch, "v", fs_type);
        volume.create().await.unwrap();
        volume.up().await.unwrap();
        let outside = scratch.path("outside");
        fs::write(&outside, "somebody else's").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o600)).unwrap();
        let inside = volume.target.join("dir/file");
        fs::create_dir(volume.target.join("dir")).unwrap();
        fs::write(&inside, "root's").unwrap();
        fs::set_permissions(&inside, Permissions::from_mode(0o600)).unwrap();
        symlink(&outside, volume.target.join("dir/link")).unwrap();
        volume.down().await.unwrap();

        volume.mount.volume_mount_group = GROUP.to_string();
        volume.up().await.unwrap();
        volume.up().await.expect("repeated");
        assert_eq!(access(&inside), (GROUP, 0o660), "{fs_type}");
        let (group, mode) = access(&volume.target.join("dir"));
        assert_eq!((group, mode & 0o2070), (GROUP, 0o2070), "{fs_type}");
        assert_eq!(access(&volume.target.join("dir/link")).0, GROUP, "{fs_type}: the link itself");
        assert_eq!(access(&outside), (0, 0o600), "{fs_type}: what it leads to");
        fs::write(volume.target.join("dir/new"), "later").unwrap();
        assert_eq!(access(&volume.target.join("dir/new")).0, GROUP, "{fs_type}: inherited");

        volume.mount.volume_mount_group = (GROUP + 1).to_string();
        assert_eq!(volume.stage().await.unwrap_err().code(), Code::AlreadyExists, "{fs_type}");
        volume.target = scratch.path("pods").join("second");
        volume.publish().await.expect("a target of its own");
        assert_eq!(access(&volume.target.join("dir/file")).0, GROUP + 1, "{fs_type}");
        volume.unpublish().await.unwrap();
        volume.target = scratch.path("pods").join("v");
        volume.down().await.unwrap();

        // A file that the group may not write shows that nothing was done for a reader.
        volume.mount.mount_flags = vec!["ro".into()];
        volume.mount.volume_mount_group = GROUP.to_string();
        volume.up().await.unwrap();
        assert_eq!(access(&inside).0, GROUP + 1, "{fs_type}: read-only");
        volume.down().await.unwrap();
        volume.delete().await.unwrap();
        scratch.assert_clean();
        stop.cancel();
    }
}
