//! The options of each mkfs that a class may give, with the values that each may have.

use crate::capability::FsType;

pub struct Named {
    /// A letter, or a long name.
    pub name: &'static str,
    pub value: Value,
}

/// What may follow an option, or a part of its value.
pub enum Value {
    Absent,
    /// Decimal digits, with one letter for a unit.
    Number,
    /// Up to the half, with decimals.
    Percent,
    /// `1000:1000`
    UserAndGroup,
    OneOf(&'static [&'static str]),
    /// `0`, `1`, or nothing, which turns it on.
    Switch,
    /// `1` or nothing; turned off it would be an xfs of version 4, which current kernels do not mount.
    AlwaysOn,
    /// Parts with a comma between, each with a name and perhaps a value.
    Parts(&'static [Named]),
    /// Names with a comma between; `^` turns one off.
    Features(&'static [&'static str]),
}

use Value::{Absent, AlwaysOn, Features, Number, OneOf, Parts, Percent, Switch, UserAndGroup};

const fn named(name: &'static str, value: Value) -> Named {
    Named { name, value }
}

/// No kernel of this driver's machines has smaller pages, and larger blocks than pages cannot be mounted everywhere.
const BLOCK_SIZES: &[&str] = &["1024", "2048", "4096", "1k", "2k", "4k"];

const EXT4: &[Named] = &[
    named("q", Absent),
    named("v", Absent),
    named("j", Absent),
    named("b", OneOf(BLOCK_SIZES)),
    named("C", Number),
    named("e", OneOf(&["continue", "remount-ro"])),
    named(
        "E",
        Parts(&[
            named("discard", Absent),
            named("nodiscard", Absent),
            named("lazy_itable_init", Switch),
            named("lazy_journal_init", Switch),
            named("num_backup_sb", OneOf(&["0", "1", "2"])),
            named("packed_meta_blocks", Switch),
            named("resize", Number),
            named("root_owner", UserAndGroup),
            named("stride", Number),
            named("stripe_width", Number),
            named("stripe-width", Number),
        ]),
    ),
    named("g", Number),
    named("G", Number),
    named("i", Number),
    named("I", OneOf(&["128", "256", "512", "1024"])),
    named("J", Parts(&[named("size", Number), named("fast_commit_size", Number)])),
    named("m", Percent),
    named("N", Number),
    // Not `mmp`, which keeps a volume from being mounted for a while after a crash, and nothing that needs more than a
    // kernel with ext4 (encrypt, casefold, verity).
    named(
        "O",
        Features(&[
            "64bit",
            "bigalloc",
            "dir_index",
            "dir_nlink",
            "ea_inode",
            "ext_attr",
            "extent",
            "extents",
            "extra_isize",
            "fast_commit",
            "filetype",
            "flex_bg",
            "has_journal",
            "huge_file",
            "inline_data",
            "large_dir",
            "large_file",
            "metadata_csum",
            "metadata_csum_seed",
            "orphan_file",
            "project",
            "quota",
            "resize_inode",
            "sparse_super",
            "sparse_super2",
            "uninit_bg",
        ]),
    ),
];

const XFS: &[Named] = &[
    named("q", Absent),
    named("K", Absent),
    named("b", Parts(&[named("size", OneOf(BLOCK_SIZES))])),
    named(
        "d",
        Parts(&[
            named("agcount", Number),
            named("agsize", Number),
            named("su", Number),
            named("sw", Number),
            named("sunit", Number),
            named("swidth", Number),
            named("noalign", Absent),
        ]),
    ),
    named(
        "i",
        Parts(&[
            named("size", OneOf(&["512", "1024", "2048"])),
            named("maxpct", Number),
            named("align", AlwaysOn),
            named("sparse", Switch),
            named("nrext64", Switch),
        ]),
    ),
    named(
        "l",
        Parts(&[
            named("internal", AlwaysOn),
            named("size", Number),
            named("version", OneOf(&["2"])),
            named("su", Number),
            named("sunit", Number),
            named("lazy-count", AlwaysOn),
        ]),
    ),
    named(
        "m",
        Parts(&[
            named("crc", AlwaysOn),
            named("finobt", Switch),
            named("rmapbt", Switch),
            named("reflink", Switch),
            named("bigtime", Switch),
            named("inobtcount", Switch),
        ]),
    ),
    named("n", Parts(&[named("size", Number), named("version", OneOf(&["2"])), named("ftype", AlwaysOn)])),
    named("s", Parts(&[named("size", OneOf(&["512", "4096", "4k"]))])),
];

