//! The kubelet's directory belongs to one installation (C1).

use std::path::Path;

use bowline_host::fake;

use crate::kubelet::Owned;

const DIR: &str = "/var/lib/kubelet";

#[tokio::test(start_paused = true)]
async fn a_directory_belongs_to_the_installation_that_took_it_first() {
    let (host, machine) = fake::host(1);
    let first = Owned::take(&host, Path::new(DIR), "first").await.unwrap();
    let refused = |error: bowline_machinery::RunError| error.to_string();
    let second = Owned::take(&host, Path::new(DIR), "second").await.map(drop).map_err(refused);
    let belongs = "the kubelet directory `/var/lib/kubelet` belongs to another Bowline installation; choose another directory with --kubelet-dir DIR";
    assert_eq!(second, Err(belongs.into()));
    let again = Owned::take(&host, Path::new(DIR), "first").await.map(drop).map_err(refused);
    assert!(again.unwrap_err().contains("is in use by another Bowline; stop that one"));
    // It dies.
    drop(first);
    machine.reboot();
    let second = Owned::take(&host, Path::new(DIR), "second").await.map(drop).map_err(refused);
    assert_eq!(second, Err(belongs.into()));
    Owned::take(&host, Path::new(DIR), "first").await.unwrap();
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
        let error = Owned::take(&host, Path::new(DIR), "ours").await.map(drop).unwrap_err().to_string();
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
    Owned::take(&host, Path::new(DIR), "ours").await.unwrap();
}
