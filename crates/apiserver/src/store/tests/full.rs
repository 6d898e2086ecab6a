//! A disk that really fills up.

use std::path::PathBuf;
use std::process::Command;

use super::*;

/// A small filesystem of its own; needs root.
struct Disk {
    dir: tempfile::TempDir,
}

impl Disk {
    fn new(megabytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()).status();
        assert!(mounted.unwrap().success(), "mounting a tmpfs needs root");
        Self { dir }
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn free(&self) -> u64 {
        bowline_host::real::free_bytes(self.dir.path()).unwrap()
    }

    /// Another program takes all but so much. The store writes meanwhile, so free space is looked at before each write.
    fn fill(&self, leave: u64) {
        let path = self.dir.path().join("filler");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        while let left @ 1.. = self.free().saturating_sub(leave) {
            let chunk = vec![1; usize::try_from(left.min(1 << 20)).unwrap()];
            match std::io::Write::write_all(&mut file, &chunk) {
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {}
                written => written.unwrap(),
            }
        }
    }

    /// What is kept for deletions.
    fn spare(&self) -> u64 {
        std::fs::metadata(self.store().join("spare")).unwrap().len()
    }

    /// Takes away the blocks behind the end of the journal, as a torn write would.
    fn cut_journal(&self) {
        let file = std::fs::File::options().write(true).open(self.store().join("objects/0.jnl")).unwrap();
        file.set_len(file.metadata().unwrap().len()).unwrap();
    }

    fn make_room(&self) {
        std::fs::remove_file(self.dir.path().join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.dir.path()).status();
    }
}

