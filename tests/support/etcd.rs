//! Three members of the real etcd on loopback, gone with the process that started them however it ends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::peers::peer;
use super::ports::free_ports;

const MEMBERS: usize = 3;
/// Keeps a member and its folder for as long as its standard input is open: an end by any signal closes it, too. The
/// last one takes the folder of the cluster along.
const KEEPER: &str = r#"folder=$1; shift; "$@" </dev/null & member=$!
cat >/dev/null; kill -9 $member; wait $member; rm -rf "$folder"; rmdir "${folder%/*}" 2>/dev/null"#;
/// Longest a member may take to say how it is.
const ANSWER: Duration = Duration::from_secs(5);

/// A leader that gets no processor for a while on a busy machine stays the leader, and no answer is lost with it.
pub const CALM: u32 = 3_000;
/// For those who kill the leader: a new one is found soon.
pub const HASTY: u32 = 500;

/// A cluster of three.
pub struct Etcd {
    folder: PathBuf,
    members: [Member; MEMBERS],
    election: u32,
}

struct Member {
    client: u16,
    peer: u16,
    keeper: Mutex<Option<Child>>,
}

impl Etcd {
    /// One for all tests of a process that do it no harm.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<Etcd> = LazyLock::new(|| Etcd::start(CALM));
        &SHARED
    }

    /// `election` is after how many milliseconds of silence the others choose a new leader.
    pub fn start(election: u32) -> Self {
        let folder = tempfile::Builder::new().prefix("bowline-etcd-").tempdir().expect("scratch directory");
        let ports: [u16; 2 * MEMBERS] = free_ports();
        let member =
            |n: usize| Member { client: ports[n], peer: ports[MEMBERS + n], keeper: Mutex::default() };
        // Kept by the members: nothing of this process may be left to remove it.
        let etcd = Self { folder: folder.keep(), members: [member(0), member(1), member(2)], election };
        (0..MEMBERS).for_each(|n| etcd.start_member(n));
        (0..MEMBERS).for_each(|n| etcd.wait_for(n, "/health", r#""health":"true""#));
        etcd
    }

    /// For a server that keeps its objects here below a prefix, and asks this member first.
    pub fn flags(&self, first: usize, prefix: &str) -> Vec<String> {
        let ports: Vec<u16> = (0..MEMBERS).map(|n| self.members[(first + n) % MEMBERS].client).collect();
        flags(&ports, prefix)
    }

    /// Where clients reach a member.
    pub fn port(&self, n: usize) -> u16 {
        self.members[n].client
    }

    /// The member that leads.
    pub fn leader(&self) -> usize {
        let patience = Instant::now() + PATIENCE;
        while Instant::now() < patience {
            let leads = |n: &usize| self.ask(*n, "/metrics").contains("\netcd_server_is_leader 1\n");
            if let Some(leader) = (0..MEMBERS).find(leads) {
                return leader;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("no member leads");
    }

    /// As `kill -9` does it. Its data is lost.
    pub fn kill(&self, n: usize) {
        end(&self.members[n]);
    }

    fn start_member(&self, n: usize) {
        let (member, name) = (&self.members[n], format!("m{n}"));
        let (client, peers) = (url(member.client), url(member.peer));
        let all = self.members.iter().enumerate().map(|(n, member)| format!("m{n}={}", url(member.peer)));
        let folder = self.folder.join(&name);
        std::fs::create_dir(&folder).expect("folder of a member");
        let log = std::fs::File::create(folder.join("log")).expect("log file");
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, "sh"]).arg(&folder).arg(peer("etcd"));
        command.args(["--name", &name, "--data-dir"]).arg(folder.join("data"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &all.collect::<Vec<_>>().join(",")]);
        let (heartbeat, election) = ((self.election / 10).to_string(), self.election.to_string());
        command.args(["--heartbeat-interval", &heartbeat, "--election-timeout", &election]);
        // What a killed process has written is still in the kernel.
        command.arg("--unsafe-no-fsync");
        command.args(["--log-level", "warn"]);
        // A group of its own: who interrupts the tests does not interrupt what cleans up after them.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        *member.keeper.lock().expect("a keeper") = Some(command.spawn().expect("start etcd"));
    }

    fn wait_for(&self, n: usize, path: &str, wanted: &str) {
        let patience = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask(n, path);
            if answer.contains(wanted) {
                return;
            }
            if Instant::now() > patience {
                let log = std::fs::read_to_string(self.folder.join(format!("m{n}/log"))).unwrap_or_default();
                panic!("member {n} of etcd does not say {wanted} in time but {answer:?}:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The answer to a plain HTTP request; empty if there is none.
    fn ask(&self, n: usize, path: &str) -> String {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.members[n].client))?;
            stream.set_read_timeout(Some(ANSWER))?;
            write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().unwrap_or_default()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.members.iter().for_each(end);
    }
}

/// For a server that asks what listens on these ports.
pub fn flags(ports: &[u16], prefix: &str) -> Vec<String> {
    let servers = ports.iter().map(|port| url(*port)).collect::<Vec<_>>().join(",");
    ["--etcd-servers", &servers, "--etcd-prefix", prefix].map(String::from).to_vec()
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn end(member: &Member) {
    let Ok(mut keeper) = member.keeper.lock() else { return };
    if let Some(mut keeper) = keeper.take() {
        drop(keeper.stdin.take());
        let _ = keeper.wait();
    }
}
