//! What the machine is, read once at start.

use std::path::Path;

use bowline_host::Host;
use k8s_openapi::api::core::v1::NodeSystemInfo;

/// Where nothing can be read (a machine without `/proc`), a small machine is assumed.
const MEMORY_UNKNOWN_KIB: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Machine {
    pub cpus: usize,
    pub memory_kib: u64,
    pub pods_max: u32,
    pub info: NodeSystemInfo,
    /// Where the kubelet answers, if it does.
    pub kubelet_port: Option<u16>,
}

impl Machine {
    pub async fn read(host: &Host, kubelet_port: Option<u16>, pods_max: u32) -> Self {
        let processors = text(host, "/proc/cpuinfo").await;
        let cpus = processors.lines().filter(|line| line.starts_with("processor")).count().max(1);
        let memory = text(host, "/proc/meminfo").await;
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = total.and_then(|rest| rest.split_whitespace().next()).and_then(|n| n.parse().ok());
        let release = text(host, "/etc/os-release").await;
        let os_image = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        let info = NodeSystemInfo {
            architecture: architecture().into(),
            boot_id: text(host, "/proc/sys/kernel/random/boot_id").await,
            container_runtime_version: concat!("bowline://", env!("CARGO_PKG_VERSION")).into(),
            kernel_version: text(host, "/proc/sys/kernel/osrelease").await,
            kube_proxy_version: String::new(),
            kubelet_version: "v1.36.0+bowline".into(),
            machine_id: text(host, "/etc/machine-id").await,
            operating_system: "linux".into(),
            os_image: os_image.unwrap_or("Linux").trim_matches('"').into(),
            swap: None,
            system_uuid: text(host, "/sys/class/dmi/id/product_uuid").await,
        };
        Self { cpus, memory_kib: kib.unwrap_or(MEMORY_UNKNOWN_KIB), pods_max, info, kubelet_port }
    }
}

/// A missing file is an empty answer: none of these is worth refusing to start.
async fn text(host: &Host, path: &str) -> String {
    let bytes = host.disk.read(Path::new(path)).await.unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// As Go spells it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
