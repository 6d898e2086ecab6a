//! Which mount options a class may give.
//!
//! Listed one by one, since mount(2) runs as root: `errors=panic` and `fatal_errors=panic` stop the machine,
//! `usrjquota=` and `logdev=` name other files and devices, `subvol=` shows another root than the volume's, and `dev` and
//! `suid` let a pod bring device files and programs of root. A value that is not listed is refused with its option.

use crate::capability::{FsType, MountFlags};
use crate::error::VolumeError;
use crate::id::quoted;

/// What may follow an option.
#[derive(Clone, Copy)]
enum Value {
    Absent,
    /// Decimal digits, with one letter for a unit.
    Number,
    OneOf(&'static [&'static str]),
    /// One of these, or one with a colon and a number.
    Levels(&'static [&'static str]),
}

use Value::{Absent, Levels, Number, OneOf};

type Options = &'static [(&'static str, Value)];

/// Options of any filesystem, and words that the kernel never sees.
const ANY: Options = &[
    ("ro", Absent),
    ("rw", Absent),
    ("nodev", Absent),
    ("nosuid", Absent),
    ("noexec", Absent),
    ("exec", Absent),
    ("sync", Absent),
    ("async", Absent),
    ("dirsync", Absent),
    ("atime", Absent),
    ("noatime", Absent),
    ("diratime", Absent),
    ("nodiratime", Absent),
    ("relatime", Absent),
    ("norelatime", Absent),
    ("strictatime", Absent),
    ("nostrictatime", Absent),
    ("lazytime", Absent),
    ("nolazytime", Absent),
    ("symfollow", Absent),
    ("nosymfollow", Absent),
    ("iversion", Absent),
    ("noiversion", Absent),
    ("silent", Absent),
    ("loud", Absent),
    ("discard", Absent),
    ("nodiscard", Absent),
    ("defaults", Absent),
    ("auto", Absent),
    ("noauto", Absent),
    ("nofail", Absent),
    ("_netdev", Absent),
];

const EXT4: Options = &[
    ("acl", Absent),
    ("noacl", Absent),
    ("user_xattr", Absent),
    ("nouser_xattr", Absent),
    ("auto_da_alloc", Absent),
    ("auto_da_alloc", OneOf(&["0", "1"])),
    ("noauto_da_alloc", Absent),
    ("barrier", Absent),
    ("barrier", OneOf(&["0", "1"])),
    ("nobarrier", Absent),
    ("block_validity", Absent),
    ("noblock_validity", Absent),
    ("bsddf", Absent),
    ("minixdf", Absent),
    ("bsdgroups", Absent),
    ("sysvgroups", Absent),
    ("commit", Number),
    ("data", OneOf(&["ordered", "journal", "writeback"])),
    ("data_err", OneOf(&["abort", "ignore"])),
    ("delalloc", Absent),
    ("nodelalloc", Absent),
    ("dioread_lock", Absent),
    ("dioread_nolock", Absent),
    ("nodioread_nolock", Absent),
    ("errors", OneOf(&["remount-ro", "continue"])),
    ("grpid", Absent),
    ("nogrpid", Absent),
    ("init_itable", Absent),
    ("init_itable", Number),
    ("noinit_itable", Absent),
    ("inode_readahead_blks", Number),
    ("journal_async_commit", Absent),
    ("journal_checksum", Absent),
    ("nojournal_checksum", Absent),
    ("journal_ioprio", Number),
    ("max_batch_time", Number),
    ("min_batch_time", Number),
    ("max_dir_size_kb", Number),
    ("mb_optimize_scan", OneOf(&["0", "1"])),
    ("nombcache", Absent),
    ("no_mbcache", Absent),
    ("nouid32", Absent),
    // Not `warn_on_error`, which stops a machine that panics on warnings.
    ("nowarn_on_error", Absent),
    ("prefetch_block_bitmaps", Absent),
    ("no_prefetch_block_bitmaps", Absent),
    ("norecovery", Absent),
    ("noload", Absent),
    ("prjquota", Absent),
    ("quota", Absent),
    ("noquota", Absent),
    ("usrquota", Absent),
    ("grpquota", Absent),
    ("resgid", Number),
    ("resuid", Number),
    ("stripe", Number),
];

