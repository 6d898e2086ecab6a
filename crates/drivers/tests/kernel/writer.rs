//! A workload that writes on and on while volumes are copied, and what of its work is in a copy.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use tonic::Status;

use crate::journey::Scratch;
use crate::volume::{Volume, text, tool};

const BLOCK: usize = 4096;
/// Flag of open(2): a write returns when it is on disk.
const O_SYNC: i32 = 0o4_010_000;
/// Longest wait for the writer to get on.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Writer {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Does `work` with 0, 1, 2, … and says after each that it is safe on disk.
    pub fn start(mut work: impl FnMut(u64) + Send + 'static) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ask, count) = (stop.clone(), done.clone());
        let thread = std::thread::spawn(move || {
            while !ask.load(Ordering::SeqCst) {
                work(count.load(Ordering::SeqCst));
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { stop, done, thread: Some(thread) }
    }

    /// How many are safe on disk.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    /// Waits until so many more are done: the workload is not hanging.
    pub async fn gets_on(&self, more: u64) -> u64 {
        let (goal, begin) = (self.done() + more, Instant::now());
        while self.done() < goal {
            assert!(begin.elapsed() < PATIENCE, "the workload hangs at {}", self.done());
            let ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
            assert!(!ended, "the workload failed at {}", self.done());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.done()
    }

    pub fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
        self.done()
    }
}

impl Drop for Writer {
    /// A failed test must get its volumes unmounted; but a frozen writer cannot be waited for.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let begin = Instant::now();
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && begin.elapsed() < PATIENCE / 20
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn content(number: u64) -> Vec<u8> {
    (0..BLOCK as u64 / 8).flat_map(|word| (number ^ word.wrapping_mul(0x9e37_79b9)).to_le_bytes()).collect()
}

/// Writes one file per number, each synced with its directory.
pub fn files(dir: &Path) -> impl FnMut(u64) + Send + 'static {
    let dir = dir.to_path_buf();
    move |number| {
        let mut file = File::create(dir.join(format!("{number:06}"))).unwrap();
        file.write_all(&content(number)).unwrap();
        file.sync_all().unwrap();
        File::open(&dir).unwrap().sync_all().unwrap();
    }
}

/// How many files are there, all whole: a file follows the one before it, so only the last may be half written.
pub fn whole_files(dir: &Path) -> u64 {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.parse::<u64>().is_ok());
    names.sort();
    let mut whole = 0;
    for (at, name) in names.iter().enumerate() {
        assert_eq!(name.parse::<u64>().unwrap(), at as u64, "a file is missing");
        match fs::read(dir.join(name)).unwrap() == content(at as u64) {
            true => whole += 1,
            false => assert_eq!(at + 1, names.len(), "{name} is not whole"),
        }
    }
    whole
}

/// Writes one block per number, one after the other, each synced.
pub fn blocks(device: &Path) -> impl FnMut(u64) + Send + 'static {
    let device = OpenOptions::new().write(true).custom_flags(O_SYNC).open(device).unwrap();
    move |number| device.write_all_at(&content(number), number * BLOCK as u64).unwrap()
}

/// How many blocks are there, with nothing after them.
pub fn whole_blocks(device: &Path) -> u64 {
    let bytes = fs::read(device).unwrap();
    let blocks: Vec<&[u8]> = bytes.chunks(BLOCK).collect();
    let whole = blocks.iter().enumerate().take_while(|(at, block)| **block == content(*at as u64)).count();
    let rest = blocks[whole..].iter().filter(|block| block.iter().any(|byte| *byte != 0)).count();
    assert_eq!(rest, 0, "{whole} blocks are whole, and {rest} after a gap");
    whole as u64
}

pub fn of_snapshot(id: &str) -> Option<csi::VolumeContentSource> {
    let source = Type::Snapshot(SnapshotSource { snapshot_id: id.into() });
    Some(csi::VolumeContentSource { r#type: Some(source) })
}

pub fn of_volume(id: &str) -> Option<csi::VolumeContentSource> {
    let source = Type::Volume(VolumeSource { volume_id: id.into() });
    Some(csi::VolumeContentSource { r#type: Some(source) })
}

impl Volume {
    pub async fn snapshot(&self, name: &str) -> Result<csi::Snapshot, Status> {
        let request = csi::CreateSnapshotRequest {
            name: name.into(),
            source_volume_id: self.id.clone(),
            ..Default::default()
        };
        Ok(self.controller().create_snapshot(request).await?.into_inner().snapshot.unwrap())
    }

    pub async fn delete_snapshot(&self, id: &str) -> Result<(), Status> {
        let request = csi::DeleteSnapshotRequest { snapshot_id: id.into(), ..Default::default() };
        self.controller().delete_snapshot(request).await.map(drop)
    }

    pub fn made_from(mut self, source: Option<csi::VolumeContentSource>) -> Self {
        self.source = source;
        self
    }

    pub fn of_bytes(mut self) -> Self {
        self.block = true;
        self
    }
}

/// A pool on a filesystem of its own; unmounted when dropped.
pub struct OwnPool(PathBuf);

impl OwnPool {
    pub fn new(scratch: &Scratch, fs_type: &str) -> Self {
        let (image, pool) = (scratch.path("pool.img"), scratch.path("pool"));
        tool("truncate", &["-s", "1G", &text(&image)]);
        tool(&format!("mkfs.{fs_type}"), &["-q", &text(&image)]);
        fs::create_dir(&pool).unwrap();
        tool("mount", &["-o", "loop", &text(&image), &text(&pool)]);
        Self(pool)
    }
}

impl Drop for OwnPool {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}
