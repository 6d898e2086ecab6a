//! What another user of the machine can get at while `bowline up` runs: nothing.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

mod support;

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use bowline_api::{PersistentVolumeClaim, Pod, build};
use kube::{Api, Client};
use rustix::process::{Gid, Uid};
use support::Cluster;
use support::objects::{create, until_phase};

/// `nobody`, who owns nothing of ours.
const OTHER: u32 = 65_534;
/// Every mode below these is for the owner alone, whatever the directories above them allow.
const SECRET: [&str; 5] = ["store", "pki", "kubeconfig", "installation", "lock"];

/// Everything below a directory, itself included; other filesystems, too.
fn walk(path: &Path, found: &mut Vec<PathBuf>) {
    found.push(path.to_owned());
    let is_dir = std::fs::symlink_metadata(path).is_ok_and(|m| m.is_dir());
    for entry in std::fs::read_dir(path).into_iter().filter(|_| is_dir).flatten().flatten() {
        walk(&entry.path(), found);
    }
}

/// What can be done with a path by the calling thread.
fn reached(path: &Path) -> Option<&'static str> {
    // Without permission to search the directories above it, not even this succeeds.
    let kind = std::fs::symlink_metadata(path).ok()?.file_type();
    if kind.is_dir() {
        let entered = std::fs::metadata(path.join(".")).is_ok();
        return (entered || std::fs::read_dir(path).is_ok()).then_some("can be entered or listed");
    }
    if kind.is_socket() {
        return UnixStream::connect(path).is_ok().then_some("can be connected to");
    }
    if kind.is_file() || kind.is_block_device() || kind.is_char_device() {
        let opened = File::open(path).is_ok() || OpenOptions::new().append(true).open(path).is_ok();
        return opened.then_some("can be opened");
    }
    None
}

/// Runs `look` on a thread of another user, without groups and capabilities. The kernel keeps these per thread.
fn as_other<T: Send>(look: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (user, group) = (Uid::from_raw(OTHER), Gid::from_raw(OTHER));
            rustix::thread::set_thread_groups(&[]).expect("no groups");
            rustix::thread::set_thread_res_gid(group, group, group).expect("another group");
            rustix::thread::set_thread_res_uid(user, user, user).expect("another user");
            look()
        });
        thread.join().expect("the other user's look")
    })
}

/// Each path that the other user gets at, with what can be done.
fn findings(roots: &[PathBuf]) -> Vec<String> {
    let mut paths = Vec::new();
    roots.iter().for_each(|root| walk(root, &mut paths));
    assert!(paths.len() > 60, "an installation has many files, not {}", paths.len());
    let sockets = paths.iter().filter(|p| std::fs::metadata(p).is_ok_and(|m| m.file_type().is_socket()));
    assert!(sockets.count() >= 2, "each driver has a socket");
    let say = |path: &PathBuf| reached(path).map(|what| format!("{} {what}", path.display()));
    as_other(|| paths.iter().filter_map(say).collect())
}

fn open_modes(data: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    SECRET.iter().for_each(|name| walk(&data.join(name), &mut paths));
    let open = |path: &PathBuf| {
        let mode = std::fs::symlink_metadata(path).ok()?.mode();
        (mode & 0o077 != 0).then(|| format!("{} has mode {:o}", path.display(), mode & 0o7777))
    };
    paths.iter().filter_map(open).collect()
}

/// The kubelet's directory hides what is in it, but a person may open it; logs and pods must not be open then.
fn open_to_others(kubelet: &Path) -> Vec<String> {
    let mut paths = vec![kubelet.to_owned()];
    for name in ["pods", "pod-logs"] {
        let dir = kubelet.join(name);
        let below = std::fs::read_dir(&dir).expect("of a pod").flatten().map(|entry| entry.path());
        paths.extend(below.chain([dir]));
    }
    let open = |path: &PathBuf| {
        let mode = std::fs::symlink_metadata(path).ok()?.mode();
        (mode & 0o007 != 0).then(|| format!("{} has mode {:o}", path.display(), mode & 0o7777))
    };
    paths.iter().filter_map(open).collect()
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("set a mode");
}

async fn run_pod(client: &Client) {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    create(&claims, &build::claim("data").size("64Mi").build()).await.expect("create claim");
    create(&claims, &build::claim("common").class("share").size("64Mi").build()).await.expect("create claim");
    let script = "echo secret > /data/file; echo secret > /common/file; exec sleep 3600";
    let pod = build::pod("writer").shell(script).mount("data", "/data").mount("common", "/common");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    create(&pods, &pod.grace_seconds(1).build()).await.expect("create pod");
    until_phase(client, "writer", "Running").await.expect("running");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_user_reads_enters_and_connects_to_nothing() {
    let scratch = tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("scratch directory");
    // As a package or an administrator makes it.
    std::fs::create_dir(scratch.path().join("kubelet")).expect("directory");
    set_mode(&scratch.path().join("kubelet"), 0o755);
    let mut cluster = Cluster::start_in(scratch).await;
    // The scratch directory would hide everything; the installation has to protect itself.
    set_mode(cluster.scratch.path(), 0o755);
    let control = cluster.scratch.path().join("control");
    std::fs::write(&control, "x").expect("written");
    set_mode(&control, 0o644);
    assert_eq!(as_other(|| reached(&control)), Some("can be opened"), "this test sees what is open");

    run_pod(&cluster.client().await).await;
    let roots = [cluster.data_dir(), cluster.kubelet_dir()];
    assert_eq!(findings(&roots), Vec::<String>::new());
    assert_eq!(open_modes(&cluster.data_dir()), Vec::<String>::new());
    assert_eq!(open_to_others(&cluster.kubelet_dir()), Vec::<String>::new());

    // As an older version left it, or a careless hand.
    cluster.kill().await;
    let data = cluster.data_dir();
    for (name, mode) in
        [("", 0o755), ("store", 0o755), ("store/objects", 0o755), ("store/objects/0.jnl", 0o644)]
    {
        set_mode(&data.join(name), mode);
    }
    set_mode(&data.join("pki"), 0o755);
    set_mode(&data.join("pki/ca.key"), 0o644);
    for name in ["", "pods", "pod-logs"] {
        set_mode(&cluster.kubelet_dir().join(name), 0o755);
    }
    cluster.restart().await;
    assert_eq!(findings(&roots), Vec::<String>::new());
    assert_eq!(open_modes(&cluster.data_dir()), Vec::<String>::new());
    assert_eq!(open_to_others(&cluster.kubelet_dir()), Vec::<String>::new());
}
