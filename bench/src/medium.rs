//! A filesystem of a chosen kind, in a sparse image, for a pool to stand on.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bowline_host::Host;

pub struct Medium {
    /// Where it is mounted. It goes with the scratch directory that it stands in.
    pub mounted: PathBuf,
}

impl Medium {
    pub async fn make(host: &Host, dir: &Path, fs_type: &str, size: u64) -> Result<Self> {
        let (image, mounted) = (dir.join(format!("{fs_type}.img")), dir.join(format!("{fs_type}.mounted")));
        let make = async {
            host.disk.create_sparse(&image, size).await?;
            host.disk.create_dir_all(&mounted, 0o700).await?;
            let device = host.kernel.loop_attach(&image, false).await?;
            host.kernel.make_filesystem(&device, fs_type, &[]).await?;
            host.kernel.mount(&device, &mounted, fs_type, &[]).await?;
            anyhow::Ok(())
        };
        make.await.with_context(|| format!("make a filesystem in `{}`", image.display()))?;
        Ok(Self { mounted })
    }
}
