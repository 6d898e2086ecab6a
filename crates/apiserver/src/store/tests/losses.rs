//! Files of a store that are gone or older than they were: nothing is served as if it were all.

use std::path::PathBuf;

use super::*;

/// A store that has tables, two keyspaces with content and a journal.
async fn filled(dir: &Path) -> (Vec<(String, u64)>, u64) {
    let store = Store::open_file(dir).unwrap();
    let large = "x".repeat(1 << 20);
    let mut version = store.write(put("large", &large, Expect::Absent)).await.unwrap().version;
    // More than a memtable holds, so that the database moves a part of it to tables.
    for _ in 0..10 {
        version = store.write(put("large", &large, Expect::Version(version))).await.unwrap().version;
    }
    until("tables are written", || files_of(dir).iter().any(|path| path.contains("keyspaces/1/tables/")))
        .await;
    create(&store, "last").await;
    (listed(&store, None), store.version())
}

/// Everything in the directory but the locks, as paths below it.
fn files_of(dir: &Path) -> Vec<String> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(dir, &mut found);
    let below = found.iter().map(|path| path.strip_prefix(dir).unwrap().display().to_string());
    below.filter(|path| !path.ends_with("lock")).collect()
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new("cp");
    command.args(["--recursive", "--sparse=always"]).arg(format!("{}/.", from.display())).arg(to.path());
    assert!(command.status().unwrap().success());
    to
}

fn refusal(dir: &Path) -> String {
    match Store::open_file(dir) {
        Ok(store) => panic!("opened at version {} with {:?}", store.version(), names(&store)),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn without_any_one_of_its_files_a_store_is_refused_or_whole() {
    let dir = tempfile::tempdir().unwrap();
    let whole = filled(dir.path()).await;
    let files = files_of(dir.path());
    assert!(files.len() > 8, "{files:?}");
    for file in &files {
        let copy = copy(dir.path());
        std::fs::remove_file(copy.path().join(file)).unwrap();
        // Twice, because the first try could have made up for what is missing.
        for attempt in 1..=2 {
            match Store::open_file(copy.path()) {
                Ok(store) => {
                    assert_eq!((listed(&store, None), store.version()), whole, "without {file}, {attempt}");
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains("bowline store restore"), "without {file}, {attempt}: {text}");
                }
            }
        }
    }
}

#[tokio::test]
async fn lost_files_are_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path()).await;
    for (lost, missing) in [
        ("objects/keyspaces/0/current", "objects/keyspaces/0/current is missing"),
        ("objects/keyspaces/1/current", "objects/keyspaces/1/current is missing"),
        ("objects/keyspaces/2", "objects/keyspaces/2/current is missing"),
        ("objects/0.jnl", "objects/0.jnl is missing"),
        ("objects/version", "objects/version is missing"),
        ("objects", "objects is missing"),
    ] {
        let copy = copy(dir.path());
        let path = copy.path().join(lost);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap()
        } else {
            std::fs::remove_file(path).unwrap()
        }
        let before = files_of(copy.path());
        for _ in 0..2 {
            let text = refusal(copy.path());
            assert!(text.contains(missing), "{lost}: {text}");
            assert!(text.contains("bowline store restore") && text.contains("accept-loss"), "{text}");
            assert!(check_directory(copy.path()).unwrap_err().to_string().contains(missing));
        }
        assert_eq!(files_of(copy.path()), before, "nothing was changed");
    }
}

#[tokio::test]
async fn an_older_copy_of_the_files_is_refused_until_the_loss_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_file(dir.path()).unwrap();
    create(&store, "old").await;
    drop(store);
    let older = copy(dir.path());
    let newest = {
        let store = Store::open_file(dir.path()).unwrap();
        create(&store, "new").await.version
    };
    std::fs::remove_dir_all(dir.path().join("objects")).unwrap();
    std::fs::rename(older.path().join("objects"), dir.path().join("objects")).unwrap();
    let text = refusal(dir.path());
    assert!(text.contains(&format!("at resourceVersion 2, although {newest} was acknowledged")), "{text}");
    assert_eq!(refusal(dir.path()), text);

    let loss = accept_loss(dir.path()).unwrap();
    assert_eq!((loss.objects, loss.lost.len()), (1, 1), "{loss:?}");
    let store = Store::open_file(dir.path()).unwrap();
    assert_eq!(names(&store), ["old"]);
    assert!(store.version() > newest + 1_000_000, "no version comes back with another meaning");
    drop(store);
    assert_eq!(accept_loss(dir.path()).unwrap().lost, [""; 0]);
}

#[tokio::test]
async fn what_is_left_without_its_files_is_an_empty_store_once_accepted() {
    for lost in ["objects", "objects/0.jnl", "objects/keyspaces/0/current"] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_file(dir.path()).unwrap();
        let newest = create(&store, "a").await.version;
        drop(store);
        let path = dir.path().join(lost);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap()
        } else {
            std::fs::remove_file(path).unwrap()
        }
        refusal(dir.path());
        let loss = accept_loss(dir.path()).unwrap();
        assert!(!loss.lost.is_empty() && loss.resource_version > newest, "{loss:?}");
        let store = Store::open_file(dir.path()).unwrap();
        assert!(create(&store, "b").await.version > loss.resource_version);
    }
}

