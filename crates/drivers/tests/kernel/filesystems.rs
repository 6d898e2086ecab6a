//! Filesystems as classes want them, copies beside their origins, and what must never be formatted.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use tonic::Code;

use crate::crash::{PROGRAM, Process};
use crate::journey::{Scratch, serve};
use crate::volume::{Volume, text, tool};

fn digest(path: &Path) -> String {
    tool("sha256sum", &[&text(path)])
}

/// Goal: options and label of a class are in the filesystem that a workload gets.
#[tokio::test]
async fn options_and_labels() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let table = [
        ("ext4", "-b 1024 -m 2 -O ^has_journal", "sixteen bytes ok"),
        ("xfs", "-m reflink=0 -i size=1024", "twelve bytes"),
        ("btrfs", "-m single --nodesize=32k", "a label that is longer than those of others"),
    ];
    for (fs_type, options, label) in table {
        let volume =
            Volume::new(&scratch, fs_type, fs_type).set("mkfsOptions", options).set("fsLabel", label);
        volume.create().await.unwrap();
        volume.up().await.unwrap();
        fs::write(volume.target.join("file"), "data").unwrap();
        let (image, target) = (text(&volume.image), text(&volume.target));
        let shape = match fs_type {
            "ext4" => tool("dumpe2fs", &["-h", &image]),
            "xfs" => tool("xfs_info", &[&target]),
            _ => tool("btrfs", &["inspect-internal", "dump-super", &image]),
        };
        let expected = match fs_type {
            "ext4" => ["Block size:               1024", "Reserved block count:     1310"],
            "xfs" => ["isize=1024", "reflink=0"],
            _ => ["nodesize\t\t32768", "csum_type"],
        };
        for part in expected {
            assert!(shape.contains(part), "{fs_type}: `{part}` in {shape}");
        }
        assert!(fs_type != "ext4" || !shape.contains("has_journal"), "{shape}");
        volume.down().await.unwrap();
        assert_eq!(tool("blkid", &["-p", "-o", "value", "-s", "LABEL", &image]).trim(), label);
        volume.up().await.unwrap();
        assert_eq!(fs::read(volume.target.join("file")).unwrap(), b"data");
        volume.down().await.unwrap();
        volume.delete().await.unwrap();
    }
    scratch.assert_clean();
    stop.cancel();
}

/// Each of them is allowed; together they make an ext2.
const NOTHING_OF_EXT4: &str = "-O ^has_journal,^extent,^64bit,^huge_file,^flex_bg,^metadata_csum,^dir_nlink,\
    ^extra_isize,^uninit_bg,^metadata_csum_seed,^orphan_file,^bigalloc,^inline_data,^large_dir,^project,^quota";

/// Options may leave nothing of ext4 in an ext4. That is found before anybody's data is on it.
#[tokio::test]
async fn options_that_make_another_filesystem() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let volume = Volume::new(&scratch, "v", "ext4").set("mkfsOptions", NOTHING_OF_EXT4);
    volume.create().await.unwrap();
    for _ in 0..2 {
        let refused = volume.up().await.unwrap_err();
        assert_eq!(refused.code(), Code::Internal);
        assert!(refused.message().contains("`mkfsOptions` of its class"), "{refused}");
    }
    fs::remove_dir(&volume.staging).unwrap();
    volume.delete().await.unwrap();
    scratch.assert_clean();
    stop.cancel();
}

/// Goal: what the caller asks of a mount is what the kernel does.
#[tokio::test]
async fn mount_options_show() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    for (fs_type, own) in [("ext4", "data=writeback"), ("xfs", "nouuid"), ("btrfs", "compress=zstd:3")] {
        let mut volume = Volume::new(&scratch, fs_type, fs_type);
        volume.create().await.unwrap();
        volume.mount.mount_flags =
            ["noatime", "nosuid,nodev", "noexec,nosymfollow", "iversion,silent,X-note=1", own]
                .map(Into::into)
                .into();
        volume.up().await.unwrap();
        fs::write(volume.target.join("file"), "data").unwrap();
        for path in [&volume.staging, &volume.target] {
            let options = Volume::options(path);
            for word in ["rw", "noatime", "nosuid", "nodev", "noexec", "nosymfollow", own] {
                assert!(options.split(',').any(|option| option == word), "{fs_type}: `{word}` in {options}");
            }
        }
        volume.down().await.unwrap();
        volume.mount.mount_flags = vec!["ro".into()];
        volume.up().await.unwrap();
        assert_eq!(fs::read(volume.target.join("file")).unwrap(), b"data", "{fs_type}");
        let written = fs::write(volume.staging.join("more"), "x").unwrap_err();
        assert_eq!(written.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{fs_type}");
        volume.down().await.unwrap();
        volume.delete().await.unwrap();
    }
    scratch.assert_clean();
    stop.cancel();
}

