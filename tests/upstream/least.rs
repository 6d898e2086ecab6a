//! What `bowline rbac` prints is enough, and little more than is used.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::setup::{By, Lead, Setup};
use crate::support::PATIENCE;

/// Granted and not used in one journey, by program, with what uses it.
const UNUSED: &[(&str, &[&str])] = &[
    (
        "kube-controller-manager",
        &[
            // Repeated events.
            "patch events",
            // A claim or a volume whose cache may be old, a node whose report may be.
            "get persistentvolumes",
            "get persistentvolumeclaims",
            "get nodes",
            // The authority has changed.
            "update configmaps",
            // Clients of its metrics.
            "create tokenreviews",
            "create subjectaccessreviews",
        ],
    ),
    (
        "kube-scheduler",
        &[
            "patch events",
            // A volume that was there before the pod is reserved.
            "update persistentvolumes",
            // Pods that are not scheduled, pods after their binding.
            "update pods/status",
            "get pods",
            // Clients of its metrics.
            "create tokenreviews",
            "create subjectaccessreviews",
        ],
    ),
    (
        "csi-provisioner",
        &[
            "patch events",
            // A volume that is there already.
            "get persistentvolumes",
            // Claims that name one.
            "get volumeattributesclasses",
            // A driver that has no room on the chosen node.
            "update persistentvolumeclaims",
            // Claims that are restored from a snapshot.
            "get volumesnapshots",
            "update volumesnapshots",
            "get volumesnapshotcontents",
            // `--enable-capacity`, and who owns what it publishes.
            "create csistoragecapacities",
            "delete csistoragecapacities",
            "list csistoragecapacities",
            "update csistoragecapacities",
            "watch csistoragecapacities",
            "get pods",
            "get replicasets",
            // The lease is renewed later than a journey ends.
            "update leases",
        ],
    ),
    ("csi-attacher", &["update leases"]),
];

fn unused(program: &str) -> &'static [&'static str] {
    UNUSED.iter().find(|(name, _)| *name == program).map_or(&[], |(_, rights)| rights)
}

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
    for program in programs {
        until_renewed(&setup, program).await;
    }
    setup.no_refusals(&[]);

    // All findings at once: a run takes its time.
    let findings: Vec<String> =
        programs.iter().flat_map(|program| unneeded(&setup, program, controllers)).collect();
    assert!(findings.is_empty(), "{findings:#?}");
}

/// A journey may be over before a leader renews its lease for the first time.
async fn until_renewed(setup: &Setup, program: &str) {
    let account = format!("system:serviceaccount:kube-system:{program}");
    let begun = Instant::now();
    while !setup.server.used_by(&account).iter().any(|right| right == "update leases") {
        assert!(begun.elapsed() < PATIENCE, "{program} does not renew its lease");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What a program is granted and does not use, and what it is said not to use and is not granted either.
fn unneeded(setup: &Setup, program: &str, controllers: &str) -> Vec<String> {
    let used = setup.server.used_by(&format!("system:serviceaccount:kube-system:{program}"));
    let granted = granted(&printed(&[controllers, program]));
    assert!(!granted.is_empty(), "{program}");
    let unused = unused(program);
    let beyond = granted.iter().filter(|right| !used.contains(right) && !unused.contains(&right.as_str()));
    let stale = unused.iter().filter(|right| !granted.iter().any(|granted| granted == *right));
    beyond
        .map(|right| format!("{program} is granted and does not use: {right}"))
        .chain(stale.map(|right| format!("{program} is not even granted: {right}")))
        .collect()
}

/// Controllers act as their accounts, with upstream's roles; the program itself fills caches and issues their tokens.
#[tokio::test(flavor = "multi_thread")]
async fn the_printed_role_for_account_credentials_is_enough() {
    let setup = Setup::new().await;
    let flags = ["--controllers=*,-garbage-collector-controller", "--use-service-account-credentials"];
    let file = setup.dir().join("rbac.yaml");
    std::fs::write(&file, printed(&flags)).expect("a file");
    setup.server.kubectl(&["apply", "--filename", file.to_str().expect("text")]);

    let _driver = setup.driver().await;
    let account = setup.server.account("kube-controller-manager").await;
    let flags = [flags[0], flags[1], &setup.root_ca()];
    let _controllers = setup.core_as(By::Us, "kube-controller-manager", Lead::Shortly, 1, &account, &flags);
    let _scheduler = setup.core(By::Us, "kube-scheduler", Lead::Alone, 1);
    let _provisioner = setup.sidecar(By::Us, "csi-provisioner", 1).await;
    let _attacher = setup.sidecar(By::Us, "csi-attacher", 1).await;
    let (_registrar, _node) = setup.node().await;
    setup.journey().await;
    setup.no_refusals(&[]);
    let used = setup.server.used_by("system:serviceaccount:kube-system:kube-controller-manager");
    assert!(used.iter().any(|right| right == "create serviceaccounts/token"), "{used:?}");
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