#[tokio::test]
async fn a_store_without_a_mark_is_taken_over_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let whole = filled(dir.path()).await;
    std::fs::remove_file(dir.path().join("mark")).unwrap();
    let store = Store::open_file(dir.path()).unwrap();
    assert_eq!((listed(&store, None), store.version()), whole);
    drop(store);
    std::fs::remove_file(dir.path().join("objects/0.jnl")).unwrap();
    assert!(refusal(dir.path()).contains("objects/0.jnl is missing"), "from then on it has one");
}

#[tokio::test]
async fn an_unreadable_mark_is_refused_and_can_be_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let whole = filled(dir.path()).await;
    std::fs::write(dir.path().join("mark"), "nonsense").unwrap();
    let mark = dir.path().join("mark");
    let text = refusal(dir.path());
    assert!(text.contains(&format!("its mark, `{}`, is unreadable", mark.display())), "{text}");
    assert_eq!(refusal(dir.path()), text, "nothing was changed");
    assert_eq!(accept_loss(dir.path()).unwrap().objects, whole.0.len());
    let store = Store::open_file(dir.path()).unwrap();
    assert_eq!(listed(&store, None), whole.0);
}

/// Compaction counts journals from the beginning again; the mark must go along wherever a crash is.
#[tokio::test]
async fn an_interrupted_compaction_does_not_look_like_a_loss() {
    let dir = tempfile::tempdir().unwrap();
    let whole = filled(dir.path()).await;
    // As after some years: the mark asks for a journal that a new database does not have.
    std::fs::rename(dir.path().join("objects/0.jnl"), dir.path().join("objects/3.jnl")).unwrap();
    drop(Store::open_file(dir.path()).unwrap());
    let compacted = copy(dir.path());
    compact(compacted.path()).unwrap();
    assert!(compacted.path().join("objects/0.jnl").exists());

    let interrupted = |names: [Option<&str>; 2]| {
        let place = copy(compacted.path());
        let [old, new] = names.map(|name| name.map(|name| place.path().join(name)));
        std::fs::rename(place.path().join("objects"), place.path().join("new")).unwrap();
        let current = copy(dir.path());
        if let Some(to) = old {
            std::fs::rename(current.path().join("objects"), to).unwrap();
        }
        if let Some(to) = new {
            std::fs::rename(place.path().join("new"), to).unwrap();
        }
        place
    };
    for names in [
        // The mark is written, and nothing has moved.
        [Some("objects"), Some("objects.unfinished")],
        [Some("objects"), Some("objects.ready")],
        // The old one is out of the way, the new one waits for its place.
        [Some("objects.old"), Some("objects.ready")],
        [Some("objects.old"), Some("objects")],
        [None, Some("objects")],
    ] {
        let place = interrupted(names);
        let store = Store::open_file(place.path()).unwrap_or_else(|error| panic!("{names:?}: {error}"));
        assert_eq!((listed(&store, None), store.version()), whole, "{names:?}");
    }
    // Without its part in this the mark would ask for the journal of the old database.
    let place = interrupted([None, Some("objects")]);
    std::fs::copy(dir.path().join("mark"), place.path().join("mark")).unwrap();
    assert!(refusal(place.path()).contains("objects/3.jnl are missing"));
}

#[tokio::test]
async fn a_restore_into_the_place_of_a_lost_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    filled(&store).await;
    let saved = dir.path().join("saved");
    backup(&store, &saved).unwrap();
    let after = {
        let store = Store::open_file(&store).unwrap();
        create(&store, "after-the-backup").await.version
    };
    std::fs::remove_dir_all(store.join("objects")).unwrap();
    refusal(&store);
    restore(&saved, &store).unwrap();
    let store = Store::open_file(&store).unwrap();
    assert_eq!(names(&store), ["large", "last"]);
    assert!(store.version() > after);
}

#[tokio::test]
async fn versions_are_not_reused_after_a_second_restore() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    filled(&store).await;
    let saved = dir.path().join("saved");
    backup(&store, &saved).unwrap();
    let mut last = 0;
    for round in ["into its place", "again", "into a new directory"] {
        let lost = if round == "into a new directory" { store.clone() } else { store.join("objects") };
        std::fs::remove_dir_all(lost).unwrap();
        restore(&saved, &store).unwrap();
        let store = Store::open_file(&store).unwrap();
        assert!(store.version() > last, "{round}: {} after {last}", store.version());
        last = create(&store, "after-the-restore").await.version;
    }
}

#[tokio::test]
async fn versions_are_not_reused_after_a_second_loss() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..3 {
        let store = Store::open_file(dir.path()).unwrap();
        assert!(store.version() > last, "round {round}: {} after {last}", store.version());
        last = create(&store, &format!("a{round}")).await.version;
        drop(store);
        std::fs::remove_dir_all(dir.path().join("objects")).unwrap();
        std::fs::write(dir.path().join("mark"), "nonsense").unwrap();
        accept_loss(dir.path()).unwrap();
    }
}