const XFS: Options = &[
    ("allocsize", Number),
    ("attr2", Absent),
    ("noattr2", Absent),
    ("bsdgroups", Absent),
    ("sysvgroups", Absent),
    ("filestreams", Absent),
    ("grpid", Absent),
    ("nogrpid", Absent),
    ("ikeep", Absent),
    ("noikeep", Absent),
    ("inode32", Absent),
    ("inode64", Absent),
    ("largeio", Absent),
    ("nolargeio", Absent),
    ("logbsize", Number),
    ("logbufs", Number),
    ("noalign", Absent),
    ("norecovery", Absent),
    ("nouuid", Absent),
    ("quota", Absent),
    ("noquota", Absent),
    ("qnoenforce", Absent),
    ("uquota", Absent),
    ("uqnoenforce", Absent),
    ("gquota", Absent),
    ("gqnoenforce", Absent),
    ("pquota", Absent),
    ("pqnoenforce", Absent),
    ("usrquota", Absent),
    ("grpquota", Absent),
    ("prjquota", Absent),
    ("sunit", Number),
    ("swidth", Number),
    ("swalloc", Absent),
    ("wsync", Absent),
];

const COMPRESSION: &[&str] = &["zlib", "lzo", "zstd", "no", "none"];

const BTRFS: Options = &[
    ("acl", Absent),
    ("noacl", Absent),
    ("autodefrag", Absent),
    ("noautodefrag", Absent),
    ("barrier", Absent),
    ("nobarrier", Absent),
    ("commit", Number),
    ("compress", Absent),
    ("compress", Levels(COMPRESSION)),
    ("compress-force", Absent),
    ("compress-force", Levels(COMPRESSION)),
    ("datacow", Absent),
    ("nodatacow", Absent),
    ("datasum", Absent),
    ("nodatasum", Absent),
    ("discard", OneOf(&["sync", "async"])),
    ("flushoncommit", Absent),
    ("noflushoncommit", Absent),
    ("max_inline", Number),
    ("metadata_ratio", Number),
    ("space_cache", Absent),
    ("space_cache", OneOf(&["v1", "v2"])),
    ("nospace_cache", Absent),
    ("ssd", Absent),
    ("nossd", Absent),
    ("ssd_spread", Absent),
    ("nossd_spread", Absent),
    ("thread_pool", Number),
    ("treelog", Absent),
    ("notreelog", Absent),
    ("user_subvol_rm_allowed", Absent),
];

/// Comments of programs in user space, which the kernel never sees.
const COMMENTS: [&str; 2] = ["x-", "X-"];
/// Of these, what changes how mount(8) mounts: to leave it out would show a volume in another way than asked for.
const COMMAND: &str = "X-mount.";
/// The exception: the directory is there already.
const MAKE_DIRECTORY: &str = "X-mount.mkdir";

fn is_comment(word: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    let comment = COMMENTS.iter().any(|prefix| word.starts_with(prefix));
    comment && (!word.starts_with(COMMAND) || name == MAKE_DIRECTORY)
}

fn options_of(fs: FsType) -> Options {
    match fs {
        FsType::Ext4 => EXT4,
        FsType::Xfs => XFS,
        FsType::Btrfs => BTRFS,
    }
}

/// Refuses what is not listed for the filesystem; as long as that is not known, what no filesystem takes. The error names
/// the option without its value, which may be a secret.
pub fn check(flags: &MountFlags, fs: Option<FsType>) -> Result<(), VolumeError> {
    let systems = match fs {
        Some(fs) => vec![fs],
        None => vec![FsType::Ext4, FsType::Xfs, FsType::Btrfs],
    };
    let known: Vec<_> = ANY.iter().chain(systems.iter().flat_map(|fs| options_of(*fs))).collect();
    for word in flags.words().filter(|word| !is_comment(word)) {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        if !known.iter().any(|(known, allowed)| *known == name && allows(*allowed, value)) {
            return Err(refused(name, &known));
        }
    }
    Ok(())
}

fn allows(allowed: Value, value: Option<&str>) -> bool {
    match (allowed, value) {
        (Absent, None) => true,
        (Number, Some(value)) => is_number(value),
        (OneOf(values), Some(value)) => values.contains(&value),
        (Levels(values), Some(value)) => {
            let (name, level) = value.split_once(':').unwrap_or((value, "0"));
            values.contains(&name) && is_number(level)
        }
        (Absent, Some(_)) | (Number | OneOf(_) | Levels(_), None) => false,
    }
}

