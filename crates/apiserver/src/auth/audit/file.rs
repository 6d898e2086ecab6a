//! The file of the log, put aside when it is full.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_host::{Clock, real};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::AuditSettings;

const MEGABYTE: u64 = 1 << 20;
const MAX_SIZE_DEFAULT: u64 = 100;
/// In the names of files that were put aside.
const TIME: &str = "%Y-%m-%dT%H-%M-%S%.3f";

pub struct LogFile {
    settings: AuditSettings,
    clock: Arc<dyn Clock>,
    out: Box<dyn Write + Send>,
    size: u64,
    limit: u64,
}

impl LogFile {
    pub fn open(settings: AuditSettings, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let megabytes = if settings.max_size == 0 { MAX_SIZE_DEFAULT } else { settings.max_size };
        let limit = megabytes.saturating_mul(MEGABYTE);
        if settings.path == Path::new("-") {
            let out = Box::new(BufWriter::new(io::stdout()));
            return Ok(Self { settings, clock, out, size: 0, limit: u64::MAX });
        }
        real::private_parents(&settings.path)?;
        let file = real::private_log(&settings.path)?;
        let size = file.metadata()?.len();
        Ok(Self { settings, clock, out: Box::new(BufWriter::new(file)), size, limit })
    }

    /// One line; the file before it may become an old one.
    pub fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.size > 0 && self.size.saturating_add(length) > self.limit {
            self.rotate()?;
        }
        self.out.write_all(line)?;
        self.size = self.size.saturating_add(length);
        Ok(())
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.out.flush()?;
        let path = &self.settings.path;
        match std::fs::rename(path, aside(path, self.clock.now().to_zoned(TimeZone::UTC).datetime())) {
            // Somebody else put it aside.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        self.out = Box::new(BufWriter::new(real::private_log(path)?));
        self.size = 0;
        // The new file is there; old ones that stay are no reason to lose a line.
        if let Err(error) = self.remove_old() {
            tracing::warn!(%error, "files of the audit log that were put aside cannot be listed");
        }
        Ok(())
    }

    /// Goes on after a file that cannot be removed; the next time it is tried again.
    fn remove_old(&self) -> io::Result<()> {
        let mut old = put_aside(&self.settings.path)?;
        old.sort_by(|(one, _), (other, _)| other.cmp(one));
        let AuditSettings { max_backups, max_age, .. } = self.settings;
        let now = self.clock.now();
        let too_old = |at: &DateTime| {
            let age =
                at.to_zoned(TimeZone::UTC).ok().map(|at| now.duration_since(at.timestamp()).unsigned_abs());
            max_age > 0 && age.is_some_and(|age| age > Duration::from_secs(max_age.saturating_mul(24 * 3600)))
        };
        for (position, (at, path)) in old.iter().enumerate() {
            if (max_backups > 0 && position >= max_backups) || too_old(at) {
                match std::fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        tracing::warn!(path = %path.display(), %error, "an old audit log cannot be removed");
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Where a file goes: `audit.log` becomes `audit-2026-01-02T03-04-05.678.log`.
fn aside(path: &Path, at: DateTime) -> PathBuf {
    let (stem, extension) = parts(path);
    path.with_file_name(format!("{stem}-{}{extension}", at.strftime(TIME)))
}

/// Name without extension, and the extension with its dot.
fn parts(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().map(|_| format!(".{}", text(path.extension()))).unwrap_or_default();
    (text(path.file_stem()), extension)
}

/// Files that were put aside, with the time in their names.
fn put_aside(path: &Path) -> io::Result<Vec<(DateTime, PathBuf)>> {
    let (stem, extension) = parts(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let middle = name.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&extension));
        found
            .extend(middle.and_then(|text| DateTime::strptime(TIME, text).ok()).map(|at| (at, entry.path())));
    }
    Ok(found)
}
