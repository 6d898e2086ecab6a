//! How long a container takes to start, and a program to run in it: `cargo run --example start_time [rounds]`. Needs
//! root, and the program of `examples/shim.rs` built beside it.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use bowline_host::containers::{ContainerSpec, ExecSpec};
use bowline_host::real::{self, RealConfig};

const SIGKILL: i32 = 9;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100);
    let dir = tempfile::tempdir_in("/var/tmp")?;
    let shim = std::env::current_exe()?.with_file_name("shim");
    let host = real::host(RealConfig { state_dir: dir.path().to_path_buf(), shim: Some(shim) })?;
    let (mut starts, mut execs, mut removes) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let spec = ContainerSpec {
            id: format!("uid/main/{round}"),
            hostname: "pod-0".into(),
            argv: ["sleep", "1000"].map(Into::into).into(),
            env: Vec::new(),
            working_dir: None,
            mounts: Vec::new(),
            devices: Vec::new(),
            hidden: vec!["/opt".into()],
            security: Default::default(),
            resources: Default::default(),
            log: dir.path().join("log"),
            message_path: None,
        };
        let begun = Instant::now();
        host.containers.start(&spec).await.map_err(io::Error::other)?;
        starts.push(begun.elapsed());
        let begun = Instant::now();
        let exec = ExecSpec { argv: vec!["true".into()], stdin: false, tty: false };
        let session = host.containers.exec(&spec.id, &exec).await.map_err(io::Error::other)?;
        assert_eq!(session.ended.await?, 0);
        execs.push(begun.elapsed());
        host.containers.signal(&spec.id, SIGKILL).await.map_err(io::Error::other)?;
        host.containers.wait(&spec.id).await.map_err(io::Error::other)?;
        let begun = Instant::now();
        host.containers.remove(&spec.id).await.map_err(io::Error::other)?;
        removes.push(begun.elapsed());
    }
    report("start", starts)?;
    report("exec", execs)?;
    report("remove", removes)
}

fn report(what: &str, mut times: Vec<Duration>) -> io::Result<()> {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_micros();
    writeln!(io::stdout(), "{what:8} min {:6} µs   median {:6} µs   p90 {:6} µs", at(0), at(50), at(90))
}
