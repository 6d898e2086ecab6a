//! `bowline sidecars` and `bowline node-sidecars` as processes: one process for all controllers, upstream's leases, a standby.

use std::time::Duration;

use bowline_api::{Lease, PersistentVolumeClaim, StorageClass, VolumeAttachment, build, volume};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{DRIVER, NAMESPACE, Setup, bound, holder, ready};
use crate::support;
use crate::support::https::{get, page_with};
use crate::support::objects::{create, delete, until, until_gone};
use crate::support::ports::free_ports;
use crate::support::program::Program;

const BINARY: &str = env!("CARGO_BIN_EXE_bowline");
const OWN: &str = "bowline-sidecars-local-csi-bowline-dev";
const PROVISIONER: &str = "local-csi-bowline-dev";
const ATTACHER: &str = "external-attacher-leader-local-csi-bowline-dev";

fn sidecars(setup: &Setup, replica: u8, port: u16) -> Program {
    let words = [
        "sidecars".to_owned(),
        "--controllers=provisioner,attacher,resizer,health-monitor,livenessprobe".to_owned(),
        format!("--csi-address={}", setup.socket().display()),
        setup.kubeconfig(),
        format!("--http-endpoint=127.0.0.1:{port}"),
        "--leader-election".to_owned(),
        format!("--leader-election-namespace={NAMESPACE}"),
        "--leader-election-lease-duration=6s".to_owned(),
        "--leader-election-renew-deadline=4s".to_owned(),
        "--leader-election-retry-period=1s".to_owned(),
        "--retry-interval-start=100ms".to_owned(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Program::start(setup.dir.path(), &format!("sidecars-{replica}"), BINARY, &words)
}

async fn attach(setup: &Setup, name: &str, volume: &str) -> Api<VolumeAttachment> {
    let attachments: Api<VolumeAttachment> = Api::all(setup.client.clone());
    let attachment = json!({"metadata": {"name": name}, "spec":
        {"attacher": DRIVER, "nodeName": "node", "source": {"persistentVolumeName": volume}}});
    create(&attachments, &serde_json::from_value(attachment).expect("an attachment")).await.expect("created");
    attachments
}

fn attached(attachment: Option<&VolumeAttachment>) -> bool {
    attachment.is_some_and(volume::attached)
}

/// Writes another holder onto a lease, as an upstream program that was rolled back would after the lease ran out.
async fn steal(leases: &Api<Lease>, name: &str, holder: &str) {
    let spec = json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 6,
        "renewTime": "2026-01-01T00:00:00.000000Z"}});
    leases.patch(name, &PatchParams::default(), &Patch::Merge(spec)).await.expect("stolen");
}

fn renewed(lease: Option<&Lease>) -> Option<jiff::Timestamp> {
    lease.and_then(|lease| Some(lease.spec.as_ref()?.renew_time.as_ref()?.0))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_runs_all_controllers_under_upstreams_leases() {
    let setup = Setup::new().await;
    let client = setup.client.clone();
    let mut driver = setup.driver();
    let mut controllers = setup.core("kube-controller-manager", &["--leader-elect=false"]);
    let [first, second] = free_ports();
    let mut leader = sidecars(&setup, 1, first);
    let own = holder(&client, OWN).await;
    for lease in [
        PROVISIONER,
        ATTACHER,
        "external-resizer-local-csi-bowline-dev",
        "external-health-monitor-leader-local-csi-bowline-dev",
    ] {
        assert_eq!(holder(&client, lease).await, own, "{lease}");
    }
    let mut standby = sidecars(&setup, 2, second);

    ready(&client, "node").await;
    let classes: Api<StorageClass> = Api::all(client.clone());
    create(&classes, &build::class("now", DRIVER).build()).await.expect("a class");
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    create(&claims, &build::claim("first").class("now").size("64Mi").build()).await.expect("a claim");
    let volume = bound(&claims, "first").await;
    let attachments = attach(&setup, "one", &volume).await;
    until(&attachments, "one", "attached", attached).await.expect("attached");

    // One port for health and metrics of all of them.
    let server = format!("http://127.0.0.1:{first}");
    assert_eq!(page_with(&server, "/healthz", "ok").await, "ok");
    assert_eq!(page_with(&server, "/healthz/leader-election", "ok").await, "ok");
    let page = page_with(&server, "/metrics", "leader_election_master_status").await;
    for queue in ["external-provisioner", "external-attacher", "external-health-monitor"] {
        assert!(page.contains(&format!("workqueue_depth{{name=\"{queue}\"}}")), "{queue}: {page}");
    }
    assert!(page.contains(&format!("leader_election_master_status{{name=\"{OWN}\"}} 1")), "{page}");

    // What waits and what works is visible, to programs and to people.
    let queue = page_with(&server, "/debug/queue", "operations").await;
    let queue: serde_json::Value = serde_json::from_str(&queue).expect("JSON");
    assert!(queue["operations"].is_array(), "{queue}");
    let top = std::process::Command::new(BINARY)
        .args(["sidecars", "top", "--http-endpoint", &format!("127.0.0.1:{first}")])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&top.stdout).into_owned();
    assert!(top.status.success() && text.starts_with("CONTROLLER"), "{text}");

    // An upstream attacher takes its lease: ours stops, and the provisioner goes on.
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    steal(&leases, ATTACHER, "upstream").await;
    leader.says("another program holds its lease").await;
    create(&claims, &build::claim("second").class("now").size("64Mi").build()).await.expect("a claim");
    bound(&claims, "second").await;
    // When upstream's has gone, ours goes on without a restart of the process.
    delete(&attachments, "one").await.expect("deleted");
    until_gone(&attachments, "one").await.expect("detached after the lease had run out");
    assert_eq!(holder(&client, ATTACHER).await, own);

    // The driver is restarted: the process asks again and goes on.
    driver.end();
    driver = setup.driver();
    create(&claims, &build::claim("third").class("now").size("64Mi").build()).await.expect("a claim");
    bound(&claims, "third").await;
    leader.says("the driver was restarted").await;

    // SIGTERM hands everything over, at once.
    assert!(leader.end().success());
    create(&claims, &build::claim("fourth").class("now").size("64Mi").build()).await.expect("a claim");
    bound(&claims, "fourth").await;
    assert_ne!(holder(&client, OWN).await, own);
    assert_eq!(setup.images(), 4, "PROV-1");
    for name in ["first", "second", "third", "fourth"] {
        delete(&claims, name).await.expect("deleted");
        until_gone(&claims, name).await.expect("gone");
    }
    for program in [&mut standby, &mut controllers] {
        assert!(program.end().success(), "{}", program.name);
    }
    driver.end();
}

