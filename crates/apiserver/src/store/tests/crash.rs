//! API-2: a process under load is killed; everything it acknowledged is there afterwards.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::*;

/// Makes this test binary, started again, the process to be killed.
const CHILD: &str = "BOWLINE_STORE_CRASH_DIR";
const WRITERS: usize = 16;
/// Acknowledged writes after which the process is killed, in the middle of further ones.
const KILL_AFTER: usize = 500;
const ROUNDS: usize = 3;

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged: Vec<(String, u64)> = Vec::new();
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::crash::child", "--nocapture"])
            .env(CHILD, dir.path())
            .env("BOWLINE_STORE_CRASH_ROUND", round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        while seen < KILL_AFTER {
            let line = lines.next().expect("the child writes until it is killed").unwrap();
            seen += usize::from(note(&line, &mut acknowledged));
        }
        child.kill().unwrap();
        // What it said before it died counts as well; the last line may be cut short.
        for line in lines.map_while(Result::ok) {
            note(&line, &mut acknowledged);
        }
        child.wait().unwrap();

        let store = Store::open_file(dir.path()).unwrap();
        for (name, version) in &acknowledged {
            let object = store.get(&kind(), &key(name)).unwrap_or_else(|| panic!("{name} is lost"));
            assert_eq!(object.version, *version);
        }
        assert!(store.version() >= acknowledged.iter().map(|(_, version)| *version).max().unwrap());
    }
}

/// Lines are `ack <name> <version> .`; the dot shows that a line is whole.
fn note(line: &str, acknowledged: &mut Vec<(String, u64)>) -> bool {
    let ["ack", name, version, "."] = line.split(' ').collect::<Vec<_>>()[..] else { return false };
    acknowledged.push((name.to_owned(), version.parse().unwrap()));
    true
}

/// Not a test by itself: writes until it is killed.
#[test]
fn child() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let round = std::env::var("BOWLINE_STORE_CRASH_ROUND").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let store = Store::open_file(dir.as_ref()).unwrap();
        let writers = (0..WRITERS).map(|writer| {
            let (store, round) = (store.clone(), round.clone());
            tokio::spawn(async move {
                for n in 0.. {
                    let name = format!("r{round}-w{writer}-{n}");
                    let stored = create(&store, &name).await;
                    let line = format!("ack {name} {} .\n", stored.version);
                    let mut out = std::io::stdout().lock();
                    out.write_all(line.as_bytes()).and_then(|()| out.flush()).unwrap();
                }
            })
        });
        futures::future::join_all(writers).await;
    });
}
