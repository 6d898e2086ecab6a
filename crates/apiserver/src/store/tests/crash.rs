//! API-2: a process under load is killed, again and again; everything it acknowledged is there afterwards, what it
//! did not acknowledge is there wholly or not at all, and versions never go back.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::*;

/// Makes this test binary, started again, the process to be killed.
const CHILD: &str = "BOWLINE_STORE_CRASH_DIR";
const ROUND: &str = "BOWLINE_STORE_CRASH_ROUND";
const LARGE: &str = "BOWLINE_STORE_CRASH_LARGE";
const WRITERS: u64 = 64;
/// Kills of one directory, and directories: the journal of one that is never compacted would take long to read.
const ROUNDS: u64 = 25;
const DIRECTORIES: u64 = 8;
/// A process is killed after at least this many acknowledged writes, and at most so many more.
const ACKS_MIN: u64 = 10;
const ACKS_SPREAD: u64 = 150;
/// Operations of a writer are numbered on through all rounds, so a number tells what was done: in each ten the last
/// one deletes the writer's object, the others write their number into it.
const PER_ROUND: u64 = 1_000_000;

/// What an operation leaves behind; absent is deleted.
fn after(operation: u64) -> Option<u64> {
    (operation % 10 != 9).then_some(operation)
}

/// Objects of the last directory are so large that the database moves them from its journal to other files.
fn data(operation: u64, large: bool) -> String {
    let length = operation % 400 + if large { 8_000 } else { 0 };
    format!("{operation}:{}", "x".repeat(usize::try_from(length).unwrap()))
}

/// What the parent knows of one writer.
#[derive(Default)]
struct Known {
    /// As found at the last start.
    found: Option<u64>,
    acknowledged: Option<u64>,
}

impl Known {
    /// What may be there after the process was killed: the last acknowledged state, or that of the write after it.
    fn allowed(&self, round: u64) -> [Option<u64>; 2] {
        match self.acknowledged {
            Some(last) => [after(last), after(last + 1)],
            None => [self.found, after(round * PER_ROUND)],
        }
    }
}

/// One line of a child; the dot at the end shows that it is whole.
enum Said {
    /// The state of a writer's object at the start.
    Found(u64, Option<u64>),
    /// The version of the store at the start; all states were said.
    Ready(u64),
    Acknowledged(u64, u64, u64),
}

fn understand(line: &str) -> Option<Said> {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| panic!("{line}"));
    match words[..] {
        ["found", writer, "none", "."] => Some(Said::Found(number(writer), None)),
        ["found", writer, operation, "."] => Some(Said::Found(number(writer), Some(number(operation)))),
        ["ready", version, "."] => Some(Said::Ready(number(version))),
        ["ack", writer, operation, version, "."] => {
            Some(Said::Acknowledged(number(writer), number(operation), number(version)))
        }
        _ => None,
    }
}

#[test]
fn two_hundred_kills_lose_nothing_that_was_acknowledged() {
    let total: u64 = (0..DIRECTORIES).map(|n| kill_again_and_again(n, n + 1 == DIRECTORIES)).sum();
    println!("{} kills, {total} acknowledged writes", ROUNDS * DIRECTORIES);
}

fn kill_again_and_again(seed: u64, large: bool) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let mut known: BTreeMap<u64, Known> = (0..WRITERS).map(|writer| (writer, Known::default())).collect();
    let mut newest = 0;
    let mut total = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::crash::child", "--nocapture"])
            .env(CHILD, dir.path())
            .env(ROUND, round.to_string())
            .env(LARGE, large.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let enough = ACKS_MIN + (seed * ROUNDS + round) * 7919 % ACKS_SPREAD;
        let (mut seen, mut start) = (0, 0);
        let mut listen = |line: &str| {
            match understand(line) {
                Some(Said::Found(writer, state)) => {
                    let known = known.get_mut(&writer).unwrap();
                    let allowed = known.allowed(round.saturating_sub(1));
                    assert!(
                        allowed.contains(&state),
                        "round {round}, writer {writer}: {state:?}, not one of {allowed:?}"
                    );
                    *known = Known { found: state, acknowledged: None };
                }
                Some(Said::Ready(version)) => {
                    assert!(
                        version >= newest,
                        "round {round}: at {version}, although {newest} was acknowledged"
                    );
                    (newest, start) = (version, version);
                }
                Some(Said::Acknowledged(writer, operation, version)) => {
                    assert!(version > start, "round {round}: version {version} was given out before");
                    newest = newest.max(version);
                    known.get_mut(&writer).unwrap().acknowledged = Some(operation);
                    seen += 1;
                }
                None => {}
            }
            seen
        };
        while let Some(line) = lines.next() {
            if listen(&line) >= enough {
                break;
            }
        }
        child.kill().unwrap();
        // What it said before it died counts as well; the last line may be cut short.
        for line in lines {
            listen(&line);
        }
        assert!(seen >= enough, "round {round}: the child writes until it is killed");
        child.wait().unwrap();
        total += seen;
    }
    let report = check_directory(dir.path()).unwrap();
    assert_eq!(report.problems, [""; 0]);
    assert!(report.resource_version >= newest);
    total
}

/// Not a test by itself: says what it finds and writes until it is killed.
#[test]
fn child() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let large: bool = std::env::var(LARGE).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let store = Store::open_file(dir.as_ref()).unwrap();
        for writer in 0..WRITERS {
            match store.get(&kind(), &key(&format!("w{writer}"))) {
                None => say(&format!("found {writer} none .")),
                Some(object) => {
                    let text = object.value()["data"].as_str().unwrap().to_owned();
                    let operation: u64 = text.split(':').next().unwrap().parse().unwrap();
                    assert_eq!(text, data(operation, large), "a write is whole");
                    say(&format!("found {writer} {operation} ."));
                }
            }
        }
        say(&format!("ready {} .", store.version()));
        let writers = (0..WRITERS).map(|writer| tokio::spawn(write_on(store.clone(), writer, round, large)));
        futures::future::join_all(writers).await;
    });
}

async fn write_on(store: Store, writer: u64, round: u64, large: bool) {
    let name = format!("w{writer}");
    for operation in round * PER_ROUND.. {
        let current = store.get(&kind(), &key(&name));
        let expect = current.as_ref().map_or(Expect::Absent, |object| Expect::Version(object.version));
        let write = match (after(operation), current) {
            (Some(_), _) => put(&name, &data(operation, large), expect),
            (None, Some(object)) => delete(&name, object.version),
            (None, None) => continue,
        };
        let stored = store.write(write).await.unwrap();
        say(&format!("ack {writer} {operation} {} .", stored.version));
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}
