//! What a container that failed wrote last: its termination message under `FallbackToLogsOnError`, if it left none.

use std::io;
use std::path::Path;

use bowline_api::pod;

use super::model::Exit;
use super::role::Pods;
use super::spec;
use crate::indexes::PODS_BY_UID;

/// As much of a log as upstream shows.
const BYTES_MAX: usize = 2048;
const LINES_MAX: usize = 80;
/// As much of the file as is read for it: each line has a head of its own.
const READ_MAX: usize = 16 << 10;
/// Time, stream and tag stand before what was written.
const HEAD_WORDS: usize = 3;

impl Pods {
    pub(super) async fn last_lines(
        &self,
        uid: &str,
        container: &str,
        number: u32,
        exit: &Exit,
    ) -> Option<String> {
        let found = self.pods.indexed(PODS_BY_UID, uid);
        let pod = found.first().filter(|_| exit.code != 0 && exit.message.is_none())?;
        let container = pod::containers(pod).find(|one| one.name == container)?;
        if container.termination_message_policy.as_deref() != Some("FallbackToLogsOnError") {
            return None;
        }
        let log = spec::log(&self.config, pod, &container.name, number);
        match self.end_of_file(&log).await {
            Ok((bytes, whole)) => Some(written(&bytes, whole)).filter(|text| !text.is_empty()),
            Err(error) => {
                tracing::warn!(path = %log.display(), %error, "read the end of a container's log");
                None
            }
        }
    }

    /// The last bytes of a file, and whether they are all of it.
    async fn end_of_file(&self, path: &Path) -> io::Result<(Vec<u8>, bool)> {
        let mut file = self.ports.host.disk.open_growing(path).await?;
        let length = file.length().await?;
        let from = length.saturating_sub(READ_MAX as u64);
        Ok((file.read_at(from, READ_MAX).await?, from == 0))
    }
}

/// What was written, without what the log adds to each line.
pub(super) fn written(log: &[u8], whole: bool) -> String {
    let text = String::from_utf8_lossy(log);
    let lines = text.split_inclusive('\n').skip(usize::from(!whole));
    let parts: Vec<String> = lines.filter_map(entry).collect();
    let shown = parts[parts.len().saturating_sub(LINES_MAX)..].concat();
    let from = shown.len().saturating_sub(BYTES_MAX);
    let from = (from..=shown.len()).find(|at| shown.is_char_boundary(*at)).unwrap_or(from);
    shown[from..].to_owned()
}

/// A partial line goes on in the next entry.
fn entry(line: &str) -> Option<String> {
    let mut words = line.splitn(HEAD_WORDS + 1, ' ');
    let tag = words.nth(HEAD_WORDS - 1)?;
    let text = words.next()?;
    Some(if tag == "P" { text.trim_end_matches('\n').to_owned() } else { text.to_owned() })
}