/// Writes at a place of a new image what somebody's data begins with.
fn write_at(image: &Path, parts: &[(u64, &[u8])]) {
    let file = OpenOptions::new().write(true).open(image).unwrap();
    for (offset, bytes) in parts {
        file.write_all_at(bytes, *offset).unwrap();
    }
    file.sync_all().unwrap();
}

/// Goal: nothing that could be somebody's is formatted, whatever the record says, and not a byte of it changes.
#[tokio::test]
async fn nothing_of_anybodys_is_formatted() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let partition = [0x80, 1, 1, 0, 0x83, 1, 1, 1, 0, 8, 0, 0, 0, 8, 0, 0];
    let table: [(&str, &dyn Fn(&str, &Path)); 9] = [
        ("btrfs", &|image, _| _ = tool("mkfs.btrfs", &["-q", "-f", image])),
        ("xfs", &|image, _| _ = tool("mkfs.xfs", &["-q", "-f", image])),
        ("ext2", &|image, _| _ = tool("mkfs.ext2", &["-q", "-F", image])),
        ("swap", &|image, _| _ = tool("mkswap", &[image])),
        ("partitions", &|_, image| write_at(image, &[(446, &partition), (510, &[0x55, 0xaa])])),
        ("LVM", &|_, image| write_at(image, &[(512, b"LABELONE"), (536, b"LVM2 001")])),
        ("LUKS", &|_, image| write_at(image, &[(0, b"LUKS\xba\xbe\x00\x01aes")])),
        ("data in the middle", &|_, image| write_at(image, &[(5 << 20, b"somebody's")])),
        ("zeros in the middle", &|_, image| write_at(image, &[(5 << 20, &[0; 4096])])),
    ];
    for (name, fill) in table {
        let mut volume = Volume::new(&scratch, "v", "ext4");
        volume.size = match name {
            "xfs" => 300 << 20,
            "btrfs" => 109 << 20,
            _ => 16 << 20,
        };
        volume.create().await.unwrap();
        fill(&text(&volume.image), &volume.image);
        let before = digest(&volume.image);
        let refused = volume.stage().await.expect_err(name);
        assert_eq!(refused.code(), Code::FailedPrecondition, "{name}: {refused}");
        assert!(refused.message().contains("nothing was changed"), "{name}: {refused}");
        assert_eq!(digest(&volume.image), before, "{name}");
        fs::remove_dir(&volume.staging).unwrap();
        volume.delete().await.expect(name);
    }
    scratch.assert_clean();
    stop.cancel();
}

/// A filesystem that was in use and whose beginning is gone is lost data, not a new volume.
#[tokio::test]
async fn a_destroyed_superblock_is_not_formatted_over() {
    let scratch = Scratch::new();
    let (running, stop) = serve(&scratch).await;
    let volume = Volume::new(&scratch, "v", "ext4");
    volume.create().await.unwrap();
    volume.up().await.unwrap();
    fs::write(volume.target.join("file"), vec![7; 3 << 20]).unwrap();
    volume.down().await.unwrap();
    write_at(&volume.image, &[(0, &vec![0; 1 << 20])]);
    let before = digest(&volume.image);
    let lost = volume.stage().await.unwrap_err();
    assert_eq!(lost.code(), Code::DataLoss, "{lost}");
    assert_eq!(digest(&volume.image), before);

    // Not even if the record has forgotten that it was ever used.
    stop.cancel();
    running.await.unwrap();
    let record = fs::read_to_string(&volume.record).unwrap();
    let formatted =
        record.find("\"contents\": {").map(|at| &record[at..=at + record[at..].find('}').unwrap()]);
    fs::write(&volume.record, record.replace(formatted.unwrap(), "\"contents\": \"blank\"")).unwrap();
    let (_running, stop) = serve(&scratch).await;
    let refused = volume.stage().await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert_eq!(digest(&volume.image), before);
    fs::remove_dir(&volume.staging).unwrap();
    volume.delete().await.unwrap();
    scratch.assert_clean();
    stop.cancel();
}

/// The bytes of one volume become another's, with the record that a restore leaves.
fn make_copy(origin: &Volume, copy: &Volume, fs_type: &str) {
    fs::copy(&origin.image, &copy.image).unwrap();
    let record = fs::read_to_string(&copy.record).unwrap();
    let copied = format!("\"contents\": {{\"copied\": \"{fs_type}\"}}");
    fs::write(&copy.record, record.replace("\"contents\": \"blank\"", &copied)).unwrap();
}

