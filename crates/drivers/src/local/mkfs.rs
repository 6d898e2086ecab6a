//! Which options of mkfs a class may give.
//!
//! Named one by one, because everything else does harm: mkfs runs as root, so `-d` of ext4 would copy files of this
//! machine into a volume, `-p` of xfs would read one, `-n` and `-V` make nothing and succeed, and a word that belongs
//! to no option takes the place of the device.

use crate::capability::FsType;
use crate::id::quoted;

const LENGTH_MAX: usize = 1024;

/// The options of one mkfs.
struct Known {
    /// Letters that stand alone.
    plain: &'static str,
    /// Letters that have a value.
    valued: &'static str,
    /// Long names, and whether each has a value.
    long: &'static [(&'static str, bool)],
    /// How parts of a value begin, by option, that lead to another device or file or that make nothing at all.
    harmful: &'static [(&'static str, &'static str)],
}

const EXT4: Known = Known {
    plain: "Fjqv",
    valued: "bCeEgGiIJmNOT",
    long: &[],
    // Features can be given by number, too: `FEATURE_I3` is `journal_dev`.
    harmful: &[("E", "offset"), ("J", "device"), ("O", "journal_dev"), ("O", "feature_")],
};

const XFS: Known = Known {
    plain: "Kfq",
    valued: "bdilmns",
    long: &[],
    harmful: &[("d", "file"), ("d", "name"), ("l", "file"), ("l", "name"), ("l", "logdev"), ("m", "uuid")],
};

const BTRFS: Known = Known {
    plain: "KMfqv",
    valued: "dmnsOR",
    long: &[
        ("checksum", true),
        ("csum", true),
        ("data", true),
        ("features", true),
        ("force", false),
        ("metadata", true),
        ("mixed", false),
        ("nodesize", true),
        ("nodiscard", false),
        ("quiet", false),
        ("runtime-features", true),
        ("sectorsize", true),
        ("verbose", false),
    ],
    harmful: &[
        ("O", "list-all"),
        ("R", "list-all"),
        ("features", "list-all"),
        ("runtime-features", "list-all"),
    ],
};

/// The words of `text`, each of them known, or why not.
pub fn words(text: &str, fs: FsType) -> Result<Vec<String>, String> {
    if text.len() > LENGTH_MAX {
        return Err(format!("{} bytes, at most {LENGTH_MAX} are allowed", text.len()));
    }
    if text.contains(|c: char| c == '/' || c.is_control()) {
        return Err("slashes and control characters are not allowed".into());
    }
    let known = match fs {
        FsType::Ext4 => EXT4,
        FsType::Xfs => XFS,
        FsType::Btrfs => BTRFS,
    };
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        known
            .check(word, &mut rest)
            .map_err(|why| format!("`{}` {why} (mkfs.{})", quoted(word), fs.as_str()))?;
    }
    Ok(words.into_iter().map(Into::into).collect())
}

impl Known {
    /// Reads one option, and its value from the words that follow if it is not in the same word.
    fn check<'a>(&self, word: &'a str, rest: &mut impl Iterator<Item = &'a str>) -> Result<(), &'static str> {
        if let Some(long) = word.strip_prefix("--") {
            return self.check_long(long, rest);
        }
        let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty());
        let mut letters = letters.ok_or("is the value of no option")?.chars();
        while let Some(letter) = letters.next() {
            if self.valued.contains(letter) {
                let value = Some(letters.as_str()).filter(|value| !value.is_empty());
                return self.check_value(letter.encode_utf8(&mut [0; 4]), value.or_else(|| rest.next()));
            }
            if letter == 'L' {
                return Err("is given as `fsLabel` instead");
            }
            if !self.plain.contains(letter) {
                return Err("is not an option that a class may give");
            }
        }
        Ok(())
    }

    fn check_long<'a>(
        &self,
        word: &'a str,
        rest: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), &'static str> {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let known = self.long.iter().find(|(known, _)| *known == name);
        match (known, value) {
            (None, _) => Err("is not an option that a class may give"),
            (Some((_, false)), None) => Ok(()),
            (Some((_, false)), Some(_)) => Err("has no value"),
            (Some((_, true)), value) => self.check_value(name, value.or_else(|| rest.next())),
        }
    }

    fn check_value(&self, option: &str, value: Option<&str>) -> Result<(), &'static str> {
        let value =
            value.filter(|value| !value.is_empty() && !value.starts_with('-')).ok_or("needs a value")?;
        // Features are told apart without regard to case.
        let value = value.to_ascii_lowercase();
        let harmful =
            |part: &str| self.harmful.iter().any(|(of, how)| *of == option && part.starts_with(how));
        if value.split(',').any(harmful) { Err("has a value that a class may not give") } else { Ok(()) }
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
            (Ext4, "-Fq -E stride=4,stripe_width=8"),
            (Ext4, "-qb 1024"),
            (Ext4, "-J size=8 -T news"),
            (Xfs, "-K -d su=64k,sw=4 -m crc=1,reflink=0 -i size=512"),
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
            (Ext4, "-t ext2", "not an option"),
            (Ext4, "-U clear", "not an option"),
            (Ext4, "-z undo", "not an option"),
            (Ext4, "-L name", "fsLabel"),
            (Ext4, "-E offset=4096", "a value that"),
            (Ext4, "-E stride=1,offset=4096", "a value that"),
            (Ext4, "-J device=UUID=1", "a value that"),
            (Ext4, "-O journal_dev", "a value that"),
            (Ext4, "-O JOURNAL_DEV", "a value that"),
            (Ext4, "-O FEATURE_I3", "a value that"),
            (Ext4, "-b", "needs a value"),
            (Ext4, "-b -q", "needs a value"),
            (Ext4, "sda", "the value of no option"),
            (Ext4, "-q sda", "the value of no option"),
            (Ext4, "-", "the value of no option"),
            (Ext4, "--", "not an option"),
            (Ext4, "-b\t4096", "control"),
            (Ext4, "-b\n4096", "control"),
            (Xfs, "-p proto", "not an option"),
            (Xfs, "-c options=x", "not an option"),
            (Xfs, "-N", "not an option"),
            (Xfs, "-r rtdev=x", "not an option"),
            (Xfs, "-d name=x", "a value that"),
            (Xfs, "-d file", "a value that"),
            (Xfs, "-l logdev=x", "a value that"),
            (Xfs, "-m uuid=1", "a value that"),
            (Btrfs, "-r dir", "not an option"),
            (Btrfs, "--rootdir dir", "not an option"),
            (Btrfs, "--root=dir", "not an option"),
            (Btrfs, "-U 1", "not an option"),
            (Btrfs, "--mixed=1", "has no value"),
            (Btrfs, "--nodesize", "needs a value"),
            (Btrfs, "-O list-all", "a value that"),
            (Btrfs, "--features=list-all", "a value that"),
        ];
        for (fs, text, expected) in table {
            let why = words(text, fs).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
        let longest = format!("-b {}", "1".repeat(LENGTH_MAX - 3));
        words(&longest, Ext4).unwrap();
        assert!(words(&(longest + "1"), Ext4).unwrap_err().contains("1025 bytes"));
    }
}
