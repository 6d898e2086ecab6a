//! Tokens that requests show: one in a file, read again as it rotates, or one of a service account.
//!
//! kube reads such files too, but by the wall clock: after a step back it would go on with a token that has expired.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_host::Disk;
use http::HeaderValue;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::account::AccountToken;

/// As client-go. A kubelet renews tokens long before they expire.
const REREAD: Duration = Duration::from_secs(60);

pub(super) enum Bearer {
    File(Token),
    Account(AccountToken),
}

impl Bearer {
    pub async fn header(&self) -> Result<HeaderValue, String> {
        match self {
            Self::File(token) => Ok(token.header().await),
            Self::Account(token) => token.header().await,
        }
    }

    /// The server refused it: the next request has it read or issued again.
    pub async fn refused(&self) {
        match self {
            Self::File(token) => token.refused().await,
            Self::Account(token) => token.refused().await,
        }
    }
}

pub(super) struct Token {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    kept: Mutex<Kept>,
}

struct Kept {
    value: HeaderValue,
    /// `None` when it is in doubt.
    read: Option<Instant>,
}

impl Token {
    pub async fn open(disk: Arc<dyn Disk>, path: PathBuf) -> Result<Self, String> {
        let value = read(&*disk, &path).await?;
        let kept = Mutex::new(Kept { value, read: Some(Instant::now()) });
        Ok(Self { disk, path, kept })
    }

    /// The value of the `Authorization` header. While the file cannot be read, the last one that could.
    pub async fn header(&self) -> HeaderValue {
        let mut kept = self.kept.lock().await;
        if kept.read.is_none_or(|read| read.elapsed() >= REREAD) {
            kept.read = Some(Instant::now());
            match read(&*self.disk, &self.path).await {
                Ok(value) => kept.value = value,
                Err(error) => tracing::warn!(error, "keeping the token that was read before"),
            }
        }
        kept.value.clone()
    }

    /// The server refused it: the next request has it read again.
    pub async fn refused(&self) {
        self.kept.lock().await.read = None;
    }
}

async fn read(disk: &dyn Disk, path: &Path) -> Result<HeaderValue, String> {
    let wrong = |why: String| format!("read token `{}`: {why}", path.display());
    let content = disk.read(path).await.map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(content).map_err(|_| wrong("it is not text".into()))?;
    header(text.trim()).map_err(|why| wrong(why.to_owned()))
}

/// The value of the `Authorization` header with this token.
pub(super) fn header(token: &str) -> Result<HeaderValue, &'static str> {
    if token.is_empty() {
        return Err("it is empty");
    }
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut header = header.map_err(|_| "it has characters that no header may have")?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rotated_token_is_read_after_a_minute_or_a_refusal() {
        let disk = bowline_host::fake::host(1).0.disk;
        let path = Path::new("/token");
        let write = async |token: &str| disk.write_atomic(path, token.as_bytes(), 0o600).await.unwrap();
        assert!(Token::open(disk.clone(), path.into()).await.is_err(), "absent");
        write(" \n").await;
        assert!(Token::open(disk.clone(), path.into()).await.is_err(), "empty");
        write("one\n").await;
        let token = Token::open(disk.clone(), path.into()).await.unwrap();
        write("two\n").await;
        assert_eq!(token.header().await, "Bearer one");
        tokio::time::advance(REREAD).await;
        assert_eq!(token.header().await, "Bearer two");
        write("three\n").await;
        token.refused().await;
        assert_eq!(token.header().await, "Bearer three");
        disk.remove_file(path).await.unwrap();
        tokio::time::advance(REREAD).await;
        assert_eq!(token.header().await, "Bearer three", "the last one that could be read");
        assert!(token.header().await.is_sensitive(), "never in a log");
    }
}
