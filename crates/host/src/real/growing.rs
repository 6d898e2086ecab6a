//! A file that somebody else appends to; the kernel says when.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use inotify::{EventStream, Inotify, WatchMask};

use super::blocking;
use crate::disk::Growing;

/// Room for kernel notices, which say no more than "look again".
const NOTICE_BYTES: usize = 4 << 10;

pub(super) struct RealGrowing {
    path: PathBuf,
    file: Arc<File>,
    /// Made when somebody waits for the first time.
    notices: Option<EventStream<Vec<u8>>>,
}

impl RealGrowing {
    pub async fn open(path: &Path) -> io::Result<Self> {
        let (path, opened) = (path.to_path_buf(), path.to_path_buf());
        let file = blocking(move || File::open(opened)).await?;
        Ok(Self { path, file: Arc::new(file), notices: None })
    }

    /// The file itself, and its directory, where a successor of it would appear.
    fn watch(&self) -> io::Result<EventStream<Vec<u8>>> {
        let inotify = Inotify::init()?;
        let dir = self.path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        inotify.watches().add(dir, WatchMask::CREATE | WatchMask::MOVED_TO)?;
        match inotify.watches().add(&self.path, WatchMask::MODIFY | WatchMask::MOVE_SELF) {
            // Put aside in this moment: its directory will tell.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => drop(other?),
        }
        inotify.into_event_stream(vec![0; NOTICE_BYTES])
    }
}

#[async_trait]
impl Growing for RealGrowing {
    async fn length(&mut self) -> io::Result<u64> {
        let file = self.file.clone();
        blocking(move || Ok(file.metadata()?.len())).await
    }

    async fn read_at(&mut self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let file = self.file.clone();
        blocking(move || {
            let mut buffer = vec![0; max];
            let length = file.read_at(&mut buffer, offset)?;
            buffer.truncate(length);
            Ok(buffer)
        })
        .await
    }

    async fn changed(&mut self) -> io::Result<()> {
        let Some(notices) = &mut self.notices else {
            // What came before this is not announced, so the caller looks once more.
            self.notices = Some(self.watch()?);
            return Ok(());
        };
        match notices.next().await {
            Some(notice) => notice.map(drop),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    async fn replaced(&mut self) -> io::Result<bool> {
        let (path, file) = (self.path.clone(), self.file.clone());
        blocking(move || {
            let own = file.metadata()?;
            match fs::metadata(path) {
                Ok(now) => Ok((now.dev(), now.ino()) != (own.dev(), own.ino())),
                // Put aside, and the next one is about to come.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        })
        .await
    }
}
