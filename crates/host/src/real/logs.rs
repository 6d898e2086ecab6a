//! What a container writes, kept as container runtimes keep it for Kubernetes, one line each:
//! `<time> stdout|stderr F|P <text>`. `P` is a part whose rest follows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// A file of this size is put aside (`containerLogMaxSize`) …
const FILE_MAX: u64 = 10 << 20;
/// … and so many are kept, with the one that grows (`containerLogMaxFiles`).
const FILES_MAX: usize = 5;
/// Longer lines are written in parts.
const LINE_MAX: usize = 16 << 10;
const MODE: u32 = 0o640;
/// What the name of the next file ends in until the one before it has been put aside.
const NEXT: &str = "new";

/// The log of one container. What cannot be written is lost: a full disk must not stop the container.
pub(super) struct Log {
    path: PathBuf,
    file: File,
    length: u64,
    file_max: u64,
    /// The last line is not complete, because there was no room for it.
    torn: bool,
}

impl Log {
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::with_limit(path, FILE_MAX)
    }

    fn with_limit(path: &Path, file_max: u64) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let file = append_to(path)?;
        let length = file.metadata()?.len();
        Ok(Self { path: path.into(), file, length, file_max, torn: false })
    }

    /// Whole entries only; the newest file holds at least one.
    pub fn write(&mut self, entries: &[u8]) {
        if entries.is_empty() {
            return;
        }
        if self.length >= self.file_max && self.put_aside().is_err() {
            // Better a larger file than none.
            self.length = 0;
        }
        if self.torn && self.file.write_all(b"\n").is_err() {
            return;
        }
        self.torn = self.file.write_all(entries).is_err();
        self.length += entries.len() as u64;
    }

    /// `0.log` becomes `0.log.1`, and so on; the oldest goes.
    fn put_aside(&mut self) -> io::Result<()> {
        let beside = |end: &str| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{end}"));
            PathBuf::from(name)
        };
        // The one step that a full disk refuses comes first: without a successor nothing is put aside.
        let next = append_to(&beside(NEXT))?;
        for number in (1..FILES_MAX - 1).rev() {
            rename_if_there(&beside(&number.to_string()), &beside(&(number + 1).to_string()))?;
        }
        // Not there when an earlier try ended between these two.
        rename_if_there(&self.path, &beside("1"))?;
        fs::rename(beside(NEXT), &self.path)?;
        self.file = next;
        (self.length, self.torn) = (0, false);
        Ok(())
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(MODE).open(path)
}

/// Cuts one stream into entries.
pub(super) struct Lines {
    stream: &'static str,
    rest: Vec<u8>,
}

impl Lines {
    pub fn of(stream: &'static str) -> Self {
        Self { stream, rest: Vec::new() }
    }

    /// The entries that these bytes complete.
    pub fn take(&mut self, bytes: &[u8], now: Timestamp) -> Vec<u8> {
        let mut entries = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, complete) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            self.rest.extend_from_slice(text);
            while self.rest.len() > LINE_MAX {
                let part: Vec<u8> = self.rest.drain(..LINE_MAX).collect();
                self.entry('P', &part, now, &mut entries);
            }
            if complete {
                let line = std::mem::take(&mut self.rest);
                self.entry('F', &line, now, &mut entries);
            }
        }
        entries
    }

    /// What has come without an end of line; none will follow.
    pub fn last(&mut self, now: Timestamp) -> Vec<u8> {
        let mut entries = Vec::new();
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.entry('P', &rest, now, &mut entries);
        }
        entries
    }

    fn entry(&self, tag: char, text: &[u8], now: Timestamp, entries: &mut Vec<u8>) {
        entries.extend_from_slice(format!("{now:.9} {} {tag} ", self.stream).as_bytes());
        entries.extend_from_slice(text);
        entries.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-02T03:04:05.0000067Z".parse().unwrap()
    }

    fn text(entries: Vec<u8>) -> String {
        String::from_utf8(entries).unwrap()
    }

    #[test]
    fn lines_and_parts() {
        const AT: &str = "2026-01-02T03:04:05.000006700Z";
        let mut lines = Lines::of("stdout");
        assert_eq!(text(lines.take(b"one\n\ntw", now())), format!("{AT} stdout F one\n{AT} stdout F \n"));
        assert_eq!(text(lines.take(b"o\nrest", now())), format!("{AT} stdout F two\n"));
        assert_eq!(text(lines.last(now())), format!("{AT} stdout P rest\n"));
        assert_eq!(text(lines.last(now())), "");
        let long = vec![b'x'; 2 * LINE_MAX + 1];
        let parts = text(lines.take(&[long.as_slice(), b"\n"].concat(), now()));
        let tags: Vec<(&str, usize)> =
            parts.lines().map(|line| (&line[AT.len()..AT.len() + 10], line.len() - AT.len() - 10)).collect();
        assert_eq!(tags, [(" stdout P ", LINE_MAX), (" stdout P ", LINE_MAX), (" stdout F ", 1)]);
    }

    #[test]
    fn full_files_are_put_aside_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c/0.log");
        let mut log = Log::with_limit(&path, 10).unwrap();
        for number in 0..20 {
            log.write(format!("{number:09}\n").as_bytes());
        }
        let mut names: Vec<String> = fs::read_dir(dir.path().join("c"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["0.log", "0.log.1", "0.log.2", "0.log.3", "0.log.4"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "000000019\n");
        assert_eq!(fs::read_to_string(dir.path().join("c/0.log.4")).unwrap(), "000000015\n");
        drop(log);
        let mut log = Log::with_limit(&path, 100).unwrap();
        log.write(b"more\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "000000019\nmore\n", "a later run appends");
    }

    #[test]
    fn a_log_that_could_not_be_put_aside_is_put_aside_later() {
        let dir = tempfile::tempdir().unwrap();
        let (path, next) = (dir.path().join("0.log"), dir.path().join("0.log.new"));
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let mut log = Log::with_limit(&path, 4).unwrap();
        // As on a full disk, there can be no next file.
        fs::create_dir(&next).unwrap();
        for line in ["one\n", "two\n"] {
            log.write(line.as_bytes());
        }
        assert_eq!(read("0.log"), "one\ntwo\n", "nothing is lost, and it stays where readers look");
        fs::remove_dir(&next).unwrap();
        log.write(b"three\n");
        assert_eq!((read("0.log.1").as_str(), read("0.log").as_str()), ("one\ntwo\n", "three\n"));
        // As after an end between the two last steps.
        fs::remove_file(&path).unwrap();
        log.write(b"four\n");
        assert_eq!(read("0.log"), "four\n");
        assert!(!next.exists());
    }
}
