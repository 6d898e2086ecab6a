//! What goes wrong around a program: it says so in one line, and waits or exits as upstream's does.

use std::path::Path;
use std::time::{Duration, Instant};

use bowline_api::Lease;
use bowline_apiserver::certs::Authority;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::setup::{By, Lead, Setup};
use crate::support::control_plane::ControlPlane;
use crate::support::objects::until;
use crate::support::ports::free_ports;
use crate::support::program::Program;
use crate::support::upstream::NAMESPACE;

const BOWLINE: &str = env!("CARGO_BIN_EXE_bowline");
const OUTAGE: Duration = Duration::from_secs(40);
/// The longest pause of a watch is 30 seconds; the rest is for a busy machine.
const BACK: Duration = Duration::from_secs(90);
const LEASE: &str = "external-attacher-leader-local-csi-bowline-dev";

/// Code and standard error of a program that ends by itself.
fn run(words: &[&str]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut program = Program::start(dir.path(), words[0], BOWLINE, words);
    (program.ended().code(), program.log())
}

fn driver(dir: &Path) -> Program {
    let (socket, pool) = (dir.join("csi.sock"), dir.join("pool"));
    let [socket, pool] = [&socket, &pool].map(|path| path.to_str().expect("text").to_owned());
    let words = ["driver", "local", "--endpoint", &socket, "--pool", &pool, "--node-id", "node"];
    Program::start(dir, "driver", BOWLINE, &words)
}