fn is_number(value: &str) -> bool {
    let digits = value.strip_suffix(['k', 'K', 'm', 'M', 'g', 'G']).unwrap_or(value);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn refused(name: &str, known: &[&(&'static str, Value)]) -> VolumeError {
    let spelled = |(name, value): &(&'static str, Value)| match value {
        Absent => (*name).to_owned(),
        Number => format!("{name}=<number>"),
        OneOf(values) | Levels(values) => format!("{name}={}", values.join("|")),
    };
    let (what, list): (_, Vec<_>) = match known.iter().any(|(known, _)| *known == name) {
        true => ("with this value", known.iter().filter(|(known, _)| *known == name).collect()),
        false => ("at all", known.iter().collect()),
    };
    let list: Vec<String> = list.into_iter().map(|option| spelled(option)).collect();
    let why = format!("mount option `{}` is not allowed {what}; allowed: {}", quoted(name), list.join(", "));
    VolumeError::Unsupported { why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FsType::{Btrfs, Ext4, Xfs};

    fn answer(fs: Option<FsType>, words: &[&str]) -> Result<(), String> {
        let flags = MountFlags(words.iter().map(ToString::to_string).collect());
        check(&flags, fs).map_err(|error| error.to_string())
    }

    #[test]
    fn allowed_options() {
        let table: [(Option<FsType>, &[&str]); 14] = [
            (Some(Ext4), &[]),
            (Some(Ext4), &["ro", "noatime,nodev", "", "x-systemd.device-timeout=5"]),
            (Some(Ext4), &["errors=remount-ro", "errors=continue", "data=ordered", "commit=30"]),
            (Some(Ext4), &["barrier=0", "barrier", "discard", "stripe=16"]),
            (Some(Xfs), &["logbsize=256k", "allocsize=64k", "nouuid", "prjquota"]),
            (Some(Btrfs), &["compress=zstd:3", "compress", "discard=async", "nodatacow"]),
            (Some(Ext4), &["data_err=abort", "auto_da_alloc=0", "bsddf,minixdf", "nombcache", "sysvgroups"]),
            (Some(Ext4), &["journal_async_commit,bsdgroups", "journal_ioprio=3", "mb_optimize_scan=1"]),
            (Some(Xfs), &["quota", "uqnoenforce,gqnoenforce,pqnoenforce", "qnoenforce", "bsdgroups"]),
            (Some(Ext4), &["nosymfollow", "iversion,silent", "X-app.note=1", "X-mount.mkdir=0755"]),
            (Some(Btrfs), &["symfollow", "noiversion", "loud"]),
            (None, &["errors=remount-ro"]),
            (None, &["logbufs=8"]),
            (None, &["compress=lzo"]),
        ];
        for (fs, words) in table {
            assert_eq!(answer(fs, words), Ok(()), "{fs:?} {words:?}");
        }
    }

    #[test]
    fn refused_options() {
        let table = [
            (Some(Ext4), "dev", "dev"),
            (Some(Ext4), "suid", "suid"),
            (Some(Ext4), "ro,suid", "suid"),
            (Some(Ext4), "user", "user"),
            (Some(Ext4), "X-mount.subdir=other", "X-mount.subdir"),
            (Some(Ext4), "X-mount.idmap=0:1:1", "X-mount.idmap"),
            (Some(Ext4), "warn_on_error", "warn_on_error"),
            (Some(Ext4), "data_err=panic", "data_err"),
            (Some(Ext4), "errors=panic", "errors"),
            (Some(Ext4), "errors", "errors"),
            (Some(Ext4), "usrjquota=aquota.user", "usrjquota"),
            (Some(Ext4), "jqfmt=vfsv0", "jqfmt"),
            (Some(Ext4), "journal_path=/dev/sda", "journal_path"),
            (Some(Ext4), "journal_dev=0x800", "journal_dev"),
            (Some(Ext4), "sb=32768", "sb"),
            (Some(Ext4), "test_dummy_encryption", "test_dummy_encryption"),
            (Some(Ext4), "dax=always", "dax"),
            (Some(Ext4), "context=system_u:object_r:tmp_t:s0", "context"),
            (Some(Ext4), "commit=5;rm", "commit"),
            (Some(Ext4), "commit=", "commit"),
            (Some(Ext4), "nouuid", "nouuid"),
            (Some(Xfs), "logdev=/dev/sda", "logdev"),
            (Some(Xfs), "rtdev=/dev/sda", "rtdev"),
            (Some(Btrfs), "device=/dev/sda", "device"),
            (Some(Btrfs), "fatal_errors=panic", "fatal_errors"),
            (Some(Btrfs), "subvol=other", "subvol"),
            (Some(Btrfs), "subvolid=256", "subvolid"),
            (Some(Btrfs), "compress=zstd:x", "compress"),
            (Some(Btrfs), "degraded", "degraded"),
            (Some(Btrfs), "rescue=all", "rescue"),
            (None, "errors=panic", "errors"),
            (None, "bind", "bind"),
            (None, "remount", "remount"),
            (None, "loop", "loop"),
            (None, "offset=4096", "offset"),
            (None, "rshared", "rshared"),
            (None, "a\0b", "a"),
        ];
        for (fs, word, option) in table {
            let why = answer(fs, &[word]).unwrap_err();
            assert!(why.contains(&format!("`{option}")), "{word}: {why}");
            assert!(why.contains("allowed: "), "{word}: {why}");
        }
    }

    #[test]
    fn values_stay_out_of_errors() {
        let why = answer(Some(Ext4), &["password=secret"]).unwrap_err();
        assert!(!why.contains("secret"), "{why}");
    }
}
