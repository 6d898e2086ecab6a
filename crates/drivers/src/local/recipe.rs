//! How a volume's filesystem is made: `fsType`, `mkfsOptions` and `fsLabel` of its class.
//!
//! They are checked when the volume is created, so that a class with a mistake makes no volume at all, and kept
//! among the parameters of its record until the filesystem is made.

use std::collections::BTreeMap;

use super::mkfs;
use crate::capability::{AccessType, Capability, FsType};
use crate::error::VolumeError;
use crate::mount_options;

type Result<T> = std::result::Result<T, VolumeError>;
type Parameters = BTreeMap<String, String>;

const FS_TYPE: &str = "fsType";
const MKFS_OPTIONS: &str = "mkfsOptions";
const FS_LABEL: &str = "fsLabel";

/// Every parameter that is read here.
pub const KEYS: [&str; 3] = [FS_TYPE, MKFS_OPTIONS, FS_LABEL];

/// Fills the class's filesystem in where a capability names none.
pub fn settle(parameters: &Parameters, capabilities: &mut [Capability]) -> Result<()> {
    let class = class(parameters)?;
    for capability in capabilities {
        let AccessType::Mount { fs, .. } = &mut capability.access else { continue };
        match (*fs, class) {
            (Some(asked), Some(class)) if asked != class => {
                let (asked, class) = (asked.as_str(), class.as_str());
                return Err(invalid(FS_TYPE, format!("the class says {class}, the capability {asked}")));
            }
            (Some(_), _) => {}
            (None, class) => *fs = class,
        }
    }
    Ok(())
}

/// Refuses what the filesystem of a new volume could not be made or mounted with.
pub fn check(parameters: &Parameters, capabilities: &[Capability]) -> Result<()> {
    let mut used = class(parameters)?;
    for capability in capabilities {
        let AccessType::Mount { fs, flags, .. } = &capability.access else { continue };
        used = fs.or(used);
        mount_options::check(flags, *fs)?;
    }
    words(parameters, used.unwrap_or_default()).map(drop)
}

fn class(parameters: &Parameters) -> Result<Option<FsType>> {
    parameters.get(FS_TYPE).map_or(Ok(None), |text| FsType::parse(text))
}

/// What mkfs is told beside the device.
pub fn words(parameters: &Parameters, fs: FsType) -> Result<Vec<String>> {
    let options = parameters.get(MKFS_OPTIONS).map_or("", String::as_str);
    let mut words = mkfs::words(options, fs).map_err(|why| invalid(MKFS_OPTIONS, why))?;
    if let Some(label) = parameters.get(FS_LABEL) {
        check_label(label, fs).map_err(|why| invalid(FS_LABEL, why))?;
        // One word, so that a label is never taken for an option.
        words.push(format!("-L{label}"));
    }
    Ok(words)
}

fn check_label(label: &str, fs: FsType) -> std::result::Result<(), String> {
    let length_max = match fs {
        FsType::Ext4 => 16,
        FsType::Xfs => 12,
        FsType::Btrfs => 255,
    };
    match label.len() {
        0 => Err("a label has at least one character".into()),
        _ if label.contains(char::is_control) => Err("control characters".into()),
        length if length > length_max => {
            Err(format!("{length} bytes, a label of {} has at most {length_max}", fs.as_str()))
        }
        _ => Ok(()),
    }
}

fn invalid(key: &str, why: impl AsRef<str>) -> VolumeError {
    VolumeError::Invalid { field: "parameters", why: format!("`{key}`: {}", why.as_ref()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::{Mode, MountFlags};

    fn mount(fs: Option<FsType>) -> Capability {
        let access = AccessType::Mount { fs, flags: MountFlags::default(), group: None };
        Capability { access, mode: Mode::Writer }
    }

    fn parameters(pairs: &[(&str, &str)]) -> Parameters {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn class_and_capability_agree() {
        use FsType::{Btrfs, Ext4, Xfs};
        let table = [
            ("neither", "", None, Ok(None)),
            ("only the class", "btrfs", None, Ok(Some(Btrfs))),
            ("only the capability", "", Some(Xfs), Ok(Some(Xfs))),
            ("both", "xfs", Some(Xfs), Ok(Some(Xfs))),
            ("two", "xfs", Some(Ext4), Err(())),
            ("strange", "zfs", None, Err(())),
        ];
        for (name, class, asked, expected) in table {
            let mut capabilities = [mount(asked)];
            let settled = settle(&parameters(&[(FS_TYPE, class)]), &mut capabilities);
            let fs = settled.map(|()| match capabilities[0].access {
                AccessType::Mount { fs, .. } => fs,
                AccessType::Block => None,
            });
            assert_eq!(fs.map_err(drop), expected, "{name}");
        }
    }

    #[test]
    fn what_is_checked_is_checked_for_the_filesystem_that_is_made() {
        let label = |length: usize| parameters(&[(FS_LABEL, &"l".repeat(length))]);
        let table = [
            (None, 16, true),
            (None, 17, false),
            (Some(FsType::Xfs), 12, true),
            (Some(FsType::Xfs), 13, false),
            (Some(FsType::Btrfs), 255, true),
            (Some(FsType::Btrfs), 256, false),
            (None, 0, false),
        ];
        for (fs, length, fits) in table {
            assert_eq!(check(&label(length), &[mount(fs)]).is_ok(), fits, "{fs:?} {length}");
        }
        assert!(check(&parameters(&[(FS_LABEL, "a\nb")]), &[mount(None)]).is_err());
        let block = Capability { access: AccessType::Block, mode: Mode::Writer };
        check(&parameters(&[(FS_TYPE, "xfs"), (MKFS_OPTIONS, "-K")]), &[block]).expect("a class for both");
    }

    #[test]
    fn words_for_mkfs() {
        let all = parameters(&[(FS_TYPE, "ext4"), (MKFS_OPTIONS, " -b  1024 -m1 "), (FS_LABEL, "-my data")]);
        assert_eq!(words(&all, FsType::Ext4).unwrap(), ["-b", "1024", "-m1", "-L-my data"]);
        assert_eq!(words(&Parameters::new(), FsType::Ext4).unwrap(), Vec::<String>::new());
    }
}
