//! `vol_data.json`: what a later process needs to take a volume down.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use bowline_api::name;
use bowline_host::Host;

use super::model::Target;

const FILE_MODE: u32 = 0o600;

const SPEC_NAME: &str = "specVolID";
const HANDLE: &str = "volumeHandle";
const DRIVER: &str = "driverName";
const NODE: &str = "nodeName";
const ATTACHMENT: &str = "attachmentID";
const LIFECYCLE: &str = "volumeLifecycleMode";
const EPHEMERAL: &str = "Ephemeral";

/// A flat map of strings, as upstream writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record(BTreeMap<String, String>);

impl Record {
    /// Beside a staged filesystem.
    pub fn staged(driver: &str, handle: &str) -> Self {
        Self::of(&[(HANDLE, handle), (DRIVER, driver)])
    }

    /// For a block volume, one for staging and all publications.
    pub fn device(driver: &str, handle: &str, node: &str, spec_name: &str) -> Self {
        let attachment = name::attachment(handle, driver, node);
        Self::of(&[
            (SPEC_NAME, spec_name),
            (HANDLE, handle),
            (DRIVER, driver),
            (NODE, node),
            (ATTACHMENT, &attachment),
        ])
    }

    /// Beside a pod's mount.
    pub fn mount(driver: &str, handle: &str, node: &str, target: &Target, inline: bool) -> Self {
        let mut record = Self::device(driver, handle, node, &target.spec_name);
        let lifecycle = if inline { EPHEMERAL } else { "Persistent" };
        record.0.insert(LIFECYCLE.into(), lifecycle.into());
        record
    }

    fn of(fields: &[(&str, &str)]) -> Self {
        Self(fields.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    pub fn driver(&self) -> Option<&str> {
        self.get(DRIVER)
    }
    pub fn handle(&self) -> Option<&str> {
        self.get(HANDLE)
    }
    pub fn spec_name(&self) -> Option<&str> {
        self.get(SPEC_NAME)
    }
    /// Whether the pod described the volume itself.
    pub fn inline(&self) -> bool {
        self.get(LIFECYCLE) == Some(EPHEMERAL)
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub async fn write(&self, host: &Host, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.0).map_err(io::Error::other)?;
        text.push(b'\n');
        host.disk.write_atomic(path, &text, FILE_MODE).await
    }

    /// `None` when there is no such file.
    pub async fn read(host: &Host, path: &Path) -> io::Result<Option<Self>> {
        match host.disk.read(path).await {
            Ok(bytes) => serde_json::from_slice(&bytes).map(|map| Some(Self(map))).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
