//! What a power failure or a bad disk leaves of the newest journal.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

use super::*;

const WRITES: u64 = 41;

/// A store that was written one batch at a time, its journal, and what it held after each version.
struct History {
    dir: tempfile::TempDir,
    journal: Vec<u8>,
    /// How long the journal was before the last batch.
    last_batch: usize,
    /// The mark before the last batch: a batch that is torn was never acknowledged.
    mark: Vec<u8>,
    states: BTreeMap<u64, Vec<(String, u64)>>,
}

fn journal_of(dir: &Path) -> PathBuf {
    dir.join("objects").join("0.jnl")
}

fn content(dir: &Path) -> Vec<u8> {
    let file = File::open(journal_of(dir)).unwrap();
    let end = bowline_host::real::data_end(&file).unwrap();
    let mut bytes = std::fs::read(journal_of(dir)).unwrap();
    bytes.truncate(usize::try_from(end).unwrap());
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    // The last batch ends in a fixed text, not in zeros.
    bytes
}

async fn history() -> History {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_file(dir.path()).unwrap();
    let mut states = BTreeMap::from([(store.version(), Vec::new())]);
    let (mut last_batch, mut mark) = (0, Vec::new());
    for n in 0..WRITES {
        last_batch = content(dir.path()).len();
        mark = std::fs::read(dir.path().join("mark")).unwrap();
        let (name, current) = (format!("o{}", n % 7), format!("{n}:{}", "y".repeat(9_000)));
        let found = store.get(&kind(), &key(&name));
        let expect = found.as_ref().map_or(Expect::Absent, |object| Expect::Version(object.version));
        let write = match found {
            Some(object) if n % 5 == 4 => delete(&name, object.version),
            _ => put(&name, &current, expect),
        };
        store.write(write).await.unwrap();
        states.insert(store.version(), listed(&store, None));
    }
    drop(store);
    let journal = content(dir.path());
    assert!(journal.len() - last_batch > 9_000, "the last batch is a large one");
    History { dir, journal, last_batch, mark, states }
}

impl History {
    /// A copy of the directory with another journal.
    fn with(&self, journal: &[u8], length: usize) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        let status = std::process::Command::new("cp")
            .args(["--recursive", "--sparse=always"])
            .arg(format!("{}/.", self.dir.path().display()))
            .arg(copy.path())
            .status();
        assert!(status.unwrap().success());
        let path = journal_of(copy.path());
        std::fs::write(&path, journal).unwrap();
        std::fs::write(copy.path().join("mark"), &self.mark).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(length as u64).unwrap();
        copy
    }

    /// The store opens at the version before the last batch, as it was then, and goes on.
    async fn recovers(&self, journal: &[u8], length: usize, what: &str) {
        let copy = self.with(journal, length);
        let store = Store::open_file(copy.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let (before, state) = self.states.iter().rev().nth(1).unwrap();
        assert_eq!(store.version(), *before, "{what}");
        assert_eq!(listed(&store, None), *state, "{what}");
        let new = create(&store, "new").await;
        drop(store);
        let store = Store::open_file(copy.path()).unwrap();
        assert_eq!(store.version(), new.version, "{what}");
        assert_eq!(listed(&store, None).len(), state.len() + 1, "{what}");
    }
}

#[tokio::test]
async fn a_last_write_that_is_not_whole_is_dropped() {
    let history = history().await;
    let (all, start) = (&history.journal, history.last_batch);
    let long = all.len() + 60_000;
    for part in 0..8 {
        // From the first byte of the batch to the one before its last.
        let cut = start + 1 + part * (all.len() - start - 2) / 7;
        history.recovers(&all[..cut], cut, &format!("cut at {cut}")).await;
        // The file is longer than what was written to it: zeros follow.
        history.recovers(&all[..cut], long, &format!("cut at {cut}, zeros behind")).await;
    }
    // Pages of the batch reached the disk in another order: a hole inside, the end is there.
    for page in [start + 20, start + 4096, all.len() - 2_000] {
        let mut torn = all.clone();
        torn[page..page + 1_000].fill(0);
        history.recovers(&torn, long, &format!("a hole at {page}")).await;
        torn[page..page + 1_000].fill(0xa5);
        history.recovers(&torn, torn.len(), &format!("garbage at {page}")).await;
    }
}

#[tokio::test]
async fn damage_before_the_last_write_is_an_error_and_nothing_is_cut_off() {
    let history = history().await;
    for at in [0, 40, history.last_batch / 2, history.last_batch - 3] {
        let mut damaged = history.journal.clone();
        damaged[at] ^= 0xff;
        let copy = history.with(&damaged, damaged.len());
        let error =
            Store::open_file(copy.path()).err().unwrap_or_else(|| panic!("opened with damage at {at}"));
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("is damaged: journal ") && text.contains("bowline store restore"), "{text}");
        assert_eq!(content(copy.path()), damaged, "nothing was changed");
        assert!(check_directory(copy.path()).is_err());
    }
}

#[tokio::test]
async fn a_last_write_that_was_acknowledged_is_not_dropped_without_a_word() {
    let history = history().await;
    let copy = history.with(&history.journal[..history.journal.len() - 1], history.journal.len());
    std::fs::copy(history.dir.path().join("mark"), copy.path().join("mark")).unwrap();
    let error = Store::open_file(copy.path()).err().unwrap().to_string();
    let acknowledged = history.states.keys().next_back().unwrap();
    assert!(error.contains(&format!("although {acknowledged} was acknowledged")), "{error}");
}
