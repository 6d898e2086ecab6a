//! How many requests the sidecars made, by kube-apiserver's audit log: its metrics do not tell clients apart.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Sidecars have these names; what others ask for is not recorded.
pub const USERS: [&str; 6] = [
    "csi-provisioner",
    "csi-attacher",
    "csi-resizer",
    "csi-snapshotter",
    "snapshot-controller",
    "bowline-sidecars",
];

pub struct Audit {
    log: PathBuf,
}

impl Audit {
    /// Writes the policy and says which flags make the server follow it.
    pub fn prepare(dir: &Path) -> Result<(Self, Vec<String>)> {
        let users = USERS.map(|user| format!("'{user}'")).join(", ");
        let policy = format!(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- {{level: Metadata, users: [{users}]}}\n- {{level: None}}\n"
        );
        let (file, log) = (dir.join("audit.yaml"), dir.join("audit.log"));
        std::fs::write(&file, policy).context("write the audit policy")?;
        let flags = vec![
            format!("--audit-policy-file={}", file.display()),
            format!("--audit-log-path={}", log.display()),
        ];
        Ok((Self { log }, flags))
    }

    /// Requests until now, without those for leases, which count time and not volumes.
    pub fn requests(&self) -> Result<usize> {
        let log = match std::fs::read_to_string(&self.log) {
            Ok(log) => log,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error).context("read the audit log"),
        };
        Ok(log.lines().filter(|line| !line.contains("\"resource\":\"leases\"")).count())
    }
}