const PROFILES: &[&str] = &["single", "dup"];
const CHECKSUMS: &[&str] = &["crc32c", "xxhash", "sha256", "blake2"];
/// A page: others cannot be mounted everywhere.
const SECTOR_SIZES: &[&str] = &["4096", "4k"];
const BTRFS_FEATURES: &[&str] =
    &["block-group-tree", "extref", "free-space-tree", "mixed-bg", "no-holes", "quota", "skinny-metadata"];

const BTRFS: &[Named] = &[
    named("q", Absent),
    named("quiet", Absent),
    named("v", Absent),
    named("verbose", Absent),
    named("K", Absent),
    named("nodiscard", Absent),
    named("M", Absent),
    named("mixed", Absent),
    named("d", OneOf(PROFILES)),
    named("data", OneOf(PROFILES)),
    named("m", OneOf(PROFILES)),
    named("metadata", OneOf(PROFILES)),
    named("n", Number),
    named("nodesize", Number),
    named("s", OneOf(SECTOR_SIZES)),
    named("sectorsize", OneOf(SECTOR_SIZES)),
    named("csum", OneOf(CHECKSUMS)),
    named("checksum", OneOf(CHECKSUMS)),
    named("O", Features(BTRFS_FEATURES)),
    named("features", Features(BTRFS_FEATURES)),
    named("R", Features(BTRFS_FEATURES)),
    named("runtime-features", Features(BTRFS_FEATURES)),
];

pub fn of(fs: FsType) -> &'static [Named] {
    match fs {
        FsType::Ext4 => EXT4,
        FsType::Xfs => XFS,
        FsType::Btrfs => BTRFS,
    }
}

/// All of them, for people.
pub fn names(known: &[Named]) -> String {
    let spelled = |option: &Named| match option.name.len() {
        1 => format!("-{}", option.name),
        _ => format!("--{}", option.name),
    };
    known.iter().map(spelled).collect::<Vec<_>>().join(", ")
}

impl Value {
    pub fn allows(&self, text: &str) -> bool {
        match self {
            Absent => false,
            Number => is_number(text),
            Percent => is_percent(text),
            UserAndGroup => {
                text.split_once(':').is_some_and(|(user, group)| is_digits(user) && is_digits(group))
            }
            OneOf(values) => values.contains(&text),
            Switch => matches!(text, "0" | "1"),
            AlwaysOn => text == "1",
            Parts(parts) => text.split(',').all(|part| is_part(parts, part)),
            Features(names) => {
                text.split(',').all(|name| names.contains(&name.strip_prefix('^').unwrap_or(name)))
            }
        }
    }

    pub fn spelled(&self) -> String {
        match self {
            Absent => "no value".into(),
            Number => "a number".into(),
            Percent => "0 to 50".into(),
            UserAndGroup => "<uid>:<gid>".into(),
            OneOf(values) => values.join(", "),
            Switch => "0, 1".into(),
            AlwaysOn => "1".into(),
            Parts(parts) => {
                let part = |part: &Named| match part.value {
                    Absent | AlwaysOn => part.name.to_owned(),
                    _ => format!("{}=<{}>", part.name, part.value.spelled()),
                };
                parts.iter().map(part).collect::<Vec<_>>().join(", ")
            }
            Features(names) => names.join(", "),
        }
    }
}

fn is_part(parts: &[Named], text: &str) -> bool {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    parts.iter().filter(|part| part.name == name).any(|part| match (&part.value, value) {
        (Absent | Switch | AlwaysOn, None) => true,
        (allowed, Some(value)) => allowed.allows(value),
        (_, None) => false,
    })
}

/// Why a value is refused, where the list of what is allowed does not tell.
pub fn reason(value: &Value, text: &str) -> Option<&'static str> {
    let Parts(parts) = value else { return None };
    let off = |part: &str| {
        let named = |name: &str| parts.iter().any(|p| p.name == name && matches!(p.value, AlwaysOn));
        part.split_once('=').is_some_and(|(name, value)| value == "0" && named(name))
    };
    let version_4 = "without it this is an xfs of version 4, which current kernels do not mount";
    text.split(',').any(off).then_some(version_4)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_number(text: &str) -> bool {
    is_digits(text.strip_suffix(['k', 'K', 'm', 'M', 'g', 'G', 's', 'b']).unwrap_or(text))
}

fn is_percent(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain && text.parse::<f64>().is_ok_and(|percent| (0.0..=50.0).contains(&percent))
}