/// Writes until it is refused.
async fn write_until_refused(store: &Store, prefix: &str) -> (Vec<(String, u64)>, Trouble) {
    let filler = "x".repeat(100_000);
    let mut written = Vec::new();
    for n in 0..2_000 {
        let name = format!("{prefix}{n:04}");
        match store.write(put(&name, &filler, Expect::Absent)).await {
            Ok(object) => written.push((name, object.version)),
            Err(WriteError::Unavailable(trouble)) => return (written, trouble),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("200 MB fit on a small disk");
}

fn of_kind(resource: &str, write: Write) -> Write {
    Write { resource: resource.into(), ..write }
}

/// Replaces an object with others of its size until that is refused.
async fn update_until_refused(store: &Store, name: &str) -> (usize, Trouble) {
    let mut version = store.get(&kind(), &key(name)).unwrap().version;
    for n in 0..20_000 {
        match store.write(put(name, &format!("{n:06000}"), Expect::Version(version))).await {
            Ok(object) => version = object.version,
            Err(WriteError::Unavailable(trouble)) => return (n, trouble),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("120 MB fit on a full disk");
}

#[tokio::test]
async fn a_disk_that_is_nearly_full_gets_no_writes_but_deletes() {
    const FREE_MIN: u64 = 32 << 20;
    let disk = Disk::new(200);
    let options = Options { free_min: FREE_MIN, ..Options::default() };
    let store = Store::open_file_on(&disk.store(), options).unwrap();
    create(&store, "first").await;
    disk.fill(FREE_MIN + (4 << 20));
    let (written, trouble) = write_until_refused(&store, "a").await;
    let text = trouble.to_string();
    assert!(matches!(trouble, Trouble::Full(_)), "{trouble:?}");
    assert!(text.contains("33554432 must stay free"), "{text}");
    assert!(!written.is_empty() && disk.free() > FREE_MIN / 4, "refused before the disk is full");
    assert_eq!(names(&store).len(), written.len() + 1, "reads go on");

    let (name, version) = &written[0];
    store.write(delete(name, *version)).await.expect("deletes go on");
    disk.make_room();
    create(&store, "after").await;
    drop(store);
    let store = Store::open_file(&disk.store()).unwrap();
    assert_eq!(names(&store).len(), written.len() + 1);
}

#[tokio::test]
async fn a_disk_that_is_full_loses_nothing_and_is_written_again_when_there_is_room() {
    let disk = Disk::new(160);
    let options = Options { free_min: 0, ..Options::default() };
    let store = Store::open_file_on(&disk.store(), options.clone()).unwrap();
    create(&store, "first").await;
    let mut expected = names(&store);
    for round in 0..3 {
        disk.fill(3 << 20);
        let (written, trouble) = write_until_refused(&store, &format!("r{round}-")).await;
        println!("round {round}: {} written, then: {trouble}", written.len());
        assert!(matches!(trouble, Trouble::Full(_) | Trouble::NotWritten(_)), "{trouble:?}");
        expected.extend(written.into_iter().map(|(name, _)| name));
        expected.sort();
        // Again and again: nobody waits for ever, nothing that was refused shows up.
        for _ in 0..3 {
            // The journal may have blocks left for one of them; then it counts.
            let name = format!("more{}", expected.len());
            match store.write(put(&name, &"x".repeat(500_000), Expect::Absent)).await {
                Ok(_) => expected.push(name),
                Err(WriteError::Unavailable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        expected.sort();
        assert_eq!(names(&store), expected, "reads go on");
        disk.make_room();
        let mut tries = 0;
        while let Err(error) = store.write(put(&format!("after{round}"), "1", Expect::Absent)).await {
            tries += 1;
            assert!(tries < 100, "{error}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        expected.push(format!("after{round}"));
        expected.sort();
    }
    let (before, version) = (listed(&store, None), store.version());
    drop(store);
    let store = Store::open_file_on(&disk.store(), options).unwrap();
    assert_eq!((listed(&store, None), store.version()), (before, version));
    assert_eq!(names(&store), expected);
}

/// What takes volumes down goes on when others have taken every byte: the journal has blocks of its own.
#[tokio::test]
async fn deletes_and_small_updates_need_no_byte_of_the_disk() {
    let disk = Disk::new(160);
    let store = Store::open_file_on(&disk.store(), Options::default()).unwrap();
    let mut objects = Vec::new();
    for n in 0..200 {
        objects
            .push(store.write(put(&format!("o{n:03}"), &"x".repeat(5_000), Expect::Absent)).await.unwrap());
    }
    let pod = store.write(of_kind("pods", put("pod", "1", Expect::Absent))).await.unwrap();
    disk.fill(0);
    assert_eq!(disk.free(), 0);
    let kept = disk.spare();
    let refused = store.write(put("new", "1", Expect::Absent)).await;
    assert!(matches!(refused, Err(WriteError::Unavailable(Trouble::Full(_)))), "{refused:?}");
    for object in objects {
        let name = &object.key.name;
        // A status, a lease, the end.
        let grown =
            store.write(put(name, &"y".repeat(6_000), Expect::Version(object.version))).await.unwrap();
        let same = store.write(put(name, &"z".repeat(6_000), Expect::Version(grown.version))).await.unwrap();
        store.write(delete(name, same.version)).await.unwrap();
    }
    assert_eq!(names(&store), [""; 0]);
    store.write(of_kind("pods", delete("pod", pod.version))).await.unwrap();
    assert!(disk.free() >= 1 << 20, "others have room to end what is deleted: {}", disk.free());
    let left = disk.spare();
    assert!(left < kept && left > 0, "{left} of {kept}");
    let version = store.version();
    drop(store);
    let store = Store::open_file_on(&disk.store(), Options::default()).unwrap();
    assert_eq!((store.version(), names(&store).len()), (version, 0));
    disk.make_room();
    create(&store, "after").await;
    assert_eq!(disk.spare(), kept, "kept again when there is room");
}

/// Updates use up what the store has of its own, and the database cannot move its journal to tables: deletes go on.
#[tokio::test]
async fn a_delete_succeeds_after_updates_used_up_the_reserve() {
    let disk = Disk::new(160);
    let open = || Store::open_file_on(&disk.store(), Options::default()).unwrap();
    let store = open();
    let mut objects = Vec::new();
    for n in 0..8 {
        objects.push(store.write(put(&format!("o{n}"), &"x".repeat(6_000), Expect::Absent)).await.unwrap());
    }
    let mut remove = objects.drain(1..).map(|object| delete(&object.key.name, object.version));
    disk.fill(0);
    let (updates, refused) = update_until_refused(&store, "o0").await;
    assert!(updates > 800, "more than a memtable holds: {updates}");
    let text = refused.to_string();
    assert!(matches!(refused, Trouble::Full(_)) && !text.contains("Poisoned"), "{refused:?}");
    store.write(remove.next().unwrap()).await.expect("a delete with every byte taken");
    disk.fill(0);
    drop(store);

    let store = open();
    store.write(remove.next().unwrap()).await.expect("a delete after a restart");
    let heartbeat = store.get(&kind(), &key("o0")).unwrap();
    let update = put("o0", &"z".repeat(6_000), Expect::Version(heartbeat.version));
    let refused = store.write(update).await.unwrap_err();
    assert!(matches!(refused, WriteError::Unavailable(Trouble::Full(_))), "{refused:?}");
    disk.fill(0);
    drop(store);

    disk.cut_journal();
    disk.fill(0);
    let store = open();
    store.write(remove.next().unwrap()).await.expect("a delete without any room in the journal");
    let (before, version) = (listed(&store, None), store.version());
    disk.make_room();
    until("creates go on", || disk.free() > 100 << 20).await;
    create(&store, "after").await;
    drop(store);
    let store = open();
    assert_eq!((store.version(), names(&store).len()), (version + 1, before.len() + 1));
}

#[tokio::test]
async fn only_deletes_of_what_takes_disk_give_the_spare_up_and_slowly() {
    let disk = Disk::new(160);
    let store = Store::open_file_on(&disk.store(), Options::default()).unwrap();
    let (mut widgets, mut pods) = (Vec::new(), Vec::new());
    for n in 0..20 {
        widgets.push(create(&store, &format!("w{n}")).await);
        let pod = of_kind("pods", put(&format!("p{n}"), "1", Expect::Absent));
        pods.push(store.write(pod).await.unwrap());
    }
    disk.fill(0);
    let kept = disk.spare();
    for widget in widgets {
        store.write(delete(&widget.key.name, widget.version)).await.unwrap();
    }
    assert_eq!(disk.spare(), kept);
    for pod in pods {
        store.write(of_kind("pods", delete(&pod.key.name, pod.version))).await.unwrap();
        disk.fill(0);
    }
    assert_eq!(disk.spare(), kept - (1 << 20), "the next step comes after a pause");
}
