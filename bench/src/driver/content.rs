//! Data that no filesystem can shorten, and that says where it stands.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::args::Fs;

const CHUNK: usize = 1 << 20;

/// So many bytes in a file of the volume, or on the device itself.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    pub bytes: u64,
    pub fs: Fs,
}

impl Content {
    /// Durable when it returns.
    pub async fn write(self, target: PathBuf) -> Result<()> {
        tokio::task::spawn_blocking(move || self.write_now(&target)).await?
    }

    pub async fn check(self, target: PathBuf) -> Result<()> {
        tokio::task::spawn_blocking(move || self.check_now(&target)).await?
    }

    fn place(self, target: &Path) -> PathBuf {
        if self.fs == Fs::None { target.to_owned() } else { target.join("data") }
    }

    fn write_now(self, target: &Path) -> Result<()> {
        let place = self.place(target);
        let open = File::options().write(true).create(self.fs != Fs::None).open(&place);
        let mut file = BufWriter::new(open.with_context(|| format!("open `{}`", place.display()))?);
        let mut numbers = Numbers::default();
        for _ in 0..self.bytes.div_ceil(CHUNK as u64) {
            file.write_all(&numbers.chunk())?;
        }
        Ok(file.into_inner().context("write the last bytes")?.sync_all()?)
    }

    fn check_now(self, target: &Path) -> Result<()> {
        let place = self.place(target);
        let mut file = File::open(&place).with_context(|| format!("open `{}`", place.display()))?;
        let mut numbers = Numbers::default();
        let mut read = vec![0; CHUNK];
        for number in 0..self.bytes.div_ceil(CHUNK as u64) {
            file.read_exact(&mut read)?;
            if read != numbers.chunk() {
                bail!("MiB {number} is not what was written");
            }
        }
        Ok(())
    }
}

/// The same sequence each time (xorshift64).
struct Numbers(u64);

impl Default for Numbers {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Numbers {
    fn chunk(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CHUNK);
        while bytes.len() < CHUNK {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.extend_from_slice(&self.0.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn one_wrong_byte_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let content = Content { bytes: 3 << 20, fs: Fs::Ext4 };
        content.write_now(dir.path()).unwrap();
        content.check_now(dir.path()).unwrap();
        let file = File::options().write(true).open(dir.path().join("data")).unwrap();
        file.write_all_at(&[0, 0, 0], (2 << 20) + 5).unwrap();
        let error = content.check_now(dir.path()).unwrap_err();
        assert!(error.to_string().contains("MiB 2"), "{error}");
        file.set_len(1 << 20).unwrap();
        assert!(content.check_now(dir.path()).is_err(), "too short");
    }
}
