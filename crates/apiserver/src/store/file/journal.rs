//! Looks at the journals of the embedded database before the database does.
//!
//! The database takes whatever it cannot read for the torn end of its journal and cuts it off, and refuses to open if
//! the last batch is whole in length but not in content. Here each batch is synced before the next one is written, so
//! only the very last one can be torn: that one is cut off, because nobody was told of it. Unreadable bytes with a
//! whole batch behind them are something else: a write that was acknowledged is damaged, and cutting there would lose
//! it without a word.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::super::backend::Record;
use super::super::options::expires;

/// Tags of the entries; a batch is a start, as many items as it says, and an end with their checksum.
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const TRAILER: [u8; 4] = [b'F', b'J', b'L', 3];

/// Lengths behind the tag.
const START_LENGTH: usize = 4 + 8;
const ITEM_HEAD: usize = 1 + 1 + 8 + 2 + 4 + 4;
const CLEAR_LENGTH: usize = 8;

/// A batch without its objects: start, the entry of the version, end.
pub const BATCH_LENGTH_MAX: usize = 128;

/// The most that an object takes of a batch: its own entry, and one for its time of expiry.
pub fn length(key: usize, record: &Record) -> usize {
    let json = record.json.as_ref().map_or(0, |json| json.len());
    let entry = 1 + ITEM_HEAD + key + 8;
    let expiry = if expires(&record.resource) { entry } else { 0 };
    entry + json + expiry
}

/// What stands behind the last whole batch.
#[derive(Debug, PartialEq, Eq)]
enum Tail {
    /// Nothing but zeros.
    Clean,
    /// A part of one batch.
    Torn,
    /// Something unreadable, and whole batches again from here on.
    Damaged { resumes: usize },
}

/// Cuts off a torn batch at the end of the newest journal. An error names what is damaged.
pub fn mend(database: &Path) -> Result<(), String> {
    let mut journals = journals(database)?;
    let newest = journals.pop();
    for (_, path) in journals {
        // Synced when it was closed, so there is no excuse for anything unreadable.
        let (bytes, _) = read(&path)?;
        let (end, tail) = scan(&bytes);
        if tail != Tail::Clean {
            return Err(format!("journal {} is unreadable from byte {end}", path.display()));
        }
    }
    let Some((_, path)) = newest else { return Ok(()) };
    let (bytes, file) = read(&path)?;
    match scan(&bytes) {
        (_, Tail::Clean) => Ok(()),
        (end, Tail::Torn) => {
            tracing::warn!(journal = %path.display(), bytes = bytes.len() - end, "cutting off a write that was not finished");
            let cut = file.set_len(end as u64).and_then(|()| file.sync_all());
            cut.map_err(|error| format!("cut {} at byte {end}: {error}", path.display()))
        }
        (end, Tail::Damaged { resumes }) => {
            Err(format!("journal {} is unreadable from byte {end} to {resumes}", path.display()))
        }
    }
}

/// Sets the length of a journal to its content, and returns it. No batch may be under way.
pub fn trim(path: &Path) -> Result<u64, String> {
    let (bytes, file) = read(path)?;
    let (end, tail) = scan(&bytes);
    if tail != Tail::Clean {
        return Err(format!("{} is unreadable from byte {end}", path.display()));
    }
    let end = end as u64;
    let failed = |error: std::io::Error| format!("set the length of {}: {error}", path.display());
    // Cutting a file also takes the blocks behind it, so one that has the right length is left alone.
    if file.metadata().map_err(failed)?.len() > end {
        file.set_len(end).map_err(failed)?;
    }
    Ok(end)
}

/// Where the database keeps the journal of a number.
pub fn path(database: &Path, number: u64) -> PathBuf {
    database.join(format!("{number}.jnl"))
}

/// In the order in which they were written.
pub fn journals(database: &Path) -> Result<Vec<(u64, PathBuf)>, String> {
    let failed = |error: std::io::Error| format!("list {}: {error}", database.display());
    let entries = match std::fs::read_dir(database) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse().ok());
        found.extend(number.map(|number| (number, path)));
    }
    found.sort();
    Ok(found)
}

/// The content without the hole behind it.
fn read(path: &Path) -> Result<(Vec<u8>, File), String> {
    let failed = |error: std::io::Error| format!("read {}: {error}", path.display());
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    let end = bowline_host::real::data_end(&file).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut reader = File::open(path).map_err(failed)?.take(end);
    reader.read_to_end(&mut bytes).map_err(failed)?;
    Ok((bytes, file))
}

