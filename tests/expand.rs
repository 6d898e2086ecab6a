//! Volumes that grow on a real kernel while a pod writes to them. The controller's part is done by hand, as csi-resizer does it.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

mod account;
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use bowline_api::{
    Meta, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, build, expansion, volume,
};
use bowline_drivers::local::NAME as DRIVER;
use bowline_host::real::RealConfig;
use bowline_machinery::csi::Driver;
use bowline_proto::csi::v1::{CapacityRange, ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use support::Cluster;
use support::objects::{create, delete, until, until_gone, until_phase};

const MI: u64 = 1 << 20;

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "default")
}

fn claims(client: &Client) -> Api<PersistentVolumeClaim> {
    Api::namespaced(client.clone(), "default")
}

/// The volume of a claim, and what the driver answers to ControllerExpandVolume for it.
async fn expanded(
    cluster: &Cluster,
    client: &Client,
    claim: &str,
    size: u64,
) -> (PersistentVolume, ControllerExpandVolumeResponse) {
    let name = claims(client).get(claim).await.expect("get claim").spec.and_then(|s| s.volume_name);
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let pv = volumes.get(&name.expect("bound")).await.expect("get volume");
    let source = volume::csi(&pv).expect("a CSI volume");
    let host = bowline_host::real::host(RealConfig::new(cluster.data_dir())).expect("this machine");
    let driver = Driver::at(&host, cluster.kubelet_dir().join("plugins").join(DRIVER).join("csi.sock"));
    let request = ControllerExpandVolumeRequest {
        volume_id: source.volume_handle.clone(),
        capacity_range: Some(CapacityRange { required_bytes: size.cast_signed(), limit_bytes: 0 }),
        ..Default::default()
    };
    let answer = driver.controller().controller_expand_volume(request).await.expect("expand").into_inner();
    (pv, answer)
}

/// What csi-resizer does up to the node's part; then the pod is touched, so that its node looks at once.
async fn controller_expands(cluster: &Cluster, client: &Client, claim: &str, pod: &str, size: u64) {
    let (pv, answer) = expanded(cluster, client, claim, size).await;
    assert!(answer.node_expansion_required);
    let quantity = bowline_api::quantity_of(size.cast_signed());
    let patch = |value| Patch::Merge(value);
    let parameters = PatchParams::default();
    let capacity = json!({"spec": {"capacity": {"storage": quantity}}});
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    volumes.patch(pv.name(), &parameters, &patch(capacity)).await.expect("patch volume");
    let status = json!({"status": {
        "allocatedResources": {"storage": quantity},
        "allocatedResourceStatuses": {"storage": expansion::NODE_RESIZE_PENDING},
        "conditions": [{"type": expansion::FILE_SYSTEM_RESIZE_PENDING, "status": "True"}],
    }});
    claims(client).patch_status(claim, &parameters, &patch(status)).await.expect("patch claim");
    let touched = json!({"metadata": {"annotations": {"touched": quantity}}});
    pods(client).patch(pod, &parameters, &patch(touched)).await.expect("touch pod");
}

async fn until_promised(client: &Client, claim: &str, size: u64) {
    let grown = move |claim: Option<&PersistentVolumeClaim>| {
        claim.is_some_and(|c| volume::promised_bytes(c) == size.cast_signed())
    };
    until(&claims(client), claim, "the new size", grown).await.expect("grown");
    let claim = claims(client).get(claim).await.expect("get claim");
    assert_eq!(expansion::resize_status(&claim), "");
    assert!(expansion::conditions(&claim).is_empty(), "{:?}", expansion::conditions(&claim));
}

/// Output of a command, as a number.
fn number(program: &str, words: &[&str], path: &Path) -> u64 {
    let answer = Command::new(program).args(words).arg(path).output().expect("run");
    let text = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    let bad = |_| panic!("{program} {words:?} {}: {text} {:?}", path.display(), answer.stderr);
    text.split('*').map(|part| part.parse::<u64>().unwrap_or_else(bad)).product()
}

fn filesystem_bytes(mount: &Path) -> u64 {
    number("stat", &["--file-system", "--format", "%b*%S"], mount)
}

