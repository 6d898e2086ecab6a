//! Which options of mkfs a class may give.
//!
//! Listed one by one with the values that each may have, because mkfs runs as root and what it makes is mounted by root:
//! `-d` of ext4 copies files of this machine into a volume, `-p` of xfs reads one, `-e panic` of ext4 lets a broken volume
//! stop the machine, `-J device=` and `-l logdev=` take other devices, `-n` and `-V` make nothing and succeed, `-T` and `-c`
//! read configuration files, `-F` and `-f` override what protects other data, some features make a filesystem that other
//! kernels cannot mount, and a word that belongs to no option takes the place of the device.

mod options;

use self::options::{Named, Value};
use crate::capability::FsType;
use crate::id::quoted;

const LENGTH_MAX: usize = 1024;

/// The words of `text`, each of them known, or why not.
pub fn words(text: &str, fs: FsType) -> Result<Vec<String>, String> {
    if text.len() > LENGTH_MAX {
        return Err(format!("{} bytes, at most {LENGTH_MAX} are allowed", text.len()));
    }
    if text.contains(|c: char| c == '/' || c.is_control()) {
        return Err("slashes and control characters are not allowed".into());
    }
    let known = options::of(fs);
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        check(known, word, &mut rest)
            .map_err(|why| format!("`{}` {why} (mkfs.{})", quoted(word), fs.as_str()))?;
    }
    Ok(words.into_iter().map(Into::into).collect())
}

/// Reads one word of options, and a value from the words that follow if it is not in the same word.
fn check<'a>(
    known: &'static [Named],
    word: &'a str,
    rest: &mut impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let option = find(known, name).filter(|option| option.name.len() > 1);
        return value_of(option.ok_or_else(|| unknown(known))?, value, rest);
    }
    let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty());
    let letters = letters.ok_or("is the value of no option")?;
    for (at, letter) in letters.char_indices() {
        if letter == 'L' {
            return Err("is given as `fsLabel` instead".into());
        }
        let option = find(known, letter.encode_utf8(&mut [0; 4])).ok_or_else(|| unknown(known))?;
        if !matches!(option.value, Value::Absent) {
            let glued = letters.get(at + letter.len_utf8()..).filter(|value| !value.is_empty());
            return value_of(option, glued, rest);
        }
    }
    Ok(())
}

