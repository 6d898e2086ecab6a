//! What goes wrong around a program: it says so in one line, and waits or exits as upstream's does. `tests/upstream` has more of
//! this on upstream's API server; here are the programs that are not run there.

use std::path::{Path, PathBuf};

use bowline_api::{Lease, Node};
use bowline_apiserver::certs::Authority;
use bowline_apiserver::kubeconfig::write_kubeconfig;
use jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use super::{NAMESPACE, Setup, holder};
use crate::support::objects::until;
use crate::support::ports::free_ports;
use crate::support::program::Program;

const BINARY: &str = env!("CARGO_BIN_EXE_bowline");
const NODE: &str = "failures";
const LEASES: [(&str, &str); 4] = [
    ("kube-controller-manager", "kube-controller-manager"),
    ("kube-scheduler", "kube-scheduler"),
    ("csi-provisioner", "local-csi-bowline-dev"),
    ("csi-attacher", "external-attacher-leader-local-csi-bowline-dev"),
];
/// Root may read every file, unless it lacks these.
const WITHOUT_RIGHTS: &str = "--bounding-set=-dac_override,-dac_read_search";

/// A program that has an API server, and all it needs but the kubeconfig. Leases last shorter than by default.
fn words(setup: &Setup, program: &str) -> Vec<String> {
    let path = |name: &str| setup.dir.path().join(name).display().to_string();
    let timings = |prefix: &str| {
        [("lease-duration", 6), ("renew-deadline", 4), ("retry-period", 1)]
            .map(|(name, seconds)| format!("{prefix}-{name}={seconds}s"))
    };
    let mut words = vec![program.to_owned()];
    match program {
        "kubelet" => {
            words.push(format!("--root-dir={}", path("kubelet")));
            words.push(format!("--hostname-override={NODE}"));
            words.extend(["--node-ip=127.0.0.1", "--healthz-port=0"].map(String::from));
        }
        "csi-provisioner" | "csi-attacher" => {
            words.push(format!("--csi-address={}", path("csi.sock")));
            words.push("--leader-election".to_owned());
            words.push(format!("--leader-election-namespace={NAMESPACE}"));
            words.extend(timings("--leader-election"));
        }
        _ => {
            words.push("--secure-port=0".to_owned());
            words.extend(timings("--leader-elect"));
        }
    }
    words
}

fn start(setup: &Setup, program: &str, log: &str, kubeconfig: &Path) -> Program {
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let words = words(setup, program);
    let words: Vec<&str> = words.iter().map(String::as_str).chain([kubeconfig.as_str()]).collect();
    Program::start(setup.dir.path(), log, BINARY, &words)
}

/// Every program with an API server.
const PROGRAMS: [&str; 5] =
    ["kube-controller-manager", "kube-scheduler", "kubelet", "csi-provisioner", "csi-attacher"];