fn attacher(dir: &Path, kubeconfig: &Path, further: &[&str]) -> Program {
    let words = [
        "csi-attacher".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--csi-address={}", dir.join("csi.sock").display()),
        format!("--leader-election-namespace={NAMESPACE}"),
        "--leader-election-lease-duration=6s".to_owned(),
        "--leader-election-renew-deadline=4s".to_owned(),
        "--leader-election-retry-period=1s".to_owned(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).chain(further.iter().copied()).collect();
    Program::start(dir, "csi-attacher", BOWLINE, &words)
}

async fn held(leases: &Api<Lease>, name: &str) {
    let held = |lease: Option<&Lease>| {
        let spec = lease.and_then(|lease| lease.spec.as_ref());
        spec.is_some_and(|spec| spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty()))
    };
    until(leases, name, "held", held).await.expect("held");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_used_at_start_is_one_line_and_exit_code_1() {
    let plane = ControlPlane::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let garbled = dir.path().join("garbled");
    std::fs::write(&garbled, "users: [").expect("a file");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its address");
    let good = format!("--kubeconfig={}", plane.kubeconfig().display());
    let [folder, garbled, absent] = [dir.path(), &garbled, &dir.path().join("absent")]
        .map(|path| format!("--kubeconfig={}", path.display()));
    let [endpoint, port] = [format!("--http-endpoint={taken}"), format!("--secure-port={}", taken.port())];
    let [root, socket] = ["--root-dir", "--kubelet-registration-path"]
        .map(|flag| format!("{flag}={}/x", dir.path().display()));
    let kubelet = ["kubelet", "--hostname-override=node-1", "--healthz-port=0", "--address=127.0.0.1", &root];
    // Without an authority of clients the kubelet serves nothing.
    let authority = Authority::ephemeral(jiff::Timestamp::now()).expect("an authority");
    std::fs::write(dir.path().join("ca.crt"), authority.certificate()).expect("a certificate");
    let authority = format!("--client-ca-file={}", dir.path().join("ca.crt").display());
    let kubelet_port = format!("--port={}", taken.port());
    let kubelet_absent = [kubelet.as_slice(), &[&absent]].concat();
    let kubelet_port = [kubelet.as_slice(), &[&good, &authority, &kubelet_port]].concat();
    let cases: [(&[&str], &str); 14] = [
        (&["kube-controller-manager", "--secure-port=0", &absent], "read kubeconfig"),
        (&["kube-scheduler", "--secure-port=0", &absent], "read kubeconfig"),
        (&["csi-provisioner", &absent], "read kubeconfig"),
        (&["csi-attacher", &absent], "read kubeconfig"),
        (&kubelet_absent, "read kubeconfig"),
        (&kubelet_port, "--port: the address"),
        (&["csi-node-driver-registrar", &socket, &endpoint], "--http-endpoint"),
        (&["csi-provisioner", &good, &endpoint], "--http-endpoint"),
        (&["csi-provisioner", &folder], "read kubeconfig"),
        (&["csi-attacher", &garbled], "use kubeconfig"),
        (&["kube-scheduler", "--secure-port=0", &garbled], "use kubeconfig"),
        (&["csi-attacher", &good, &endpoint], "--http-endpoint"),
        (&["kube-scheduler", &good, "--bind-address=127.0.0.1", &port], "--secure-port"),
        (&["kube-controller-manager", &good, "--bind-address=127.0.0.1", &port], "--secure-port"),
    ];
    for (words, expected) in cases {
        let (code, text) = run(words);
        let one_line = text.lines().count() == 1;
        assert!(code == Some(1) && one_line && text.contains(expected), "{words:?}: {code:?} {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_is_waited_for_and_its_absence_is_an_error() {
    let plane = ControlPlane::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let mut late = attacher(dir.path(), &plane.kubeconfig(), &["--leader-election"]);
    let never = dir.path().join("never");
    let never = tokio::task::spawn_blocking({
        let kubeconfig = format!("--kubeconfig={}", plane.kubeconfig().display());
        let address = format!("--csi-address={}", never.display());
        move || run(&["csi-provisioner", &kubeconfig, &address])
    });
    let nowhere = dir.path().join("nowhere");
    let nowhere = tokio::task::spawn_blocking({
        let [address, path] = ["--csi-address", "--kubelet-registration-path"]
            .map(|flag| format!("{flag}={}", nowhere.display()));
        move || run(&["csi-node-driver-registrar", &address, &path])
    });
    let _driver = driver(dir.path());
    held(&Api::namespaced(plane.client().await, NAMESPACE), LEASE).await;
    assert!(late.end().success());
    // Upstream gives up after the same time.
    let (code, text) = never.await.expect("it ends");
    assert!(code == Some(1) && text.lines().count() == 1 && text.contains("/never"), "{code:?} {text}");
    let (code, text) = nowhere.await.expect("it ends");
    assert!(code == Some(1) && text.lines().count() == 1 && text.contains("/nowhere"), "{code:?} {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stolen_lease_ends_the_program_and_stays_stolen() {
    let plane = ControlPlane::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let _driver = driver(dir.path());
    let mut attacher = attacher(dir.path(), &plane.kubeconfig(), &["--leader-election"]);
    let leases: Api<Lease> = Api::namespaced(plane.client().await, NAMESPACE);
    held(&leases, LEASE).await;
    let stolen = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}});
    leases.patch(LEASE, &PatchParams::default(), &Patch::Merge(stolen)).await.expect("stolen");
    let ended = attacher.ended();
    let log = attacher.log();
    let last = log.lines().last().unwrap_or_default();
    assert!(ended.code() == Some(1) && last.contains("lost the lease"), "{ended:?} {log}");
    let lease = leases.get(LEASE).await.expect("the lease");
    assert_eq!(lease.spec.and_then(|spec| spec.holder_identity).as_deref(), Some("thief"));
}

/// Programs without a lease wait however long it takes; those with one end, since another replica may lead by then.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_was_away_finds_programs_at_work() {
    let mut setup = Setup::new().await;
    let _driver = setup.driver().await;
    let mut waiting = setup.core(By::Us, "kube-controller-manager", Lead::Alone, 1);
    let mut leading = setup.core(By::Us, "kube-scheduler", Lead::Shortly, 1);
    setup.held("kube-scheduler").await;
    setup.server.grant("csi-provisioner");
    let account = setup.server.account("csi-provisioner").await;
    let words = [
        "csi-provisioner".to_owned(),
        format!("--kubeconfig={}", account.display()),
        format!("--csi-address={}", setup.dir().join("csi.sock").display()),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut provisioner = Program::start(setup.dir(), "provisioner", BOWLINE, &words);
    let (_registrar, _node) = setup.node().await;
    setup.claim("before", "now").await;
    setup.bound("before").await;

    setup.server.stop();
    let away = Instant::now();
    let ended = leading.ended();
    let log = leading.log();
    let last = log.lines().last().unwrap_or_default();
    assert!(ended.code() == Some(1) && last.contains("lost the lease"), "{ended:?} {log}");
    // So long that pauses between retries have grown to their longest.
    tokio::time::sleep(OUTAGE.saturating_sub(away.elapsed())).await;
    setup.server.start_again().await;
    let back = Instant::now();
    setup.claim("after", "now").await;
    setup.bound("after").await;
    assert!(back.elapsed() < BACK, "{:?}", back.elapsed());
    assert!(waiting.is_running() && provisioner.is_running());
    assert_eq!(setup.images(), 2, "PROV-1");

    // The certificate of long ago is refused, and the program says what to do about it.
    let long_ago: jiff::Timestamp = "2000-01-01T00:00:00Z".parse().expect("a time");
    let expired = setup.server.user_at("system:kube-scheduler", "system:kube-scheduler", long_ago);
    let expired = format!("--kubeconfig={}", expired.display());
    let words = ["kube-scheduler", "--secure-port=0", &expired];
    let mut scheduler = Program::start(setup.dir(), "expired", BOWLINE, &words);
    scheduler.says("renew the certificate").await;
    // It goes on asking, as upstream's does, and so does a sidecar.
    assert!(scheduler.is_running());
    let expired = setup.server.user_at("csi-attacher", "csi-attacher", long_ago);
    let mut attacher = attacher(setup.dir(), &expired, &["--leader-election"]);
    attacher.says("Unauthorized").await;
    assert!(attacher.is_running());
}

/// A server that comes later: upstream's kube-controller-manager ends after ten seconds where it takes part in no election,
/// and waits for its lease where it does; the scheduler always waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_yet_is_waited_for() {
    let plane = ControlPlane::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let [port] = free_ports();
    let (kubeconfig, target) = through(&plane, dir.path(), port);
    let start = |log: &str, words: &[&str]| {
        let shared = ["--secure-port=0", &kubeconfig];
        Program::start(dir.path(), log, BOWLINE, &[words, &shared].concat())
    };
    let mut waiting = [
        start("manager", &["kube-controller-manager"]),
        start("scheduler", &["kube-scheduler"]),
        start("scheduler-alone", &["kube-scheduler", "--leader-elect=false"]),
    ];
    let mut manager = start("manager-alone", &["kube-controller-manager", "--leader-elect=false"]);
    let ended = manager.ended();
    let log = manager.log();
    let last = log.lines().last().unwrap_or_default();
    assert!(ended.code() == Some(1) && last.contains("reach the API server"), "{ended:?} {log}");
    // They were started before it, so they have waited for longer.
    for program in &mut waiting {
        program.says("waiting for the API server").await;
        assert!(program.is_running(), "{}", program.name);
    }
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("the port");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = tokio::net::TcpStream::connect(&target).await.expect("the server");
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    let leases: Api<Lease> = Api::namespaced(plane.client().await, NAMESPACE);
    for lease in ["kube-controller-manager", "kube-scheduler"] {
        held(&leases, lease).await;
    }
    assert!(waiting.iter_mut().all(Program::is_running));
}

/// A kubeconfig for the same server behind another port, and where the server is.
fn through(plane: &ControlPlane, dir: &Path, port: u16) -> (String, String) {
    let text = std::fs::read_to_string(plane.kubeconfig()).expect("a kubeconfig");
    let at = text.find("https://").expect("an address") + "https://".len();
    let address: String =
        text[at..].chars().take_while(|c| c.is_ascii_digit() || [':', '.'].contains(c)).collect();
    let file = dir.join("kubeconfig");
    std::fs::write(&file, text.replace(&address, &format!("127.0.0.1:{port}"))).expect("written");
    (format!("--kubeconfig={}", file.display()), address)
}