fn find(known: &'static [Named], name: &str) -> Option<&'static Named> {
    known.iter().find(|option| option.name == name)
}

fn unknown(known: &[Named]) -> String {
    format!("is not an option that a class may give; allowed: {}", options::names(known))
}

/// Checks the value of an option: in the same word, or the next one.
fn value_of<'a>(
    option: &Named,
    glued: Option<&'a str>,
    rest: &mut impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    if let Value::Absent = option.value {
        return if glued.is_none() { Ok(()) } else { Err("has no value".into()) };
    }
    let value = glued.or_else(|| rest.next()).filter(|value| !value.is_empty() && !value.starts_with('-'));
    let value = value.ok_or("needs a value")?;
    match option.value.allows(value) {
        true => Ok(()),
        false => {
            let allowed = option.value.spelled();
            let why =
                options::reason(&option.value, value).map_or_else(String::new, |why| format!(": {why}"));
            let value = quoted(value);
            Err(format!("has the value `{value}`, which a class may not give{why}; allowed: {allowed}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FsType::{Btrfs, Ext4, Xfs};

    #[test]
    fn options_that_shape_a_filesystem() {
        let table = [
            (Ext4, ""),
            (Ext4, "   "),
            (Ext4, "-b 4096 -I 256 -O ^has_journal,metadata_csum -m 1"),
            (Ext4, "-b4096 -m0"),
            (Ext4, "-m 0.5 -i 16384 -N 1000 -g 8192 -G 16"),
            (Ext4, "-q -E stride=4,stripe_width=8"),
            (Ext4, "-qb 1024"),
            (Ext4, "-J size=8"),
            (Ext4, "-e remount-ro -E lazy_itable_init=0,nodiscard,root_owner=1000:1000"),
            (Xfs, "-K -d su=64k,sw=4 -m crc=1,reflink=0 -i size=512"),
            (Ext4, "-E lazy_itable_init,lazy_journal_init,packed_meta_blocks"),
            (Xfs, "-m reflink,rmapbt -i sparse,nrext64 -m crc -l internal=1,lazy-count -n ftype"),
            (Xfs, "-l size=32m -n ftype=1 -s size=4096 -b size=4096"),
            (Btrfs, "-m single -d single -n 16k"),
            (Btrfs, "--metadata dup --nodesize=16k --csum xxhash --mixed -O ^no-holes"),
        ];
        for (fs, text) in table {
            let expected: Vec<String> = text.split_ascii_whitespace().map(Into::into).collect();
            assert_eq!(words(text, fs), Ok(expected), "{text}");
        }
    }

    #[test]
    fn options_that_do_harm() {
        let table = [
            (Ext4, "-d /etc", "slashes"),
            (Ext4, "-d etc", "not an option"),
            (Ext4, "-qd etc", "not an option"),
            (Ext4, "-l blocks", "not an option"),
            (Ext4, "-n", "not an option"),
            (Ext4, "-S", "not an option"),
            (Ext4, "-V", "not an option"),
            (Ext4, "-F", "not an option"),
            (Ext4, "-M mnt", "not an option"),
            (Ext4, "-T news", "not an option"),
            (Ext4, "-t ext2", "not an option"),
            (Ext4, "-U clear", "not an option"),
            (Ext4, "-o hurd", "not an option"),
            (Ext4, "-z undo", "not an option"),
            (Ext4, "-c", "not an option"),
            (Ext4, "-L name", "fsLabel"),
            (Ext4, "-e panic", "the value `panic`"),
            (Ext4, "-epanic", "the value `panic`"),
            (Ext4, "-b 65536", "the value `65536`"),
            (Ext4, "-m 99", "the value `99`"),
            (Ext4, "-E offset=4096", "the value"),
            (Ext4, "-E stride=1,offset=4096", "the value"),
            (Ext4, "-E mmp_update_interval=1", "the value"),
            (Ext4, "-E test_fs", "the value"),
            (Ext4, "-E encoding=utf8", "the value"),
            (Ext4, "-J device=UUID=1", "the value"),
            (Ext4, "-O journal_dev", "the value"),
            (Ext4, "-O JOURNAL_DEV", "the value"),
            (Ext4, "-O FEATURE_I3", "the value"),
            (Ext4, "-O mmp", "the value"),
            (Ext4, "-O encrypt", "the value"),
            (Ext4, "-O casefold", "the value"),
            (Ext4, "-O none", "the value"),
            (Ext4, "-b", "needs a value"),
            (Ext4, "-b -q", "needs a value"),
            (Ext4, "sda", "the value of no option"),
            (Ext4, "-q sda", "the value of no option"),
            (Ext4, "-", "the value of no option"),
            (Ext4, "--", "not an option"),
            (Ext4, "--q", "not an option"),
            (Ext4, "-b\t4096", "control"),
            (Ext4, "-b\n4096", "control"),
            (Xfs, "-f", "not an option"),
            (Xfs, "-p proto", "not an option"),
            (Xfs, "-c options=x", "not an option"),
            (Xfs, "-N", "not an option"),
            (Xfs, "-r rtdev=x", "not an option"),
            (Xfs, "-d name=x", "the value"),
            (Xfs, "-d file", "the value"),
            (Xfs, "-d size=16m", "the value"),
            (Xfs, "-d rtinherit=1", "the value"),
            (Xfs, "-l logdev=x", "the value"),
            (Xfs, "-l name=x", "the value"),
            (Xfs, "-l internal=0", "the value"),
            (Xfs, "-m uuid=1", "the value"),
            (Xfs, "-m crc=0", "version 4, which current kernels do not mount"),
            (Xfs, "-m reflink=0,crc=0", "version 4, which current kernels do not mount"),
            (Xfs, "-n ftype=0", "version 4, which current kernels do not mount"),
            (Xfs, "-m crc=2", "the value"),
            (Xfs, "-n version=ci", "the value"),
            (Xfs, "-b size=65536", "the value"),
            (Btrfs, "-f", "not an option"),
            (Btrfs, "--force", "not an option"),
            (Btrfs, "-r dir", "not an option"),
            (Btrfs, "--rootdir dir", "not an option"),
            (Btrfs, "--root=dir", "not an option"),
            (Btrfs, "-U 1", "not an option"),
            (Btrfs, "-b 16m", "not an option"),
            (Btrfs, "--mixed=1", "has no value"),
            (Btrfs, "--nodesize", "needs a value"),
            (Btrfs, "-d raid1", "the value"),
            (Btrfs, "-s 65536", "the value"),
            (Btrfs, "-O list-all", "the value"),
            (Btrfs, "-O zoned", "the value"),
            (Btrfs, "--features=list-all", "the value"),
        ];
        for (fs, text, expected) in table {
            let why = words(text, fs).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
            assert!(
                !matches!(expected, "not an option" | "the value") || why.contains("allowed: "),
                "{text}: {why}"
            );
        }
        let longest = format!("-N {}", "1".repeat(LENGTH_MAX - 3));
        words(&longest, Ext4).unwrap();
        assert!(words(&(longest + "1"), Ext4).unwrap_err().contains("1025 bytes"));
    }
}
