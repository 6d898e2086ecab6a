//! The server: in a process of its own, so that its memory can be read.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use bowline_apiserver::auth::{Mode, Settings};
use bowline_apiserver::certs::{Authority, Credentials};
use bowline_apiserver::limits::LimitSettings;
use bowline_apiserver::{Server, Store, tls};
use bowline_host::Clock;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::client::Client;
use crate::common;

/// What the process says when it is ready; its address and three credentials follow.
const READY: &str = "ready ";
const READS: &str = "BOWLINE_TEST_MAX_REQUESTS_INFLIGHT";
pub const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server with four megabytes of config maps: as many small as large ones.
pub struct Process {
    child: Child,
    address: SocketAddr,
    authority: String,
    users: Vec<Credentials>,
}

impl Process {
    /// `reads` is how many requests that change nothing are answered at a time.
    pub fn start(reads: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "unread::server::serve", "--nocapture"])
            .env(READS, reads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = loop {
            let line = lines.next().expect("the server says that it is ready").unwrap();
            if let Some((_, said)) = line.split_once(READY) {
                break serde_json::from_str::<serde_json::Value>(said).unwrap();
            }
        };
        // Read to the end, so that the server can say more.
        std::thread::spawn(move || lines.for_each(drop));
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let users = said["users"].as_array().unwrap();
        Self {
            child,
            address: text(&said["address"]).parse().unwrap(),
            authority: text(&said["authority"]),
            users: users
                .iter()
                .map(|user| Credentials { certificate: text(&user[0]), key: text(&user[1]) })
                .collect(),
        }
    }

    /// One of two users without special rights; 2 is the administrator.
    pub fn user(&self, number: usize) -> Client {
        Client::new(self.address, &self.authority, &self.users[number])
    }

    /// Resident memory in MiB.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn fill(server: &Server) {
    // Two megabytes in objects of 2 kB, two in objects of 200 kB.
    for (count, size) in [(1000, 2_000), (10, 200_000)] {
        for number in 0..count {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("c{size}-{number:04}")}, "data": {"fill": "x".repeat(size)}});
            let request = Request::builder().method(Method::POST).uri(CONFIGMAPS);
            let body = Full::new(Bytes::from(object.to_string()));
            let answer = server.handle(request.body(body).unwrap()).await;
            assert_eq!(answer.status(), 201);
        }
    }
}

/// Not a test: what [`Process::start`] runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the server that the other tests start"]
async fn serve() {
    let Ok(reads) = std::env::var(READS) else { return };
    bowline_host::real::raise_open_files().unwrap();
    let now = common::Now.now();
    let authority = Authority::ephemeral(now).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let limits = LimitSettings {
        max_requests_inflight: reads.parse().unwrap(),
        http2_max_streams_per_connection: 1000,
        ..LimitSettings::default()
    };
    let settings = Settings { modes: vec![Mode::AlwaysAllow], limits, ..Settings::default() };
    let server = common::server_with(Store::memory(), settings).await;
    fill(&server).await;
    let config = tls::config(&authority, &authority.issue_server(&[], now).unwrap()).unwrap();
    let joe = authority.issue_client("joe", "tenants", now).unwrap();
    let ann = authority.issue_client("ann", "tenants", now).unwrap();
    let users = [joe, ann, authority.issue_admin(now).unwrap()];
    let said = json!({"address": listener.local_addr().unwrap().to_string(), "authority": authority.certificate(),
        "users": users.map(|user| [user.certificate, user.key])});
    let mut out = std::io::stdout();
    writeln!(out, "{READY}{said}").unwrap();
    out.flush().unwrap();
    let stop = CancellationToken::new();
    let ended = stop.clone();
    // The other process closes it, also by ending.
    std::thread::spawn(move || {
        let _ = std::io::stdin().lines().count();
        ended.cancel();
    });
    tls::serve(listener, server, config, stop).await;
}
