//! Upstream's kube-apiserver with one etcd, both on loopback, on the same disk, syncing as by default.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use bowline_apiserver::certs::{Authority, Credentials};

use super::client::Target;
use super::ours::free_port;
use super::subject::{Recipe, Subject};

pub const NAME: &str = "kube-apiserver + etcd";

pub async fn start(server: &Path, etcd: &Path, dir: &Path) -> Result<Subject> {
    start_with(server, etcd, dir, &[]).await
}

/// The same with further flags of kube-apiserver.
pub async fn start_with(server: &Path, etcd: &Path, dir: &Path, further: &[String]) -> Result<Subject> {
    let now = jiff::Timestamp::now();
    let authority = Authority::open(dir, now)?;
    let port = free_port()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let target = Target::new(address, &authority, &authority.issue_admin(now)?)?;

    std::fs::write(dir.join("ca.crt"), authority.certificate()).context("write a certificate")?;
    write(dir, "server", &authority.issue_server(&[], now)?)?;
    // Any key will do for signing tokens that nobody asks for.
    write(dir, "sa", &authority.issue_client("service-accounts", "none", now)?)?;
    let (client, peer) = (free_port()?, free_port()?);
    let recipes = vec![
        Recipe {
            program: etcd.to_owned(),
            arguments: etcd_arguments(dir, client, peer),
            log: dir.join("etcd.log"),
        },
        Recipe {
            program: server.to_owned(),
            arguments: [server_arguments(dir, client, port), further.to_vec()].concat(),
            log: dir.join("kube-apiserver.log"),
        },
    ];
    Subject::start(NAME, target, recipes).await
}

fn write(dir: &Path, name: &str, credentials: &Credentials) -> Result<()> {
    for (end, text) in [("crt", &credentials.certificate), ("key", &credentials.key)] {
        std::fs::write(dir.join(format!("{name}.{end}")), text).context("write a certificate")?;
    }
    Ok(())
}

fn etcd_arguments(dir: &Path, client: u16, peer: u16) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    vec![
        "--name=bench".into(),
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=bench={peer}"),
        "--log-level=warn".into(),
    ]
}

fn server_arguments(dir: &Path, etcd: u16, port: u16) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", file("sa.crt")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--endpoint-reconciler-type=none".into(),
        "--service-cluster-ip-range=10.0.0.0/24".into(),
        "--authorization-mode=AlwaysAllow".into(),
        // Nobody makes service accounts here.
        "--disable-admission-plugins=ServiceAccount".into(),
        // Its own fairness would shape the figures of 64 clients with one name.
        "--enable-priority-and-fairness=false".into(),
    ]
}
