//! What must hold before anything is started: one clear sentence each.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use bowline_host::Host;
use tokio::net::TcpListener;

/// Programs that the local driver runs, and the Debian package of each.
const TOOLS: [(&str, &str); 2] = [("mkfs.ext4", "e2fsprogs"), ("blkid", "util-linux")];

/// Root, and the filesystem tools.
pub fn check(host: &Host) -> Result<()> {
    if !bowline_host::real::is_root() {
        bail!("bowline up needs root: it mounts filesystems and attaches loop devices. Run it with sudo");
    }
    for (tool, package) in TOOLS {
        if !host.kernel.has_tool(tool) {
            bail!(
                "`{tool}` is not installed: volumes cannot be formatted. Install it (apt-get install {package})"
            );
        }
    }
    Ok(())
}

/// Binds the API server's address, which `flags` chose.
pub async fn bind(address: SocketAddr, flags: &str) -> Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            bail!(
                "{address} is already in use: another API server may be running. Choose another with {flags}"
            )
        }
        Err(error) => {
            Err(error).with_context(|| format!("listen on {address} (choose another with {flags})"))
        }
    }
}
