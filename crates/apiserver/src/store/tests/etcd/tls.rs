//! Certificates on both sides.

use std::path::PathBuf;

use super::*;
use crate::certs::{Authority, Credentials};

/// Certificates in files.
struct Files {
    _dir: tempfile::TempDir,
    ca: PathBuf,
    server: (PathBuf, PathBuf),
    client: (PathBuf, PathBuf),
}

fn files() -> Files {
    let now = jiff::Timestamp::now();
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::ephemeral(now).unwrap();
    let save = |name: &str, content: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let pair = |name: &str, credentials: Credentials| {
        let certificate = save(&format!("{name}.crt"), &credentials.certificate);
        (certificate, save(&format!("{name}.key"), &credentials.key))
    };
    Files {
        ca: save("ca.crt", authority.certificate()),
        server: pair("server", authority.issue_server(&[], now).unwrap()),
        client: pair("client", authority.issue_admin(now).unwrap()),
        _dir: dir,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_opens_the_door_and_nothing_else_does() {
    let files = files();
    let text = |path: &PathBuf| path.display().to_string();
    let cluster = Cluster::start_on(
        "https",
        1,
        &[
            "--cert-file",
            &text(&files.server.0),
            "--key-file",
            &text(&files.server.1),
            "--trusted-ca-file",
            &text(&files.ca),
            "--client-cert-auth",
        ],
    );
    let with = EtcdSettings {
        ca_file: Some(files.ca.clone()),
        cert_file: Some(files.client.0.clone()),
        key_file: Some(files.client.1.clone()),
        ..cluster.settings_from(0, &cluster::prefix())
    };
    let open = |settings: EtcdSettings| async move {
        Store::open_etcd(settings, Options::default(), &cluster::RANDOM).await
    };
    let store = open(with.clone()).await.unwrap();
    create(&store, "a").await;
    store.fresh().await.unwrap();

    let mut problems = Vec::new();
    for settings in [
        EtcdSettings { cert_file: None, key_file: None, ..with.clone() },
        EtcdSettings { ca_file: Some(self::files().ca), ..with.clone() },
        EtcdSettings { ca_file: None, ..with.clone() },
        EtcdSettings { key_file: None, ..with.clone() },
        EtcdSettings { ca_file: Some(files.client.1.clone()), ..with },
    ] {
        problems.push(open(settings).await.err().expect("no way in").to_string());
    }
    let expected = ["", "TLS with 127.0.0.1: ", "https needs --etcd-cafile", "go together", "there are none"];
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.starts_with("etcd at https://127.0.0.1:") && problem.contains(expected), "{problem}");
    }
}
