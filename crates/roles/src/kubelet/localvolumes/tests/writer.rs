//! LOCAL-1. Goal: whatever call fails or is the last of a process, readers see the old files or the new ones, and the next
//! write leaves nothing else. Method: every call of the disk fails in turn.

use std::path::{Path, PathBuf};

use bowline_host::Host;
use bowline_host::disk::Kind;
use bowline_host::fake::{self, FakeHost};

use super::super::writer::write;
use super::*;

const DIR: &str = "/var/lib/volume";
/// Every call of the disk that the writer makes.
const CALLS: [&str; 10] = [
    "kind",
    "read",
    "list",
    "canonical",
    "create_dir_all",
    "write_atomic",
    "symlink",
    "rename",
    "remove_file",
    "remove_tree",
];
const EIO: i32 = 5;

fn payload(files: &[(&str, &str)]) -> Payload {
    let file = |content: &str| File { content: content.as_bytes().to_vec(), mode: 0o644 };
    files.iter().map(|(path, content)| ((*path).to_owned(), file(content))).collect()
}

fn old() -> Payload {
    payload(&[("a", "old"), ("deep/b", "old"), ("gone", "old")])
}

fn new() -> Payload {
    payload(&[("a", "new"), ("deep/b", "new"), ("fresh", "new")])
}

async fn written(payload: &Payload) -> (Host, Arc<FakeHost>) {
    let (host, fake) = fake::host(7);
    host.disk.create_dir_all(Path::new(DIR), 0o777).await.unwrap();
    write(&host, Path::new(DIR), payload, None).await.unwrap();
    (host, fake)
}

/// What a container reads, of these names.
async fn read(host: &Host, payload: &Payload) -> Vec<Option<String>> {
    let mut contents = Vec::new();
    for path in payload.keys() {
        let content = host.disk.read(&Path::new(DIR).join(path)).await.ok();
        contents.push(content.map(|bytes| String::from_utf8(bytes).unwrap()));
    }
    contents
}

/// The names in a volume: those of people, and those of the writer.
async fn names(host: &Host) -> (Vec<String>, Vec<String>) {
    let all = host.disk.list(Path::new(DIR)).await.unwrap();
    all.into_iter().partition(|name| !name.starts_with(".."))
}

#[tokio::test]
async fn files_are_links_into_the_directory_that_is_shown() {
    let (host, _) = written(&old()).await;
    assert_eq!(read(&host, &old()).await, vec![Some("old".to_owned()); 3]);
    let (visible, own) = names(&host).await;
    assert_eq!(visible, ["a", "deep", "gone"]);
    let [shown, data] = own.as_slice() else { panic!("{own:?}") };
    assert_eq!(data, "..data");
    assert!(
        shown.starts_with("..2026_01_01_00_00_00.") && shown.len() == "..2026_01_01_00_00_00.".len() + 10
    );
    assert_eq!(host.disk.kind(&Path::new(DIR).join("a")).await.unwrap(), Some(Kind::Symlink));
    let real = host.disk.canonical(&Path::new(DIR).join("a")).await.unwrap();
    assert_eq!(real, PathBuf::from(DIR).join(shown).join("a"));

    write(&host, Path::new(DIR), &old(), None).await.unwrap();
    assert_eq!(names(&host).await.1, own, "the same content is not written again");
}

#[tokio::test]
async fn a_volume_becomes_empty() {
    let (host, _) = written(&old()).await;
    write(&host, Path::new(DIR), &Payload::new(), None).await.unwrap();
    assert_eq!(names(&host).await.0, Vec::<String>::new());
}

#[tokio::test]
async fn no_file_lands_outside() {
    let (host, _) = written(&old()).await;
    for path in ["", ".", "./", "/etc/passwd", "../up", "a/../../up", "..data", "./..data", "./../up"] {
        let error = write(&host, Path::new(DIR), &payload(&[(path, "x")]), None).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{path}");
    }
    assert_eq!(read(&host, &old()).await, vec![Some("old".to_owned()); 3]);
}

/// The API server takes them, and so does upstream's writer.
#[tokio::test]
async fn paths_are_taken_in_their_shortest_form() {
    for path in ["./a", "a/", "./deep//b/", "deep/./b"] {
        let given = payload(&[(path, "text")]);
        let (host, _) = written(&given).await;
        let clean = if path.contains('b') { "deep/b" } else { "a" };
        assert_eq!(read(&host, &payload(&[(clean, "")])).await, [Some("text".to_owned())], "{path}");
        let before = names(&host).await;
        write(&host, Path::new(DIR), &given, None).await.unwrap();
        assert_eq!(names(&host).await, before, "{path}: the same content is not written again");
    }
}

/// In memory that cannot be swapped out, half-written content must not pile up while writing fails.
#[tokio::test]
async fn tries_that_fail_leave_nothing() {
    let (host, fake) = written(&old()).await;
    let before = names(&host).await;
    for call in ["create_dir_all", "create_dir_all.after", "write_atomic", "symlink", "rename"] {
        fake.fail_next(call, EIO);
        write(&host, Path::new(DIR), &new(), None).await.unwrap_err();
        assert_eq!(fake.planned(), Vec::<String>::new());
        let (visible, own) = names(&host).await;
        let dirs = |names: &[String]| names.iter().filter(|name| name.starts_with("..2")).count();
        assert_eq!((&visible, dirs(&own)), (&before.0, dirs(&before.1)), "{call}: {own:?}");
    }
    fake.fail_later("write_atomic", 1, EIO);
    write(&host, Path::new(DIR), &new(), None).await.unwrap_err();
    assert_eq!(read(&host, &old()).await, vec![Some("old".to_owned()); 3]);
}

#[tokio::test]
async fn readers_see_all_of_the_old_or_all_of_the_new_whichever_call_is_the_last() {
    let mut interrupted = 0;
    for call in CALLS {
        for passing in 0.. {
            let (host, fake) = written(&old()).await;
            fake.fail_later(call, passing, EIO);
            let done = write(&host, Path::new(DIR), &new(), None).await.is_ok();
            fake.fail_no_more();
            // Names that both have, through the links that both have.
            let shared = payload(&[("a", ""), ("deep/b", "")]);
            let seen = read(&host, &shared).await;
            let whole = |text: &str| seen == vec![Some(text.to_owned()); 2];
            assert!(whole("old") || whole("new"), "{call} after {passing}: {seen:?}");
            write(&host, Path::new(DIR), &new(), None).await.unwrap();
            assert_eq!(read(&host, &new()).await, vec![Some("new".to_owned()); 3], "{call} after {passing}");
            let (visible, own) = names(&host).await;
            assert_eq!(visible, ["a", "deep", "fresh"], "{call} after {passing}");
            assert_eq!(own.len(), 2, "{call} after {passing}: {own:?}");
            if done {
                break;
            }
            interrupted += 1;
        }
    }
    assert!(interrupted > 15, "only {interrupted} calls failed");
}
