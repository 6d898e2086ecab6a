//! Our lists of upstream's flags.

use super::*;

#[test]
fn every_list_can_be_read() {
    let sidecars = [
        files::CSI_PROVISIONER,
        files::CSI_ATTACHER,
        files::CSI_RESIZER,
        files::CSI_SNAPSHOTTER,
        files::SNAPSHOT_CONTROLLER,
        files::LIVENESSPROBE,
        files::CSI_NODE_DRIVER_REGISTRAR,
    ];
    let kube =
        [files::KUBE, files::KUBE_CONTROLLER_MANAGER, files::KUBE_SCHEDULER, files::KUBELET, files::LOGGING];
    for text in sidecars.into_iter().chain(kube).chain([files::SIDECAR]) {
        let flags = flags(&[text]).expect("a list");
        assert!(flags.len() >= 3, "{text}");
        let mut names: Vec<_> = flags.iter().map(|flag| flag.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), flags.len(), "a flag stands twice: {text}");
    }
    for line in ["x", "x bool", "x thing here", "x bool nowhere", "x bool refused", "x bool only true"] {
        assert!(flags(&[line]).is_err(), "{line}");
    }
}