/// Where the last of the whole batches from the beginning ends, and what is behind it.
fn scan(bytes: &[u8]) -> (usize, Tail) {
    let mut end = 0;
    while let Some(next) = batch(bytes, end) {
        end = next;
    }
    if bytes[end..].iter().all(|byte| *byte == 0) {
        return (end, Tail::Clean);
    }
    let resumes = (end + 1..bytes.len()).find(|at| bytes[*at] == START && batch(bytes, *at).is_some());
    (end, resumes.map_or(Tail::Torn, |resumes| Tail::Damaged { resumes }))
}

/// The end of the batch that starts here, if it is whole.
fn batch(bytes: &[u8], start: usize) -> Option<usize> {
    let (tag, head) = (*bytes.get(start)?, bytes.get(start + 1..start + 1 + START_LENGTH)?);
    if tag != START {
        return None;
    }
    let items_start = start + 1 + START_LENGTH;
    let mut at = items_start;
    for _ in 0..number(&head[..4])? {
        at = item(bytes, at)?;
    }
    let end = bytes.get(at..at + 1 + 8 + TRAILER.len())?;
    let sum = xxh3_64(&bytes[items_start..at]).to_le_bytes();
    (end[0] == END && end[1..9] == sum && end[9..] == TRAILER).then_some(at + end.len())
}

fn item(bytes: &[u8], at: usize) -> Option<usize> {
    let behind = at + 1;
    let end = match *bytes.get(at)? {
        CLEAR => behind + CLEAR_LENGTH,
        ITEM => {
            let head = bytes.get(behind..behind + ITEM_HEAD)?;
            let (key, value) = (number(&head[10..12])?, number(&head[16..20])?);
            behind + ITEM_HEAD + key + value
        }
        _ => return None,
    };
    (end <= bytes.len()).then_some(end)
}

/// A little-endian number of up to four bytes.
fn number(bytes: &[u8]) -> Option<usize> {
    let mut whole = [0; 4];
    whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
    usize::try_from(u32::from_le_bytes(whole)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch_of(values: &[&[u8]]) -> Vec<u8> {
        let mut items = Vec::new();
        for value in values {
            items.extend([ITEM, 0, 0]);
            items.extend(1_u64.to_le_bytes());
            items.extend(3_u16.to_le_bytes());
            items.extend((value.len() as u32).to_le_bytes());
            items.extend((value.len() as u32).to_le_bytes());
            items.extend(b"key");
            items.extend(*value);
        }
        let mut batch = vec![START];
        batch.extend((values.len() as u32).to_le_bytes());
        batch.extend(7_u64.to_le_bytes());
        batch.extend(&items);
        batch.push(END);
        batch.extend(xxh3_64(&items).to_le_bytes());
        batch.extend(TRAILER);
        batch
    }

    #[test]
    fn whole_batches_and_zeros_are_clean() {
        let mut journal = [batch_of(&[b"one"]), batch_of(&[b"two", b""])].concat();
        let end = journal.len();
        assert_eq!(scan(&journal), (end, Tail::Clean));
        journal.extend([0; 100]);
        assert_eq!(scan(&journal), (end, Tail::Clean));
        assert_eq!(scan(&[]), (0, Tail::Clean));
    }

    #[test]
    fn a_last_batch_that_is_not_whole_is_torn_wherever_it_is_cut_or_changed() {
        let first = batch_of(&[b"one"]);
        let second = batch_of(&[b"two", b"three"]);
        for cut in 1..second.len() {
            let journal = [&first[..], &second[..cut]].concat();
            assert_eq!(scan(&journal), (first.len(), Tail::Torn), "cut at {cut}");
        }
        for at in 0..second.len() {
            let mut journal = [&first[..], &second[..]].concat();
            journal[first.len() + at] ^= 0x55;
            // The sequence number of a batch is not part of its checksum.
            let unseen = (5..13).contains(&at);
            let expected = if unseen { (journal.len(), Tail::Clean) } else { (first.len(), Tail::Torn) };
            assert_eq!(scan(&journal), expected, "changed at {at}");
        }
    }

    #[test]
    fn damage_before_a_whole_batch_is_no_torn_end() {
        let (first, second) = (batch_of(&[b"one"]), batch_of(&[b"two"]));
        for at in (0..first.len()).filter(|at| !(5..13).contains(at)) {
            let mut journal = [&first[..], &second[..]].concat();
            journal[at] ^= 0x55;
            assert_eq!(scan(&journal), (0, Tail::Damaged { resumes: first.len() }), "changed at {at}");
        }
    }
}