/// Goal: a copy and its origin are mounted at once, whichever is first, and each has its own data from then on.
#[tokio::test]
async fn copies_beside_their_origins() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        for copy_first in [false, true] {
            let scratch = Scratch::new();
            let (running, stop) = serve(&scratch).await;
            let [origin, copy] = ["origin", "copy"].map(|id| Volume::new(&scratch, id, fs_type));
            for volume in [&origin, &copy] {
                volume.create().await.unwrap();
            }
            origin.up().await.unwrap();
            fs::write(origin.target.join("file"), "old").unwrap();
            origin.down().await.unwrap();
            stop.cancel();
            running.await.unwrap();
            make_copy(&origin, &copy, fs_type);

            let (_running, stop) = serve(&scratch).await;
            let order = if copy_first { [&copy, &origin] } else { [&origin, &copy] };
            for volume in order {
                volume.up().await.unwrap_or_else(|e| panic!("{fs_type}, copy first {copy_first}: {e}"));
                assert_eq!(fs::read(volume.target.join("file")).unwrap(), b"old");
                fs::write(volume.target.join("file"), &volume.id).unwrap();
            }
            for volume in [&origin, &copy] {
                volume.down().await.unwrap();
                volume.up().await.unwrap();
                assert_eq!(fs::read(volume.target.join("file")).unwrap(), volume.id.as_bytes(), "{fs_type}");
            }
            for volume in order {
                volume.down().await.unwrap();
                volume.delete().await.unwrap();
            }
            scratch.assert_clean();
            stop.cancel();
        }
    }
}

/// Stages a copy beside its origin with a driver that dies at the n-th failpoint. Returns whether it died.
async fn copy_survives(hit: u64) -> bool {
    let scratch = Scratch::new();
    let (running, stop) = serve(&scratch).await;
    let [origin, copy] = ["origin", "copy"].map(|id| Volume::new(&scratch, id, "btrfs"));
    for volume in [&origin, &copy] {
        volume.create().await.unwrap();
    }
    origin.up().await.unwrap();
    fs::write(origin.target.join("file"), "old").unwrap();
    tool("sync", &["-f", &text(&origin.target)]);
    stop.cancel();
    running.await.unwrap();
    make_copy(&origin, &copy, "btrfs");

    let mut process = Process::start(PROGRAM, &scratch, &hit.to_string()).await;
    let died = copy.up().await.is_err();
    if died {
        assert!(process.is_dead(), "hit {hit}");
        process = Process::start(PROGRAM, &scratch, "off").await;
        copy.up().await.unwrap_or_else(|status| panic!("hit {hit}: {status}"));
    }
    assert_eq!(fs::read(copy.target.join("file")).unwrap(), b"old", "hit {hit}");
    drop(process);
    let _process = Process::start(PROGRAM, &scratch, "off").await;
    for volume in [&copy, &origin] {
        volume.down().await.unwrap();
        volume.delete().await.unwrap();
    }
    scratch.assert_clean();
    died
}

/// Goal: wherever the driver is killed on the way to a copy's first mount, the next one gets there.
#[tokio::test]
async fn a_crash_before_a_copy_is_mounted() {
    let mut hit = 1;
    while copy_survives(hit).await {
        hit += 1;
        assert!(hit < 50);
    }
    assert!(hit > 8, "a first staging and a publish have more failpoints than {hit}");
}

/// What fsck will not repair by itself is refused with the command that does, and that command helps.
#[tokio::test]
async fn damage_names_its_cure() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let volume = Volume::new(&scratch, "v", "ext4");
    volume.create().await.unwrap();
    volume.up().await.unwrap();
    volume.down().await.unwrap();
    let image = text(&volume.image);
    // No root directory, and a superblock that says that errors were seen.
    tool("debugfs", &["-w", "-R", "clri <2>", &image]);
    tool("debugfs", &["-w", "-R", "ssv state 2", &image]);
    let damaged = volume.stage().await.unwrap_err();
    assert_eq!(damaged.code(), Code::DataLoss, "{damaged}");
    let cure = format!("run `e2fsck -f {image}`");
    assert!(damaged.message().contains("volume `v`") && damaged.message().contains(&cure), "{damaged}");
    let repaired = std::process::Command::new("e2fsck").args(["-f", "-y", &image]).output().unwrap();
    assert_eq!(repaired.status.code().unwrap() & 4, 0, "{repaired:?}");
    volume.up().await.unwrap();
    volume.down().await.unwrap();
    volume.delete().await.unwrap();
    scratch.assert_clean();
    stop.cancel();
}
