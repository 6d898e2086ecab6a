//! One page of metrics: the driver's gauges, its RPCs, its process.

use std::path::Path;

use bowline_host::Host;
use bowline_host::metrics::{Family, Text};
use tonic::async_trait;

use super::operations::Operations;
use crate::error::VolumeError;

const START_TIME: Family = Family {
    name: "process_start_time_seconds",
    help: "[ALPHA] Start time of the process since unix epoch in seconds.",
    kind: "gauge",
};
const RESIDENT: Family =
    Family { name: "process_resident_memory_bytes", help: "Resident memory size in bytes.", kind: "gauge" };

/// Where the kernel says how much memory this process has.
const PROCESS_STATUS: &str = "/proc/self/status";

/// A number that goes up and down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauge {
    pub name: &'static str,
    pub help: &'static str,
    pub value: u64,
}

/// What a driver can say of itself at any moment.
#[async_trait]
pub trait Vitals: Send + Sync {
    /// What cannot be found out just now is left out.
    async fn gauges(&self) -> Vec<Gauge>;
    /// Whether the driver could work now.
    async fn check(&self) -> Result<(), VolumeError>;
}

/// `started` is in seconds since 1970.
pub async fn page(host: &Host, vitals: &dyn Vitals, operations: &Operations, started: i64) -> String {
    let mut text = Text::default();
    for gauge in vitals.gauges().await {
        let family = Family { name: gauge.name, help: gauge.help, kind: "gauge" };
        single(&mut text, &family, gauge.value);
    }
    operations.write(&mut text);
    single(&mut text, &START_TIME, started);
    if let Some(bytes) = resident(host).await {
        single(&mut text, &RESIDENT, bytes);
    }
    text.into_string()
}

fn single(text: &mut Text, family: &Family, value: impl std::fmt::Display) {
    text.family(family);
    text.sample(family.name, "", &[], None, value);
}

/// None where there is no `/proc`, as on a fake machine.
async fn resident(host: &Host) -> Option<u64> {
    let status = host.disk.read(Path::new(PROCESS_STATUS)).await.ok()?;
    let status = String::from_utf8(status).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
