//! A log that grows and is put aside, seen by somebody who reads it meanwhile.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::Duration;

use tokio::time::timeout;

use crate::world::World;

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn growth_and_replacement_are_news() {
    let world = World::new();
    let path = world.path("0.log");
    fs::write(&path, "one\n").unwrap();
    let mut growing = world.host.disk.open_growing(&path).await.unwrap();
    assert_eq!(growing.read_at(0, 100).await.unwrap(), b"one\n");
    assert_eq!(growing.read_at(4, 100).await.unwrap(), b"");
    growing.changed().await.unwrap();
    assert!(timeout(Duration::from_millis(50), growing.changed()).await.is_err(), "nothing happened");

    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"two\n").unwrap();
    timeout(PATIENCE, growing.changed()).await.unwrap().unwrap();
    assert_eq!(growing.read_at(4, 2).await.unwrap(), b"tw");
    assert_eq!(growing.length().await.unwrap(), 8);
    assert!(!growing.replaced().await.unwrap());

    fs::rename(&path, world.path("0.log.1")).unwrap();
    timeout(PATIENCE, growing.changed()).await.unwrap().unwrap();
    assert!(!growing.replaced().await.unwrap(), "nothing is in its place yet");
    fs::write(&path, "three\n").unwrap();
    let replaced = async {
        while !growing.replaced().await.unwrap() {
            growing.changed().await.unwrap();
        }
    };
    timeout(PATIENCE, replaced).await.unwrap();
    assert_eq!(growing.read_at(4, 100).await.unwrap(), b"two\n", "still the file that was opened");
    assert!(world.host.disk.open_growing(&world.path("nosuch")).await.is_err());
}