#[tokio::test(flavor = "multi_thread")]
async fn kubeconfigs_that_cannot_be_used_are_one_line() {
    let setup = Setup::new().await;
    let file = |name: &str, text: &str| {
        let path = setup.dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let (garbled, empty) = (file("garbled", "users: ["), file("empty", ""));
    let secret = file("secret", "");
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    std::fs::set_permissions(&secret, closed).expect("closed");
    let mut running = Vec::new();
    for program in PROGRAMS {
        for (path, expected) in [
            (&garbled, "use kubeconfig"),
            (&empty, "use kubeconfig"),
            (&setup.dir.path().to_owned(), "read kubeconfig"),
            (&setup.dir.path().join("absent"), "read kubeconfig"),
            (&secret, "read kubeconfig"),
        ] {
            let mut words =
                [vec![WITHOUT_RIGHTS.to_owned(), BINARY.to_owned()], words(&setup, program)].concat();
            words.push(format!("--kubeconfig={}", path.display()));
            // Each kubelet has a directory of its own.
            let root = setup.dir.path().join(format!("kubelet-{}", running.len()));
            words.iter_mut().filter(|word| word.starts_with("--root-dir=")).for_each(|word| {
                *word = format!("--root-dir={}", root.display());
            });
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let log = format!("{program}-{}", running.len());
            running.push((Program::start(setup.dir.path(), &log, "setpriv", &words), path.clone(), expected));
        }
    }
    for (mut program, path, expected) in running {
        let (code, text) = (program.ended().code(), program.log());
        let name = path.display().to_string();
        let clear = text.lines().count() == 1 && text.contains(expected) && text.contains(&name);
        assert!(code == Some(1) && clear, "{}: {code:?} {text}", program.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_credentials_are_named_and_waited_for() {
    let setup = Setup::new().await;
    let _driver = setup.driver();
    let expired = expired(&setup);
    for program in PROGRAMS {
        let mut running = start(&setup, program, program, &expired);
        running.says("renew the certificate").await;
        // People renew it, and upstream's programs are found at work then, too.
        assert!(running.is_running(), "{program}");
        assert!(running.end().success(), "{program}");
    }
}

/// A kubeconfig with a certificate of long ago.
fn expired(setup: &Setup) -> PathBuf {
    let plane = setup.plane.kubeconfig();
    let authority = Authority::open(plane.parent().expect("a directory"), Timestamp::now());
    let authority = authority.expect("its authority");
    let long_ago: Timestamp = "2000-01-01T00:00:00Z".parse().expect("a time");
    let certificate = authority.issue_client("admin", "system:masters", long_ago).expect("a certificate");
    let path = setup.dir.path().join("expired");
    write_kubeconfig(&path, &format!("https://{}", address(&plane)), &authority, &certificate)
        .expect("written");
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_made_again_when_deleted_and_its_theft_ends_the_program() {
    let setup = Setup::new().await;
    let mut driver = setup.driver();
    let leases: Api<Lease> = Api::namespaced(setup.client.clone(), NAMESPACE);
    for (program, lease) in LEASES {
        let mut running = start(&setup, program, program, &setup.plane.kubeconfig());
        let first = holder(&setup.client, lease).await;
        leases.delete(lease, &DeleteParams::default()).await.expect("deleted");
        assert_eq!(holder(&setup.client, lease).await, first, "{program}");
        assert!(running.is_running(), "{program}");
        let thief = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}});
        leases.patch(lease, &PatchParams::default(), &Patch::Merge(thief)).await.expect("stolen");
        let (ended, log) = (running.ended(), running.log());
        let last = log.lines().last().unwrap_or_default();
        assert!(ended.code() == Some(1) && last.contains("lost the lease"), "{program}: {ended:?} {log}");
        assert_eq!(holder(&setup.client, lease).await, "thief", "{program}");
    }
    driver.end();
}

/// Upstream's csi-provisioner and kubelet wait, too, with and without an election.
#[tokio::test(flavor = "multi_thread")]
async fn sidecars_and_kubelets_wait_for_an_api_server_that_comes_later() {
    let setup = Setup::new().await;
    let mut driver = setup.driver();
    let [port] = free_ports();
    let target = address(&setup.plane.kubeconfig());
    let text = std::fs::read_to_string(setup.plane.kubeconfig()).expect("a kubeconfig");
    let kubeconfig = setup.dir.path().join("through");
    std::fs::write(&kubeconfig, text.replace(&target, &format!("127.0.0.1:{port}"))).expect("written");
    let mut waiting = ["kubelet", "csi-provisioner", "csi-attacher"]
        .map(|program| start(&setup, program, program, &kubeconfig));
    for program in &mut waiting {
        program.says("waiting for the API server").await;
        assert!(program.is_running(), "{}", program.name);
    }
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = TcpStream::connect(&target).await.expect("the server");
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    let nodes: Api<Node> = Api::all(setup.client.clone());
    until(&nodes, NODE, "registered", |node| node.is_some()).await.expect("registered");
    for (_, lease) in &LEASES[2..] {
        holder(&setup.client, lease).await;
    }
    for program in &mut waiting {
        assert!(program.end().success(), "{}", program.name);
    }
    driver.end();
}

/// Where the server of a kubeconfig is.
fn address(kubeconfig: &Path) -> String {
    let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
    let at = text.find("https://").expect("an address") + "https://".len();
    text[at..].chars().take_while(|c| c.is_ascii_digit() || [':', '.'].contains(c)).collect()
}
