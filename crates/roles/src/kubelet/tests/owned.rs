//! The kubelet's directory belongs to one installation (C1).

use std::path::Path;

use bowline_host::{Host, fake};
use bowline_machinery::RunError;

use crate::kubelet::{KnownPods, Owned, Owner, OwnerFlags, PodRecords};

const DIR: &str = "/var/lib/kubelet";
const NODE: &str = "here";

async fn take(host: &Host, id: &str) -> Result<Owned, RunError> {
    Owned::take(host, Path::new(DIR), Owner { id, node_name: NODE, older: None, flags: OwnerFlags::UP }).await
}

/// An installation of an older version, with these pods in its store.
async fn upgrade(host: &Host, known: &[(&str, Option<&str>)]) -> Result<(), String> {
    let pods: KnownPods =
        known.iter().map(|(uid, node)| ((*uid).to_owned(), node.map(str::to_owned))).collect();
    let owner = Owner { id: "ours", node_name: NODE, older: Some(&pods), flags: OwnerFlags::UP };
    Owned::take(host, Path::new(DIR), owner).await.map(drop).map_err(|error| error.to_string())
}

async fn make(host: &Host, dirs: &[&str]) {
    for dir in dirs {
        host.disk.create_dir_all(&Path::new(DIR).join(dir), 0o755).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_belongs_to_the_installation_that_took_it_first() {
    let (host, machine) = fake::host(1);
    let first = take(&host, "first").await.unwrap();
    let refused = |error: RunError| error.to_string();
    let second = take(&host, "second").await.map(drop).map_err(refused);
    let belongs = "the kubelet directory `/var/lib/kubelet` belongs to another Bowline installation; choose another directory with --kubelet-dir DIR";
    assert_eq!(second, Err(belongs.into()));
    let again = take(&host, "first").await.map(drop).map_err(refused);
    assert!(again.unwrap_err().contains("is in use by another Bowline; stop that one"));
    // It dies.
    drop(first);
    machine.reboot();
    let second = take(&host, "second").await.map(drop).map_err(refused);
    assert_eq!(second, Err(belongs.into()));
    take(&host, "first").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_another_kubelet_uses_is_refused_and_not_changed() {
    let traces = ["pods", "pki", "device-plugins", "plugins/kubernetes.io", "pod-logs"];
    let files = ["cpu_manager_state", "memory_manager_state", "kubeadm-flags.env", "config.yaml"];
    for trace in traces.iter().chain(&files) {
        let (host, machine) = fake::host(1);
        let path = Path::new(DIR).join(trace);
        host.disk.create_dir_all(path.parent().unwrap(), 0o755).await.unwrap();
        match files.contains(trace) {
            true => host.disk.create_file(&path).await.unwrap(),
            false => host.disk.create_dir_all(&path, 0o755).await.unwrap(),
        }
        let before = (host.disk.list(Path::new(DIR)).await.unwrap(), machine.files());
        let error = take(&host, "ours").await.map(drop).unwrap_err().to_string();
        assert!(error.contains(trace) && error.contains("--kubelet-dir DIR"), "{error}");
        assert_eq!((host.disk.list(Path::new(DIR)).await.unwrap(), machine.files()), before, "{trace}");
    }
}

/// Drivers that were started first have their sockets there.
#[tokio::test(start_paused = true)]
async fn sockets_of_drivers_do_not_make_a_directory_foreign() {
    let (host, _) = fake::host(1);
    for dir in ["plugins/example.com", "plugins_registry"] {
        host.disk.create_dir_all(&Path::new(DIR).join(dir), 0o755).await.unwrap();
    }
    take(&host, "ours").await.unwrap();
}

/// Pods are bound to a node by its name.
#[tokio::test(start_paused = true)]
async fn another_node_name_is_refused_with_the_old_one_as_remedy() {
    let (host, _) = fake::host(1);
    take(&host, "ours").await.unwrap();
    let owner = Owner { id: "ours", node_name: "renamed", older: None, flags: OwnerFlags::UP };
    let error = Owned::take(&host, Path::new(DIR), owner).await.map(drop).unwrap_err().to_string();
    let expected = "the kubelet directory `/var/lib/kubelet` belongs to node `here`, not to `renamed`: start with --node-name here";
    assert_eq!(error, expected);
    take(&host, "ours").await.unwrap();
}

/// The name is written once there is one; before, only the id was.
#[tokio::test(start_paused = true)]
async fn an_id_without_a_node_name_gets_one() {
    let (host, _) = fake::host(1);
    make(&host, &["pods/1"]).await;
    let file = Path::new(DIR).join(".bowline-installation");
    host.disk.write_atomic(&file, b"ours\n", 0o600).await.unwrap();
    take(&host, "ours").await.unwrap();
    assert_eq!(host.disk.read(&file).await.unwrap(), b"ours\nhere\n");
}

const LEFT_BY_OLDER: [&str; 5] =
    ["pods/1", "pods/2", "pod-logs/default_a_1", "plugins/kubernetes.io/csi", "plugins_registry"];

#[tokio::test(start_paused = true)]
async fn a_directory_of_an_older_version_is_taken_with_its_pods() {
    let (host, _) = fake::host(1);
    make(&host, &LEFT_BY_OLDER).await;
    // One is known from the store, the other only from the record of its container.
    upgrade(&host, &[("1", Some(NODE)), ("2", None), ("3", Some("elsewhere"))]).await.unwrap();
    let records = PodRecords::load(&host, Path::new(DIR)).await.unwrap();
    assert_eq!(records.uids(), ["1", "2"]);
    take(&host, "ours").await.unwrap();
}

/// A process may die after each record, before it has written the id.
#[tokio::test(start_paused = true)]
async fn the_takeover_of_an_older_directory_is_repeated_after_a_crash() {
    let (host, _) = fake::host(1);
    make(&host, &LEFT_BY_OLDER).await;
    PodRecords::load(&host, Path::new(DIR)).await.unwrap().add("1").await.unwrap();
    upgrade(&host, &[("1", Some(NODE)), ("2", Some(NODE))]).await.unwrap();
    let records = PodRecords::load(&host, Path::new(DIR)).await.unwrap();
    assert_eq!(records.uids(), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn an_older_directory_with_traces_of_another_kubelet_is_refused_and_not_changed() {
    let both = [("1", Some(NODE)), ("2", Some(NODE))];
    let renamed = [("1", Some(NODE)), ("2", Some("old"))];
    let cases: [(&[(&str, Option<&str>)], Option<&str>, &[&str]); 3] = [
        (&both[..1], None, &["`pods/2`", "findmnt -R /var/lib/kubelet/pods/2", "--kubelet-dir DIR"]),
        (&both, Some("device-plugins"), &["`device-plugins`", "--kubelet-dir DIR"]),
        (&renamed, None, &["--node-name old"]),
    ];
    for (known, trace, wanted) in cases {
        let (host, machine) = fake::host(1);
        make(&host, &LEFT_BY_OLDER).await;
        make(&host, trace.as_slice()).await;
        let before = (host.disk.list(Path::new(DIR)).await.unwrap(), machine.files());
        let error = upgrade(&host, known).await.unwrap_err();
        wanted.iter().for_each(|part| assert!(error.contains(part), "should say {part:?}: {error}"));
        assert_eq!((host.disk.list(Path::new(DIR)).await.unwrap(), machine.files()), before, "{wanted:?}");
    }
}
