//! What `bowline rbac` prints is enough, and little more than is used.

use std::process::Command;

use crate::setup::{By, Lead, Setup};

/// Granted and not used in one journey, with what uses them.
const UNUSED: &[&str] = &[
    // Repeated events.
    "patch events",
    // A volume that is there already, a claim whose cache may be old.
    "get persistentvolumes",
    "get persistentvolumeclaims",
    // Claims that name such a class.
    "get volumeattributesclasses",
    // The scheduler reserves a volume that was there before the pod.
    "update persistentvolumes",
    // A class whose driver has no room on the chosen node.
    "update persistentvolumeclaims",
    "get nodes",
    // Pods that are not scheduled, pods after their binding.
    "update pods/status",
    "get pods",
    // A lease is renewed later than a journey ends.
    "update leases",
];

fn printed(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_bowline")).arg("rbac").args(words).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn printed_roles_are_enough_and_little_more() {
    let setup = Setup::new().await;
    // The garbage collector may touch everything, which would hide what others lack.
    let controllers = "--controllers=*,-garbage-collector-controller";
    let programs = ["kube-controller-manager", "kube-scheduler", "csi-provisioner", "csi-attacher"];
    let file = setup.dir().join("rbac.yaml");
    std::fs::write(&file, printed(&[&[controllers], programs.as_slice()].concat())).expect("a file");
    setup.server.kubectl(&["apply", "--filename", file.to_str().expect("text")]);

    let _driver = setup.driver().await;
    let [controller_manager, scheduler] =
        [setup.server.account(programs[0]).await, setup.server.account(programs[1]).await];
    let core =
        |program, account, flags: &[&str]| setup.core_as(By::Us, program, Lead::Shortly, 1, account, flags);
    let _controllers = core(programs[0], &controller_manager, &[controllers, &setup.root_ca()]);
    let _scheduler = core(programs[1], &scheduler, &[]);
    let _provisioner = setup.sidecar_as_granted(By::Us, programs[2], 1).await;
    let _attacher = setup.sidecar_as_granted(By::Us, programs[3], 1).await;
    let (_registrar, _node) = setup.node().await;
    setup.journey().await;
    setup.no_refusals(&[]);

    for program in &programs[1..] {
        let used = setup.server.used_by(&format!("system:serviceaccount:kube-system:{program}"));
        let granted = granted(&printed(&[program]));
        assert!(!granted.is_empty(), "{program}");
        let beyond = |right: &&String| !used.contains(right) && !UNUSED.contains(&right.as_str());
        let beyond: Vec<&String> = granted.iter().filter(beyond).collect();
        assert!(beyond.is_empty(), "{program} is granted and does not use {beyond:?}");
    }
}

/// `verb resource` of every rule.
fn granted(yaml: &str) -> Vec<String> {
    let list = |line: &str, key: &str| -> Vec<String> {
        let rest = line.split_once(&format!("{key}: [")).map(|(_, rest)| rest).unwrap_or_default();
        let inside = rest.split(']').next().unwrap_or_default();
        inside.split(", ").map(str::to_owned).collect()
    };
    let rules = yaml.lines().filter(|line| line.starts_with("- {apiGroups"));
    rules
        .flat_map(|line| {
            let (resources, verbs) = (list(line, "resources"), list(line, "verbs"));
            let pairs = resources.into_iter().flat_map(move |resource| {
                verbs.clone().into_iter().map(move |verb| format!("{verb} {resource}"))
            });
            pairs.collect::<Vec<_>>()
        })
        .collect()
}
