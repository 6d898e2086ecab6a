//! What is special about a directory.

use super::*;
use crate::store::backend::Record;

#[tokio::test]
async fn a_reopened_directory_has_everything_and_versions_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let (kept, last) = {
        let store = Store::open_file(dir.path()).unwrap();
        let kept = create(&store, "kept").await;
        let gone = create(&store, "gone").await;
        let gone = store.write(delete("gone", gone.version)).await.unwrap();
        (kept, gone.version)
    };
    let store = Store::open_file(dir.path()).unwrap();
    assert_eq!(store.version(), last, "a deletion counts");
    assert_eq!(listed(&store, None), [("kept".to_owned(), kept.version)]);
    assert_eq!(store.get(&kind(), &key("kept")).unwrap().json, kept.json);
    assert!(store.watch(&kind(), kept.version).is_err(), "the log does not survive");
    assert!(store.watch(&kind(), last).is_ok());
    assert!(create(&store, "new").await.version > last);
}

/// Names of roles and events are any text without a slash.
#[tokio::test]
async fn a_name_may_hold_the_separator_of_keys() {
    let dir = tempfile::tempdir().unwrap();
    let odd = ["a\0b", "a\0b\0c", "\0"];
    {
        let store = Store::open_file(dir.path()).unwrap();
        for name in odd {
            create(&store, name).await;
        }
    }
    assert!(check_directory(dir.path()).unwrap().problems.is_empty());
    let store = Store::open_file(dir.path()).unwrap();
    for name in odd {
        assert_eq!(store.get(&kind(), &key(name)).unwrap().value()["metadata"]["name"], name);
    }
}

#[test]
fn deleted_and_created_again_in_one_batch() {
    let dir = tempfile::tempdir().unwrap();
    let (mut backend, _) = file::open(dir.path()).unwrap();
    let record = |version, json: Option<&'static str>| Record {
        resource: kind(),
        key: key("a"),
        version,
        json: json.map(Into::into),
        expires: None,
    };
    backend.append(&[record(2, Some("1"))], 2).unwrap();
    backend.append(&[record(3, None), record(4, Some("2"))], 4).unwrap();
    drop(backend);
    let store = Store::open_file(dir.path()).unwrap();
    assert_eq!(store.get(&kind(), &key("a")).unwrap().json, "2");
}

#[test]
fn a_directory_is_for_one_process_and_one_format() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display().to_string();
    let store = Store::open_file(dir.path()).unwrap();
    let error = Store::open_file(dir.path()).err().unwrap().to_string();
    let pid = std::process::id();
    assert_eq!(
        error,
        format!("data directory {path} is in use by another process (pid {pid}): stop it first")
    );
    drop(store);
    std::fs::write(dir.path().join("format"), "99\n").unwrap();
    let error = Store::open_file(dir.path()).err().unwrap().to_string();
    assert_eq!(
        error,
        format!(
            "data directory {path} was written by a newer version (format \"99\", this one reads up to 1): use that version or another place"
        )
    );
}

#[tokio::test]
async fn compaction_keeps_everything_and_gives_room_back() {
    let dir = tempfile::tempdir().unwrap();
    let before = {
        let store = Store::open_file(dir.path()).unwrap();
        let filler = "x".repeat(100_000);
        let mut version = store.write(put("a", &filler, Expect::Absent)).await.unwrap().version;
        for _ in 0..50 {
            version = store.write(put("a", &filler, Expect::Version(version))).await.unwrap().version;
        }
        store.write(put("a", "last", Expect::Version(version))).await.unwrap();
        create(&store, "b").await;
        (listed(&store, None), store.version())
    };
    let (taken, left) = compact(dir.path()).unwrap();
    assert!(left < taken / 4, "{taken} bytes became {left}");
    let store = Store::open_file(dir.path()).unwrap();
    assert_eq!((listed(&store, None), store.version()), before);
    assert_eq!(store.get(&kind(), &key("a")).unwrap().value()["data"], "last");
    assert!(matches!(compact(dir.path()), Err(OpenError::InUse { .. })), "not under a running server");
}

#[test]
fn a_symbolic_link_in_place_of_the_directory_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (link, target) = (dir.path().join("store"), dir.path().join("target"));
    std::fs::create_dir(&target).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let refused = Store::open_file(&link).err().unwrap().to_string();
    let why = format!("is a symbolic link to {}", target.display());
    assert!(refused.contains(&why) && refused.contains("name the directory itself"), "{refused}");
}
