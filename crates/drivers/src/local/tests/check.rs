//! The audit on a machine with a driver: beside it, and in its place.

use std::path::{Path, PathBuf};

use super::world::{World, block, mount};
use crate::error::chain;
use crate::local::check::{CheckError, Repair, Report, check, repair};

async fn audit(world: &World) -> Report {
    check(&world.host, &world.config.pool).await.unwrap()
}

fn told(report: &Report) -> Vec<(&'static str, String, Repair)> {
    let findings = report.findings.iter();
    findings.map(|finding| (finding.reason, finding.object.clone(), finding.repair)).collect()
}

fn finding(reason: &'static str, object: &str, repair: Repair) -> (&'static str, String, Repair) {
    (reason, object.to_owned(), repair)
}

/// A pool in use gives no cause for complaint, and the look at it changes nothing.
#[tokio::test]
async fn beside_a_running_driver() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.publish("v", "a", mount()).await.unwrap();
    world.staged("b", block()).await;
    world.create("idle").await.unwrap();
    let (files, mounts) = (world.machine.files(), world.machine.mounts());
    let report = audit(&world).await;
    assert_eq!(told(&report), []);
    assert!(report.is_clean());
    assert_eq!((report.volumes, report.snapshots, report.groups), (3, 0, 0));
    assert_eq!((world.machine.files(), world.machine.mounts()), (files, mounts));

    let refused = repair(&world.host, &world.config.pool).await.unwrap_err();
    assert!(chain(&refused).contains("is served by another process"), "{}", chain(&refused));
}

#[tokio::test]
async fn a_path_that_is_no_pool() {
    let world = World::new().await;
    for path in ["/var/lib", "/nowhere"] {
        for refused in [check(&world.host, Path::new(path)).await, repair(&world.host, Path::new(path)).await]
        {
            assert!(matches!(refused, Err(CheckError::NoPool(_))), "{path}");
        }
        assert!(!world.exists(&Path::new(path).join("lock")).await, "nothing is made there");
    }
}

/// Goal: everything that is provably safe is put right, everything else is told and stays.
#[tokio::test]
async fn what_a_repair_does() {
    let mut world = World::new().await;
    let disk = world.host.disk.clone();
    for name in ["lost", "gone", "unlabelled", "nameless", "deleting", "attached"] {
        world.create(name).await.unwrap();
    }
    let image = |id: &str| world.image(id);
    disk.write_atomic(&world.record_path("lost"), b"{", 0o600).await.unwrap();
    disk.remove_file(&image("gone")).await.unwrap();
    for id in ["unlabelled", "nameless"] {
        let copy = image(id).with_file_name("copy");
        disk.copy(&image(id), &copy).await.unwrap();
        disk.rename(&copy, &image(id)).await.unwrap();
    }
    disk.remove_file(&world.record_path("nameless")).await.unwrap();
    world.machine.write_device(&image("nameless"), 0, b"somebody's").unwrap();
    world.machine.fail_next("remove_file", 5);
    world.delete("deleting").await.unwrap_err();
    let empty = world.config.pool.join("volumes/empty");
    disk.create_dir_all(&empty, 0o700).await.unwrap();
    disk.create_file(&image("lost").with_file_name(".bowline-new-record.json")).await.unwrap();
    let device = world.host.kernel.loop_attach(&image("attached"), false).await.unwrap();
    disk.remove_file(&image("attached")).await.unwrap();
    world.stop().await;

    let device = format!("device `{}`", device.display());
    let expected = |done: Repair| {
        vec![
            finding("ImageMissing", "volume `attached`", Repair::Manual),
            finding("DeletionUnfinished", "volume `deleting`", done),
            finding("EmptyDirectory", "volume `empty`", done),
            finding("ImageMissing", "volume `gone`", Repair::Manual),
            finding("HalfWritten", "volume `lost`", done),
            finding("RecordLost", "volume `lost`", done),
            finding("Quarantined", "volume `nameless`", Repair::Manual),
            finding("NoLabel", "volume `unlabelled`", done),
            finding("DeletedImageAttached", &device, done),
        ]
    };
    assert_eq!(told(&audit(&world).await), expected(Repair::Possible));
    let nameless = world.machine.files().get(&world.image("nameless")).cloned();
    let report = repair(&world.host, &world.config.pool).await.unwrap();
    assert_eq!(told(&report), expected(Repair::Done));
    assert!(!report.is_clean());
    let left: Vec<_> =
        expected(Repair::Done).into_iter().filter(|(.., repair)| *repair == Repair::Manual).collect();
    assert_eq!(told(&audit(&world).await), left, "nothing is left but what a person has to decide");
    assert_eq!(world.machine.files().get(&world.image("nameless")).cloned(), nameless);

    world = world.restart().await;
    world.create("lost").await.expect("the volume of the lost record is there");
    assert_eq!(world.machine.loops(), []);
    let left: Vec<PathBuf> = world.machine.files().into_keys().collect();
    assert!(!left.iter().any(|path| path.starts_with(&empty) || path.ends_with("deleting/disk.img")));
}

/// A repair that fails half-way says so, and the next one goes on.
#[tokio::test]
async fn a_repair_that_fails() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.host.disk.remove_file(&world.record_path("v")).await.unwrap();
    world.stop().await;
    world.machine.fail_next("write_atomic", 28);
    let report = repair(&world.host, &world.config.pool).await.unwrap();
    let [finding] = &report.findings[..] else { panic!("{report:?}") };
    let why = finding.error.as_deref().unwrap_or_default();
    assert!(finding.repair == Repair::Failed && why.contains("no room"), "{finding:?}");
    assert!(!report.is_clean());
    assert!(repair(&world.host, &world.config.pool).await.unwrap().is_clean());
    assert_eq!(told(&audit(&world).await), []);
}

/// Programs rely on these words.
#[tokio::test]
async fn the_json_form() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.host.disk.remove_file(&world.record_path("v")).await.unwrap();
    let report = serde_json::to_value(audit(&world).await).unwrap();
    let expected = serde_json::json!({
        "pool": "/var/lib/pool",
        "volumes": 1,
        "snapshots": 0,
        "groups": 0,
        "findings": [{
            "severity": "error",
            "reason": "RecordLost",
            "object": "volume `v`",
            "message": "its record is lost; its image says what it was",
            "action": "repair, or start the driver: both write the record again",
            "repair": "possible",
        }],
    });
    assert_eq!(report, expected);
}
