//! The high-water mark of a store, kept beside its database.
//!
//! The database takes missing files for a store that is new, and begins with nothing. The mark says how far the store
//! had come and which files it had, so that what is loaded is never older than what was acknowledged without a word.
//!
//! # Crash safety
//!
//! The mark is written after a batch is durable, so it never promises more than the disk has. It is written in place,
//! in turns to one of two slots: a torn one leaves the other. Only every so often it is synced: after the death of the
//! process the kernel has all of it, after a power failure it may be a little older, which only makes it promise less.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::journal;

const NAME: &str = "mark";
const FORMAT: &str = "bowline-mark-1";
/// Each slot has a block of its own, so that one write never touches both.
const SLOT: u64 = 4096;
const TEXT_MAX: usize = 512;
/// Versions after which the mark is synced.
const SYNC_EVERY: u64 = 1000;

/// What the database must have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    /// The last version that was acknowledged.
    pub version: u64,
    /// The newest journal; older ones go when their content is elsewhere.
    pub journal: u64,
    /// Numbers of the folders of keyspaces.
    pub keyspaces: Vec<u64>,
}

/// The open file.
pub struct MarkFile {
    file: File,
    /// Of the last write; the greater one of the two slots counts.
    sequence: u64,
    mark: Mark,
    synced: u64,
    failed: bool,
}

/// What a mark says.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// What a store of an older version has, or one whose first mark was not written before a crash.
    Nothing,
    Mark(Mark),
    /// With a sentence about it.
    Unreadable(String),
}

impl Found {
    pub fn readable(self) -> Result<Option<Mark>, String> {
        match self {
            Self::Nothing => Ok(None),
            Self::Mark(mark) => Ok(Some(mark)),
            Self::Unreadable(why) => Err(why),
        }
    }
}

/// Whether a directory has, or once had, a store that was marked.
pub fn exists(dir: &Path) -> bool {
    dir.join(NAME).exists()
}

impl MarkFile {
    /// Opens or creates the mark of a directory.
    pub fn open(dir: &Path) -> Result<(Self, Found), String> {
        let failed = |error: std::io::Error| format!("open its mark: {error}");
        let file = bowline_host::real::private_file(&dir.join(NAME)).map_err(failed)?;
        let slots = [0, SLOT].map(|at| read(&file, at));
        let blank = slots.iter().all(|slot| matches!(slot, Slot::Blank));
        let newest = slots.into_iter().filter_map(Slot::content).max_by_key(|(sequence, _)| *sequence);
        let (sequence, mark) = newest.clone().unwrap_or_default();
        let found = match newest {
            Some((_, mark)) => Found::Mark(mark),
            None if blank => Found::Nothing,
            None => Found::Unreadable(format!("its mark, `{}`, is unreadable", dir.join(NAME).display())),
        };
        Ok((Self { file, sequence, synced: 0, mark, failed: false }, found))
    }

    /// What was noted last.
    pub fn known(&self) -> &Mark {
        &self.mark
    }

    /// Replaces the mark, durable on return.
    pub fn set(&mut self, mark: Mark) -> Result<(), String> {
        self.mark = mark;
        self.write().and_then(|()| self.sync()).map_err(|error| format!("write its mark: {error}"))
    }

    /// No longer asks for a journal, because another database is about to take the place of this one.
    pub fn forget_journal(&mut self) -> Result<(), String> {
        self.set(Mark { journal: 0, ..self.mark.clone() })
    }

    /// Notes that a version is durable in `database`. A mark that cannot be written promises less than it could,
    /// which is no reason to fail the write.
    pub fn reached(&mut self, version: u64, database: &Path) {
        let mut rotated = false;
        while journal::path(database, self.mark.journal + 1).exists() {
            self.mark.journal += 1;
            rotated = true;
        }
        self.mark.version = version;
        let due = rotated || version - self.synced.min(version) >= SYNC_EVERY;
        let written = self.write().and_then(|()| if due { self.sync() } else { Ok(()) });
        if let Err(error) = &written
            && !self.failed
        {
            tracing::warn!(%error, "the mark of the store could not be written; writes go on");
        }
        self.failed = written.is_err();
    }

    fn write(&mut self) -> std::io::Result<()> {
        self.sequence += 1;
        self.file.write_all_at(self.mark.text(self.sequence).as_bytes(), self.sequence % 2 * SLOT)
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.file.sync_data()?;
        self.synced = self.mark.version;
        Ok(())
    }
}

impl Drop for MarkFile {
    fn drop(&mut self) {
        let _ = self.sync();
    }
}

enum Slot {
    /// Never written.
    Blank,
    Torn,
    Content(u64, Mark),
}

impl Slot {
    fn content(self) -> Option<(u64, Mark)> {
        match self {
            Self::Content(sequence, mark) => Some((sequence, mark)),
            Self::Blank | Self::Torn => None,
        }
    }
}

fn read(file: &File, at: u64) -> Slot {
    let mut bytes = [0; TEXT_MAX];
    let mut length = 0;
    while length < TEXT_MAX {
        match file.read_at(&mut bytes[length..], at + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Slot::Torn,
        }
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return Slot::Blank;
    }
    let text = bytes.split(|byte| *byte == b'\n').next().and_then(|line| std::str::from_utf8(line).ok());
    text.and_then(Mark::parse).map_or(Slot::Torn, |(sequence, mark)| Slot::Content(sequence, mark))
}

