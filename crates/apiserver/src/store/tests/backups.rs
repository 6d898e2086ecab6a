//! Check, backup and restore of a directory.

use std::path::PathBuf;

use super::*;

async fn filled(dir: &Path) -> (Vec<(String, u64)>, u64) {
    let store = Store::open_file(dir).unwrap();
    for name in ["a", "b", "c"] {
        create(&store, name).await;
    }
    let cluster_wide =
        Write { resource: "other".into(), key: ObjectKey::cluster("x"), ..put("x", "1", Expect::Absent) };
    store.write(cluster_wide).await.unwrap();
    let b = store.get(&kind(), &key("b")).unwrap();
    store.write(delete("b", b.version)).await.unwrap();
    (listed(&store, None), store.version())
}

#[tokio::test]
async fn a_backup_brings_everything_back() {
    let dir = tempfile::tempdir().unwrap();
    let (objects, version) = filled(&dir.path().join("store")).await;
    let before = Store::open_file(&dir.path().join("store")).unwrap().get(&kind(), &key("a")).unwrap();
    let file = dir.path().join("saved");
    let saved = backup(&dir.path().join("store"), &file).unwrap();
    assert_eq!(saved, Summary { objects: 3, resource_version: version });
    let again = backup(&dir.path().join("store"), &file).unwrap_err().to_string();
    assert!(again.starts_with(&format!("create {}: File exists", file.display())), "{again}");

    let restored = dir.path().join("restored");
    assert_eq!(restore(&file, &restored).unwrap(), saved);
    let store = Store::open_file(&restored).unwrap();
    assert_eq!(listed(&store, None), objects);
    assert_eq!(store.get(&kind(), &key("a")).unwrap().json, before.json, "to the byte, as lists need it");
    assert!(store.version() > version + 1_000_000, "later versions of the old store are not given out again");
    drop(store);

    let onto = restore(&file, &restored).unwrap_err().to_string();
    assert!(onto.contains("it holds a store already (objects); choose an empty directory"), "{onto}");
}

#[tokio::test]
async fn a_running_server_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_file(dir.path()).unwrap();
    let pid = std::process::id();
    let error = backup(dir.path(), &dir.path().join("saved")).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "data directory {} is in use by another process (pid {pid}): stop it first",
            dir.path().display()
        )
    );
    assert!(!dir.path().join("saved").exists());
    drop(store);
}

#[tokio::test]
async fn half_a_backup_is_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    filled(&dir.path().join("store")).await;
    let file = dir.path().join("saved");
    backup(&dir.path().join("store"), &file).unwrap();
    let whole = std::fs::read_to_string(&file).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        whole.replacen(from, to, 1)
    };
    let table = [
        (String::new(), "it has no lines"),
        (whole[..whole.len() - 2].to_owned(), "its last line is missing"),
        (whole[..whole.len() / 2].to_owned(), "its last line is missing"),
        (changed("\"name\":\"a\"", "\"name\":\"z\""), "its checksum is wrong"),
        (changed("bowline-store-backup", "something-else-here"), "its first line is not ours"),
        ("k8s\n".to_owned(), "its first line is not ours"),
        (changed("\"format\":1", "\"format\":2"), "was made by a newer version (format 2"),
    ];
    for (text, why) in table {
        let bad: PathBuf = dir.path().join("bad");
        std::fs::write(&bad, text).unwrap();
        let error = restore(&bad, &dir.path().join("target")).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert!(!dir.path().join("target").exists());
    }
}

#[tokio::test]
async fn a_check_counts_and_finds_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let (_, version) = filled(dir.path()).await;
    let report = check_directory(dir.path()).unwrap();
    assert_eq!((report.resource_version, report.total.objects), (version, 3));
    assert_eq!(report.resources.keys().collect::<Vec<_>>(), ["other", "widgets.example.com"]);
    // The one without a namespace was given one in its metadata.
    assert_eq!(report.problems, [r#"other x: metadata.namespace is "ns", stored as """#]);

    let missing = check_directory(&dir.path().join("nowhere")).unwrap_err().to_string();
    assert!(missing.ends_with("there is no such directory"), "{missing}");
}