/// What people roll back to must not begin before this process has let go, nor this one before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_sidecar_and_the_whole_process_never_work_at_once() {
    let setup = Setup::new().await;
    let client = setup.client.clone();
    let mut driver = setup.driver();
    let mut alone = setup.sidecar("csi-attacher", 1);
    let held = holder(&client, ATTACHER).await;
    let [port] = free_ports();
    let mut all = sidecars(&setup, 1, port);
    let own = holder(&client, PROVISIONER).await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    // The rest works for longer than a lease lasts, and the attacher alone keeps its own.
    let first = renewed(Some(&leases.get(PROVISIONER).await.expect("there")));
    let later = |lease: Option<&Lease>| renewed(lease) > first.map(|time| time + Duration::from_secs(8));
    until(&leases, PROVISIONER, "renewed for longer than a lease", later).await.expect("renewed");
    assert_eq!(holder(&client, ATTACHER).await, held);
    assert!(alone.end().success());
    let ours = |lease: Option<&Lease>| {
        lease
            .and_then(|lease| lease.spec.as_ref()?.holder_identity.clone())
            .is_some_and(|holder| holder == own)
    };
    until(&leases, ATTACHER, "ours", ours).await.expect("taken over");
    assert!(all.end().success());
    driver.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn node_sidecars_present_the_driver_and_answer_for_it() {
    let setup = Setup::new().await;
    let mut driver = setup.driver();
    let registry = setup.dir.path().join("registry");
    let [port] = free_ports();
    let words = [
        "node-sidecars".to_owned(),
        format!("--csi-address={}", setup.socket().display()),
        format!("--kubelet-registration-path={}", setup.socket().display()),
        format!("--plugin-registration-path={}", registry.display()),
        format!("--http-endpoint=127.0.0.1:{port}"),
        "--timeout=30s".to_owned(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut node = Program::start(setup.dir.path(), "node-sidecars", BINARY, &words);
    let socket = registry.join(format!("{DRIVER}-reg.sock"));
    support::until_exists(&socket).await;
    let server = format!("http://127.0.0.1:{port}");
    page_with(&server, "/healthz", "ok").await;
    page_with(&server, "/healthz/registration", "ok").await;
    page_with(&server, "/metrics", "method_name=\"/csi.v1.Identity/Probe\"").await;
    // A driver that has gone is unhealthy, and still registered: the kubelet restarts it by the first page alone.
    driver.end();
    let (status, text) = get(&server, &json!({}), "/healthz").await;
    assert_eq!(status, Some(500), "{text}");
    assert_eq!(get(&server, &json!({}), "/healthz/registration").await.0, Some(200));
    assert!(node.end().success());
    assert!(!socket.exists(), "the kubelet forgets the driver when its socket goes");
}
