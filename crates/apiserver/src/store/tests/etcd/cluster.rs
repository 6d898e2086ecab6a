//! Starts and kills members.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::ports::free_ports;
use super::*;
use crate::store::etcd::{client::Client, layout::Layout};

/// Keeps a member running for as long as its standard input is open, so that nothing is left behind however a test
/// ends.
const KEEPER: &str = r#""$@" </dev/null & member=$!; cat >/dev/null; kill -9 $member; wait $member"#;
const START: Duration = Duration::from_secs(60);

pub struct Cluster {
    dir: tempfile::TempDir,
    members: Vec<Member>,
    extra: Vec<String>,
    scheme: &'static str,
}

struct Member {
    name: String,
    client: u16,
    peer: u16,
    process: Mutex<Option<Child>>,
}

/// One cluster of three for all tests that do it no harm.
pub fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    // A leader that gets no processor for a while stays the leader, and no answer is lost with it.
    let calm = ["--heartbeat-interval", "300", "--election-timeout", "3000"];
    SHARED.get_or_init(|| Cluster::start(3, &calm))
}

fn program() -> PathBuf {
    let path = std::env::var_os("ETCD")
        .expect("ETCD names the etcd to test with; `make test` builds it and sets it");
    path.into()
}

/// Random enough to tell two servers apart.
pub struct Count(AtomicU64);

impl Random for Count {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

pub static RANDOM: Count = Count(AtomicU64::new(1));

/// A prefix that nobody else has.
pub fn prefix() -> String {
    format!("/test-{}-{}", std::process::id(), RANDOM.next_u64())
}

impl Cluster {
    pub fn start(size: usize, extra: &[&str]) -> Self {
        Self::start_on("http", size, extra)
    }

    pub fn start_on(scheme: &'static str, size: usize, extra: &[&str]) -> Self {
        let member = |n| {
            let [client, peer] = free_ports();
            Member { name: format!("m{n}"), client, peer, process: Mutex::default() }
        };
        let cluster = Self {
            dir: tempfile::tempdir().unwrap(),
            members: (0..size).map(member).collect(),
            extra: extra.iter().map(|&flag| flag.to_owned()).collect(),
            scheme,
        };
        (0..size).for_each(|n| cluster.start_member(n));
        cluster
    }

    pub fn start_member(&self, n: usize) {
        let member = &self.members[n];
        let client = self.url(n);
        let peer = |member: &Member| format!("http://127.0.0.1:{}", member.peer);
        let all: Vec<String> = self.members.iter().map(|m| format!("{}={}", m.name, peer(m))).collect();
        let log = std::fs::File::options().create(true).append(true).open(self.log(n)).unwrap();
        let process = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(program())
            .args(["--name", &member.name, "--data-dir"])
            .arg(self.data(n))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer(member), "--initial-advertise-peer-urls", &peer(member)])
            .args(["--initial-cluster", &all.join(",")])
            // A new leader is found soon, and what a killed process has written is still in the kernel.
            .args(["--heartbeat-interval", "50", "--election-timeout", "500", "--unsafe-no-fsync"])
            .args(["--log-level", "warn"])
            .args(&self.extra)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        *member.process.lock().unwrap() = Some(process);
    }

    /// As `kill -9` does it.
    pub fn kill(&self, n: usize) {
        let process = self.members[n].process.lock().unwrap().take();
        let mut process = process.expect("the member runs");
        drop(process.stdin.take());
        process.wait().unwrap();
    }

    pub fn data(&self, n: usize) -> PathBuf {
        self.dir.path().join(&self.members[n].name)
    }

    fn log(&self, n: usize) -> PathBuf {
        self.dir.path().join(format!("{}.log", self.members[n].name))
    }

    pub fn address(&self, n: usize) -> String {
        format!("127.0.0.1:{}", self.members[n].client)
    }

    pub fn url(&self, n: usize) -> String {
        format!("{}://{}", self.scheme, self.address(n))
    }

    /// All members, beginning with one of them.
    pub fn settings_from(&self, first: usize, prefix: &str) -> EtcdSettings {
        let size = self.members.len();
        settings((0..size).map(|n| self.url((first + n) % size)).collect(), prefix)
    }

    pub async fn client(&self) -> Client {
        let client = Client::new(&self.settings_from(0, "/x")).unwrap();
        let layout = Layout::new("/x").unwrap();
        if let Err(why) = client.revision(&layout, Instant::now() + START).await {
            let logs =
                (0..self.members.len()).map(|n| std::fs::read_to_string(self.log(n)).unwrap_or_default());
            panic!("{why}\n{}", logs.collect::<String>());
        }
        client
    }

    pub async fn store(&self, options: Options) -> Store {
        self.store_at(0, &prefix(), options).await
    }

    /// A store that asks this member first.
    pub async fn store_at(&self, first: usize, prefix: &str, options: Options) -> Store {
        self.client().await;
        Store::open_etcd(self.settings_from(first, prefix), options, &RANDOM).await.unwrap()
    }

    /// The member that leads, by its number.
    pub async fn leader(&self) -> usize {
        for _ in 0..200 {
            for n in 0..self.members.len() {
                let one = Client::new(&settings(vec![self.url(n)], "/x")).unwrap();
                if one.leads().await {
                    return n;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no member leads");
    }
}

pub fn settings(servers: Vec<String>, prefix: &str) -> EtcdSettings {
    EtcdSettings {
        servers,
        prefix: prefix.to_owned(),
        ca_file: None,
        cert_file: None,
        key_file: None,
        compaction_interval: Duration::ZERO,
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &self.members {
            if let Some(mut process) = member.process.lock().unwrap().take() {
                drop(process.stdin.take());
                let _ = process.wait();
            }
        }
    }
}