/// The kernel grows a mounted ext4 only for a process with CAP_SYS_RESOURCE, which containers often lack; tests/enlarge.rs
/// grows one without it, between two pods.
fn growing_while_mounted() -> &'static [&'static str] {
    const CAP_SYS_RESOURCE: u64 = 1 << 24;
    let status = std::fs::read_to_string("/proc/self/status").expect("read own status");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("CapEff");
    let effective = u64::from_str_radix(effective.trim(), 16).expect("a mask");
    if effective & CAP_SYS_RESOURCE != 0 {
        return &["ext4", "xfs"];
    }
    println!("without CAP_SYS_RESOURCE: xfs alone");
    &["xfs"]
}

async fn running(client: &Client, cluster: &Cluster, pod: Pod, claim: &str) -> (PathBuf, PathBuf, Pod) {
    let name = pod.name().to_owned();
    create(&pods(client), &pod).await.expect("create pod");
    until_phase(client, &name, "Running").await.expect("running");
    let pod = pods(client).get(&name).await.expect("get pod");
    let pv = claims(client).get(claim).await.expect("get").spec.and_then(|s| s.volume_name).expect("bound");
    let kubelet = cluster.kubelet_dir();
    let mount = kubelet.join(format!("pods/{}/volumes/kubernetes.io~csi/{pv}/mount", pod.uid()));
    let device = kubelet.join(format!("plugins/kubernetes.io/csi/volumeDevices/publish/{pv}/{}", pod.uid()));
    (mount, device, pod)
}

async fn end(client: &Client, pod: &str, claim: &str) {
    delete(&pods(client), pod).await.expect("delete pod");
    until_gone(&pods(client), pod).await.expect("pod gone");
    delete(&claims(client), claim).await.expect("delete claim");
    until_gone(&claims(client), claim).await.expect("claim gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filesystems_grow_while_a_pod_writes() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    for &fs_type in growing_while_mounted() {
        let class = build::class(fs_type, DRIVER).wait_for_consumer().fs_type(fs_type).build();
        create::<StorageClass>(&Api::all(client.clone()), &class).await.expect("create class");
        let claim = build::claim(fs_type).class(fs_type).size("512Mi").build();
        create(&claims(&client), &claim).await.expect("create claim");
        // More than the volume has at first: it ends only if there is room while it writes.
        let script = "for n in $(seq 700); do \
                        until dd if=/dev/zero of=/data/$n bs=1M count=1 conv=fsync 2>/dev/null; do rm -f /data/$n; sleep 0.1; done; \
                      done; touch /data/done; exec sleep 3600";
        let pod = build::pod(fs_type).shell(script).mount(fs_type, "/data").grace_seconds(1).build();
        let (mount, _, _) = running(&client, &cluster, pod, fs_type).await;
        let before = filesystem_bytes(&mount);
        assert!(before < 512 * MI, "{before}");
        controller_expands(&cluster, &client, fs_type, fs_type, 1024 * MI).await;
        until_promised(&client, fs_type, 1024 * MI).await;
        let after = filesystem_bytes(&mount);
        assert!(after > 900 * MI && after <= 1024 * MI, "{fs_type}: {before} {after}");
        support::until_exists(&mount.join("done")).await;
        end(&client, fs_type, fs_type).await;
    }
    cluster.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_raw_device_grows_while_a_pod_has_it() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    create(&claims(&client), &build::claim("raw").block().size("64Mi").build()).await.expect("create claim");
    let pod = build::pod("raw").shell("exec sleep 3600").device("raw", "/dev/data").grace_seconds(1).build();
    let (_, device, _) = running(&client, &cluster, pod, "raw").await;
    assert_eq!(number("blockdev", &["--getsize64"], &device), 64 * MI);
    let (_, answer) = expanded(&cluster, &client, "raw", 128 * MI).await;
    assert!(!answer.node_expansion_required, "a device without a filesystem has its size at once");
    assert_eq!(number("blockdev", &["--getsize64"], &device), 128 * MI);
    end(&client, "raw", "raw").await;
    cluster.assert_nothing_left().await;
}