impl Mark {
    fn text(&self, sequence: u64) -> String {
        let keyspaces: Vec<String> = self.keyspaces.iter().map(ToString::to_string).collect();
        let body = format!("{FORMAT} {sequence} {} {} {}", self.version, self.journal, keyspaces.join(","));
        // Filled up, so that nothing of a longer text stays behind it.
        format!("{:<width$}\n", format!("{body} {:016x}", xxh3_64(body.as_bytes())), width = TEXT_MAX - 1)
    }

    fn parse(line: &str) -> Option<(u64, Self)> {
        let (body, sum) = line.trim_end().rsplit_once(' ')?;
        if u64::from_str_radix(sum, 16).ok()? != xxh3_64(body.as_bytes()) {
            return None;
        }
        let words: Vec<&str> = body.split(' ').collect();
        let [FORMAT, sequence, version, journal, keyspaces] = words[..] else { return None };
        let numbers = keyspaces.split(',').filter(|number| !number.is_empty());
        let keyspaces = numbers.map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let mark = Self { version: version.parse().ok()?, journal: journal.parse().ok()?, keyspaces };
        Some((sequence.parse().ok()?, mark))
    }

    /// What the files of an open database are now.
    pub fn of(database: &Path, version: u64) -> Result<Self, String> {
        let newest = journal::journals(database)?.last().map(|(number, _)| *number);
        let failed = |error: std::io::Error| format!("list the keyspaces: {error}");
        let mut keyspaces = Vec::new();
        for entry in std::fs::read_dir(database.join("keyspaces")).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            keyspaces.extend(name.to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        keyspaces.sort_unstable();
        Ok(Self { version, journal: newest.unwrap_or(0), keyspaces })
    }

    /// Files that the mark promises and `database` does not have, as paths below its parent.
    pub fn missing(&self, database: &Path) -> Result<Vec<String>, String> {
        let name = database.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !database.exists() {
            return Ok(vec![name]);
        }
        let mut needed = vec!["version".to_owned()];
        needed.extend(self.keyspaces.iter().map(|number| format!("keyspaces/{number}/current")));
        let numbers: Vec<u64> = journal::journals(database)?.iter().map(|(number, _)| *number).collect();
        // The oldest are removed first, so whatever is there has no gap and ends with the newest.
        let oldest = numbers.first().copied().unwrap_or(self.journal);
        let newest = numbers.last().copied().unwrap_or(0).max(self.journal);
        needed.extend((oldest.min(newest)..=newest).map(|number| format!("{number}.jnl")));
        let gone = needed.into_iter().filter(|path| !database.join(path).exists());
        Ok(gone.map(|path| format!("{name}/{path}")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(version: u64) -> Mark {
        Mark { version, journal: 3, keyspaces: vec![0, 1, 2] }
    }

    #[test]
    fn the_newest_whole_slot_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, none) = MarkFile::open(dir.path()).unwrap();
        assert_eq!(none, Found::Nothing);
        file.set(mark(5)).unwrap();
        file.set(mark(123_456_789)).unwrap();
        file.set(mark(7)).unwrap();
        let read = || MarkFile::open(dir.path()).and_then(|(_, found)| found.readable());
        assert_eq!(read().unwrap(), Some(mark(7)));

        let bytes = std::fs::read(dir.path().join(NAME)).unwrap();
        let damage = |at: usize| {
            let mut torn = bytes.clone();
            torn[at] ^= 0x55;
            std::fs::write(dir.path().join(NAME), &torn).unwrap();
            torn
        };
        // The third write went to the second slot.
        let second = usize::try_from(SLOT).unwrap();
        for at in 0..FORMAT.len() + 20 {
            damage(second + at);
            assert_eq!(read().unwrap(), Some(mark(123_456_789)), "torn at {at}");
        }
        let mut torn = damage(second);
        torn[0] = 0;
        std::fs::write(dir.path().join(NAME), torn).unwrap();
        assert!(read().unwrap_err().ends_with("is unreadable"));
        // One whole slot is enough, so an unreadable mark is replaced without being empty in between.
        MarkFile::open(dir.path()).unwrap().0.set(mark(9)).unwrap();
        assert_eq!(read().unwrap(), Some(mark(9)));
    }

    #[test]
    fn missing_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("objects");
        assert_eq!(mark(1).missing(&database).unwrap(), ["objects"]);
        for number in 0..3 {
            std::fs::create_dir_all(database.join(format!("keyspaces/{number}"))).unwrap();
            std::fs::write(database.join(format!("keyspaces/{number}/current")), "").unwrap();
        }
        std::fs::write(database.join("version"), "").unwrap();
        assert_eq!(mark(1).missing(&database).unwrap(), ["objects/3.jnl"]);
        // Which journals are there, and which are missing with journal 3 in the mark.
        let table: [(&[u64], &[&str]); 5] = [
            (&[3], &[]),
            (&[2, 3], &[]),
            (&[5], &[]),
            (&[2], &["objects/3.jnl"]),
            (&[2, 4], &["objects/3.jnl"]),
        ];
        for (there, expected) in table {
            for number in there {
                std::fs::write(journal::path(&database, *number), "").unwrap();
            }
            assert_eq!(mark(1).missing(&database).unwrap(), expected, "{there:?}");
            there.iter().for_each(|number| std::fs::remove_file(journal::path(&database, *number)).unwrap());
        }
        std::fs::write(journal::path(&database, 3), "").unwrap();
        std::fs::remove_file(database.join("keyspaces/1/current")).unwrap();
        std::fs::remove_dir_all(database.join("keyspaces/2")).unwrap();
        std::fs::remove_file(database.join("version")).unwrap();
        assert_eq!(
            mark(1).missing(&database).unwrap(),
            ["objects/version", "objects/keyspaces/1/current", "objects/keyspaces/2/current"]
        );
    }
}
