//! Reads a log from its file, and goes on reading while it grows.

use std::io;
use std::path::PathBuf;

use bowline_host::Host;
use bowline_host::disk::Growing;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::select::{Options, Selection};

/// Read at once, and at most this much is on its way to a slow reader for each place in its queue.
const CHUNK: usize = 64 << 10;

/// One log and how its reader wants it.
pub struct Reading {
    pub host: Host,
    pub path: PathBuf,
    pub file: Box<dyn Growing>,
    pub options: Options,
    /// Whose log it is; it is followed until this one has ended.
    pub container: String,
}

impl Reading {
    /// Until the end of the log, of its container or of the reader's interest.
    pub async fn run(mut self, reader: mpsc::Sender<Bytes>) {
        let read = tokio::select! {
            biased;
            () = reader.closed() => return,
            read = self.pump(&reader) => read,
        };
        if let Err(error) = read {
            tracing::warn!(log = %self.path.display(), %error, "read a log");
        }
    }

    async fn pump(&mut self, reader: &mpsc::Sender<Bytes>) -> io::Result<()> {
        let mut selection = Selection::new(&self.options);
        let mut offset = self.start().await?;
        let (host, container) = (self.host.clone(), self.container.clone());
        let mut end = host.containers.wait(&container);
        let mut ended = !self.options.follow;
        while self.hand_on(&mut offset, &mut selection, reader).await? {
            // All of it has been read; whatever comes now is news.
            if self.file.replaced().await? {
                // Something may have been written since that look, and before the next file came.
                if !self.hand_on(&mut offset, &mut selection, reader).await? {
                    return Ok(());
                }
                self.file = host.disk.open_growing(&self.path).await?;
                offset = 0;
                selection.next_file();
            } else if ended {
                return Ok(());
            } else {
                tokio::select! {
                    biased;
                    // Its last words may have been written since they were looked for. One that cannot be waited
                    // for is as good as over.
                    _ = &mut end => ended = true,
                    changed = self.file.changed() => changed?,
                }
            }
        }
        Ok(())
    }

    /// From an offset to the end of the file. False when the reader has enough.
    async fn hand_on(
        &mut self,
        offset: &mut u64,
        selection: &mut Selection,
        reader: &mpsc::Sender<Bytes>,
    ) -> io::Result<bool> {
        while !selection.is_over() {
            let chunk = self.file.read_at(*offset, CHUNK).await?;
            if chunk.is_empty() {
                return Ok(true);
            }
            *offset += chunk.len() as u64;
            let output = selection.take(&chunk);
            if !output.is_empty() && reader.send(output.into()).await.is_err() {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Where to begin for so many lines from the end.
    async fn start(&mut self) -> io::Result<u64> {
        let Some(lines) = self.options.tail_lines else { return Ok(0) };
        let length = self.file.length().await?;
        let mut found = 0;
        let mut end = length;
        while end > 0 {
            let start = end.saturating_sub(CHUNK as u64);
            let size = usize::try_from(end - start).unwrap_or(CHUNK);
            let chunk = self.file.read_at(start, size).await?;
            for (index, byte) in chunk.iter().enumerate().rev() {
                if *byte == b'\n' {
                    if found == lines {
                        return Ok(start + index as u64 + 1);
                    }
                    found += 1;
                }
            }
            end = start;
        }
        Ok(0)
    }
}
