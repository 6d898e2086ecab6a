//! `bowline up` and `bowline kube-apiserver` on a machine or with data that they cannot use: one clear sentence, exit 1,
//! nothing changed.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

fn up(scratch: &Path, change: impl FnOnce(&mut Command)) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(["up", "--listen", "127.0.0.1:0", "--node-name", "test-node"]);
    command.args(["--data-dir".as_ref(), scratch.join("data").as_os_str()]);
    command.args(["--kubelet-dir".as_ref(), scratch.join("kubelet").as_os_str()]);
    command.env("RUST_LOG", "off");
    change(&mut command);
    command.output().expect("run bowline")
}

/// Exit 1 and exactly one line, which has each of these.
fn assert_refused(output: &Output, wanted: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "one sentence, not: {text}");
    for part in wanted {
        assert!(text.contains(part), "should say {part:?}: {text}");
    }
}

fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("scratch directory")
}

#[test]
fn not_root() {
    use std::os::unix::process::CommandExt;
    let scratch = scratch();
    let copy = scratch.path().join("bowline");
    std::fs::copy(env!("CARGO_BIN_EXE_bowline"), &copy).expect("a copy that nobody may run as well");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(scratch.path(), open).expect("open the folder");
    let output =
        Command::new(&copy).args(["up", "--node-name", "x"]).uid(65534).gid(65534).output().expect("run");
    assert_refused(&output, &["needs root", "sudo"]);
}

#[test]
fn no_mkfs() {
    let scratch = scratch();
    let empty = scratch.path().join("empty");
    std::fs::create_dir(&empty).expect("empty folder");
    // A mount namespace of its own, in which the folders of system programs are empty.
    let hide = r#"for d in /usr/sbin /sbin; do mount --bind "$EMPTY" $d; done; exec "$0" up --data-dir "$DATA" --node-name x"#;
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", hide, env!("CARGO_BIN_EXE_bowline")])
        .env("EMPTY", &empty)
        .env("DATA", scratch.path().join("data"))
        .env("RUST_LOG", "off")
        .output()
        .expect("run unshare");
    assert_refused(&output, &["mkfs.ext4", "apt-get install e2fsprogs"]);
    assert!(!scratch.path().join("data").exists(), "nothing was made");
}

#[test]
fn port_taken() {
    let scratch = scratch();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("address").to_string();
    let output = up(scratch.path(), |c| {
        c.args(["--listen", &address]);
    });
    assert_refused(&output, &[&address, "already in use", "--listen"]);

    let port = taken.local_addr().expect("address").port().to_string();
    let api_server = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        let data = scratch.path().join("server");
        command.args(["kube-apiserver", "--memory", "--data-dir"]).arg(data).args(flags);
        command.env("RUST_LOG", "off").output().expect("run bowline")
    };
    let output = api_server(&["--secure-port", &port]);
    assert_refused(&output, &[&address, "already in use", "--secure-port or --bind-address"]);
    // An address that no machine has.
    let output = api_server(&["--secure-port", &port, "--bind-address", "192.0.2.1"]);
    assert_refused(&output, &["listen on 192.0.2.1:", "--secure-port or --bind-address"]);
}

/// Every port that a program listens on.
#[test]
fn taken_ports_of_programs_name_their_flag() {
    let scratch = scratch();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("address");
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let user = "{name: u, user: {token: t}}";
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\nusers: [{user}]\n\
         clusters: [{{name: k, cluster: {{server: 'https://127.0.0.1:1'}}}}]\n"
    );
    std::fs::write(path("kubeconfig"), text).expect("a file");
    let kubeconfig = format!("--kubeconfig={}", path("kubeconfig"));
    let [root, socket] =
        ["--root-dir", "--kubelet-registration-path"].map(|flag| format!("{flag}={}", path("x")));
    let kubelet = ["kubelet", &kubeconfig, "--hostname-override=n", "--node-ip=127.0.0.1", &root];
    let driver = ["driver", "local", "--endpoint", &path("s"), "--pool", &path("pool"), "--node-id", "n"];
    let core = [kubeconfig.as_str(), "--bind-address=127.0.0.1"];
    let anonymous = ["--anonymous-auth=true", "--healthz-port=0", "--address=127.0.0.1"];
    let cases: [(&[&str], &[&str], &str); 10] = [
        (&["kube-controller-manager"], &core, "--secure-port"),
        (&["kube-scheduler"], &core, "--secure-port"),
        (&kubelet, &[], "--healthz-port"),
        (&kubelet, &anonymous, "--port"),
        (&["csi-provisioner", &kubeconfig], &[], "--http-endpoint"),
        (&["csi-provisioner", &kubeconfig], &[], "--metrics-address"),
        (&["csi-attacher", &kubeconfig], &[], "--http-endpoint"),
        (&["csi-node-driver-registrar", &socket], &[], "--http-endpoint"),
        (&["csi-node-driver-registrar", &socket], &[], "--health-port"),
        (&driver, &[], "--metrics-address"),
    ];
    for (words, more, flag) in cases {
        let value = if flag.ends_with("port") { taken.port().to_string() } else { taken.to_string() };
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command.args(words).args(more).arg(format!("{flag}={value}")).env("RUST_LOG", "off");
        let output = command.output().expect("run bowline");
        assert_refused(&output, &[&format!("{flag}: "), &taken.port().to_string(), "another process"]);
    }
}

#[test]
fn data_of_a_newer_version() {
    let scratch = scratch();
    let store = scratch.path().join("data/store");
    std::fs::create_dir_all(&store).expect("store folder");
    std::fs::write(store.join("format"), "999\n").expect("a version of the future");
    let output = up(scratch.path(), |_| {});
    assert_refused(&output, &["newer", "999"]);
}

#[test]
fn data_in_use() {
    let scratch = scratch();
    let store = scratch.path().join("data/store");
    std::fs::create_dir_all(&store).expect("store folder");
    let lock = std::fs::File::create(store.join("lock")).expect("lock file");
    lock.lock().expect("lock");
    let output = up(scratch.path(), |_| {});
    assert_refused(&output, &["in use by another process"]);
}

#[test]
fn bad_node_name() {
    let scratch = scratch();
    let output = up(scratch.path(), |c| {
        c.args(["--node-name", "No Such Name"]);
    });
    assert_refused(&output, &["No Such Name", "--node-name"]);
}
